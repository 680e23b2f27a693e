"""Which chunk of a CPU tier makes room: by recency (lru.py) or adaptive replacement (arc.py)."""

from ..._jit import leaf, part
from ...policies import TierEviction
from . import arc, arc_ghosts, arc_rings, lru
from .room import count_evicted


@leaf
def is_arc(lane):
    """Return whether room is made by adaptive replacement."""
    return lane["offload_eviction"] == TierEviction.ARC


@leaf
def use(ws, lane, inst, off, request, r, node, first, end):
    """Note that a request offers or reuses its chunks `first` to `end - 1`, of the run `node`.

    NONE: they are offered and not there.
    """
    if is_arc(lane):
        arc.use(ws, request, node, first, end)
    else:
        lru.use(ws, lane, inst, off, request, r, node, first, end)


@leaf
def miss(inp, ws, lane, inst, off, request, first, end):
    """Note that those of the chunks `first` to `end - 1` that a request offers are missed."""
    if is_arc(lane):
        arc_ghosts.miss(inp, ws, lane, inst, off, request, first, end)


@leaf
def insert(ws, lane, inst, off, request, r, extent, first, end):
    """Return a run of new chunks of an extent, in its place in the order."""
    if is_arc(lane):
        node = arc.insert(ws, inst, off, request, extent, first, end)
    else:
        node = lru.insert(ws, lane, inst, off, r, extent, first, end)
    return node


@leaf
def join(ws, lane, inst, node):
    """Make one of a run that has become idle and its neighbours, as far as they are alike."""
    if is_arc(lane):
        arc_rings.join(ws, inst, node)
    else:
        lru.join(ws, inst, node)


@leaf
def evict(ws, lane, inst, off, count):
    """Let `count` chunks make room that nobody reads or writes and are not on offer."""
    if is_arc(lane):
        arc.evict(ws, lane, inst, off, count)
    else:
        lru.evict(ws, inst, off, count)
    count_evicted(off, count)


@part
def finish(inp, ws, lane, inst, off, request, r, chunks):
    """Settle the recency of what a finished request of `chunks` chunks has seen."""
    if is_arc(lane):
        arc.finish(inp, ws, lane, inst, off, request, chunks)
    else:
        lru.renew(inp, ws, lane, inst, off, request, r, chunks)
        lru.drop_rank(ws, lane, r)
