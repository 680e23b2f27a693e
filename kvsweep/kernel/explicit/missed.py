"""Who is counted and misses a schedule: blocks lack, and nobody in flight is a victim (R14.5).

The walk ends with the first who lacks a block, and no token is computed for those behind it. They
stay counted, a step behind: `since` moves on by one, and so does what is due. The batch that they
miss brings them no token, and what the next one brings came after a longer time.

One schedule at a time is missed so, and nobody joins those who are counted meanwhile.
"""

import numpy as np

from ..._jit import leaf
from ...records import DECODE
from ..tally import add_gap
from ..time.windows import inside, join_short
from .due import is_served, phase_of
from .inside import leave_inside


@leaf
def has_missed(engine, position):
    """Return whether a request that is counted has missed a schedule, and got no token since."""
    return engine["missed"] > 0 and position >= engine["missed_from"]


@leaf
def misses_this(lane, inst, engine):
    """Return whether requests that are counted miss this schedule."""
    misses = False
    if lane["role"] == DECODE:
        misses = engine["missed"] > 0 and engine["missed_at"] == inst["step"]
        misses = misses and engine["late"] == 0
    return misses


@leaf
def may_miss(ws, lane, inst, engine, position):
    """Return whether those from `position` on may stay counted though they miss this schedule.

    Some are served, and none of the others fills a block that others look up: such a block is
    cached with the output of a step, not by the schedule behind it (R10.4). A log tells of each.
    """
    may = engine["missed"] == 0 and not lane["log"]
    serves = False
    for place in range(inst["run_lo"], inst["run_lo"] + engine["counted"]):
        state = ws.states[engine["state_lo"] + ws.running[place]]
        if is_served(lane, inst, state):
            serves = serves or place < inst["run_lo"] + position
            fills = state["published"] < state["private"] and ws.due[place] <= inst["step"] + 1
            may = may and not (fills and place >= inst["run_lo"] + position)
    return may and serves


@leaf
def _fall_behind(ws, lane, inst, state, place):
    """Let a request that is counted be a step behind."""
    ws.phases[phase_of(lane, inst, state)] -= 1
    leave_inside(lane, inst, state)
    state["since"] += 1
    ws.due[place] += 1
    join_short(lane, inst, np.int64(state["since"]) - state["computed"])
    ws.phases[phase_of(lane, inst, state)] += 1


@leaf
def miss(ws, lane, inst, engine, position):
    """Let those who are counted miss this schedule, from `position` on."""
    engine["missed_from"] = position
    engine["missed_at"] = inst["step"]
    engine["missed_context"] = 0
    engine["missed_inside"] = 0
    engine["missed_measured"] = 0
    engine["late"] = 0
    for place in range(inst["run_lo"] + position, inst["run_lo"] + engine["counted"]):
        r = ws.running[place]
        state = ws.states[engine["state_lo"] + r]
        if is_served(lane, inst, state):
            context = np.int64(state["computed"]) + inst["step"] - state["since"]
            engine["missed"] += 1
            engine["missed_context"] += context
            engine["missed_inside"] += inside(lane, context - 1, 1)
            engine["missed_measured"] += r >= lane["warmup"]
            _fall_behind(ws, lane, inst, state, place)


@leaf
def make_up(lane, engine, state, measured):
    """Bring a request that has missed a schedule up to date, which its count did but for that.

    If that schedule is on the device, its last token has come, and none is on its way.
    """
    if engine["late"]:
        state["last_token"] = engine["late_end"]
    else:
        state["known"] += 1
        state["placeholders"] = 0
        state["flight"] = 0
    engine["missed"] -= 1
    engine["missed_measured"] -= measured


@leaf
def note_missed(ws, lane, inst, tally, engine, step):
    """Note that those who missed a schedule have no token of the batch of `step`, or one again.

    Return how many of those who are counted have computed nothing since that batch.
    """
    behind = np.int64(0)
    if lane["role"] == DECODE and engine["missed"] > 0:
        measured = engine["missed_measured"]
        if engine["late"]:
            engine["even"] -= measured
            if measured > 0:
                add_gap(ws, tally, inst["clock"] - engine["late_end"], measured)
            engine["missed"] = 0
        elif step == engine["missed_at"]:
            engine["even"] -= measured
            engine["late"] = 1
            engine["late_end"] = engine["last_end"]
        else:
            behind = np.int64(engine["missed"])
    return behind
