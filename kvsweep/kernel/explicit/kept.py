"""Which blocks of windows, and which states, stay in the cache (rule R12.10).

Those that a hit needs which ends where hits are likely to: at the last block that a repeated prompt
hits, at the junction, where others have more without a common window or state, and at multiples of
an interval. Where nothing says so, as before vLLM 0.29, all stay, as full attention's always do.

Of a window that keeps but some, each block from the first to the last that it may keep has a slot,
of its record, or COUNTED if it has none; so have those that its request has hit, all with records.
"""

import numpy as np

from ..._jit import leaf
from ..blocks.sizes import blocks_for, full_blocks
from . import block_records
from .slots import COUNTED, FAR, slot_of


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
def kept_between(lane, state, tail):
    """Return the first block that may stay, and the one behind the last, if a hit needs `tail`."""
    first, end = np.int64(0), np.int64(FAR)
    if lane["kept_every"] == 0:
        last, junction = _ends(lane, state)
        first = last - tail
        if junction > 0:
            first = min(first, junction - tail)
        end = max(last, junction)
    return max(first, np.int64(0)), end


@leaf
def is_sparse(lane, window):
    """Return whether a group of such a window keeps but some of its blocks in the cache."""
    return lane["windows"] != 0 and lane["sparse"] != 0 and window > 0


@leaf
def _release_slots(ws, inst, state, group, first, end):
    """Free blocks that have slots, the last one first."""
    for block in range(end - 1, first - 1, -1):
        found = np.int64(ws.tables[slot_of(state, group, block)])
        if found == COUNTED:
            inst["free"] += 1
        else:
            block_records.release(ws, inst, found)


@leaf
def release_kept(ws, lane, inst, state, group, window, first, end):
    """Free blocks `first` to ``end - 1`` of such a group, which are computed and full."""
    low, high = kept_between(lane, state, tail_of(lane, window))
    hit = max(first, min(end, np.int64(state["hit"])))
    low = max(hit, min(low, end))
    high = max(low, min(end, high))
    inst["free"] += end - first - (high - low) - (hit - first)
    _release_slots(ws, inst, state, group, low, high)
    _release_slots(ws, inst, state, group, first, hit)
