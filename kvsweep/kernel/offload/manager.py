"""The chunks of a CPU tier: what is stored and refused, who reads what (vLLM's manager).

What a request has done with its chunk j is in the flags `Workspace.seen`, in the key slot of its
block j.
"""

from ..._jit import leaf
from ...policies import TierEviction
from ...records import NONE
from . import arc, lru
from .chunks import (
    BEING_WRITTEN,
    chunk_key,
    find_chunk,
    find_record,
    new_record,
)

SEEN, INSERTED, REUSED, MISSED = 1, 2, 4, 8


@leaf
def _is_arc(lane):
    return lane["offload_eviction"] == TierEviction.ARC


@leaf
def _count_new(inp, ws, lane, inst, off, request, first, end):
    """Return how many of the chunks `first` to `end - 1` are not here; protect those that are."""
    new = 0
    off["offers"] += 1
    for chunk in range(first, end):
        node = find_chunk(ws, inst, off, chunk_key(inp, lane, request, chunk))
        if node == NONE:
            new += 1
        else:
            ws.chunks[node]["offer"] = off["offers"]
    return new


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
    """Note that a request offers or reuses a chunk, which is here unless `node` is NONE."""
    if not ws.seen[slot] & SEEN:
        ws.seen[slot] |= SEEN
        if not _is_arc(lane):
            lru.take_rank(ws, lane, off, r)
            if node != NONE:
                lru.access(ws, lane, off, node, r, position)
    if reuses and not ws.seen[slot] & INSERTED:
        ws.seen[slot] |= REUSED


@leaf
def _insert(ws, lane, inst, off, r, slot, key, position, job):
    """Add a chunk that is being written by `job`."""
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
def _make_room(ws, lane, off, new):
    """Evict what `new` chunks lack room for; return False, and change nothing, if it cannot be."""
    excess = new - (lane["cpu_blocks"] - off["chunks"])
    if excess <= 0:
        return True
    if excess > off["idle"]:
        return False
    made = arc.evict(ws, lane, off, excess) if _is_arc(lane) else lru.evict(ws, off, excess)
    if made:
        off["chunks"] -= excess
        off["idle"] -= excess
        off["evictions"] += excess
    return made


@leaf
def store(inp, ws, lane, inst, off, request, r, first, end, job):
    """Offer the chunks `first` to `end - 1` of a request, to be written by `job`.

    Returns
    -------
    new : int
        How many of them are written; -1: refused, for lack of room.
    """
    new = _count_new(inp, ws, lane, inst, off, request, first, end)
    if _is_arc(lane):
        _miss(inp, ws, lane, inst, off, request, first, end)
    for chunk in range(first, end):
        node = find_chunk(ws, inst, off, chunk_key(inp, lane, request, chunk))
        ready = node != NONE and ws.chunks[node]["readers"] != BEING_WRITTEN
        if node == NONE or ready:
            slot = request["key_lo"] + chunk
            _note(ws, lane, off, r, slot, node, (chunk + 1) * lane["chunk_tokens"], ready)
    if new > 0 and not _make_room(ws, lane, off, new):
        return -1
    for chunk in range(first, end):
        key = chunk_key(inp, lane, request, chunk)
        if new > 0 and find_chunk(ws, inst, off, key) == NONE:
            slot = request["key_lo"] + chunk
            position = (chunk + 1) * lane["chunk_tokens"]
            _insert(ws, lane, inst, off, r, slot, key, position, job)
    return new


@leaf
def read(inp, ws, lane, inst, off, request, r, first, end):
    """Pin the chunks `first` to `end - 1` of a request, which are loaded from now on."""
    for chunk in range(first, end):
        node = find_chunk(ws, inst, off, chunk_key(inp, lane, request, chunk))
        off["idle"] -= ws.chunks[node]["readers"] == 0
        ws.chunks[node]["readers"] += 1
        slot = request["key_lo"] + chunk
        _note(ws, lane, off, r, slot, node, (chunk + 1) * lane["chunk_tokens"], True)


@leaf
def was_read(inp, ws, lane, inst, off, request, first, end):
    """Unpin chunks whose load is complete."""
    for chunk in range(first, end):
        node = find_chunk(ws, inst, off, chunk_key(inp, lane, request, chunk))
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
    for chunk in range(chunks - 1, -1, -1):
        slot = request["key_lo"] + chunk
        flags = ws.seen[slot]
        if not flags & SEEN:
            continue
        node = find_chunk(ws, inst, off, chunk_key(inp, lane, request, chunk))
        if node == NONE:
            continue
        if not _is_arc(lane):
            lru.renew(ws, off, node)
        elif flags & (INSERTED | REUSED):
            arc.renew(ws, off, node, flags & REUSED != 0)
    if not _is_arc(lane):
        lru.drop_rank(ws, lane, r)
