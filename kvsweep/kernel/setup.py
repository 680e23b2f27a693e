"""Begin a lane in a used workspace, and collect what it leaves behind."""

from .._jit import leaf, part
from ..policies import Offload, Priority, Scheduler
from ..records import NONE, Lane
from .calendar import IDLE
from .latency import token_time
from .offload.setup import begin_offload, end_offload
from .summary import copy_requests, end_requests
from .tally import fold_itl
from .tier import begin_tier

QUANTILES = (0.5, 0.9, 0.95, 0.99)
"""The reported quantiles of every latency."""


@leaf
def _begin_router(ws, lane):
    """Let the router know nothing; the tables of its index count only with this lane's serial."""
    router = ws.router[0]
    router["serial"] += 1
    router["turn"] = 0
    router["refreshed"] = 0
    router["refilled"] = 0
    router["tokens"] = lane["bucket_capacity"]
    for index in range(lane["instances"]):
        ws.snapshots[index] = ws.blank_snapshot[0]


@leaf
def _has_branches(lane):
    """Return whether the kernel knows the scheduler, the priority and the offload of a lane.

    They are asked for where a last branch for an unknown one would cost time, so here is who is
    known; routing, scorers and admission have such a branch.
    """
    scheduler, priority, offload = lane["scheduler"], lane["priority"], lane["offload"]
    ordered = (
        scheduler == Scheduler.FCFS or scheduler == Scheduler.PRIORITY or scheduler == Scheduler.SJF
    )
    ranked = (
        priority == Priority.CONSTANT or priority == Priority.SLO_CLASS or priority == Priority.AGE
    )
    moved = offload == Offload.WATERMARK or offload == Offload.WRITE_THROUGH
    moved = moved or offload == Offload.VLLM
    return ordered and ranked and moved


@part
def begin_lane(inp, ws, lane, tally):
    """Reset what a lane starts from; block records and tables stay as they are (fresh = 0)."""
    for index in range(lane["instances"]):
        ws.instances[index] = ws.blank_instance[0]
        inst = ws.instances[index]
        inst["block_lo"] = index * lane["gpu_blocks"]
        inst["node_lo"] = lane["instances"] * lane["gpu_blocks"]
        inst["extent_lo"] = index * lane["n_shared"]
        inst["run_lo"] = index * lane["places"]
        inst["phase_lo"] = index * lane["block_size"]
        inst["heap_lo"] = index * lane["requests"]
        inst["prefix_lo"] = index * lane["n_keys"]
        inst["free"] = lane["gpu_blocks"]
        inst["number"] = index
        begin_tier(ws, lane, inst, index)
    _begin_router(ws, lane)
    ws.due[: lane["instances"] * lane["places"]] = IDLE
    ws.phases[: lane["instances"] * lane["block_size"]] = 0
    ws.itl_plain[: lane["max_num_seqs"] + 1] = 0
    for extent in range((lane["instances"] - 1) * lane["n_shared"] + lane["n_extents"]):
        ws.extents[extent] = ws.blank_extent[0]
    for r in range(lane["requests"]):
        ws.progress[r] = ws.blank_progress[0]
        ws.progress[r]["arrival"] = inp.requests[lane["request_lo"] + r]["arrival"]
    if lane["connects"]:
        begin_offload(inp, ws, lane)
    tally["status"] = Lane.OK
    if not _has_branches(lane):
        tally["status"] = Lane.UNKNOWN_POLICY


@leaf
def _how_it_ended(lane, inst):
    """Return the code of Lane of an instance that nothing stopped.

    All blocks free, and all ids with a key in the LRU list: every reference count is zero.
    Instances are advanced to the last time that a lane may reach: who is there then came too late.
    """
    unused = inst["cached"] - inst["compact"]
    leaked = inst["free"] != lane["gpu_blocks"] or inst["keyed"] != unused
    late = inst["clock"] >= lane["last_clock"] or inst["inbox_head"] != NONE
    status = Lane.OK
    leaked = leaked or inst["held"] != 0
    if inst["load"] != 0 and late:
        status = Lane.TIME_LIMIT
    elif inst["load"] != 0 or leaked:
        status = Lane.NOT_CONSERVED
    return status


@part
def end_lane(inp, ws, out, lane, tally, number):
    """Write the per-request columns and the totals of a lane."""
    end_requests(inp, ws, out, lane, tally, number)
    for index in range(lane["instances"]):
        inst = ws.instances[index]
        tally["steps"] += inst["step"]
        tally["makespan"] = max(tally["makespan"], inst["end"])
        tally["used_time"] += inst["used_time"]
        tally["evictions"] += inst["evictions"]
        tally["offloads"] += inst["offloads"]
        tally["reloads"] += inst["reloads"]
        tally["thrashed"] += inst["thrashed"]
        tally["transfer_time"] += inst["transfer_time"]
        tally["shortages"] += inst["shortages"] + inst["evictions"]
        out.peak_blocks[number, index] = inst["peak"]
        out.completed[number, index] = inst["completed"]
        if tally["status"] == Lane.OK:
            tally["status"] = _how_it_ended(lane, inst)
        if lane["connects"]:
            end_offload(ws, lane, inst, tally, index)
    fold_itl(lane, ws, tally, token_time, QUANTILES[0], QUANTILES[1], QUANTILES[2], QUANTILES[3])


@part
def copy_lane(out, lane, origin, tally, number):
    """Copy the results of the lane `like`, whose columns begin at `origin`.

    A run that never lacked a block, evicted none and dropped nobody is the same with more blocks.
    """
    like = lane["like"]
    copy_requests(out, lane, origin, number)
    for index in range(lane["instances"]):
        out.peak_blocks[number, index] = out.peak_blocks[like, index]
        out.completed[number, index] = out.completed[like, index]
    out.tallies[number] = out.tallies[like]
    tally["pruned"] = 1
