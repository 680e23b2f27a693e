"""Eviction of what was used the longest ago: the ring ONCE, in order of ranks.

A request has a rank from the first time that it offers or reuses a chunk, the next number then. All
chunks of a rank stand behind a mark of the request, its end first. When the request finishes its
chunks are used just now, the first one last. (vLLM sorts pairs of numbers; this keeps the order.)
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..memory import rank_mark
from .chunks import (
    ONCE,
    SEEN,
    chunk_key,
    drop_record,
    find_chunk,
    is_victim,
    link_before,
    link_last,
    move_run,
    unlink,
)


@leaf
def take_rank(ws, lane, off, r):
    """Give a request its rank, if it has none."""
    if ws.offers[r]["rank"] == 0:
        off["ranks"] += 1
        ws.offers[r]["rank"] = off["ranks"]
        mark = rank_mark(lane, r)
        ws.chunks[mark]["rank"] = off["ranks"]
        ws.chunks[mark]["readers"] = 1  # never a victim
        ws.chunks[mark]["key"] = NONE
        link_last(ws, off, ONCE, mark)


@leaf
def _place_of(ws, lane, off, r, position):
    """Return behind whom a chunk stands among those of its request's rank: the end goes first."""
    rank = ws.offers[r]["rank"]
    after = ws.chunks[rank_mark(lane, r)]["next"]
    end = off["chunk_lo"] + ONCE
    while (
        after != end
        and ws.chunks[after]["rank"] == rank
        and (ws.chunks[after]["position"] > position)
    ):
        after = ws.chunks[after]["next"]
    return after


@leaf
def insert(ws, lane, off, node, r, position):
    """Rank a new chunk."""
    take_rank(ws, lane, off, r)
    ws.chunks[node]["rank"] = ws.offers[r]["rank"]
    ws.chunks[node]["position"] = position
    ws.chunks[node]["ring"] = ONCE
    link_before(ws, node, _place_of(ws, lane, off, r, position))


@leaf
def access(ws, off, node, r, position):
    """Rank a chunk that a request with a rank offers or reuses for the first time.

    Return whether it must move (`move`): it has the rank already, but not yet the place.
    """
    moves = ws.chunks[node]["rank"] < ws.offers[r]["rank"]
    if moves:
        ws.chunks[node]["rank"] = ws.offers[r]["rank"]
        ws.chunks[node]["position"] = position
    return moves


@leaf
def move(ws, lane, off, r, first, last):
    """Move chunks that stand side by side, and follow each other in a request, to their place."""
    if first != NONE:
        move_run(ws, first, last, _place_of(ws, lane, off, r, ws.chunks[first]["position"]))


@leaf
def renew(inp, ws, lane, inst, off, request, chunks):
    """Count what a request of `chunks` chunks has seen as used just now, its end first.

    Chunks stand side by side where they were renewed together before; so they move in runs.
    """
    off["ranks"] += 1
    end = off["chunk_lo"] + ONCE
    first = NONE
    last = NONE
    for chunk in range(chunks - 1, -1, -1):
        if not ws.seen[request["key_lo"] + chunk] & SEEN:
            continue
        key = chunk_key(inp, lane, request, chunk)
        node = NONE
        if last != NONE and ws.chunks[ws.chunks[last]["next"]]["key"] == key:
            node = np.int64(ws.chunks[last]["next"])
        else:
            if first != NONE:
                move_run(ws, first, last, end)
            node = find_chunk(ws, inst, off, key)
            first = node
        last = node
        if node != NONE:
            ws.chunks[node]["rank"] = off["ranks"]
            ws.chunks[node]["position"] = 0
    if first != NONE:
        move_run(ws, first, last, end)


@leaf
def drop_rank(ws, lane, r):
    """Forget the rank of a request that has finished."""
    if ws.offers[r]["rank"] != 0:
        unlink(ws, rank_mark(lane, r))
        ws.offers[r]["rank"] = 0


@leaf
def evict(ws, off, count):
    """Let `count` chunks make room; so many there are."""
    node = ws.chunks[off["chunk_lo"] + ONCE]["next"]
    while count > 0:
        after = ws.chunks[node]["next"]
        if is_victim(ws, off, node):
            unlink(ws, node)
            drop_record(ws, off, node)
            count -= 1
        node = after
