"""Adaptive replacement of chunks (`offload.arc` does the same, by runs)."""

import numpy as np

from ..._jit import leaf
from ..blocks.ring import unlink
from .rings import (
    ABSENT,
    AGAIN,
    AGAIN_GHOSTS,
    GHOST,
    ONCE,
    ONCE_GHOSTS,
    append,
    is_victim,
    ring_at,
)


@leaf
def _put(ws, lane, inst, node, ring):
    """Put a chunk that is in no ring at the end of one, and note which."""
    ws.chunks[node]["rank"] = ring
    append(ws, lane, inst, node, ring)


@leaf
def _count(off, ring, by):
    """Count what a ring has more."""
    if ring == ONCE:
        off["once"] += by
    elif ring == ONCE_GHOSTS:
        off["once_ghosts"] += by
    elif ring == AGAIN_GHOSTS:
        off["again_ghosts"] += by


@leaf
def miss(ws, lane, inst, off, node):
    """Adapt to a chunk that is not here; its ghost, if there is one, is the youngest now."""
    if ws.chunks[node]["readers"] != GHOST:
        return
    once, again = off["once_ghosts"], off["again_ghosts"]
    ring = np.int64(ws.chunks[node]["rank"])
    if ring == ONCE_GHOSTS:
        off["target"] = min(off["target"] + max(1.0, again / once), float(lane["cpu_blocks"]))
    else:
        off["target"] = max(off["target"] - max(1.0, once / again), 0.0)
    unlink(ws.chunks, node)
    append(ws, lane, inst, node, ring)


@leaf
def insert(ws, lane, inst, off, node):
    """Put a new chunk among those used once; its ghost is gone."""
    if ws.chunks[node]["readers"] == GHOST:
        _count(off, np.int64(ws.chunks[node]["rank"]), -1)
        unlink(ws.chunks, node)
    _put(ws, lane, inst, node, ONCE)
    _count(off, ONCE, 1)


@leaf
def finish(ws, lane, inst, off, node, brought, reused):
    """Settle what a finished request did with a chunk that is here: brought it, or reused it."""
    ring = np.int64(ws.chunks[node]["rank"])
    if brought and not reused:
        unlink(ws.chunks, node)
        append(ws, lane, inst, node, ring)
    elif reused:
        unlink(ws.chunks, node)
        _count(off, ring, -1)
        _put(ws, lane, inst, node, AGAIN)


@leaf
def _next_idle(ws, off, node, end):
    """Return the first chunk from `node` on that may make room, or the end of the ring."""
    while node != end and not is_victim(ws, off, node):
        node = np.int64(ws.chunks[node]["next"])
    return node


@leaf
def _give_way(ws, lane, inst, off, node, ring):
    """Let a chunk of a ring become a ghost; return the one behind it."""
    after = np.int64(ws.chunks[node]["next"])
    unlink(ws.chunks, node)
    ghosts = ONCE_GHOSTS if ring == ONCE else AGAIN_GHOSTS
    _put(ws, lane, inst, node, ghosts)
    _count(off, ring, -1)
    _count(off, ghosts, 1)
    ws.chunks[node]["readers"] = GHOST
    return after


@leaf
def _forget_ghosts(ws, lane, inst, off):
    """Forget the oldest ghosts, so that there are no more of each kind than the tier has room."""
    for ring in (ONCE_GHOSTS, AGAIN_GHOSTS):
        end = ring_at(lane, inst, ring)
        count = off["once_ghosts"] if ring == ONCE_GHOSTS else off["again_ghosts"]
        for _ in range(count - lane["cpu_blocks"]):
            node = np.int64(ws.chunks[end]["next"])
            unlink(ws.chunks, node)
            ws.chunks[node]["readers"] = ABSENT
            _count(off, ring, -1)


@leaf
def evict(ws, lane, inst, off, count):
    """Let so many chunks make room; there must be as many that may.

    Each ring is gone through once: who was passed over is not asked again.
    """
    end_once, end_again = ring_at(lane, inst, ONCE), ring_at(lane, inst, AGAIN)
    once = np.int64(ws.chunks[end_once]["next"])
    again = np.int64(ws.chunks[end_again]["next"])
    for _ in range(count):
        once = _next_idle(ws, off, once, end_once)
        again = _next_idle(ws, off, again, end_again)
        first = off["once"] >= int(off["target"]) or again == end_again
        if first and once != end_once:
            once = _give_way(ws, lane, inst, off, once, ONCE)
        else:
            again = _give_way(ws, lane, inst, off, again, AGAIN)
    _forget_ghosts(ws, lane, inst, off)
