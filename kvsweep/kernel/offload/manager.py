"""The chunks of a CPU tier: what is stored and refused, who reads what (vLLM's manager)."""

import numpy as np

from ..._jit import leaf
from ...policies import TierEviction
from ...records import NONE
from . import arc, lru
from .chunks import (
    BEING_WRITTEN,
    INSERTED,
    MISSED,
    REUSED,
    SEEN,
    chunk_key,
    find_chunk,
    find_record,
    follow,
    new_record,
)


@leaf
def _is_arc(lane):
    return lane["offload_eviction"] == TierEviction.ARC


@leaf
def _miss(inp, ws, lane, inst, off, request, first, end):
    """Adapt to the chunks that are not here and were not missed by this request before."""
    for chunk in range(end - 1, first - 1, -1):
        slot = request["key_lo"] + chunk
        key = chunk_key(inp, lane, request, chunk)
        if not ws.seen[slot] & MISSED and find_chunk(ws, inst, off, key) == NONE:
            ws.seen[slot] |= MISSED
            arc.miss(ws, lane, inst, off, key)


@leaf
def _note(ws, lane, off, r, slot, node, position, reuses):
    """Note that a request offers or reuses a chunk, which is here unless `node` is NONE.

    Return whether the chunk must move to its place among those of the request (`lru.move`).
    """
    moves = False
    if not ws.seen[slot] & SEEN:
        ws.seen[slot] |= SEEN
        if not _is_arc(lane):
            lru.take_rank(ws, lane, off, r)
            if node != NONE:
                moves = lru.access(ws, off, node, r, position)
    if reuses and not ws.seen[slot] & INSERTED:
        ws.seen[slot] |= REUSED
    return moves


@leaf
def _insert(ws, lane, inst, off, r, slot, key, position, job):
    """Add a chunk that is being written by `job`."""
    node = NONE
    if _is_arc(lane):
        node = find_record(ws, inst, off, key)
    if node != NONE:
        arc.forget_ghost(ws, off, node)
    else:
        node = new_record(ws, inst, off, key)
    ws.chunks[node]["readers"] = BEING_WRITTEN
    ws.chunks[node]["job"] = job
    if _is_arc(lane):
        arc.insert(ws, off, node)
    else:
        lru.insert(ws, lane, off, node, r, position)
    ws.seen[slot] |= INSERTED
    off["chunks"] += 1


@leaf
def _make_room(ws, lane, off, new, victims):
    """Evict what `new` chunks lack room for, of `victims` that may make room; or nothing, False."""
    excess = new - (lane["cpu_blocks"] - off["chunks"])
    if excess <= 0:
        return True
    if excess > victims:
        return False
    if _is_arc(lane):
        arc.evict(ws, lane, off, excess)
    else:
        lru.evict(ws, off, excess)
    off["chunks"] -= excess
    off["idle"] -= excess
    off["evictions"] += excess
    return True


@leaf
def _protect(ws, off, node):
    """Keep a chunk that is on offer from making room; return its readers, 0 if it is not here."""
    readers = np.int64(0)
    if node != NONE:
        readers = np.int64(ws.chunks[node]["readers"])
        ws.chunks[node]["offer"] = off["offers"]
    return readers


@leaf
def _note_offer(inp, ws, lane, inst, off, request, r, first, end):
    """Note which chunks a request offers, and protect those that are here.

    Returns
    -------
    new, spare : int
        How many are not here; how many of the others could make room if they were not on offer.
    """
    new = 0
    spare = 0
    front = NONE
    back = NONE  # chunks that move together: the last of them stands in front
    off["offers"] += 1
    for chunk in range(first, end):
        node = follow(ws, inst, off, front, chunk_key(inp, lane, request, chunk))
        beside = front != NONE and ws.chunks[front]["prev"] == node
        readers = _protect(ws, off, node)
        new += node == NONE
        spare += node != NONE and readers == 0
        moves = False
        if readers != BEING_WRITTEN:
            slot = request["key_lo"] + chunk
            position = (chunk + 1) * lane["chunk_tokens"]
            moves = _note(ws, lane, off, r, slot, node, position, node != NONE)
        if not (moves and beside):
            lru.move(ws, lane, off, r, front, back)
            front = NONE
        if moves:
            back = node if front == NONE else back
            front = node
    lru.move(ws, lane, off, r, front, back)
    return new, spare


@leaf
def store(inp, ws, lane, inst, off, request, r, first, end, job):
    """Offer the chunks `first` to `end - 1` of a request, to be written by `job`.

    Returns
    -------
    new : int
        How many of them are written; -1: refused, for lack of room.
    """
    new, spare = _note_offer(inp, ws, lane, inst, off, request, r, first, end)
    if new == 0:
        return 0
    if _is_arc(lane):
        _miss(inp, ws, lane, inst, off, request, first, end)
    if not _make_room(ws, lane, off, new, off["idle"] - spare):
        return -1
    for chunk in range(first, end):
        key = chunk_key(inp, lane, request, chunk)
        if new == end - first or find_chunk(ws, inst, off, key) == NONE:
            slot = request["key_lo"] + chunk
            position = (chunk + 1) * lane["chunk_tokens"]
            _insert(ws, lane, inst, off, r, slot, key, position, job)
    return new


@leaf
def read(inp, ws, lane, inst, off, request, r, first, end):
    """Pin the chunks `first` to `end - 1` of a request, which are loaded from now on."""
    node = NONE
    for chunk in range(first, end):
        node = follow(ws, inst, off, node, chunk_key(inp, lane, request, chunk))
        off["idle"] -= ws.chunks[node]["readers"] == 0
        ws.chunks[node]["readers"] += 1
        slot = request["key_lo"] + chunk
        if _note(ws, lane, off, r, slot, node, (chunk + 1) * lane["chunk_tokens"], True):
            lru.move(ws, lane, off, r, node, node)


@leaf
def was_read(inp, ws, lane, inst, off, request, first, end):
    """Unpin chunks whose load is complete."""
    node = NONE
    for chunk in range(first, end):
        node = follow(ws, inst, off, node, chunk_key(inp, lane, request, chunk))
        ws.chunks[node]["readers"] -= 1
        off["idle"] += ws.chunks[node]["readers"] == 0


@leaf
def written_by(inp, ws, lane, inst, off, request, chunk, job):
    """Return the record of a chunk if `job` writes it, or NONE."""
    node = find_chunk(ws, inst, off, chunk_key(inp, lane, request, chunk))
    if node != NONE and (
        ws.chunks[node]["readers"] != BEING_WRITTEN or ws.chunks[node]["job"] != job
    ):
        node = NONE
    return node


@leaf
def was_written(ws, off, node):
    """Let a chunk be read whose copy is complete."""
    ws.chunks[node]["readers"] = 0
    off["idle"] += 1


@leaf
def finish(inp, ws, lane, inst, off, request, r, chunks):
    """Settle the recency of what a finished request of `chunks` chunks has seen, its end first."""
    if not _is_arc(lane):
        lru.renew(inp, ws, lane, inst, off, request, chunks)
        lru.drop_rank(ws, lane, r)
        return
    for chunk in range(chunks - 1, -1, -1):
        flags = ws.seen[request["key_lo"] + chunk]
        if flags & SEEN and flags & (INSERTED | REUSED):
            node = find_chunk(ws, inst, off, chunk_key(inp, lane, request, chunk))
            if node != NONE:
                arc.renew(ws, off, node, flags & REUSED != 0)
