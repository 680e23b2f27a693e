"""Who is *counted*: the leading running requests, as far as each decodes one token in each step.

Between two steps all that changes of such a request is that it has one more token, known and
computed. So its state is left as it was at step `since`, and brought up to date when it is *due*
(due.py). That goes on beside admissions and chunks of those behind it, which have entries, until a
step must look at each.

Asynchronously the batch before is still on the device when a step is scheduled: who is counted has
no entry in either, is not in the new one if its last token comes with the other, and needs an entry
in that one if it is preempted.
"""

import numpy as np

from ..._jit import leaf, part
from ...records import DECODE, PREFILL
from ..scheduling.preempt import victim_is_last
from ..time.calendar import IDLE, find_due
from .batches import drop_entry, give_entry
from .block_records import take
from .due import (
    blocks_needed,
    cache_due,
    cache_filled,
    catch_up,
    count_ending,
    next_due,
    phase_of,
    served,
    this_phase,
)
from .from_tier import block_by_block, has_blocks, next_block, serve_due
from .in_turn import take_in_turn, takes_turns
from .inside import counted_inside, join_inside
from .leavers import enlist, find_left, forget_phases
from .leaving import leave_windows
from .may_run import may_join, may_plan
from .missed import misses_this
from .planning import plan, plan_one
from .short_of_blocks import (
    bring_up,
    take_by_counts,
    take_in_flight,
    take_one_by_one,
    take_to_verify,
)
from .states import keeps_states, tables_of


@leaf
def stands(lane):
    """Return whether who is counted stays so beside steps that do not only decode."""
    plain = lane["role"] != PREFILL and (lane["drafts"] == 0 or may_plan(lane))
    # A step of a run would cache blocks of one token only when it takes them: a record too many.
    plain = plain and not (lane["block_size"] == 1 and lane["prefix_caching"])
    plain = plain and not (lane["drafts"] > 0 and keeps_states(lane))  # some move in each step
    return plain and victim_is_last(lane)


@leaf
def _add_context(lane, inst, engine, state):
    """Count the context of a request that is up to date, and what of it is inside a window."""
    engine["context"] += state["computed"]
    join_inside(lane, inst, engine, state)


@leaf
def _expect(inp, ws, lane, inst, request, state, s, place):
    """Note when a request without drafts that is counted from now on is due."""
    ws.due[place] = next_due(ws, lane, request, state, s, inst["step"])
    if block_by_block(lane):
        ws.due[place] = min(ws.due[place], next_block(ws, lane, state, s, inst["step"]))
    if lane["by_phase"]:
        ws.phases[phase_of(lane, inst, state)] += 1
        enlist(inp, ws, lane, inst, state, s)


@leaf
def _join(inp, ws, lane, inst, engine):
    """Count those who decode from now on, behind those who are counted."""
    if engine["counted"] == 0:
        engine["context"] = 0
        engine["measured"] = 0
        engine["planned"] = inst["step"]
    goes_on = True
    while goes_on and engine["counted"] < inst["running"]:
        place = inst["run_lo"] + engine["counted"]
        r = ws.running[place]
        s = engine["state_lo"] + r
        state = ws.states[s]
        request = inp.requests[lane["request_lo"] + r]
        goes_on = may_join(ws, lane, engine, request, state, s)
        if goes_on:
            engine["counted"] += 1
            if lane["async_scheduling"]:
                drop_entry(ws, lane, engine, state)
            state["since"] = inst["step"]
            _add_context(lane, inst, engine, state)
            engine["measured"] += r >= lane["warmup"]
            if lane["drafts"] == 0:
                _expect(inp, ws, lane, inst, request, state, s, place)
            elif engine["planned"] > inst["step"]:
                ws.due[place] = plan_one(inp, ws, lane, inst, engine, request, state)


@leaf
def join(inp, ws, lane, inst, engine):
    """Count those who decode from now on, if there is anybody to count."""
    if engine["counted"] < inst["running"] and engine["missed"] == 0:
        _join(inp, ws, lane, inst, engine)


@leaf
def _plan(inp, ws, lane, inst, tally, engine):
    """Plan the next steps of all who are counted."""
    for place in range(inst["run_lo"], inst["run_lo"] + engine["counted"]):
        catch_up(inp, ws, lane, inst, tally, engine, ws.running[place])
    plan(inp, ws, lane, inst, engine)


@leaf
def plan_ahead(inp, ws, lane, inst, tally, engine):
    """Plan the next steps with drafts, if this one is not planned."""
    if lane["drafts"] > 0 and engine["planned"] == inst["step"]:
        _plan(inp, ws, lane, inst, tally, engine)


