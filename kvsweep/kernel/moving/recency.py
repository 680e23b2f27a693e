"""Eviction of the chunk that was used the longest ago (`offload.lru` has the same order, by runs).

All chunks of a request's rank stand behind its mark: its end first, of one place the first group.
"""

import numpy as np

from ..._jit import leaf
from ..blocks.ring import link_before, unlink
from .rings import ABSENT, ONCE, append, chunk_mark, is_here, is_victim, ring_at


@leaf
def take_rank(ws, lane, inst, off, s):
    """Give a request its rank, if it has none: the next number."""
    if ws.offers[s]["rank"] == 0:
        off["ranks"] += 1
        ws.offers[s]["rank"] = off["ranks"]
        mark = chunk_mark(lane, s)
        ws.chunks[mark]["rank"] = off["ranks"]
        append(ws, lane, inst, mark, ONCE)
        ws.offers[s]["put"] = mark


@leaf
def _goes_before(one, other):
    """Return whether one chunk makes room before another of the same rank."""
    place, against = one["place"], other["place"]
    return place > against or (place == against and one["group"] < other["group"])


@leaf
def _nearby(ws, lane, s):
    """Return a chunk of a request's rank: the one that it put in its place last, or its end.

    The last one may have made room since, or be another's.
    """
    last = np.int64(ws.offers[s]["put"])
    if not is_here(ws, last) or ws.chunks[last]["rank"] != ws.offers[s]["rank"]:
        last = np.int64(ws.chunks[chunk_mark(lane, s)]["next"])
    return last


@leaf
def _put_in_order(ws, lane, s, node):
    """Put a chunk that is in no ring in its place among those of the rank of a request.

    It is looked for from the last one on: chunks come one after the other, group by group, so that
    those of a second group would have to pass all of the first.
    """
    rank = ws.offers[s]["rank"]
    ws.chunks[node]["rank"] = rank
    after = _nearby(ws, lane, s)
    before = np.int64(ws.chunks[after]["prev"])
    while before != chunk_mark(lane, s) and not _goes_before(ws.chunks[before], ws.chunks[node]):
        after = before
        before = np.int64(ws.chunks[after]["prev"])
    while ws.chunks[after]["rank"] == rank and _goes_before(ws.chunks[after], ws.chunks[node]):
        after = np.int64(ws.chunks[after]["next"])
    link_before(ws.chunks, node, after)
    ws.offers[s]["put"] = node


@leaf
def insert(ws, lane, inst, off, s, node):
    """Put a chunk that a request brings into the order."""
    take_rank(ws, lane, inst, off, s)
    _put_in_order(ws, lane, s, node)


@leaf
def use(ws, lane, inst, off, s, node):
    """Rank a chunk as used by a request that sees it the first time, unless by a later one."""
    take_rank(ws, lane, inst, off, s)
    if is_here(ws, node) and ws.chunks[node]["rank"] < ws.offers[s]["rank"]:
        unlink(ws.chunks, node)
        _put_in_order(ws, lane, s, node)


@leaf
def renew(ws, lane, inst, off, node):
    """Count a chunk as used just now."""
    off["ranks"] += 1
    ws.chunks[node]["rank"] = off["ranks"]
    unlink(ws.chunks, node)
    append(ws, lane, inst, node, ONCE)


@leaf
def drop_rank(ws, lane, s):
    """Forget the rank of a request that has finished."""
    if ws.offers[s]["rank"] != 0:
        unlink(ws.chunks, chunk_mark(lane, s))
        ws.offers[s]["rank"] = 0


@leaf
def evict(ws, lane, inst, off, count):
    """Let so many chunks make room; there must be as many that may."""
    node = np.int64(ws.chunks[ring_at(lane, inst, ONCE)]["next"])
    while count > 0:
        after = np.int64(ws.chunks[node]["next"])
        if is_victim(ws, off, node):
            unlink(ws.chunks, node)
            ws.chunks[node]["readers"] = ABSENT
            count -= 1
        node = after
