"""The chunks of a CPU tier with adaptive replacement, one by one (vLLM's manager).

What is missed moves the target chunk by chunk, and ghosts are single chunks: so no runs here.
"""

from ..._jit import leaf
from ...records import NONE
from . import arc
from .chunks import (
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
from .room import BEING_WRITTEN, count_evicted, lacking


@leaf
def find(inp, ws, lane, inst, off, request, first, end):
    """Find the leading ones of chunks that are on the CPU (`by_runs.find`)."""
    node = NONE
    written = False
    read = False
    while first < end:
        node = follow(ws, inst, off, node, chunk_key(inp, lane, request, first))
        if node == NONE:
            break
        written = written or ws.chunks[node]["readers"] == BEING_WRITTEN
        read = read or ws.chunks[node]["readers"] > 0
        first += 1
    return first, written, read


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
def _note(ws, slot, reuses):
    """Note that a request offers or reuses a chunk."""
    ws.seen[slot] |= SEEN
    if reuses and not ws.seen[slot] & INSERTED:
        ws.seen[slot] |= REUSED


@leaf
def _note_offer(inp, ws, lane, inst, off, request, first, end):
    """Note which chunks a request offers, and protect those that are here (`by_runs.store`)."""
    new = 0
    spare = 0
    node = NONE
    off["offers"] += 1
    for chunk in range(first, end):
        node = follow(ws, inst, off, node, chunk_key(inp, lane, request, chunk))
        if node == NONE:
            new += 1
            _note(ws, request["key_lo"] + chunk, False)
        else:
            ws.chunks[node]["offer"] = off["offers"]
            spare += ws.chunks[node]["readers"] == 0
            if ws.chunks[node]["readers"] != BEING_WRITTEN:
                _note(ws, request["key_lo"] + chunk, True)
    return new, spare


@leaf
def _insert(ws, inst, off, slot, key, job):
    """Add a chunk that is being written by `job`."""
    node = find_record(ws, inst, off, key)
    if node == NONE:
        node = new_record(ws, inst, off, key)
    else:
        arc.forget_ghost(ws, off, node)
    ws.chunks[node]["readers"] = BEING_WRITTEN
    ws.chunks[node]["job"] = job
    arc.insert(ws, off, node)
    ws.seen[slot] |= INSERTED
    off["chunks"] += 1


@leaf
def store(inp, ws, lane, inst, off, request, first, end, job):
    """Offer the chunks `first` to `end - 1` of a request (`manager.store`)."""
    new, spare = _note_offer(inp, ws, lane, inst, off, request, first, end)
    if new == 0:
        return 0
    _miss(inp, ws, lane, inst, off, request, first, end)
    excess = lacking(lane, off, new)
    if excess > 0:
        if excess > off["idle"] - spare:
            return -1
        arc.evict(ws, lane, off, excess)
        count_evicted(off, excess)
    for chunk in range(first, end):
        key = chunk_key(inp, lane, request, chunk)
        if new == end - first or find_chunk(ws, inst, off, key) == NONE:
            _insert(ws, inst, off, request["key_lo"] + chunk, key, job)
    return new


@leaf
def read(inp, ws, lane, inst, off, request, first, end):
    """Pin the chunks `first` to `end - 1` of a request, which are loaded from now on."""
    node = NONE
    for chunk in range(first, end):
        node = follow(ws, inst, off, node, chunk_key(inp, lane, request, chunk))
        off["idle"] -= ws.chunks[node]["readers"] == 0
        ws.chunks[node]["readers"] += 1
        _note(ws, request["key_lo"] + chunk, True)


@leaf
def was_read(inp, ws, lane, inst, off, request, first, end):
    """Unpin chunks whose load is complete."""
    node = NONE
    for chunk in range(first, end):
        node = follow(ws, inst, off, node, chunk_key(inp, lane, request, chunk))
        ws.chunks[node]["readers"] -= 1
        off["idle"] += ws.chunks[node]["readers"] == 0


@leaf
def _written_by(inp, ws, lane, inst, off, request, chunk, job):
    """Return the record of a chunk if `job` writes it, or NONE."""
    node = find_chunk(ws, inst, off, chunk_key(inp, lane, request, chunk))
    if node != NONE and (
        ws.chunks[node]["readers"] != BEING_WRITTEN or ws.chunks[node]["job"] != job
    ):
        node = NONE
    return node


@leaf
def written_part(inp, ws, lane, inst, off, request, first, end, job):
    """Return the bounds of the first of the chunks `first` to `end - 1` that `job` writes."""
    while first < end and _written_by(inp, ws, lane, inst, off, request, first, job) == NONE:
        first += 1
    return first, min(first + 1, end)


@leaf
def was_written(inp, ws, lane, inst, off, request, first, end, job):
    """Let those of the chunks `first` to `end - 1` be read that `job` has written."""
    for chunk in range(first, end):
        node = _written_by(inp, ws, lane, inst, off, request, chunk, job)
        if node != NONE:
            ws.chunks[node]["readers"] = 0
            off["idle"] += 1


@leaf
def finish(inp, ws, lane, inst, off, request, chunks):
    """Settle the recency of what a finished request of `chunks` chunks has seen, its end first."""
    for chunk in range(chunks - 1, -1, -1):
        flags = ws.seen[request["key_lo"] + chunk]
        if flags & SEEN and flags & (INSERTED | REUSED):
            node = find_chunk(ws, inst, off, chunk_key(inp, lane, request, chunk))
            if node != NONE:
                arc.renew(ws, off, node, flags & REUSED != 0)
