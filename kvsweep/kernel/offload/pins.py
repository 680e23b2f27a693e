"""Blocks of the GPU that a store may still read though the request that filled them is gone.

They have ids: whoever leaves while its stores go on splits their extents. Nothing is noted of
blocks but while there are such stores (`INSTANCE.watches`).

Without prefix caching free blocks are a stack, from which those freed last are taken first. Then
the ids are those of a list, `INSTANCE.named`, that tells where each is: on the stack (`PIN.heir`
NONE), counted from its ground, or in the table of a request (`_name_blocks` of watch.py).
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
    """Note that the step being scheduled fills a block anew: whatever reads it must be done.

    Return whether its id rests: no other block has it until the schedule after the next, so that it
    tells until then what became of the block. There is room for all blocks of two schedules.
    """
    note_hit(ws, inst, block)
    pins = ws.pins[block]
    if pins["evicted"] < 2 * inst["serial"]:
        pins["evicted_before"] = pins["evicted"]
    pins["evicted"] = 2 * inst["serial"]
    pins["stores"] = 0
    rests = inst["may_rest"] > 0
    if rests:
        inst["may_rest"] -= 1
        pins["order"] = inst["evictions"]
        pins["heir"] = NONE
        pins["next"] = inst["replaced"]
        inst["replaced"] = block
    return rests


@leaf
def begin_replaced(ws, inst):
    """Begin the list of blocks that a schedule evicts; ids of the last but one rest no longer."""
    block = inst["replaced_before"]
    while block != NONE:
        ws.lru[block]["next"] = inst["spare"]
        inst["spare"] = block
        inst["may_rest"] += 1
        block = ws.pins[block]["next"]
    inst["replaced_before"] = inst["replaced"]
    inst["replaced"] = NONE


@leaf
def note_taken(ws, inst, r, held):
    """Note which blocks of a request, that has `held` now, those are that it has just taken."""
    block = inst["named"]
    while block != NONE:
        pins = ws.pins[block]
        if pins["heir"] == NONE and pins["place"] >= inst["free"]:
            pins["heir"] = r
            pins["place"] = held - 1 - (pins["place"] - inst["free"])
            note_hit(ws, inst, block)
        block = pins["next"]
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


@leaf
def note_held(ws, inst, r):
    """Note that the step being scheduled takes up all that a request holds."""
    block = inst["named"]
    while block != NONE:
        if ws.pins[block]["heir"] == r:
            note_hit(ws, inst, block)
        block = ws.pins[block]["next"]


@leaf
def note_freed(ws, inst, r, held):
    """Note where the blocks are of a request that has just freed the `held` ones it had.

    What the step being scheduled gave to a request that it preempts it has not taken up.
    """
    block = inst["named"]
    while block != NONE:
        pins = ws.pins[block]
        if pins["heir"] == r:
            pins["heir"] = NONE
            pins["place"] += inst["free"] - held
            pins["touched"] = 0
        block = pins["next"]


@leaf
def forget_names(inst):
    """Let no block be known without prefix caching: no store reads what nobody holds."""
    if inst["named"] != NONE:
        inst["named"] = NONE
        inst["fresh"] = 0
