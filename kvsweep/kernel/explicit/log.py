"""The log of explicit lanes: whole schedules, and outputs of steps that are not the latest."""

from ..._jit import leaf
from ...records import NONE, Event
from ..tally import log_event, log_step


@leaf
def note(out, lane, tally, index, step, kind, r, value):
    """Append an event of a step to the event log, if logging is on."""
    if lane["log"]:
        row = tally["log_events"]
        tally["log_events"] = row + 1
        if row < out.events.size:
            record = out.events[row]
            record["step"] = step
            record["instance"] = index
            record["kind"] = kind
            record["request"] = r
            record["value"] = value


@leaf
def note_before(inst, engine):
    """Note what was counted before a schedule, or before the run of decodes that began with it."""
    if not engine["begun"]:
        engine["waited"] = inst["waiting"] + inst["held"]
        engine["evicted"] = inst["evictions"]
        engine["freed_before"] = engine["window_freed"]
    engine["begun"] = 1


@leaf
def _log_counted(ws, out, lane, inst, tally, index, engine):
    """Log the tokens of those who are counted, but of nobody who has its last one already.

    In a pipeline of those whose turn it is.
    """
    turn = engine["schedules"] if lane["stages"] else inst["step"]
    for place in range(inst["run_lo"], inst["run_lo"] + engine["counted"]):
        r = ws.running[place]
        state = ws.states[engine["state_lo"] + r]
        ends = ws.due[place] == turn and state["known"] + 1 >= state["limit"]
        waits = lane["stages"] and (turn - state["since"]) % lane["stages"] != 0
        if not (waits or (ends and lane["async_scheduling"])):
            log_event(out, lane, inst, tally, index, Event.CHUNK, r, 1)


@leaf
def log_decodes(ws, out, lane, inst, tally, index, engine, duration):
    """Log a step of a run of decodes; return its row."""
    row = log_row(out, lane, inst, tally, index, engine, duration)
    _log_counted(ws, out, lane, inst, tally, index, engine)
    return row


@leaf
def log_row(out, lane, inst, tally, index, engine, duration):
    """Append the row of the step that has just been scheduled to the log; return it."""
    row = tally["log_steps"]
    log_step(out, lane, inst, tally, index, duration, engine["waited"], engine["evicted"])
    if row < out.steps.size:
        out.steps[row]["window_freed"] = engine["window_freed"] - engine["freed_before"]
        out.steps[row]["kept"] = engine["kept"]
    return row


@leaf
def log_schedule(ws, out, lane, inst, tally, index, engine, duration, first, size):
    """Log the step that has just been scheduled: its row, and what each request got.

    Its entries are `size` from `first` on. Return the row.
    """
    row = log_row(out, lane, inst, tally, index, engine, duration)
    _log_counted(ws, out, lane, inst, tally, index, engine)
    for place in range(first, first + size):
        entry = ws.entries[place]
        r = entry["state"] - engine["state_lo"]
        log_event(out, lane, inst, tally, index, Event.CHUNK, r, entry["tokens"])
    return row


@leaf
def mark_pulls(out, tally, count):
    """Tell transfers that a step without tokens began, the last `count` in the log, from others."""
    for row in range(tally["log_events"] - count, tally["log_events"]):
        if row < out.events.size:
            out.events[row]["value"] *= -1


@leaf
def log_outputs(out, inst, row):
    """Complete the row of a step whose outputs are processed."""
    if row != NONE and row < out.steps.size:
        out.steps[row]["free_after"] = inst["free"]
