"""The own blocks of a victim, which it may hit again: nobody else has their keys.

With one table of full attention they are free as one stretch, and those that it still has when the
victim is admitted again are its own as before. Else each has a record before it is freed.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from . import block_records
from .kept import is_sparse, kept_between, own_between, tail_of
from .slots import COUNTED, FAR, groups_of, key_of, slot_of, window_of
from .tables import clear, release, release_all


@leaf
def _stay_together(lane):
    """Return whether the own blocks of a victim are one stretch."""
    several = lane["more_groups"] > 0 or lane["windows"] != 0 or lane["states"] > 0
    return not several and not lane["moves"]


@leaf
def _split_gone(inp, ws, lane, inst, request, s, group, block, slot):
    """Give a block that a window has left a record, unless it was evicted; return that."""
    key = key_of(inp, lane, request, group, block)
    found = np.int64(ws.tables[slot])
    if block_records.is_stretch_with(ws, inst, found, s, group, block):
        found = block_records.split_last(ws, inst, found, key)
    return found


@leaf
def _split_kept(inp, ws, lane, inst, request, state, s, group):
    """Do so in a group whose window keeps but some blocks in the cache."""
    tail = tail_of(lane, window_of(inp, lane, group))
    gone = np.int64(ws.edges[s * groups_of(lane) + group]["gone"])
    first, _ = kept_between(lane, state, tail)
    low, high = own_between(lane, state, tail)
    high = min(high, np.int64(state["published"]))
    for block in range(max(first, np.int64(state["slots"])), low):
        ws.tables[slot_of(state, group, block)] = COUNTED
    for block in range(min(gone, high) - 1, low - 1, -1):
        slot = slot_of(state, group, block)
        ws.tables[slot] = _split_gone(inp, ws, lane, inst, request, s, group, block, slot)
    for block in range(max(low, gone), high):
        key = key_of(inp, lane, request, group, block)
        ws.tables[slot_of(state, group, block)] = block_records.cache(ws, inst, key)


@leaf
def _split(inp, ws, lane, inst, request, state, s):
    """Give all cached blocks of a victim records, before they are freed: a window may have them."""
    private, published = np.int64(state["private"]), np.int64(state["published"])
    for group in range(groups_of(lane)):
        if is_sparse(lane, window_of(inp, lane, group)):
            if lane["kept_every"] == 0:
                _split_kept(inp, ws, lane, inst, request, state, s, group)
            continue
        gone = np.int64(ws.edges[s * groups_of(lane) + group]["gone"])
        for block in range(min(gone, published) - 1, private - 1, -1):
            slot = slot_of(state, group, block)
            ws.tables[slot] = _split_gone(inp, ws, lane, inst, request, s, group, block, slot)
        for block in range(max(private, gone), published):
            key = key_of(inp, lane, request, group, block)
            ws.tables[slot_of(state, group, block)] = block_records.cache(ws, inst, key)
    state["private"] = FAR
    state["slots"] = FAR


@leaf
def release_victim(inp, ws, lane, inst, request, state, s):
    """Free the blocks of a victim so that it finds those again that are cached."""
    if _stay_together(lane):
        stretch = release(inp, ws, lane, inst, state, s, 0, 0, np.int64(state["blocks"]))
        if stretch != NONE:
            ws.tables[slot_of(state, 0, np.int64(state["private"]))] = stretch
        clear(ws, lane, state, s)
    elif lane["moves"]:
        release_all(inp, ws, lane, inst, state, s)
    else:
        _split(inp, ws, lane, inst, request, state, s)
        release_all(inp, ws, lane, inst, state, s)


@leaf
def _stretch_of(ws, lane, inst, state, s):
    """Return the stretch of the own blocks of a victim; NONE if it was evicted, or is none."""
    stretch = np.int64(NONE)
    first = np.int64(state["shared"])
    if _stay_together(lane) and state["preempted"] and first < state["places"]:
        found = np.int64(ws.tables[slot_of(state, 0, first)])
        if block_records.is_stretch_with(ws, inst, found, s, 0, first):
            stretch = found
    return stretch


@leaf
def recorded(lane, state, blocks):
    """Return how many of the leading `blocks` of a waiting request have records if cached."""
    return min(blocks, np.int64(state["shared"])) if _stay_together(lane) else blocks


@leaf
def own_hits(ws, lane, inst, state, s, limit):
    """Return how many own blocks a victim hits behind all that others have, before `limit`."""
    hits = np.int64(0)
    stretch = _stretch_of(ws, lane, inst, state, s)
    if stretch != NONE:
        end = min(np.int64(limit), np.int64(ws.blocks[stretch]["duplicate_next"]))
        hits = max(end - state["shared"], hits)
    return hits


@leaf
def watch_own(ws, lane, inst, state, s):
    """Mark what a refused head hits of its own."""
    stretch = _stretch_of(ws, lane, inst, state, s)
    if stretch != NONE:
        ws.blocks[stretch]["ref_count"] = 1


@leaf
def _record_all(inp, ws, lane, inst, request, state, stretch):
    """Give all blocks of a stretch records, in its place in the order of eviction."""
    first = np.int64(ws.blocks[stretch]["duplicate_prev"])
    for block in range(np.int64(ws.blocks[stretch]["duplicate_next"]) - 1, first - 1, -1):
        key = key_of(inp, lane, request, 0, block)
        ws.tables[slot_of(state, 0, block)] = block_records.split_last(ws, inst, stretch, key)


@leaf
def have_again(inp, ws, lane, inst, request, state, s, hits):
    """Let a victim that is admitted have its own blocks again, of its `hits`.

    If it does not hit all that are there it will cache some twice. Then it has records from now on.
    """
    stretch = _stretch_of(ws, lane, inst, state, s)
    if stretch != NONE:
        if ws.blocks[stretch]["duplicate_next"] > hits:
            _record_all(inp, ws, lane, inst, request, state, stretch)
            state["shared"] = FAR
        else:
            block_records.take_stretch(ws, inst, stretch)
