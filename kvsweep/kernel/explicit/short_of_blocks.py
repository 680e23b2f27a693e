"""A step in which those who are counted lack blocks: the last of the running list are preempted.

Where nothing leaves a window meanwhile, by counts; else in turn.
"""

import numpy as np

from ..._jit import leaf
from ...records import DECODE, NONE
from ..time.calendar import IDLE
from .batches import give_entry
from .block_records import take
from .due import blocks_needed, catch_up, is_served, phase_of, this_phase
from .inside import leave_inside
from .leavers import discharge
from .leaving import begin_turns, end_turns, leave_in_turn
from .missed import has_missed, make_up, may_miss, miss
from .planning import blocks_wanted, plan
from .slots import groups_of
from .tables import cache_known, watch_windows
from .walking import is_fenced, preempt


@leaf
def bring_up(inp, ws, lane, inst, tally, engine, place):
    """Bring a request that is counted up to date, as steps need it that look at each."""
    r = ws.running[place]
    s = engine["state_lo"] + r
    state = ws.states[s]
    catch_up(inp, ws, lane, inst, tally, engine, r)
    state["last_token"] = engine["last_end"]
    if lane["role"] == DECODE and has_missed(engine, place - inst["run_lo"]):
        make_up(lane, engine, state, r >= lane["warmup"])
    request = inp.requests[lane["request_lo"] + r]
    cache_known(inp, ws, lane, inst, request, state, s, np.int64(state["known"]) - 1)
    if state["computed"] - state["flight"] >= state["release_at"]:
        watch_windows(inp, ws, lane, state, s)


@leaf
def _count_last_no_more(inp, ws, lane, inst, tally, engine):
    """Bring the last of those who are counted up to date, and count it no more."""
    place = inst["run_lo"] + engine["counted"] - 1
    r = ws.running[place]
    s = engine["state_lo"] + r
    state = ws.states[s]
    discharge(inp, ws, lane, inst, engine, state, s, True)
    bring_up(inp, ws, lane, inst, tally, engine, place)
    ws.due[place] = IDLE
    if lane["drafts"] == 0:
        ws.phases[phase_of(lane, inst, state)] -= 1
    engine["counted"] -= 1
    engine["context"] -= state["computed"]
    leave_inside(lane, inst, state)
    engine["measured"] -= r >= lane["warmup"]
    if lane["async_scheduling"] and state["flight"] > 0:
        give_entry(ws, lane, engine, s)


@leaf
def _preempt_last(inp, ws, out, lane, inst, tally, index, engine):
    """Preempt the last of the running list, who may be counted."""
    position = inst["running"] - 1
    if position < engine["counted"]:
        _count_last_no_more(inp, ws, lane, inst, tally, engine)
    preempt(inp, ws, out, lane, inst, tally, index, engine, position)


@leaf
def take_by_counts(inp, ws, out, lane, inst, tally, index, engine):
    """Give blocks to those who are counted; preempt others from the end while blocks lack.

    The first are served before the next victim is chosen, so a victim never was. What is free is
    taken, and so evicted, before more is freed.
    """
    served = np.int64(0)
    phase = this_phase(lane, inst)
    while (blocks_needed(ws, lane, inst, engine, phase) - served) * groups_of(lane) > inst["free"]:
        more = inst["free"] // groups_of(lane)
        take(ws, inst, more * groups_of(lane))
        served += more
        _preempt_last(inp, ws, out, lane, inst, tally, index, engine)
    take(ws, inst, (blocks_needed(ws, lane, inst, engine, phase) - served) * groups_of(lane))


@leaf
def _is_last_fenced(ws, lane, inst, engine):
    """Return whether the last of the running list is in flight, so that it is no victim."""
    position = inst["running"] - 1
    if position < engine["counted"]:
        return engine["late"] != 0 or not has_missed(engine, position)
    return is_fenced(ws, lane, engine, engine["state_lo"] + ws.running[inst["run_lo"] + position])


@leaf
def _end_walk(inp, ws, lane, inst, tally, engine, served):
    """Give this step to nobody behind those who took `served` blocks."""
    takes = this_phase(lane, inst)
    left = np.int64(served)
    position = np.int64(0)
    while position < engine["counted"] and left >= 0:
        state = ws.states[engine["state_lo"] + ws.running[inst["run_lo"] + position]]
        left -= phase_of(lane, inst, state) == takes and is_served(lane, inst, state)
        position += left >= 0
    if may_miss(ws, lane, inst, engine, position):
        miss(ws, lane, inst, engine, position)
    else:
        while engine["counted"] > position:
            _count_last_no_more(inp, ws, lane, inst, tally, engine)


@leaf
def take_in_flight(inp, ws, out, lane, inst, tally, index, engine, spared):
    """Do the same where nobody in flight is a victim: there the walk ends (R14.5).

    Of those who would take a block `spared` do not: they have their last token, and are in flight.
    """
    phase = this_phase(lane, inst)
    served = np.int64(0)
    fenced = False
    while not fenced and ws.phases[phase] - spared - served > inst["free"]:
        more = np.int64(inst["free"])
        take(ws, inst, more)
        served += more
        fenced = _is_last_fenced(ws, lane, inst, engine)
        if fenced:
            _end_walk(inp, ws, lane, inst, tally, engine, served)
        else:
            _preempt_last(inp, ws, out, lane, inst, tally, index, engine)
    if not fenced:
        take(ws, inst, ws.phases[phase] - spared - served)


@leaf
def take_to_verify(inp, ws, out, lane, inst, tally, index, engine):
    """Do the same where each verifies drafts, and plan the next steps of who is left anew."""
    position = np.int64(0)
    while position < engine["counted"]:
        r = ws.running[inst["run_lo"] + position]
        state = ws.states[engine["state_lo"] + r]
        catch_up(inp, ws, lane, inst, tally, engine, r)
        needs = blocks_wanted(lane, state) * groups_of(lane)
        while position < engine["counted"] and needs > inst["free"]:
            _preempt_last(inp, ws, out, lane, inst, tally, index, engine)
        if position < engine["counted"]:
            take(ws, inst, needs)
        position += 1
    plan(inp, ws, lane, inst, engine)


@leaf
def take_one_by_one(inp, ws, out, lane, inst, tally, index, engine):
    """Do the same where windows leave blocks meanwhile, or somebody takes none any more.

    Of each first the windows leave what they leave, then it takes a block.
    """
    takes = this_phase(lane, inst)
    table = begin_turns(ws, lane, inst, takes)
    position = np.int64(0)
    while position < engine["counted"]:
        s = np.int64(engine["state_lo"]) + ws.running[inst["run_lo"] + position]
        state = ws.states[s]
        while table != NONE and table // groups_of(lane) == s:
            table = leave_in_turn(inp, ws, lane, inst, tally, engine, table)
        if phase_of(lane, inst, state) == takes and is_served(lane, inst, state):
            while position < engine["counted"] and groups_of(lane) > inst["free"]:
                _preempt_last(inp, ws, out, lane, inst, tally, index, engine)
            if position < engine["counted"]:
                take(ws, inst, np.int64(groups_of(lane)))
        position += 1
    end_turns(ws, lane, inst, takes)
