"""Runs of schedules in a pipeline in which all who run are counted, and nobody is due.

Each schedules a batch and processes the oldest, as the pipeline is full otherwise: nothing but
sums of classes changes. Lanes with a log make each schedule by itself.
"""

import numpy as np

from ..._jit import leaf
from ...records import NEVER, NONE
from ..memory import depth
from ..tally import add_gap
from ..time.calendar import nearest_due
from .batches import class_at, enqueue, in_ring, scheduled_batch
from .block_records import take
from .classes import join_classes, may_count
from .due import phase_at, phases_of
from .may_run import tries
from .quiet import decode_time, wakes
from .refused import evicts_hit
from .slots import groups_of
from .stages import begin_share, first_begins, pass_stages


@leaf
def _may_run(inp, ws, lane, inst, engine):
    """Return whether the next schedules may be a run.

    Each class leaves another part of the budget to a head, so that one that was refused may do with
    fewer blocks in the next, unless all that it knows must fit.
    """
    if lane["log"] or inst["running"] == 0 or not may_count(lane):
        return False
    if engine["queued"] != depth(lane) - 1 or tries(inp, ws, lane, inst, engine, 0):
        return False
    if inst["waiting"] > 0 and not lane["reserve_full_prompt"]:
        return False
    join_classes(inp, ws, lane, inst, engine, engine["schedules"] + 1)
    return engine["counted"] == inst["running"]


@leaf
def _schedule(ws, lane, inst, tally, engine, its):
    """Schedule the class whose turn it is; its blocks are taken."""
    engine["schedules"] += 1
    count = np.int64(its["count"])
    engine["size"] = 0
    engine["plain"] = count
    end = max(inst["clock"], engine["device_end"])
    if count > 0:
        duration = decode_time(lane, inst, count, np.int64(its["context"]), np.int64(0))
        end = pass_stages(ws, lane, engine, first_begins(ws, lane, inst, engine), duration)
        tally["computed_tokens"] += its["measured"]
    ws.batches[engine["batch_lo"] + scheduled_batch(lane, engine)]["samples"] = count > 0
    enqueue(ws, lane, inst, engine, end, np.int64(NONE), count > 0)


@leaf
def _settle(ws, lane, inst, tally, engine, its, settled):
    """Process the oldest batch at `settled`: each of its class has one token more."""
    used = lane["gpu_blocks"] - inst["free"]
    inst["used_time"] += used * (settled - inst["clock"])
    inst["peak"] = max(inst["peak"], used)
    inst["clock"] = settled
    if its["count"] > 0:
        if its["measured"] > 0:
            add_gap(ws, tally, settled - its["last_end"], its["measured"])
        its["last_end"] = settled
        its["context"] += its["count"]
    engine["oldest"] = in_ring(lane, engine["oldest"] + 1)
    engine["queued"] -= 1


@leaf
def _next_of(place, first, count):
    """Return the place behind one of `count` places in a circle."""
    following = place + 1
    return following if following < first + count else first


@leaf
def _take_quiet(inp, ws, lane, inst, tally, engine, until, entry):
    """Take schedules while nobody is due, blocks suffice and no head would be tried.

    They end before one after which the oldest batch would end at `until`, and with the first of
    these ends at `entry`, when somebody enters.
    """
    wanted, latest = wakes(inp, ws, lane, inst, engine)
    due = np.int64(nearest_due(ws, inst)) - 1
    due = min(due, 2 * lane["stages"] * lane["step_limit"])
    phase = phase_at(lane, inst, engine["schedules"] + 1)
    turn = class_at(lane, engine, engine["schedules"] + 1)
    goes_on = True
    while goes_on and engine["schedules"] < due:
        oldest = ws.batches[engine["batch_lo"] + engine["oldest"]]
        settled = max(inst["clock"], oldest["end"])
        taken = ws.phases[phase] * groups_of(lane)
        goes_on = settled < until and oldest["size"] == oldest["skipped"] and taken <= inst["free"]
        goes_on = goes_on and inst["free"] - taken < wanted and inst["clock"] <= latest
        goes_on = goes_on and not evicts_hit(ws, inst, engine, taken)
        if lane["fair_share"]:
            goes_on = goes_on and ws.classes[turn]["count"] <= engine["share"]
        if goes_on:
            take(ws, inst, taken)
            _schedule(ws, lane, inst, tally, engine, ws.classes[turn])
            following = _next_of(turn, engine["stage_lo"], lane["stages"])
            ended = turn if lane["async_scheduling"] else following
            _settle(ws, lane, inst, tally, engine, ws.classes[ended], settled)
            phase = _next_of(phase, inst["phase_lo"], phases_of(lane))
            turn = following
            goes_on = inst["clock"] < entry


@leaf
def run_classes(inp, ws, lane, inst, tally, index, until):
    """Take schedules of who is counted alone, as many as follow one another before `until`.

    Return whether there was one; if not, nothing has changed that a schedule would not do.
    """
    engine = ws.engines[index]
    if not _may_run(inp, ws, lane, inst, engine):
        return False
    entry = NEVER
    if inst["inbox_head"] != NONE:
        entry = ws.progress[inst["inbox_head"]]["queued"]
    if lane["fair_share"]:
        begin_share(lane, inst, engine)
    begun = engine["schedules"]
    _take_quiet(inp, ws, lane, inst, tally, engine, until, entry)
    return engine["schedules"] > begun
