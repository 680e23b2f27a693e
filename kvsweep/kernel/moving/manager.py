"""The chunks of a CPU tier: which are here, what is stored and refused, found and read."""

import numpy as np

from ..._jit import leaf
from ...policies import TierEviction
from ..explicit.slots import all_groups, group_at, groups_of
from ..offload.room import count_evicted, lacking
from . import arc, recency
from .rings import BEING_WRITTEN, chunk_of, is_here, slot_of_chunk

SEEN, BROUGHT, REUSED, MISSED, OFFERED = 1, 2, 4, 8, 16
"""What a request has done with a chunk: flags of its slot. The last one is of the latest offer."""

HANDED = 32
"""Likewise, of any slot of a state: it was cached since the last schedule (handed.py)."""


@leaf
def _is_arc(lane):
    """Return whether room is made by adaptive replacement."""
    return lane["offload_eviction"] == TierEviction.ARC


@leaf
def _see(ws, lane, inst, off, s, slot, node):
    """Note that a request offers or reuses a chunk."""
    if not ws.slots[slot]["flags"] & SEEN:
        ws.slots[slot]["flags"] |= SEEN
        if not _is_arc(lane):
            recency.use(ws, lane, inst, off, s, node)


@leaf
def _reuse(ws, slot):
    """Note that a request uses a chunk that it did not bring itself."""
    if not ws.slots[slot]["flags"] & BROUGHT:
        ws.slots[slot]["flags"] |= REUSED


@leaf
def note_offer(inp, ws, lane, inst, off, request, state, s, group, chunk):
    """Note that a request offers a chunk, which does not make room for others of the offer.

    Returns
    -------
    new, spare : int
        1 if it is not here; 1 if it could make room else.
    """
    slot = slot_of_chunk(lane, state, group, chunk)
    node = chunk_of(inp, ws, lane, inst, request, group, chunk)
    record = ws.chunks[node]
    record["place"] = chunk
    record["offer"] = off["offers"]
    ws.slots[slot]["flags"] |= OFFERED
    new = not is_here(ws, node)
    if record["readers"] != BEING_WRITTEN:
        _see(ws, lane, inst, off, s, slot, node)
    if record["readers"] >= 0:
        _reuse(ws, slot)
    return np.int64(new), np.int64(record["readers"] == 0)


@leaf
def _miss_one(ws, lane, inst, off, slot, node):
    """Adapt to a chunk if it is on offer, not here, and the request has not missed it before."""
    flags = ws.slots[slot]["flags"]
    if flags & OFFERED and not flags & MISSED and not is_here(ws, node):
        arc.miss(ws, lane, inst, off, node)
        ws.slots[slot]["flags"] |= MISSED


@leaf
def _miss(inp, ws, lane, inst, off, request, state, first, end):
    """Adapt to what is on offer and not here, the last one first; to each once in a request."""
    for group in range(groups_of(lane) - 1, -1, -1):
        for chunk in range(end - 1, first - 1, -1):
            slot = slot_of_chunk(lane, state, group, chunk)
            node = chunk_of(inp, ws, lane, inst, request, group, chunk)
            _miss_one(ws, lane, inst, off, slot, node)


@leaf
def _evict(ws, lane, inst, off, new, spare):
    """Let others make room for `new` chunks, `spare` of the idle ones not; return whether it is."""
    excess = lacking(lane, off, new)
    fits = excess <= off["idle"] - spare
    if fits and excess > 0:
        if _is_arc(lane):
            arc.evict(ws, lane, inst, off, excess)
        else:
            recency.evict(ws, lane, inst, off, excess)
        count_evicted(off, excess)
    return excess <= 0 or fits


@leaf
def make_room_for_one(ws, lane, inst, off, slot, node):
    """Make room for a chunk that is offered by itself; return whether there is."""
    if _is_arc(lane):
        _miss_one(ws, lane, inst, off, slot, node)
    return _evict(ws, lane, inst, off, np.int64(1), np.int64(0))


@leaf
def make_room(inp, ws, lane, inst, off, request, state, first, end, new, spare):
    """Make room for `new` of the chunks on offer; return whether there is.

    They are among the chunks `first` to ``end - 1``. Others on offer, `spare` of them idle, stay.
    """
    if _is_arc(lane):
        _miss(inp, ws, lane, inst, off, request, state, first, end)
    return _evict(ws, lane, inst, off, new, spare)


@leaf
def insert(ws, lane, inst, off, s, slot, node):
    """Let a chunk be on its way to the CPU, brought by a request."""
    if _is_arc(lane):
        arc.insert(ws, lane, inst, off, node)
    else:
        recency.insert(ws, lane, inst, off, s, node)
    ws.chunks[node]["readers"] = BEING_WRITTEN
    ws.slots[slot]["flags"] |= BROUGHT
    off["chunks"] += 1


@leaf
def read(ws, lane, inst, off, s, slot, node):
    """Pin a chunk that a request loads from now on."""
    off["idle"] -= ws.chunks[node]["readers"] == 0
    ws.chunks[node]["readers"] += 1
    _see(ws, lane, inst, off, s, slot, node)
    _reuse(ws, slot)


@leaf
def was_read(ws, off, node):
    """Unpin a chunk whose load is complete."""
    ws.chunks[node]["readers"] -= 1
    off["idle"] += ws.chunks[node]["readers"] == 0


@leaf
def was_written(ws, off, node):
    """Let a chunk be read whose store is complete."""
    ws.chunks[node]["readers"] = 0
    off["idle"] += 1


@leaf
def _settle(ws, lane, inst, off, slot, node):
    """Settle the recency of a chunk that a finished request has seen, if it is here."""
    flags = ws.slots[slot]["flags"]
    if flags & SEEN and is_here(ws, node):
        if _is_arc(lane):
            brought, reused = flags & BROUGHT != 0, flags & REUSED != 0
            arc.finish(ws, lane, inst, off, node, brought, reused)
        else:
            recency.renew(ws, lane, inst, off, node)


@leaf
def finish(inp, ws, lane, inst, off, request, state, s, chunks):
    """Settle the recency of what a finished request of so many chunks has seen, its end first."""
    for chunk in range(chunks - 1, -1, -1):
        for place in range(all_groups(lane) - 1, -1, -1):
            group = group_at(lane, place)
            slot = slot_of_chunk(lane, state, group, chunk)
            node = chunk_of(inp, ws, lane, inst, request, group, chunk)
            _settle(ws, lane, inst, off, slot, node)
    if not _is_arc(lane):
        recency.drop_rank(ws, lane, s)
