"""Where the chunks of a request are: extent by extent, and run by run of a CPU tier.

A chunk is `LANE.factor` blocks of the GPU, with the key of the last of them, and stands in the
extent of that one. Its place among the runs is its number.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks import pool, runs
from ..memory import extent_at
from .room import GHOST


@leaf
def chunks_of(lane, blocks):
    """Return the whole chunks of the first `blocks` blocks of a request."""
    return blocks if lane["factor"] == 1 else blocks // lane["factor"]


@leaf
def slot_with(inp, lane, slot, chunk):
    """Return the slot in the chain list of the last block of a chunk: `slot`, or a later one."""
    return pool.link_with(inp, slot, (chunk + 1) * lane["factor"] - 1)


@leaf
def _find_here(ws, extent, place):
    """Return the lowest run of an extent that ends beyond `place` and is no ghost, or NONE."""
    node = runs.find_run(ws, extent, place)
    while node != NONE and ws.tier[node]["readers"] == GHOST:
        node = np.int64(ws.tier[node]["right"])
        if node == ws.tier_heads[extent]:
            return NONE
    return node


@leaf
def next_part(inp, ws, lane, inst, slot, first, end):
    """Return the part of the chunks `first` to `end - 1` of a request that they begin with.

    Returns
    -------
    slot, extent : int
        The slot in the chain list, and the extent, that it is of; the next part's is no earlier.
    node : int
        Its run, or NONE if it is not on the CPU.
    upto : int
        The first chunk behind it.
    """
    slot = slot_with(inp, lane, slot, first)
    extent = extent_at(lane, inst, inp.chain[slot]["extent"])
    upto = min(end, chunks_of(lane, np.int64(inp.chain[slot]["end"])))
    node = _find_here(ws, extent, first)
    if node != NONE:
        if ws.tier[node]["first"] > first:
            upto = min(upto, np.int64(ws.tier[node]["first"]))
            node = NONE
        else:
            upto = min(upto, np.int64(ws.tier[node]["end"]))
    return slot, extent, node, upto
