"""Begin a lane in a used workspace, and collect what it leaves behind."""

import numpy as np

from .._ahead import ask_for
from .._jit import leaf, part
from ..policies import (
    Eviction,
    LoadFailure,
    Offload,
    Priority,
    Scheduler,
    TierEviction,
    Victim,
)
from ..records import NONE, QUANTILES, LaneStatus
from .blocks.runs import begin_runs, clear_heads
from .explicit.beginning import begin_explicit, end_explicit
from .memory import count_extents, place_instance
from .offload.setup import begin_offload, end_offload
from .routing.answers import begin_counting
from .summary import copy_requests, end_requests
from .tally import fold_itl
from .time.calendar import IDLE
from .time.step_time import token_time

AHEAD = 16
"""Requests from the one that is read to the one that is asked for; no other distance was tried."""

# As many as `tally.fold_itl` has places for; another number fails here.
_Q0, _Q1, _Q2, _Q3 = QUANTILES


@leaf
def _begin_router(ws, lane):
    """Let the router know nothing; the tables of its index count only with this lane's serial."""
    router = ws.router[0]
    router["serial"] += 1
    router["first"] = 0
    router["end"] = lane["routed"]
    router["home"] = 0
    router["refreshed"] = 0
    if lane["counts_tokens"]:
        begin_counting(ws, lane)
    router["refilled"] = 0
    router["tokens"] = lane["bucket_capacity"]
    for index in range(lane["instances"]):
        ws.snapshots[index] = ws.blank_snapshot[0]


@leaf
def _has_branches(lane):
    """Return whether the kernel knows these policies of a lane.

    They are asked for where a last branch for an unknown one would cost time, so here is who is
    known; routing, scorers and admission have such a branch.
    """
    scheduler, priority = lane["scheduler"], lane["priority"]
    eviction, offload = lane["eviction"], lane["offload"]
    ordered = (
        scheduler == Scheduler.FCFS or scheduler == Scheduler.PRIORITY or scheduler == Scheduler.SJF
    )
    ranked = (
        priority == Priority.CONSTANT or priority == Priority.SLO_CLASS or priority == Priority.AGE
    )
    evicted = eviction == Eviction.LRU or eviction == Eviction.LFU
    moved = offload == Offload.WATERMARK or offload == Offload.WRITE_THROUGH
    moved = moved or offload == Offload.VLLM
    room = (
        lane["offload_eviction"] == TierEviction.LRU or lane["offload_eviction"] == TierEviction.ARC
    )
    failure = lane["kv_load_failure_policy"]
    ended = failure == LoadFailure.FAIL or failure == LoadFailure.RECOMPUTE
    chosen = lane["victim"] >= Victim.LAST and lane["victim"] <= Victim.FEWEST_REMAINING
    return ordered and ranked and evicted and moved and room and ended and chosen


@leaf
def _begin_requests(inp, ws, lane, tally):
    """Reset where the requests of a lane stand, and how many of them may be sent.

    Here they are read for the first time; asked for ahead, a lane of 200 takes 4 % less time.
    """
    first = np.int64(lane["request_lo"])
    for r in range(lane["requests"]):
        ask_for(inp.requests, first + r + AHEAD)
        ws.progress[r] = ws.blank_progress[0]
        ws.progress[r]["arrival"] = inp.requests[first + r]["arrival"]
    tally["sendable"] = lane["requests"]
    if lane["concurrency"] > 0:
        tally["sendable"] = min(lane["requests"], lane["concurrency"])


@part
def begin_lane(inp, ws, lane, tally):
    """Reset what a lane starts from; block records and tables stay as they are (fresh = 0)."""
    for index in range(lane["instances"]):
        ws.instances[index] = ws.blank_instance[0]
        inst = ws.instances[index]
        place_instance(lane, inst, index)
        ws.turns[index] = NONE
        inst["free"] = lane["gpu_blocks"]
        inst["on_device"] = 1 - lane["async_scheduling"]
        if lane["tiered"]:
            begin_runs(ws, inst)
    _begin_router(ws, lane)
    ws.due[: lane["instances"] * lane["places"]] = IDLE
    ws.phases[: lane["instances"] * lane["block_size"]] = 0
    ws.itl_by_batch[: lane["max_num_seqs"] + 1] = 0
    if lane["by_extents"]:
        for extent in range(count_extents(lane)):
            ws.extents[extent] = ws.blank_extent[0]
    if lane["tiered"]:
        clear_heads(ws, lane)
    _begin_requests(inp, ws, lane, tally)
    if lane["connects"]:
        begin_offload(inp, ws, lane)
    if lane["explicit"]:
        begin_explicit(inp, ws, lane)
    tally["status"] = LaneStatus.OK
    if not _has_branches(lane):
        tally["status"] = LaneStatus.UNKNOWN_POLICY


