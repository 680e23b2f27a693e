"""What running requests have filled, stored at once: chunks that are written already (lru.py)."""

from ..._jit import leaf
from ...records import NONE
from ..blocks import runs
from . import lru
from .chunks import next_part
from .seen import see


@leaf
def is_absent(inp, ws, lane, inst, request, first, end):
    """Return whether none of the chunks `first` to `end - 1` of a request is on the CPU."""
    slot = request["chain_lo"]
    absent = True
    while first < end and absent:
        slot, _, node, first = next_part(inp, ws, lane, inst, slot, first, end)
        absent = node == NONE
    return absent


@leaf
def fill_absent(inp, ws, lane, inst, off, request, r, first, end):
    """Let the CPU have the chunks `first` to `end - 1`, none of which it has, all written already.

    They go on where the request's own chunks end, mostly; what counts them is left to the caller.
    """
    see(ws, lane, request, r, first, end)
    slot = request["chain_lo"]
    while first < end:
        slot, extent, _, upto = next_part(inp, ws, lane, inst, slot, first, end)
        node = runs.find_below(ws, extent, first)
        grows = False
        if node != NONE:
            run = ws.tier[node]
            grows = run["end"] == first and run["rank"] == ws.offers[r]["rank"]
            grows = grows and run["readers"] == 0
        if grows:
            ws.tier[node]["end"] = upto
        else:
            node = lru.insert(ws, lane, inst, off, r, extent, first, upto)
            ws.tier[node]["readers"] = 0
            ws.tier[node]["offer"] = 0  # it may hold an earlier one's
        first = upto
