"""What a request can load: the tokens of which all groups have what they need on the CPU."""

import numpy as np

from ..._jit import leaf
from ..blocks.sizes import full_blocks
from ..explicit.slots import all_groups, groups_of, window_of
from .rings import BEING_WRITTEN, chunk_of, is_here

LATER = -1
"""Tokens, or chunks, of which some are being written: the request is to ask later."""


@leaf
def chunks_up(lane, tokens):
    """Return how many chunks hold so many tokens."""
    return (tokens + lane["chunk_tokens"] - 1) // lane["chunk_tokens"]


@leaf
def chunks_known(lane, state):
    """Return the chunks of a request that have keys; its last token, only sampled, fills none."""
    known = min(np.int64(state["known"]), np.int64(state["limit"]) - 1)
    return full_blocks(lane, known) // lane["factor"]


@leaf
def _run(inp, ws, lane, inst, request, group, first, end):
    """Return how many of the chunks from `first` on are here, up to `end`; or LATER."""
    count = np.int64(0)
    waits = False
    while first + count < end:
        node = chunk_of(inp, ws, lane, inst, request, group, first + count)
        if not is_here(ws, node):
            break
        waits = waits or ws.chunks[node]["readers"] == BEING_WRITTEN
        count += 1
    return np.int64(LATER) if waits else count


@leaf
def _stretch(inp, ws, lane, inst, request, group, first, end, need, need_at_end):
    """Return up to where the last stretch of so many chunks goes, counted from `first`; or LATER.

    If there is none, the one that begins with `first`.
    """
    run = np.int64(0)
    waits = False
    for chunk in range(end - 1, first - 1, -1):
        node = chunk_of(inp, ws, lane, inst, request, group, chunk)
        if is_here(ws, node):
            run += 1
            waits = waits or ws.chunks[node]["readers"] == BEING_WRITTEN
        else:
            run = np.int64(0)
            waits = False
            need_at_end = need
        if run == need_at_end:
            return np.int64(LATER) if waits else chunk - first + run
    return np.int64(LATER) if waits else run


@leaf
def chunks_needed(lane, window, tokens):
    """Return the last chunks of so many tokens that a window looks at: at their end, too."""
    beyond = window - 1 + -tokens % lane["chunk_tokens"]
    return max(chunks_up(lane, window), chunks_up(lane, beyond))


@leaf
def _hits(inp, ws, lane, inst, request, group, keys, most, local, pops):
    """Return how many chunks from `local` on a group has, up to `most` tokens; or LATER.

    With a window up to the end of the last stretch that is long enough. If it `pops` one chunk more
    is looked for, with which the caller does without.
    """
    size = lane["chunk_tokens"]
    ahead = min(most + size, keys * size) if pops else most
    end = min(chunks_up(lane, ahead), keys)
    first = local // size
    if group >= groups_of(lane):  # of states, the last one
        return _stretch(inp, ws, lane, inst, request, group, first, end, 1, 1)
    window = window_of(inp, lane, group)
    if window == 0:
        return _run(inp, ws, lane, inst, request, group, first, end)
    right = min(most, (end - pops) * size)
    need = chunks_up(lane, window) + pops
    at_end = chunks_needed(lane, window, right) + pops
    return _stretch(inp, ws, lane, inst, request, group, first, end, need, at_end)


@leaf
def _first_sliding(inp, lane):
    """Return the first place of the order in which a tier is asked that has a window."""
    place = np.int64(0)
    while place < groups_of(lane) and not inp.groups[lane["group_lo"] + place]["slides"]:
        place += 1
    return place


@leaf
def has_head(inp, lane, group):
    """Return whether a group has the layers of an EAGLE head, which may write to a last chunk."""
    has = lane["volatile"] != 0 and group < groups_of(lane)
    return has and inp.groups[lane["group_lo"] + group]["head"] != 0


@leaf
def _asked(inp, lane, place):
    """Return the group that is asked at a place, and whether it has an EAGLE head's layers.

    Those of states are asked behind all others.
    """
    group = np.int64(place)
    if place < groups_of(lane):
        group = np.int64(inp.groups[lane["group_lo"] + place]["asked"])
    return group, has_head(inp, lane, group)


@leaf
def _ask_all(inp, ws, lane, inst, request, keys, most, local, tokens, popped, waits, start):
    """Ask the groups from place `start` on what they have of `most` tokens behind `local` ones.

    Returns
    -------
    most, tokens : int
        What all have so far, at most, and what that is behind `local`; 0: nothing is left.
    popped, waits, again : bool, bool, int
        Whether a chunk was done without; whether some is being written; from which place on they
        must be asked once more, or the number of groups.
    """
    size = lane["chunk_tokens"]
    again = all_groups(lane)
    for place in range(start, all_groups(lane)):
        group, head = _asked(inp, lane, place)
        most = min(most, keys * size)
        pops = np.int64(head and not popped)
        hits = np.int64(0)
        if most - local >= size:
            hits = _hits(inp, ws, lane, inst, request, group, keys, most, local, pops)
        if hits == LATER:
            waits = True
        elif hits > 0:
            popped = popped or pops > 0
            most = min(most, size * (local // size + hits - pops))
        if hits == 0 or most - local < size:
            return most, np.int64(0), popped, False, all_groups(lane)
        if most - local < tokens:
            popped = popped and head
            if waits:
                waits = False
                again = np.int64(0)
            elif place > _first_sliding(inp, lane):
                again = min(again, _first_sliding(inp, lane))
        tokens = most - local
    return most, tokens, popped, waits, again


@leaf
def find(inp, ws, lane, inst, request, state, local):
    """Return the tokens beyond `local` ones on the GPU that a request can load, or LATER.

    Full attention is asked first, then windows, the widest first. A group that has less sends all
    back to those with windows, as they may not have what they need before that place.
    """
    keys = chunks_known(lane, state)
    most = np.int64(state["known"]) - (_first_sliding(inp, lane) < all_groups(lane))
    if lane["states"]:  # a hit ends where states can be, with a chunk
        most -= most % lane["chunk_tokens"]
    tokens = np.int64(0)
    popped = False
    waits = False
    again = np.int64(0)
    while again < all_groups(lane):
        start = again
        most, tokens, popped, waits, again = _ask_all(
            inp, ws, lane, inst, request, keys, most, local, tokens, popped, waits, start
        )
    return np.int64(LATER) if waits else tokens


@leaf
def is_being_read(inp, ws, lane, inst, request, local, tokens):
    """Return whether chunks of what can be loaded will soon be on the GPU anyway."""
    for group in range(groups_of(lane)):
        window = window_of(inp, lane, group)
        first = local // lane["chunk_tokens"]
        end = chunks_up(lane, local + tokens)
        if window > 0:
            first = max(first, end - chunks_needed(lane, window, local + tokens))
        for chunk in range(first, end):
            if ws.chunks[chunk_of(inp, ws, lane, inst, request, group, chunk)]["readers"] > 0:
                return True
    last = chunks_up(lane, local + tokens) - 1
    for group in range(groups_of(lane), all_groups(lane)):
        if ws.chunks[chunk_of(inp, ws, lane, inst, request, group, last)]["readers"] > 0:
            return True
    return False
