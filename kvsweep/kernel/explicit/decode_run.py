"""Runs of steps in which every running request decodes one token: few of them are looked at.

Between two steps of a run all that changes of a request is that it has one more token, known and
computed. So its state is left as it was at step `since`, and brought up to date when it is *due*:
it needs a block, a window leaves one, one is filled, or it has its last token (`time.calendar`).

Asynchronously each step of a run schedules a batch and processes the one before it, on the device,
which has the same requests. Who has its last token there is in the new batch no more.
"""

import numpy as np

from ..._jit import leaf
from ...records import NEVER, NONE
from ..tally import add_gap
from ..time.calendar import find_due
from ..time.step_time import token_time
from ..time.windows import inside
from .batches import pass_on
from .block_records import take
from .counted import join, plan_ahead, stand_down, stands
from .due import (
    blocks_needed,
    cache_due,
    count_ending,
    served,
    this_phase,
)
from .endings import end_some
from .in_turn import takes_turns
from .inside import counted_inside
from .leaving import leave_windows
from .log import log_decodes, log_outputs, note_before
from .may_run import may_run, tries
from .planning import planned_tokens
from .quiet import alike_by_batch, decode_time, ends_at, quiet_until, take_quiet
from .settling import release_owed
from .states import keeps_states, tables_of
from .transfers import next_transfer


@leaf
def _note_tokens(ws, lane, inst, tally, engine, end):
    """Note the latency of the token that each running request gets at `end`."""
    gap = end - engine["last_end"]
    if alike_by_batch(lane) and gap == token_time(lane, 0, inst["running"] * (1 + lane["drafts"])):
        ws.itl_by_batch[inst["running"]] += engine["measured"]
    elif engine["measured"] > 0:
        add_gap(ws, tally, gap, engine["measured"])
    engine["last_end"] = end


@leaf
def _duration(ws, lane, inst, engine, first, last, ending):
    """Return how long the step takes; 0 if it would have no tokens."""
    count = inst["running"]
    context = engine["context"]
    in_window = counted_inside(ws, lane, inst, engine)
    if lane["async_scheduling"] and ending > 0:
        count -= ending
        for place in range(inst["run_lo"] + first, inst["run_lo"] + last + 1):
            state = ws.states[engine["state_lo"] + ws.running[place]]
            if ws.due[place] == inst["step"] and state["known"] + 1 >= state["limit"]:
                context -= state["computed"]
                in_window -= inside(lane, state["computed"], 1)
    return decode_time(lane, inst, count, context, in_window) if count > 0 else np.int64(0)


@leaf
def _settle(inp, ws, out, lane, inst, tally, index, engine, first, last, ending, settled):
    """Process the outputs of a step at `settled`; `ending` requests have their last token then."""
    step = inst["step"] - lane["async_scheduling"]
    used = lane["gpu_blocks"] - inst["free"]
    inst["used_time"] += used * (settled - inst["clock"])
    inst["peak"] = max(inst["peak"], used)
    inst["clock"] = settled
    engine["begun"] = 0
    if lane["drafts"] > 0:
        release_owed(inp, ws, lane, inst, engine)
    _note_tokens(ws, lane, inst, tally, engine, settled)
    computed = np.int64(engine["measured"])
    if ending > 0 or lane["drafts"] > 0:
        _, _, _, computed = served(ws, lane, inst, engine, np.int64(0))
    if ending > 0 or (lane["drafts"] > 0 and last >= first):
        end_some(inp, ws, out, lane, inst, tally, index, engine, first, last, step)
    tally["computed_tokens"] += computed * (1 + lane["drafts"])
    if lane["drafts"] == 0:
        engine["context"] += inst["running"]
    elif lane["context"]:
        engine["context"] += planned_tokens(ws, inst, engine)


