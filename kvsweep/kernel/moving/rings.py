"""Chunks of a CPU tier, each with the key of the last of its blocks, and the rings they are in."""

import numpy as np

from ..._jit import leaf
from ...records import NEVER
from ..blocks.ring import close_ring, link_before
from ..explicit.slots import all_groups, key_of, place_of, slot_of
from ..memory import TIER_RINGS, chunk_at

BEING_WRITTEN, GHOST, ABSENT = -1, -2, -3
"""`CHUNK.readers` of what is on its way, of what is remembered though gone, and of what is not."""

ONCE, AGAIN, ONCE_GHOSTS, AGAIN_GHOSTS = range(TIER_RINGS)
"""Rings of adaptive replacement; by recency all chunks are in the first."""


@leaf
def ring_at(lane, inst, ring):
    """Return the head of a ring, behind all chunks of an instance."""
    return chunk_at(lane, inst["number"], lane["n_keys"] * all_groups(lane) + ring)


@leaf
def chunk_mark(lane, s):
    """Return the record of a request behind all chunks: it marks its rank (recency.py)."""
    return chunk_at(lane, lane["instances"], s)


@leaf
def begin_chunks(ws, lane, inst):
    """Let a tier have no chunks; each record is cleared when it is asked for (`chunk_of`)."""
    for ring in range(TIER_RINGS):
        end = ring_at(lane, inst, ring)
        close_ring(ws.chunks, end)
        ws.chunks[end]["rank"] = NEVER
        ws.chunks[end]["readers"] = ABSENT


@leaf
def begin_mark(ws, lane, s):
    """Let a request have no place in the order of chunks."""
    mark = ws.chunks[chunk_mark(lane, s)]
    mark["readers"] = ABSENT
    mark["place"] = -1


@leaf
def last_block(lane, chunk):
    """Return the last block of a chunk of a request."""
    return (chunk + 1) * lane["factor"] - 1


@leaf
def _clear(ws, lane, node, group):
    """Let a chunk of a group not be here, nor have been in this lane."""
    chunk = ws.chunks[node]
    chunk["lane"] = ws.router[0]["serial"]
    chunk["readers"] = ABSENT
    chunk["offer"] = 0
    chunk["group"] = place_of(lane, group)


@leaf
def chunk_of(inp, ws, lane, inst, request, group, chunk):
    """Return the record of a chunk of a request in a group, that of its last block's key.

    Few of all keys at all instances are asked for, so a record is cleared then, not with the lane:
    that took two fifths of the time of lanes with two groups and 32 instances.
    """
    key = key_of(inp, lane, request, group, last_block(lane, chunk))
    node = chunk_at(lane, inst["number"], key)
    if ws.chunks[node]["lane"] != ws.router[0]["serial"]:
        _clear(ws, lane, node, group)
    return node


@leaf
def slot_of_chunk(lane, state, group, chunk):
    """Return the slot that has the flags of a chunk, that of its last block."""
    return np.int64(slot_of(state, group, last_block(lane, chunk)))


@leaf
def is_here(ws, node):
    """Return whether a chunk is on the CPU, or on its way."""
    return ws.chunks[node]["readers"] >= BEING_WRITTEN


@leaf
def is_victim(ws, off, node):
    """Return whether a chunk may make room: idle, and not on offer."""
    chunk = ws.chunks[node]
    return chunk["readers"] == 0 and chunk["offer"] != off["offers"]


@leaf
def append(ws, lane, inst, node, ring):
    """Put a chunk that is in no ring at the end of one."""
    link_before(ws.chunks, node, ring_at(lane, inst, ring))
