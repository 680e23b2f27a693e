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
def log_schedule(ws, out, lane, inst, tally, index, engine, duration, first, size):
    """Log the step that has just been scheduled: its row, and what each request got.

    Its entries are `size` from `first` on. Return the row.
    """
    row = tally["log_steps"]
    log_step(out, lane, inst, tally, index, duration, engine["waited"], engine["evicted"])
    if row < out.steps.size:
        out.steps[row]["window_freed"] = engine["window_freed"] - engine["freed_before"]
        out.steps[row]["kept"] = engine["kept"]
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
