"""Blocks of the GPU that a store may still read though the request that filled them is gone."""

from ..._jit import leaf


@leaf
def note_hit(ws, inst, block):
    """Note that the step being scheduled takes up a block, which a copy may still read."""
    ws.pins[block]["touched"] = inst["serial"]
    if ws.pins[block]["stores"] > 0:
        inst["flushes"] = 1


@leaf
def note_evicted(ws, inst, block):
    """Note that the step being scheduled fills a block anew: whatever reads it must be done."""
    note_hit(ws, inst, block)
    if ws.pins[block]["evicted"] < 2 * inst["serial"]:
        ws.pins[block]["evicted_before"] = ws.pins[block]["evicted"]
    ws.pins[block]["evicted"] = 2 * inst["serial"]
    ws.pins[block]["stores"] = 0


@leaf
def await_stores_of(ws, inst, r):
    """Let the step being scheduled await the stores of a request that it preempts."""
    if ws.offers[r]["jobs"] > 0:
        ws.offers[r]["flush"] = inst["serial"]
        inst["flushes"] = 1
