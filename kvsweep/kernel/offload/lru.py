"""Eviction of what was used the longest ago: the ring ONCE, in order of ranks.

A request has a rank from the first time that it offers or reuses a chunk, the next number then. All
chunks of a rank stand behind a mark of the request, its end first. When the request finishes its
chunks are used just now, the first one last. (vLLM sorts pairs of numbers; this keeps the order.)
"""

from ..._jit import leaf
from ..memory import rank_mark
from .chunks import ONCE, drop_record, is_victim, link_before, link_last, unlink


@leaf
def take_rank(ws, lane, off, r):
    """Give a request its rank, if it has none."""
    if ws.offers[r]["rank"] == 0:
        off["ranks"] += 1
        ws.offers[r]["rank"] = off["ranks"]
        mark = rank_mark(lane, r)
        ws.chunks[mark]["rank"] = off["ranks"]
        ws.chunks[mark]["readers"] = 1  # never a victim
        link_last(ws, off, ONCE, mark)


@leaf
def _place(ws, lane, off, node, r, position):
    """Put a chunk among those of its request's rank: the larger its position, the further front."""
    rank = ws.offers[r]["rank"]
    after = ws.chunks[rank_mark(lane, r)]["next"]
    end = off["chunk_lo"] + ONCE
    while (
        after != end
        and ws.chunks[after]["rank"] == rank
        and (ws.chunks[after]["position"] > position)
    ):
        after = ws.chunks[after]["next"]
    ws.chunks[node]["rank"] = rank
    ws.chunks[node]["position"] = position
    ws.chunks[node]["ring"] = ONCE
    link_before(ws, node, after)


@leaf
def insert(ws, lane, off, node, r, position):
    """Rank a new chunk."""
    take_rank(ws, lane, off, r)
    _place(ws, lane, off, node, r, position)


@leaf
def access(ws, lane, off, node, r, position):
    """Rank a chunk that a request with a rank offers or reuses for the first time."""
    if ws.chunks[node]["rank"] < ws.offers[r]["rank"]:
        unlink(ws, node)
        _place(ws, lane, off, node, r, position)


@leaf
def renew(ws, off, node):
    """Count a chunk as used just now."""
    off["ranks"] += 1
    unlink(ws, node)
    ws.chunks[node]["rank"] = off["ranks"]
    ws.chunks[node]["position"] = 0
    link_last(ws, off, ONCE, node)


@leaf
def drop_rank(ws, lane, r):
    """Forget the rank of a request that has finished."""
    if ws.offers[r]["rank"] != 0:
        unlink(ws, rank_mark(lane, r))
        ws.offers[r]["rank"] = 0


@leaf
def _victims(ws, off, count):
    """Return how many chunks may make room, counted up to `count`."""
    found = 0
    end = off["chunk_lo"] + ONCE
    node = ws.chunks[end]["next"]
    while node != end and found < count:
        found += is_victim(ws, off, node)
        node = ws.chunks[node]["next"]
    return found


@leaf
def evict(ws, off, count):
    """Let `count` chunks make room, or none if there are not so many; return whether they did."""
    if _victims(ws, off, count) < count:
        return False
    node = ws.chunks[off["chunk_lo"] + ONCE]["next"]
    while count > 0:
        after = ws.chunks[node]["next"]
        if is_victim(ws, off, node):
            unlink(ws, node)
            drop_record(ws, off, node)
            count -= 1
        node = after
    return True
