"""Which blocks of windows, and which states, stay in the cache (rule R12.10).

Those that a hit needs which ends where hits are likely to: at the last block that a repeated prompt
hits, at the junction, where others have more without a common window or state, and at multiples of
an interval. Where nothing says so, as before vLLM 0.29, all stay, as full attention's always do.

Of a window that keeps but some, each block from the first to the last that it may keep has a slot,
of its record, or COUNTED if it has none; so have those that its request has hit, all with records.
But from `slots` of its state on nobody else has the keys of those that it keeps, which are the last
ones of the prompt: they are counted, and free as a stretch.
"""

import numpy as np

from ..._jit import leaf, part
from ..blocks.sizes import blocks_for, full_blocks
from . import block_records
from .slots import COUNTED, FAR, slot_of


@leaf
def _ends(lane, state):
    """Return the blocks in front of where hits end: the prompt repeated, a longer one, a junction.

    Where hits do without their last block (R13.8) the first two may be one apart.
    """
    prompt = np.int64(state["prompt"])
    last = full_blocks(lane, prompt - 1)
    longer = last
    if lane["drops_last"]:
        last = max(last - 1, 0)
        longer = max(full_blocks(lane, prompt) - 1, 0)
    return last, longer, full_blocks(lane, np.int64(state["junction"]))


@leaf
def tail_of(lane, window):
    """Return how many blocks of a window a hit needs."""
    return blocks_for(lane, window - 1)


@leaf
def is_kept(lane, state, tail, block):
    """Return whether a block stays in the cache, if a hit needs `tail` of them."""
    if not lane["sparse"]:
        return True
    last, longer, junction = _ends(lane, state)
    kept = last - tail <= block < longer or junction - tail <= block < junction
    every = np.int64(lane["kept_every"])
    if every > 0:
        kept = kept or tail >= every or block % every >= every - tail
    return kept


@leaf
def kept_between(lane, state, tail):
    """Return the first block that may stay, and the one behind the last, if a hit needs `tail`."""
    first, end = np.int64(0), np.int64(FAR)
    if lane["kept_every"] == 0:
        last, longer, junction = _ends(lane, state)
        first = last - tail
        if junction > 0:
            first = min(first, junction - tail)
        end = max(longer, junction)
    return max(first, np.int64(0)), end


@leaf
def slots_for(lane, state, hits):
    """Return how many leading blocks have slots, of a request that hits so many."""
    slots = np.int64(FAR)
    if lane["kept_every"] == 0:
        _, longer, junction = _ends(lane, state)
        slots = np.int64(state["private"])
        if junction > slots:  # of a victim, its own blocks from before
            slots = max(hits, longer, junction)
    return slots


@leaf
def own_between(lane, state, tail):
    """Return the bounds of what stays and nobody else has; they are equal if there is nothing."""
    last, longer, _ = _ends(lane, state)
    return min(max(last - tail, np.int64(state["slots"])), longer), longer


@leaf
def leaves_by_count(lane, state, tail):
    """Return from which block on a window leaves what nobody else has, and what has no keys.

    Both by count.
    """
    own, bare = np.int64(FAR), np.int64(FAR)
    if lane["kept_every"] == 0:
        own, last = own_between(lane, state, tail)
        _, _, junction = _ends(lane, state)
        bare = max(last, junction, np.int64(state["hit"]))
        if bare > last:
            own = bare
    return own, bare


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
def _release_leading(ws, lane, inst, state, group, tail, first, end):
    """Free blocks that have slots, as far as they may stay in the cache, and others."""
    low, high = kept_between(lane, state, tail)
    hit = max(first, min(end, np.int64(state["hit"])))
    low = max(hit, min(low, end))
    high = max(low, min(end, high))
    inst["free"] += end - first - (high - low) - (hit - first)
    _release_slots(ws, inst, state, group, low, high)
    _release_slots(ws, inst, state, group, first, hit)


@part
def release_kept(ws, lane, inst, state, s, group, window, first, end):
    """Free blocks `first` to ``end - 1`` of such a group, which are filled, the last one first."""
    tail = tail_of(lane, window)
    slots = max(first, min(end, np.int64(state["slots"])))
    if slots < end:
        low, high = own_between(lane, state, tail)
        low, high = max(low, slots), min(high, end)
        inst["free"] += end - slots
        if low < high:
            inst["free"] -= high - low
            stretch = block_records.release_stretch(ws, inst, s, group, low, high)
            for block in range(low, high):
                ws.tables[slot_of(state, group, block)] = stretch
    if first < slots:
        _release_leading(ws, lane, inst, state, group, tail, first, slots)
