"""Adaptive replacement: what was used once against what was used again, by what is missed."""

from ..._jit import leaf
from ...records import NONE
from ..blocks.ring import unlink
from .chunks import (
    AGAIN,
    AGAIN_GHOSTS,
    ONCE,
    ONCE_GHOSTS,
    drop_record,
    find_record,
    is_victim,
    link_last,
)


@leaf
def miss(ws, lane, inst, off, key):
    """Adapt to a chunk that is not here: its ghost moves the target towards its list."""
    node = find_record(ws, inst, off, key)
    if node == NONE:
        return
    once = off["once_ghosts"]
    again = off["again_ghosts"]
    if ws.chunks[node]["ring"] == ONCE_GHOSTS:
        off["target"] = min(off["target"] + max(1.0, again / once), float(lane["cpu_blocks"]))
    else:
        off["target"] = max(off["target"] - max(1.0, once / again), 0.0)
    unlink(ws.chunks, node)
    link_last(ws, off, ws.chunks[node]["ring"], node)


@leaf
def forget_ghost(ws, off, node):
    """Take the ghost of a chunk that is stored again out of its list."""
    unlink(ws.chunks, node)
    if ws.chunks[node]["ring"] == ONCE_GHOSTS:
        off["once_ghosts"] -= 1
    else:
        off["again_ghosts"] -= 1


@leaf
def insert(ws, off, node):
    """Put a new chunk among those used once."""
    link_last(ws, off, ONCE, node)
    off["once"] += 1


@leaf
def renew(ws, off, node, reused):
    """Note that a request has finished that brought a chunk, or `reused` one of others."""
    ring = ws.chunks[node]["ring"]
    unlink(ws.chunks, node)
    if reused:
        off["once"] -= ring == ONCE
        ring = AGAIN
    link_last(ws, off, ring, node)


@leaf
def _victims(ws, off, ring, count):
    """Return how many chunks of a list may make room, counted up to `count`."""
    found = 0
    end = off["chunk_lo"] + ring
    node = ws.chunks[end]["next"]
    while node != end and found < count:
        found += is_victim(ws, off, node)
        node = ws.chunks[node]["next"]
    return found


@leaf
def _shares(ws, off, count):
    """Return how many of `count` victims each list gives; together fewer if there are not so many.

    One after the other, of the first list while it is as long as the target or the second has none.
    """
    first = _victims(ws, off, ONCE, count)
    second = _victims(ws, off, AGAIN, count)
    size = off["once"]
    once = 0
    again = 0
    while once + again < count:
        if once < first and (size >= int(off["target"]) or again == second):
            once += 1
            size -= 1
        elif again < second:
            again += 1
        else:
            break
    return once, again


@leaf
def _bury(ws, lane, off, ring, ghosts, count):
    """Turn the first `count` chunks of a list that may make room into ghosts, the oldest lost."""
    name = off["chunk_lo"] + ghosts
    node = ws.chunks[off["chunk_lo"] + ring]["next"]
    kept = off["once_ghosts"] if ghosts == ONCE_GHOSTS else off["again_ghosts"]
    while count > 0:
        after = ws.chunks[node]["next"]
        if is_victim(ws, off, node):
            unlink(ws.chunks, node)
            link_last(ws, off, ghosts, node)
            count -= 1
            kept += 1
            if kept > lane["cpu_blocks"]:
                oldest = ws.chunks[name]["next"]
                unlink(ws.chunks, oldest)
                drop_record(ws, off, oldest)
                kept -= 1
        node = after
    if ghosts == ONCE_GHOSTS:
        off["once_ghosts"] = kept
    else:
        off["again_ghosts"] = kept


@leaf
def evict(ws, lane, off, count):
    """Let `count` chunks make room and leave ghosts; so many there are."""
    once, again = _shares(ws, off, count)
    _bury(ws, lane, off, ONCE, ONCE_GHOSTS, once)
    _bury(ws, lane, off, AGAIN, AGAIN_GHOSTS, again)
    off["once"] -= once
