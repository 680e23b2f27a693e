"""The block tables of a request, one for each group of layers, and what they take from the pool.

All tables of a request have the same length. The leading slots of a group with a window may be
*gone*: the window has left their blocks, and the pool has them back (rule R12.2). Only slots of
cached blocks are read, and only of those that have records: from `state["private"]` on nobody else
has the keys, and the blocks are counted (own_again.py: those of a victim).
"""

import numpy as np

from ..._jit import leaf, part
from ...records import NONE
from ..blocks.sizes import blocks_for, full_blocks
from ..moving import identities
from . import block_records
from .cached_states import publish_states
from .kept import is_kept, is_sparse, kept_between, release_kept, tail_of
from .longest import with_places
from .refused import wake_for
from .slots import COUNTED, FAR, groups_of, key_of, slot_of, window_of
from .states import (
    clear_states,
    leave_states,
    release_states,
    states_needed,
    take_states,
)


@leaf
def left_by(lane, window, tokens):
    """Return the leading blocks that a window has left once `tokens` are computed."""
    left = np.int64(0)
    if window > 0:
        left = full_blocks(lane, max(tokens - window + 1, 0))
    return left


@leaf
def watch_windows(inp, ws, lane, state, s):
    """Note when the next window will leave a block."""
    nearest = FAR
    for group in range(groups_of(lane)):
        window = window_of(inp, lane, group)
        if window > 0:
            gone = ws.edges[s * groups_of(lane) + group]["gone"]
            nearest = min(nearest, (gone + 1) * lane["block_size"] + window - 1)
    state["release_at"] = nearest


@part
def release(inp, ws, lane, inst, state, s, group, first, end):
    """Free blocks `first` to ``end - 1`` of a table, the last one first.

    Return the stretch of those that are cached and nobody else's, NONE if there are none.
    """
    cached = max(first, min(end, np.int64(state["published"])))
    own = max(first, np.int64(state["private"]))
    stretch = np.int64(NONE)
    if lane["moves"]:
        identities.release(ws, inst, state, group, first, end)
        return stretch
    inst["free"] += end - cached
    window = window_of(inp, lane, group)
    if is_sparse(lane, window):
        release_kept(ws, lane, inst, state, s, group, window, first, cached)
        return stretch
    if own < cached:
        stretch = block_records.release_stretch(ws, inst, s, group, own, cached)
    for block in range(min(own, cached) - 1, first - 1, -1):
        block_records.release(ws, inst, np.int64(ws.tables[slot_of(state, group, block)]))
    return stretch


@leaf
def release_left(inp, ws, lane, inst, engine, request, state, s):
    """Give back the blocks that the windows have left, of processed tokens (rule R12.2)."""
    tokens = state["computed"] - state["flight"]
    cache_known(inp, ws, lane, inst, request, state, s, tokens)
    for group in range(groups_of(lane)):
        place = s * groups_of(lane) + group
        gone = np.int64(ws.edges[place]["gone"])
        left = min(left_by(lane, window_of(inp, lane, group), tokens), state["blocks"])
        if left > gone:
            stretch = release(inp, ws, lane, inst, state, s, group, gone, left)
            if not is_sparse(lane, window_of(inp, lane, group)) and not lane["moves"]:
                for block in range(max(gone, np.int64(state["private"])), left):
                    ws.tables[slot_of(state, group, block)] = stretch
            ws.edges[place]["gone"] = left
            engine["window_freed"] += left - gone
    watch_windows(inp, ws, lane, state, s)


@leaf
def leave_one(inp, ws, lane, inst, engine, request, state, s, group):
    """Give back the next block of a table (rule R12.2)."""
    place = s * groups_of(lane) + group
    gone = np.int64(ws.edges[place]["gone"])
    cache_known(inp, ws, lane, inst, request, state, s, state["computed"] - state["flight"])
    stretch = release(inp, ws, lane, inst, state, s, group, gone, gone + 1)
    if stretch != NONE:
        ws.tables[slot_of(state, group, gone)] = stretch
    ws.edges[place]["gone"] = gone + 1
    engine["window_freed"] += 1


@leaf
def grow(ws, lane, inst, tally, state, s, blocks, measured):
    """Let all tables of a request have so many blocks; they must be free."""
    more = (blocks - state["blocks"]) * groups_of(lane)
    grow_by(ws, lane, inst, tally, state, s, blocks, more, measured)


@leaf
def grow_by(ws, lane, inst, tally, state, s, blocks, more, measured):
    """Let all tables have so many blocks, `more` of which are taken: windows have left others."""
    if lane["moves"]:
        identities.take(ws, lane, inst, state, s, blocks)
    else:
        block_records.take(ws, inst, more)
    state["blocks"] = blocks
    state["room"] = blocks * lane["block_size"]
    tally["blocks_taken"] += more * measured


@leaf
def grow_all(ws, lane, inst, tally, state, s, blocks, end, measured):
    """Let the tables of attention have so many blocks, those of states what ends at `end`."""
    if lane["states_first"]:
        take_states(ws, lane, inst, tally, state, s, end, measured)
    if blocks > state["blocks"]:
        grow(ws, lane, inst, tally, state, s, blocks, measured)
    if not lane["states_first"]:
        take_states(ws, lane, inst, tally, state, s, end, measured)


