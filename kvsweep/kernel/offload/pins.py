"""Blocks of the GPU that a store may still read though the request that filled them is gone.

They have ids: whoever leaves while its stores go on splits their extents. Nothing is noted of
blocks but while there are such stores (`INSTANCE.watches`).
"""

from ..._jit import leaf
from ...records import NONE


@leaf
def clear_pins(ws, block):
    """Let nothing be known of the block of a fresh id."""
    ws.pins[block]["touched"] = 0
    ws.pins[block]["evicted"] = 0
    ws.pins[block]["evicted_before"] = 0
    ws.pins[block]["again"] = 0
    ws.pins[block]["stores"] = 0


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
    pins = ws.pins[block]
    if pins["evicted"] < 2 * inst["serial"]:
        pins["evicted_before"] = pins["evicted"]
        pins["order"] = inst["evictions"]
        pins["heir"] = NONE
        pins["next"] = inst["replaced"]
        inst["replaced"] = block
    pins["evicted"] = 2 * inst["serial"]
    pins["stores"] = 0


@leaf
def note_taken(ws, inst, r, held):
    """Note which blocks of a request, that has `held` now, those are that were evicted for it."""
    block = inst["replaced"]
    while block != NONE and ws.pins[block]["heir"] == NONE:
        ws.pins[block]["heir"] = r
        ws.pins[block]["place"] = held - (inst["evictions"] - ws.pins[block]["order"])
        block = ws.pins[block]["next"]


@leaf
def await_stores_of(ws, inst, r):
    """Let the step being scheduled await the stores of a request that it preempts."""
    if ws.offers[r]["jobs"] > 0:
        ws.offers[r]["flush"] = inst["serial"]
        inst["flushes"] = 1
