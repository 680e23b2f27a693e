"""Adaptive replacement: what was used once against what was used again, by what is missed."""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks import runs
from ..blocks.runs import FALLS, RISES
from ..memory import extent_at
from .arc_ghosts import forget
from .arc_rings import AGAIN, ONCE, ONCE_GHOSTS, count_ghosts, link_last, make_youngest
from .chunks import chunks_of, slot_with
from .room import GHOST, is_victim
from .seen import INSERTED, REUSED, SEEN


@leaf
def use(ws, request, node, first, end):
    """Note that a request offers or reuses its chunks `first` to `end - 1` (`order.use`)."""
    reused = 0 if node == NONE else REUSED
    lo = request["key_lo"]
    for slot in range(lo + first, lo + end):
        flags = ws.seen[slot]
        ws.seen[slot] = flags | SEEN | (0 if flags & INSERTED else reused)


@leaf
def insert(ws, inst, off, request, extent, first, end):
    """Return a run of new chunks, among those used once; there are no ghosts of them any more."""
    forget(ws, inst, off, extent, first, end)
    node = runs.new_run(ws, inst, extent, first, end, RISES)
    link_last(ws, inst, node, ONCE)
    off["once"] += end - first
    for slot in range(request["key_lo"] + first, request["key_lo"] + end):
        ws.seen[slot] |= INSERTED
    return node


@leaf
def _renew(ws, inst, off, extent, first, end, reused):
    """Count what is here of the chunks `end - 1` down to `first` of an extent as used just now."""
    while first < end:
        node = runs.find_below(ws, extent, end)
        if node == NONE or ws.tier[node]["end"] <= first:
            break
        end = min(end, np.int64(ws.tier[node]["end"]))
        below = max(first, np.int64(ws.tier[node]["first"]))
        if ws.tier[node]["readers"] != GHOST:
            node = runs.cut(ws, inst, node, below, end)
            ring = np.int64(ws.tier[node]["rank"])
            if reused:
                off["once"] -= (end - below) * (ring == ONCE)
                ring = np.int64(AGAIN)
            ws.tier[node]["falls"] = FALLS
            make_youngest(ws, inst, node, ring)
        end = below


@leaf
def _renew_chunks(inp, ws, lane, inst, off, request, first, end, reused):
    """Likewise the chunks `end - 1` down to `first` of a request."""
    slot = slot_with(inp, lane, request["chain_lo"], end - 1)
    while first < end:
        link = inp.chain[slot]
        below = max(first, chunks_of(lane, np.int64(link["first"])))
        if below < end:
            _renew(ws, inst, off, extent_at(lane, inst, link["extent"]), below, end, reused)
            end = below
        slot -= 1


@leaf
def _use_of(flags):
    """Return what counts at the end of what a request has done with a chunk: one flag, or 0."""
    return REUSED if flags & REUSED else flags & INSERTED


@leaf
def finish(inp, ws, lane, inst, off, request, chunks):
    """Settle the recency of what a finished request of `chunks` chunks has seen, its end first."""
    lo = request["key_lo"]
    end = np.int64(chunks)
    while end > 0:
        use = _use_of(ws.seen[lo + end - 1])
        first = end - 1
        while first > 0 and _use_of(ws.seen[lo + first - 1]) == use:
            first -= 1
        if use:
            _renew_chunks(inp, ws, lane, inst, off, request, first, end, use == REUSED)
        end = first


@leaf
def _count_victims(ws, inst, off, ring, count):
    """Return how many chunks of a list may make room, counted up to `count`."""
    found = np.int64(0)
    end = inst["tier_lo"] + ring
    node = np.int64(ws.tier[end]["next"])
    while node != end and found < count:
        found += (ws.tier[node]["end"] - ws.tier[node]["first"]) * is_victim(ws, off, node)
        node = np.int64(ws.tier[node]["next"])
    return min(found, count)


@leaf
def _shares(ws, inst, off, count):
    """Return how many of `count` victims each list gives; together there are so many.

    One after the other, of the first list while it is as long as the target, then of the second,
    and of the first again when that has none.
    """
    first = _count_victims(ws, inst, off, ONCE, count)
    second = _count_victims(ws, inst, off, AGAIN, count)
    once = min(first, max(np.int64(0), off["once"] - int(off["target"]) + 1))
    again = min(second, count - once)
    return count - again, again


@leaf
def _bury(ws, lane, inst, off, ring, count):
    """Turn the first `count` chunks of a list that may make room into ghosts, the oldest lost."""
    ghosts = ring + ONCE_GHOSTS
    count_ghosts(off, ghosts, count)
    node = np.int64(ws.tier[inst["tier_lo"] + ring]["next"])
    while count > 0:
        after = np.int64(ws.tier[node]["next"])
        if is_victim(ws, off, node):
            run = ws.tier[node]
            size = np.int64(run["end"] - run["first"])
            if size > count and run["falls"] == FALLS:
                node = runs.split(ws, inst, node, run["end"] - count)
            elif size > count:
                runs.split(ws, inst, node, run["first"] + count)
            count -= min(size, count)
            ws.tier[node]["readers"] = GHOST
            make_youngest(ws, inst, node, ghosts)
        node = after
    excess = off["once_ghosts"] if ring == ONCE else off["again_ghosts"]
    excess -= lane["cpu_blocks"]
    if excess > 0:
        count_ghosts(off, ghosts, -excess)
    while excess > 0:
        oldest = np.int64(ws.tier[inst["tier_lo"] + ghosts]["next"])
        excess -= runs.take_first(ws, inst, oldest, excess)


@leaf
def evict(ws, lane, inst, off, count):
    """Let `count` chunks make room and leave ghosts; so many there are."""
    once, again = _shares(ws, inst, off, count)
    _bury(ws, lane, inst, off, ONCE, once)
    _bury(ws, lane, inst, off, AGAIN, again)
    off["once"] -= once
