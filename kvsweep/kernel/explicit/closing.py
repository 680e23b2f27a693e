"""The end of a schedule: its batch goes to the device, with the entries that it keeps."""

from ..._jit import leaf, part
from ...records import DECODE, NONE, PREFILL
from ..moving.connector import build
from ..moving.stalls import close_copies, close_empty
from ..time.device import mark_empty
from ..time.step_time import cold_time, is_cold, step_time
from .batches import announce, close_gaps, draw, enqueue, entry_at, scheduled_batch
from .classes import announce_class
from .counted_batches import announce_counted
from .log import log_schedule, mark_pulls
from .stages import note_samples, pass_stages
from .transfers import begin_pulls


@leaf
def _compute(ws, lane, inst, engine):
    """Let the device compute the batch that has been scheduled; return when it has."""
    begins = inst["clock"] + inst["device"]
    duration = step_time(lane, inst)
    if is_cold(lane, inst):
        duration += cold_time(lane, inst)
    if lane["moves"]:
        begins += engine["stall"]
    if lane["stages"]:
        return pass_stages(ws, lane, engine, begins, duration)
    return begins + duration


@leaf
def _close_entries(inp, ws, lane, engine):
    """Let the batch that has been scheduled have the entries that it keeps, as they will end."""
    if engine["taken_back"] > 0:
        close_gaps(ws, lane, engine)
    if lane["drafts"] > 0:
        draw(inp, ws, lane, engine)
    if lane["stages"]:
        note_samples(ws, lane, engine)


@leaf
def _begin(ws, out, lane, inst, tally, index, engine):
    """Let the device begin the batch, which may be empty; return its end and its row in the log."""
    first = entry_at(lane, engine, scheduled_batch(lane, engine), 0)
    row = NONE
    end = max(inst["clock"], engine["device_end"])
    if engine["size"] + engine["plain"] > 0:
        end = _compute(ws, lane, inst, engine)
        if lane["log"]:
            duration = end - inst["clock"] - inst["device"]
            row = log_schedule(
                ws, out, lane, inst, tally, index, engine, duration, first, engine["size"]
            )
    elif lane["moves"]:
        end, row = close_empty(ws, out, lane, inst, tally, index, engine)
    elif lane["log"]:
        mark_empty(out, inst, tally)
        mark_pulls(out, tally, engine["pulls"])
    return end, row


@leaf
def _tell_ends(inp, ws, lane, inst, tally, engine, end):
    """Tell of the requests that will have all their tokens at the `end` of the batch."""
    if lane["stages"]:
        announce_class(inp, ws, lane, inst, tally, engine, end)
    elif lane["counts"]:
        announce_counted(inp, ws, lane, inst, tally, engine, end)
    announce(inp, ws, lane, inst, tally, engine, end)


@part
def close_schedule(inp, ws, out, lane, inst, tally, index, engine):
    """Hand the batch that has been scheduled to the device."""
    _close_entries(inp, ws, lane, engine)
    if lane["moves"]:
        build(inp, ws, out, lane, inst, tally, index, engine)
        if lane["role"] == DECODE:
            begin_pulls(ws, out, lane, inst, tally, index, engine)
    end, row = _begin(ws, out, lane, inst, tally, index, engine)
    if lane["follow_ups"] and lane["role"] != PREFILL:
        _tell_ends(inp, ws, lane, inst, tally, engine, end)
    changes = (
        engine["size"] + engine["plain"] + inst["preempted"] + engine["pulls"] + inst["gave_up"] > 0
    )
    if lane["moves"]:
        changes = close_copies(ws, out, lane, inst, tally, index, engine, end, row) or changes
    inst["peak"] = max(inst["peak"], lane["gpu_blocks"] - inst["free"])
    enqueue(ws, lane, inst, engine, end, row, changes)
