"""What decoding fills in a write-through tier: counted at once, put into the tier when it matters.

A request that decodes fills a block each time that so many steps are over, so which ones it has
filled follows from its base and the step. While none of them can be on the CPU already, they take
room when they are counted, and stand in the order of the tier by their ranks: nobody can tell that
they come later, when the request leaves, when another one that has the same blocks is looked up, or
when they might make room themselves (`settle_all`). The begins of the last `SPAN` steps are kept,
as a block tells when it came.
"""

import numpy as np

from ..._jit import leaf, part
from ...records import NONE
from ..memory import SPAN, extent_at
from ..time.decoding import decoded_tokens, filling_step, known_tokens, most_computed
from . import pool, runs
from .sizes import full_blocks
from .tier_order import TURN_BITS, grow_loose, rank_at


@leaf
def note_begins(ws, inst, steps, now, duration):
    """Note when the next `steps` steps begin: at `now`, each `duration` after the one before."""
    lo = inst["number"] * SPAN
    for step in range(inst["step"], inst["step"] + steps):
        ws.begins[lo + (step & (SPAN - 1))] = now
        now += duration


@leaf
def put_fills(inp, ws, lane, inst, request, progress, first, end):
    """Let the tier have the counted blocks `first` to `end - 1` of a decoding request."""
    slot = request["chain_lo"]
    lo = request["key_lo"]
    step = filling_step(lane, progress, first)
    begins = inst["number"] * SPAN
    size = lane["block_size"]
    while first < end:
        slot = pool.link_with(inp, slot, first)
        link = inp.chain[slot]
        upto = min(end, np.int64(link["end"]))
        key = np.int64(inp.keys[lo + first])
        extent = extent_at(lane, inst, link["extent"])
        last = key + upto - first
        grow_loose(ws, lane, inst, extent, key, last, rank_at(step, progress))
        for place in range(inst["prefix_lo"] + key, inst["prefix_lo"] + last):
            ws.tier_blocks[place]["came"] = ws.begins[begins + (step & (SPAN - 1))]
            step += size
        first = upto


@leaf
def _settle(inp, ws, lane, inst, request, progress):
    """Put what a decoding request has filled and is only counted into the tier."""
    begun = known_tokens(request, progress) - 1
    first = full_blocks(lane, max(begun, decoded_tokens(progress, inst["settled_to"])))
    end = full_blocks(lane, decoded_tokens(progress, inst["filled_to"]))
    if first < end:
        inst["unsettled"] -= end - first
        put_fills(inp, ws, lane, inst, request, progress, first, end)


@part
def settle_all(inp, ws, lane, inst):
    """Put all that is only counted into the tier."""
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        if inst["unsettled"] > 0 and ws.progress[r]["decoding"]:
            _settle(inp, ws, lane, inst, inp.requests[lane["request_lo"] + r], ws.progress[r])
    inst["settled_to"] = inst["filled_to"]


@leaf
def begins_after(inst, rank):
    """Return whether all that is only counted was filled after what has this rank."""
    return inst["unsettled"] == 0 or rank < inst["settled_to"] << TURN_BITS


@leaf
def begin_fills(inp, ws, lane, inst, request, progress):
    """Note whether a request that begins to decode may fill what is on the CPU already.

    It may if others have its blocks too and one of them is there, or may fill it meanwhile.
    """
    absent = not request["duplicate"]
    if absent and request["shared"]:
        first = full_blocks(lane, known_tokens(request, progress) - 1)
        end = full_blocks(lane, most_computed(request))
        absent = is_absent(inp, ws, lane, inst, request, progress["link"], first, end)
    progress["watched"] = not absent
    inst["watched"] += not absent


@leaf
def end_fills(inp, ws, lane, inst, request, progress):
    """Put what a request has filled that stops decoding into the tier."""
    if inst["unsettled"] > 0:
        _settle(inp, ws, lane, inst, request, progress)
    inst["watched"] -= progress["watched"]
    progress["watched"] = 0


@part
def watch_all(inp, ws, lane, inst):
    """Note that another request may bring blocks to the CPU that decoding ones are to fill."""
    settle_all(inp, ws, lane, inst)
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        progress = ws.progress[r]
        shared = inp.requests[lane["request_lo"] + r]["shared"]
        if progress["decoding"] and shared and not progress["watched"]:
            progress["watched"] = 1
            inst["watched"] += 1


@leaf
def is_absent(inp, ws, lane, inst, request, slot, first, end):
    """Return whether none of the blocks `first` to `end - 1` of a request is on the CPU."""
    absent = True
    while absent and first < end:
        slot = pool.link_with(inp, slot, first)
        link = inp.chain[slot]
        upto = min(end, link["end"])
        key = inp.keys[request["key_lo"] + first]
        node = runs.find_run(ws, extent_at(lane, inst, link["extent"]), key)
        absent = node == NONE or ws.tier[node]["first"] >= key + upto - first
        first = upto
    return absent
