"""Who is counted and gets the last token ends, and is counted no more."""

import numpy as np

from ..._jit import leaf
from ...records import DECODE, NONE, Event
from ..time.calendar import leave_running
from .batches import class_of
from .due import catch_up, fit, is_last, phase_of
from .inside import leave_inside
from .leavers import discharge
from .log import note
from .planning import is_sure, places_at, verify
from .settling import finish
from .tables import cache_known


@leaf
def _end_one(inp, ws, lane, inst, tally, engine, r):
    """Give a request, up to date until now, its last token."""
    s = engine["state_lo"] + r
    state = ws.states[s]
    request = inp.requests[lane["request_lo"] + r]
    measured = r >= lane["warmup"]
    if lane["drafts"] > 0:
        sure = is_sure(lane, state)
        if not sure:
            fit(lane, tally, state, places_at(lane, np.int64(state["known"])), measured)
        in_vain = lane["async_scheduling"] and not sure  # in the next batch
        verify(inp, lane, engine, request, state, 1 + in_vain)
        state["flight"] = in_vain * (1 + lane["drafts"])
        engine["at_once"] += (state["limit"] - state["known"] - 1) * measured
        state["computed"] = state["limit"] - 1
    else:
        if lane["by_phase"]:
            ws.phases[phase_of(lane, inst, state)] -= 1
            discharge(inp, ws, lane, inst, engine, state, s, False)
        state["computed"] += 1 - lane["async_scheduling"]
        state["flight"] = 0
        fit(lane, tally, state, state["computed"], measured)
    state["known"] = state["limit"]
    state["placeholders"] = 0
    state["done"] = 1
    state["last_token"] = inst["clock"]
    cache_known(inp, ws, lane, inst, request, state, s, np.int64(state["computed"]))


@leaf
def _leave_sums(ws, lane, inst, engine, state, measured):
    """Let a request, up to date until now, not be among those who are counted."""
    if lane["stages"]:
        its = class_of(ws, lane, engine, state["since"])
        its["count"] -= 1
        its["context"] -= state["computed"]
        its["measured"] -= measured
    else:
        engine["context"] -= state["computed"]
        leave_inside(lane, inst, state)
        engine["measured"] -= measured


@leaf
def end_some(inp, ws, out, lane, inst, tally, index, engine, first, last, step):
    """Finish those who have their last token with the batch of `step`."""
    position = first
    while position <= last:
        place = inst["run_lo"] + position
        r = ws.running[place]
        state = ws.states[engine["state_lo"] + r]
        due = ws.due[place]
        if due == inst["step"]:
            catch_up(inp, ws, lane, inst, tally, engine, r)
        if is_last(lane, inst, state, due):
            _leave_sums(ws, lane, inst, engine, state, r >= lane["warmup"])
            _end_one(inp, ws, lane, inst, tally, engine, r)
            note(out, lane, tally, index, step, Event.FINISH, r, NONE)
            leave_running(ws, inst, position)
            engine["counted"] -= 1
            if lane["role"] == DECODE:
                engine["missed_from"] -= position < engine["missed_from"]
            finish(inp, ws, lane, inst, tally, engine, r, inst["clock"])
            last -= 1
        else:
            position += 1
