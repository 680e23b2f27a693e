"""Steps that wait for copies, or that are made for copies alone."""

from ..._jit import leaf
from ...records import NONE
from ..explicit.batches import scheduled_batch
from ..explicit.log import log_row
from ..offload.copies import begin_loads, next_end
from ..offload.jobs import NEW_LOADS, WAITING_STORES, head


@leaf
def close_empty(ws, out, lane, inst, tally, index, engine):
    """Close a batch without tokens, which may stall; return its end and its row in the log."""
    end = inst["clock"] + inst["device"] + engine["stall"]
    row = NONE
    if lane["log"] and engine["stall"] > 0:
        row = log_row(out, lane, inst, tally, index, engine, engine["stall"])
    return end, row


@leaf
def _log(out, engine, off, row):
    """Add what the connector did to a row of the log."""
    if row != NONE and row < out.steps.size:
        out.steps[row]["stall_us"] = engine["stall"]
        out.steps[row]["tier_blocks"] = off["chunks"]
        out.steps[row]["awaited"] = off["awaited"]


@leaf
def close_copies(ws, out, lane, inst, tally, index, engine, end, row):
    """Begin the loads of a batch at its end; return whether its copies change anything.

    Batches without tokens have a number, too: what they did is logged.
    """
    off = ws.offload[index]
    changes = engine["stall"] > 0 or head(ws, off, NEW_LOADS) != NONE
    changes = changes or head(ws, off, WAITING_STORES) != NONE
    begin_loads(ws, out, lane, tally, index, off, end)
    _log(out, engine, off, row)
    ws.batches[engine["batch_lo"] + scheduled_batch(lane, engine)]["stall"] = engine["stall"]
    if engine["queued"] == 0:
        inst["transfer"] = engine["stall"]
    if engine["size"] + engine["plain"] == 0:
        inst["step"] += 1
        inst["empty"] += 1
    return changes


@leaf
def note_stall(ws, inst, engine):
    """Note how long the oldest of the batches on their way waits for copies."""
    inst["transfer"] = 0
    if engine["queued"] > 0:
        inst["transfer"] = ws.batches[engine["batch_lo"] + engine["oldest"]]["stall"]


@leaf
def rests(ws, inst, engine):
    """Return whether batches change nothing until a copy ends or a request enters."""
    off = ws.offload[inst["number"]]
    ends = engine["queued"] > 0 and next_end(ws, off) <= engine["device_end"]
    return head(ws, off, WAITING_STORES) == NONE and not ends