@leaf
def stand_down(inp, ws, lane, inst, tally, engine):
    """Bring all who are counted up to date, and count nobody."""
    if lane["by_phase"]:
        find_left(ws, lane, inst, engine)
    for place in range(inst["run_lo"], inst["run_lo"] + engine["counted"]):
        bring_up(inp, ws, lane, inst, tally, engine, place)
        ws.due[place] = IDLE
    if lane["async_scheduling"]:
        for position in range(engine["counted"] - 1, -1, -1):
            s = engine["state_lo"] + ws.running[inst["run_lo"] + position]
            if ws.states[s]["flight"] > 0:
                give_entry(ws, lane, engine, s)
    if lane["by_phase"] and lane["drafts"] == 0:
        forget_phases(ws, lane, inst)
    engine["counted"] = 0


@leaf
def _may_go_on(ws, lane, inst, engine, count):
    """Return whether there are budget and room for so many; maybe blocks for all."""
    tokens = count * (1 + lane["drafts"])
    fits = tokens <= inst["budget"] and tokens + count * lane["slot"] <= engine["input"]
    fenced = lane["role"] == DECODE and lane["async_scheduling"]
    fenced = fenced and (lane["drafts"] > 0 or lane["more_groups"] + lane["windows"] > 0)
    if lane["by_phase"] and (fenced or keeps_states(lane)):
        taken = blocks_needed(ws, lane, inst, engine, this_phase(lane, inst)) * tables_of(lane)
        fits = fits and taken <= inst["free"]
    return fits


@leaf
def _give_blocks(inp, ws, out, lane, inst, tally, index, engine, first, last, spared):
    """Give those who are counted what they need in this step, or preempt some of them.

    Of those who would take a block `spared` do not. Those due are from `first` to `last`.
    """
    phase = this_phase(lane, inst)
    taken = (blocks_needed(ws, lane, inst, engine, phase) - spared) * tables_of(lane)
    if lane["drafts"] > 0:
        if taken <= inst["free"]:
            take(ws, inst, taken)
        else:
            take_to_verify(inp, ws, out, lane, inst, tally, index, engine)
        return
    if taken <= inst["free"] and takes_turns(ws, lane, inst, phase, taken):
        take_in_turn(inp, ws, lane, inst, tally, engine)
    elif taken <= inst["free"]:
        leave_windows(inp, ws, lane, inst, tally, engine, phase)
        take(ws, inst, taken)
    else:
        if lane["role"] == DECODE and lane["async_scheduling"]:
            take_in_flight(inp, ws, out, lane, inst, tally, index, engine, spared)
        elif spared > 0 or lane["windows"] != 0:
            take_one_by_one(inp, ws, out, lane, inst, tally, index, engine)
        else:
            take_by_counts(inp, ws, out, lane, inst, tally, index, engine)
        first, last, _ = find_due(ws, inst)
    cache_due(inp, ws, lane, inst, tally, engine, first, last)


@leaf
def _charge(ws, lane, inst, tally, engine, ending):
    """Charge the tokens of those who are counted to the step (rule R7.3); `ending` get none."""
    width = 1 + lane["drafts"]
    in_window = counted_inside(ws, lane, inst, engine)
    count, context = np.int64(engine["counted"]), np.int64(engine["context"])
    measured = np.int64(engine["measured"])
    if ending > 0 or lane["drafts"] > 0:
        count, context, in_window, measured = served(ws, lane, inst, engine, in_window)
    if misses_this(lane, inst, engine):
        count -= engine["missed"]
        context -= engine["missed_context"]
        in_window -= engine["missed_inside"]
        measured -= engine["missed_measured"]
    tokens = count * width
    inst["decode_tokens"] += tokens
    inst["decode_context"] += context
    inst["decode_inside"] += in_window
    inst["budget"] -= tokens
    engine["input"] -= tokens + count * lane["slot"]
    engine["plain"] = count
    tally["computed_tokens"] += measured * width


@part
def schedule_counted(inp, ws, out, lane, inst, tally, index, engine):
    """Schedule those who are counted beside others, without entries; or count nobody any more."""
    engine["plain"] = 0
    if stands(lane):
        join(inp, ws, lane, inst, engine)
    if engine["counted"] == 0:
        return
    plan_ahead(inp, ws, lane, inst, tally, engine)
    ending, spared = np.int64(0), np.int64(0)
    first, last, _ = find_due(ws, inst)
    if lane["async_scheduling"]:
        ending, spared, _ = count_ending(inp, ws, lane, inst, tally, engine, first, last)
    fits = _may_go_on(ws, lane, inst, engine, engine["counted"] - ending)
    if block_by_block(lane):
        fits = fits and has_blocks(inp, ws, lane, inst, tally, engine, first, last)
    if fits:
        if block_by_block(lane):
            serve_due(inp, ws, lane, inst, tally, engine, first, last)
        elif lane["by_phase"]:
            _give_blocks(inp, ws, out, lane, inst, tally, index, engine, first, last, spared)
        _charge(ws, lane, inst, tally, engine, ending)
        others = inst["running"] - engine["counted"] + inst["waiting"] + inst["held"]
        if lane["drafts"] > 0 and lane["prefix_caching"] and others > 0:
            cache_filled(inp, ws, lane, inst, tally, engine)
    else:
        stand_down(inp, ws, lane, inst, tally, engine)