@leaf
def _waiting(ws, lane, inst, kept):
    """Return how many wait at an instance, or, if it has kept blocks, to pull them at others."""
    waiting = inst["waiting"] + inst["held"]
    if lane["disaggregated"] and kept > 0:
        for index in range(lane["instances"]):
            waiting += ws.instances[index]["waiting"] + ws.instances[index]["held"]
    return waiting


@leaf
def _how_it_ended(ws, lane, inst, blocks, kept):
    """Return the code of Lane of an instance with so many blocks that nothing stopped.

    All blocks free, and all ids with a key in the LRU list: every reference count is zero.
    Instances are advanced to the last time that a lane may reach: who is there then came too late.
    """
    unused = inst["evictable"] - inst["whole_blocks"]
    leaked = inst["free"] != blocks or inst["keyed"] != unused
    late = inst["clock"] >= lane["last_clock"] or inst["inbox_head"] != NONE
    leaked = leaked or inst["held"] != 0 or kept != 0
    status = LaneStatus.OK
    if inst["load"] != 0 and late:
        status = LaneStatus.TIME_LIMIT
    elif lane["explicit"] and _waiting(ws, lane, inst, kept) > 0:
        # With drafts beside windows a head may ask for more than the pool that it was let in for;
        # and who recomputes what failed to come may lack blocks that others like it hold (R14.12).
        status = LaneStatus.STEP_LIMIT
    elif lane["connects"] and inst["running"] == 0 and inst["waiting"] > 0:
        # Holders may lack blocks that other holders have, as in vLLM (docs/validation.md).
        status = LaneStatus.STEP_LIMIT
    elif inst["load"] != 0 or leaked:
        status = LaneStatus.NOT_CONSERVED
    return status


@leaf
def _add_instance(inst, tally):
    """Add what an instance has counted to the totals of its lane."""
    tally["steps"] += inst["step"]
    tally["makespan"] = max(tally["makespan"], inst["end"])
    tally["used_time"] += inst["used_time"]
    tally["evictions"] += inst["evictions"]
    tally["offloads"] += inst["offloads"]
    tally["reloads"] += inst["reloads"]
    tally["thrashed"] += inst["thrashed"]
    tally["transfer_time"] += inst["transfer_time"]
    tally["shortages"] += inst["shortages"] + inst["evictions"]


@leaf
def end_lane(inp, ws, out, lane, tally, number):
    """Write the per-request columns and the totals of a lane."""
    end_requests(inp, ws, out, lane, tally, number)
    for index in range(lane["instances"]):
        inst = ws.instances[index]
        _add_instance(inst, tally)
        out.peak_blocks[number, index] = inst["peak"]
        out.completed[number, index] = inst["completed"]
        blocks = lane["gpu_blocks"]
        kept = 0
        if lane["explicit"]:
            blocks = ws.own[index]["gpu_blocks"]
            kept = end_explicit(ws, inst, tally)
        if tally["status"] == LaneStatus.OK:
            tally["status"] = _how_it_ended(ws, lane, inst, blocks, kept)
        if lane["connects"] or lane["moves"]:
            end_offload(ws, inst, tally)
    if lane["disaggregated"]:
        decodes = ws.own[lane["instances"] - 1]
        fold_itl(ws, decodes, tally, token_time, _Q0, _Q1, _Q2, _Q3)
    else:
        fold_itl(ws, lane, tally, token_time, _Q0, _Q1, _Q2, _Q3)


@leaf
def copy_lane(out, lane, tally, origin, number):
    """Copy the results of the lane `smaller_pool`, whose columns begin at `origin`.

    A run that never lacked a block, evicted none and dropped nobody is the same with more blocks.
    """
    fewer = lane["smaller_pool"]
    copy_requests(out, lane, origin, number)
    for index in range(lane["instances"]):
        out.peak_blocks[number, index] = out.peak_blocks[fewer, index]
        out.completed[number, index] = out.completed[fewer, index]
    out.tallies[number] = out.tallies[fewer]
    tally["pruned"] = 1