@leaf
def _give_blocks(inp, ws, lane, inst, tally, engine, first, last):
    """Let windows leave what they leave in this step, and find what running requests take.

    What was given back stays so: the step that is scheduled instead begins with the same.

    Returns
    -------
    ending : int
        Who has the last token with this step, NONE: it must be scheduled.
    taken : int
        Blocks to take.
    """
    ending = np.int64(0)
    spared = np.int64(0)
    told = False
    if last >= first:
        ending, spared, told = count_ending(inp, ws, lane, inst, tally, engine, first, last)
    phase = this_phase(lane, inst)
    taken = (blocks_needed(ws, lane, inst, engine, phase) - spared) * tables_of(lane)
    if told or taken > inst["free"] or takes_turns(ws, lane, inst, phase, taken):
        ending = np.int64(NONE)
    if ending != NONE and lane["drafts"] == 0:
        if last >= first and not keeps_states(lane):
            cache_due(inp, ws, lane, inst, tally, engine, first, last)
        leave_windows(inp, ws, lane, inst, tally, engine, phase)
    return ending, taken


@leaf
def _take_step(inp, ws, out, lane, inst, tally, index, engine, until):
    """Take one step of the run; return whether it could be."""
    first, last, _ = find_due(ws, inst)
    note_before(inst, engine)
    ending, taken = _give_blocks(inp, ws, lane, inst, tally, engine, first, last)
    if ending == NONE:
        return False
    duration = _duration(ws, lane, inst, engine, first, last, ending)
    settled, ends = ends_at(ws, inst, engine, duration)
    if settled >= until or duration == 0 or tries(inp, ws, lane, inst, engine, taken):
        return False
    if keeps_states(lane):  # only now, as a schedule would cache what it does later than the next
        cache_due(inp, ws, lane, inst, tally, engine, first, last)
    take(ws, inst, taken)
    batch = ws.batches[engine["batch_lo"] + engine["oldest"]]
    row = NONE
    if lane["log"]:
        inst["device"] = ends - duration - inst["clock"]
        row = log_decodes(ws, out, lane, inst, tally, index, engine, duration)
    _settle(inp, ws, out, lane, inst, tally, index, engine, first, last, ending, settled)
    if lane["log"]:
        log_outputs(out, inst, batch["row"] if lane["async_scheduling"] else row)
    pass_on(inst, engine, batch, ends, row)
    return True


@leaf
def _end(inp, ws, lane, inst, tally, engine):
    """Leave all as steps need it that are no run."""
    if not stands(lane):
        stand_down(inp, ws, lane, inst, tally, engine)
    if engine["at_once"] > 0:
        add_gap(ws, tally, 0, engine["at_once"])
        engine["at_once"] = 0


@leaf
def _bounds(ws, lane, inst, engine, until):
    """Return when a run must end at the latest, and when somebody enters: no step begins then."""
    if engine["transfer_head"] != NONE:
        until = min(until, next_transfer(ws, engine))
    entry = NEVER
    if inst["inbox_head"] != NONE:
        entry = ws.progress[inst["inbox_head"]]["queued"]
    return until, entry


@leaf
def run_decodes(inp, ws, out, lane, inst, tally, index, until):
    """Take steps that only decode, as many as follow one another before `until`.

    Return whether there was one; if not, nothing has changed that a schedule would not do.
    """
    engine = ws.engines[index]
    if not may_run(inp, ws, lane, inst, engine):
        return False
    join(inp, ws, lane, inst, engine)
    until, entry = _bounds(ws, lane, inst, engine, until)
    begun = inst["step"]
    goes_on = True
    while goes_on:
        plan_ahead(inp, ws, lane, inst, tally, engine)
        due = quiet_until(ws, lane, inst, engine)
        if due > inst["step"]:
            goes_on = take_quiet(inp, ws, lane, inst, tally, engine, until, entry, due)
        else:
            goes_on = _take_step(inp, ws, out, lane, inst, tally, index, engine, until)
            goes_on = goes_on and inst["running"] > 0 and inst["clock"] < entry
            goes_on = goes_on and not tries(inp, ws, lane, inst, engine, 0)
        goes_on = goes_on and engine["schedules"] < lane["step_limit"]
    _end(inp, ws, lane, inst, tally, engine)
    return inst["step"] > begun
