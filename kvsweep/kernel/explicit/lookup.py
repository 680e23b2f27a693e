"""What the cache holds of a waiting request, in all groups of layers (rules R12.3 and R12.4).

What is found is noted in the request's tables, which are empty until it is admitted.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks.prefix_table import find
from ..blocks.sizes import blocks_for, full_blocks
from . import block_records
from .kept import slots_for
from .own_again import have_again, own_hits, recorded, watch_own
from .slots import all_groups, groups_of, slot_of, window_of
from .state_hits import count_hit, find_state, touch_state
from .states import keeps_states
from .tables import clear, left_by, watch_windows


@leaf
def _find_block(inp, ws, lane, inst, request, state, first, end, block):
    """Note where all groups of a class have a block; return whether they do."""
    key = np.int64(inp.keys[request["key_lo"] + block])
    for place in range(first, end):
        group = inp.groups[lane["group_lo"] + place]["member"]
        found = np.int64(find(ws, inst, key + group * lane["n_keys"]))
        if found == NONE:
            return False
        ws.tables[slot_of(state, group, block)] = found
    return True


@leaf
def _find_full(inp, ws, lane, inst, request, state, first, end, limit):
    """Return how many leading blocks, `limit` at most, the full groups have."""
    block = np.int64(0)
    while block < limit and _find_block(inp, ws, lane, inst, request, state, first, end, block):
        block += 1
    return block


@leaf
def _find_window(inp, ws, lane, inst, request, state, first, end, limit, window):
    """Return where the last run of blocks ends that a window needs, or the run from the first."""
    need = blocks_for(lane, window - 1)
    run = np.int64(0)
    block = np.int64(limit) - 1
    while block >= 0 and run < need:
        if _find_block(inp, ws, lane, inst, request, state, first, end, block):
            run += 1
        else:
            run = np.int64(0)
        block -= 1
    return block + 1 + run


@leaf
def _find_full_but_last(inp, ws, lane, inst, request, state, first, end, limit):
    """Return how many the full groups have without the last of them, of which one is beyond."""
    keys = full_blocks(lane, max(np.int64(state["known"]), np.int64(request["prompt"])))
    asked = min(limit + 1, keys)
    return max(_find_full(inp, ws, lane, inst, request, state, first, end, asked) - 1, 0)


@leaf
def _find_attention(inp, ws, lane, inst, request, state, limit, drops):
    """Return how many leading blocks, `limit` at most, all groups of attention agree on.

    Full groups are asked once, windows until no class shortens what the others have. And how many
    the first class has.
    """
    hits = np.int64(limit)
    longest = np.int64(NONE)
    full = np.int64(NONE)
    while hits > 0:
        before = hits
        first = np.int64(0)
        while first < groups_of(lane):
            record = inp.groups[lane["group_lo"] + first]
            end = record["class_end"]
            window = record["member_window"]
            if window > 0:
                hits = _find_window(inp, ws, lane, inst, request, state, first, end, hits, window)
            elif full == NONE and drops:
                full = _find_full_but_last(inp, ws, lane, inst, request, state, first, end, hits)
                hits = full
            elif full == NONE:
                full = _find_full(inp, ws, lane, inst, request, state, first, end, hits)
                hits = full
            if longest == NONE:
                longest = hits
            first = end
        if hits == before:
            break
    return hits, max(longest, hits)


@leaf
def _find_common(inp, ws, lane, inst, request, state, limit, drops):
    """Return how many leading blocks all groups agree on, and how many those asked first have.

    If full attention `drops` one, it is asked for one more.
    """
    hits, longest = _find_attention(inp, ws, lane, inst, request, state, limit, drops)
    if keeps_states(lane):
        hits = find_state(inp, ws, lane, inst, request, state, longest)
    return hits, longest


@leaf
def find_prefix(inp, ws, lane, inst, request, state, limit):
    """Return how many leading blocks, `limit` at most, all groups agree on."""
    hits, _ = _find_common(inp, ws, lane, inst, request, state, limit, False)
    return hits


@leaf
def _drops_common(lane):
    """Return whether full attention does without its last block before others are asked."""
    return lane["drops_last"] != 0 and all_groups(lane) > 1


@leaf
def _but_last(lane, hits, own):
    """Return hits, and own blocks behind them, without the last of them if lanes drop it (R13.8).

    The token behind it, which EAGLE has read for it, may be another one.
    """
    drops = lane["drops_last"] != 0 and all_groups(lane) == 1
    if drops and own > 0:
        own -= 1
    elif drops and hits > 0:
        hits -= 1
    return hits, own


@leaf
def count_users(inp, ws, lane, state, hits, tokens):
    """Return how many hits in windows behind `tokens` nobody uses, and how many somebody does."""
    unused, used = np.int64(0), np.int64(0)
    for group in range(groups_of(lane)):
        gone = left_by(lane, window_of(inp, lane, group), tokens)
        for block in range(gone, hits):
            users = ws.blocks[ws.tables[slot_of(state, group, block)]]["ref_count"]
            unused += users == 0
            used += users > 0
    return unused, used


@leaf
def find_hits(inp, ws, lane, inst, request, state, s):
    """Find the cached prefix of a waiting request (rule R5.8).

    Returns
    -------
    hits, unused, used : int
        Leading blocks of each group; real blocks among them without a user, and with one.
    """
    hits, own = np.int64(0), np.int64(0)
    if lane["prefix_caching"]:
        limit = full_blocks(lane, state["known"] - 1)
        if not state["preempted"]:
            limit = min(limit, request["reusable"])
        others = recorded(lane, state, limit)
        drops = _drops_common(lane)
        hits, longest = _find_common(inp, ws, lane, inst, request, state, others, drops)
        if lane["states"] or lane["sparse"]:  # where others have more, not in all groups (R12.9)
            state["junction"] = longest * lane["block_size"] * (longest > hits)
        if hits == others:
            own = own_hits(ws, lane, inst, state, s, limit)
        hits, own = _but_last(lane, hits, own)
    unused, used = count_users(inp, ws, lane, state, hits, hits * lane["block_size"])
    states_unused, states_used = count_hit(ws, lane, state, hits)
    return hits + own, unused + states_unused + own, used + states_used


@leaf
def find_to_pull(inp, ws, lane, inst, request, state, s):
    """Find what a request may use if the rest of its prompt is pulled, beside states (R14.13).

    That is what full attention has, whatever states there are: the last one is pulled. If one is
    there behind all that, all groups agree on a place as usual.

    Returns
    -------
    hits, begun : int
        Leading blocks of full attention; behind how many of them there is a state.
    """
    hits, begun = np.int64(0), np.int64(0)
    state["junction"] = 0
    if keeps_states(lane):
        limit = min(full_blocks(lane, state["known"] - 1), np.int64(request["reusable"]))
        drops = _drops_common(lane)
        hits, _ = _find_attention(inp, ws, lane, inst, request, state, limit, drops)
        begun = find_state(inp, ws, lane, inst, request, state, limit)
        if begun > hits:
            hits, _, _ = find_hits(inp, ws, lane, inst, request, state, s)
            begun = hits
    return hits, begun


@leaf
def watch_hits(inp, ws, lane, inst, state, s, hits):
    """Mark what a refused head hits; the marks stay, as to try it once more does no harm."""
    for group in range(groups_of(lane)):
        gone = left_by(lane, window_of(inp, lane, group), hits * lane["block_size"])
        for block in range(gone, recorded(lane, state, hits)):
            ws.blocks[ws.tables[slot_of(state, group, block)]]["hits"] = 1
    watch_own(ws, lane, inst, state, s)


@leaf
def touch_hits(inp, ws, lane, inst, r, state, s, hits, tokens):
    """Let a request have the blocks that were found, those in windows behind `tokens`."""
    clear(ws, lane, state, s)
    have_again(inp, ws, lane, inst, inp.requests[lane["request_lo"] + r], state, s, hits)
    others = recorded(lane, state, hits)
    state["private"] = max(np.int64(state["shared"]), others)  # older ones of a victim keep records
    if lane["sparse"]:
        state["hit"] = hits
        state["slots"] = slots_for(lane, state, hits)
    if tokens == 0:
        watch_windows(inp, ws, lane, state, s)
        return
    for group in range(groups_of(lane)):
        gone = left_by(lane, window_of(inp, lane, group), tokens)
        ws.edges[s * groups_of(lane) + group]["gone"] = gone
        for block in range(gone, others):
            block_records.touch(ws, inst, np.int64(ws.tables[slot_of(state, group, block)]))
    if tokens == hits * lane["block_size"]:  # else it loads what is behind, and another state
        touch_state(ws, lane, inst, state, s, hits)
    state["blocks"] = hits
    state["room"] = hits * lane["block_size"]
    if lane["prefix_caching"]:
        state["published"] = hits
        state["publish_at"] = (hits + 1) * lane["block_size"]
    watch_windows(inp, ws, lane, state, s)
