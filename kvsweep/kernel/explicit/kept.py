"""Which blocks of windows, and which states, stay in the cache (rule R12.10).

Those that a hit needs which ends where hits are likely to: at the last block that a repeated prompt
hits, at the junction, where others have more without a common window or state, and at multiples of
an interval. Without an interval, as before vLLM 0.29, all stay. Blocks of full attention always do.

Of a window that keeps but some each block has a slot: of its record, or COUNTED if it has none.
"""

import numpy as np

from ..._jit import leaf
from ..blocks.sizes import blocks_for, full_blocks
from .slots import FAR


@leaf
def _ends(lane, state):
    """Return the blocks in front of the last hit of the prompt's end, and of the junction."""
    last = full_blocks(lane, np.int64(state["prompt"]) - 1)
    return last, full_blocks(lane, np.int64(state["junction"]))


@leaf
def tail_of(lane, window):
    """Return how many blocks of a window a hit needs."""
    return blocks_for(lane, window - 1)


@leaf
def is_kept(lane, state, tail, block):
    """Return whether a block stays in the cache, if a hit needs `tail` of them."""
    if not lane["sparse"]:
        return True
    last, junction = _ends(lane, state)
    kept = last - tail <= block < last or junction - tail <= block < junction
    every = np.int64(lane["kept_every"])
    if every > 0:
        kept = kept or tail >= every or block % every >= every - tail
    return kept


@leaf
def kept_before(lane, state, hits):
    """Return the block from which on none stays, of a request that hits so many."""
    before = np.int64(FAR)
    if lane["kept_every"] == 0:
        last, junction = _ends(lane, state)
        before = max(hits, last, junction)
    return before