@leaf
def _record(inp, ws, lane, inst, request, state, group, first, end):
    """Give the blocks `first` to ``end - 1`` of a group records, and cache them: those it keeps."""
    window = window_of(inp, lane, group)
    tail = tail_of(lane, window)
    sparse = is_sparse(lane, window)
    if sparse:
        low, high = kept_between(lane, state, tail)
        first, end = max(first, low), min(end, high)
    for block in range(first, end):
        slot = slot_of(state, group, block)
        if sparse and not is_kept(lane, state, tail, block):
            ws.tables[slot] = COUNTED
        else:
            key = key_of(inp, lane, request, group, block)
            ws.tables[slot] = block_records.cache(ws, inst, key)


@leaf
def _record_all(inp, ws, lane, inst, request, state, s, full):
    """Cache the blocks before `full` that are not yet, as far as they have records."""
    known = min(full, np.int64(state["private"]))
    for group in range(groups_of(lane)):
        gone = np.int64(ws.edges[s * groups_of(lane) + group]["gone"])
        end = known
        if is_sparse(lane, window_of(inp, lane, group)):
            end = min(full, np.int64(state["slots"]))
        first = max(np.int64(state["published"]), gone)
        _record(inp, ws, lane, inst, request, state, group, first, end)
    wake_for(inp, ws, lane, inst, request, np.int64(state["published"]), known)


@leaf
def cache(inp, ws, lane, inst, request, state, s, tokens):
    """Cache the blocks that the first `tokens` of the known tokens fill; raise what is cached."""
    full = full_blocks(lane, min(tokens, state["known"] - lane["ahead"]))
    publish_states(inp, ws, lane, inst, request, state, s, full)
    if lane["moves"]:
        identities.cache(inp, ws, lane, inst, request, state, s, full)
    elif state["published"] < state["private"] or (lane["windows"] != 0 and lane["sparse"] != 0):
        _record_all(inp, ws, lane, inst, request, state, s, full)
    state["published"] = full
    state["publish_at"] = (full + 1) * lane["block_size"]


@part
def cache_known(inp, ws, lane, inst, request, state, s, tokens):
    """Cache what `tokens` computed tokens fill, if there is anything new among it."""
    if min(tokens, state["known"] - lane["ahead"]) >= state["publish_at"]:
        cache(inp, ws, lane, inst, request, state, s, tokens)


@leaf
def allocate(inp, ws, lane, inst, tally, engine, request, state, s, tokens, measured):
    """Give a running request the blocks of `tokens` more tokens; return whether there are any."""
    if lane["windows"] and state["computed"] - state["flight"] >= state["release_at"]:
        release_left(inp, ws, lane, inst, engine, request, state, s)
    end = state["computed"] + tokens
    states = np.int64(0)
    if lane["states"]:
        leave_states(ws, lane, inst, engine, state, s, state["computed"] - state["flight"])
        states = states_needed(ws, lane, state, s, np.int64(state["computed"]), end, 0)
    places = with_places(lane, end)
    if places > state["room"] or states > 0:
        blocks = max(blocks_for(lane, places), np.int64(state["blocks"]))
        if (blocks - state["blocks"]) * groups_of(lane) + states > inst["free"]:
            return False
        grow_all(ws, lane, inst, tally, state, s, blocks, end, measured)
    cache_known(inp, ws, lane, inst, request, state, s, end)
    return True


@leaf
def clear(ws, lane, state, s):
    """Let a request have no blocks."""
    state["blocks"] = 0
    state["room"] = 0
    state["published"] = 0
    state["publish_at"] = lane["block_size"] if lane["prefix_caching"] else FAR
    state["release_at"] = FAR
    for group in range(groups_of(lane)):
        ws.edges[s * groups_of(lane) + group]["gone"] = 0
    clear_states(ws, lane, state, s)


@part
def release_all(inp, ws, lane, inst, state, s):
    """Free the blocks of a request, group by group, each from the last to the first."""
    if lane["states_first"]:
        release_states(ws, lane, inst, state, s, False)
    for group in range(groups_of(lane)):
        gone = np.int64(ws.edges[s * groups_of(lane) + group]["gone"])
        release(inp, ws, lane, inst, state, s, group, gone, np.int64(state["blocks"]))
    if not lane["states_first"]:
        release_states(ws, lane, inst, state, s, False)
    clear(ws, lane, state, s)


@leaf
def release_at_once(inp, ws, lane, inst, state, s):
    """Free the blocks of a request as one, the last group first: those that vLLM has deferred."""
    if lane["moves"]:
        identities.release_at_once(ws, lane, inst, state, s)
        clear(ws, lane, state, s)
        return
    if not lane["states_first"]:
        release_states(ws, lane, inst, state, s, True)
    for group in range(groups_of(lane) - 1, -1, -1):
        gone = np.int64(ws.edges[s * groups_of(lane) + group]["gone"])
        release(inp, ws, lane, inst, state, s, group, gone, np.int64(state["blocks"]))
    if lane["states_first"]:
        release_states(ws, lane, inst, state, s, True)
    clear(ws, lane, state, s)
