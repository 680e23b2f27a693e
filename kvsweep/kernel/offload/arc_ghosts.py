"""Ghosts of adaptive replacement: what made room, remembered by its places, and what is missed."""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks import runs
from ..blocks.runs import FALLS
from ..memory import extent_at
from .arc_rings import ONCE_GHOSTS, count_ghosts, make_youngest
from .chunks import chunks_of, slot_with
from .room import GHOST
from .seen import MISSED


@leaf
def _adapt(lane, off, ring, count):
    """Move the target towards the list that `count` missed ghosts come from, one by one."""
    once = off["once_ghosts"]
    again = off["again_ghosts"]
    most = float(lane["cpu_blocks"])
    target = off["target"]
    if ring == ONCE_GHOSTS:
        delta = max(1.0, again / once)
        while count > 0 and target < most:
            target = min(target + delta, most)
            count -= 1
    else:
        delta = max(1.0, once / again)
        while count > 0 and target > 0.0:
            target = max(target - delta, 0.0)
            count -= 1
    off["target"] = target


@leaf
def _miss_ghosts(ws, lane, inst, off, lo, node, first, end):
    """Adapt to those of the ghosts `end - 1` down to `first` of a run that were not missed before.

    Their flags begin at `lo`.
    """
    while first < end:
        known = ws.seen[lo + end - 1] & MISSED
        below = end - 1
        while below > first and ws.seen[lo + below - 1] & MISSED == known:
            below -= 1
        if not known:
            part = runs.cut(ws, inst, node, below, end)
            ring = np.int64(ws.tier[part]["rank"])
            _adapt(lane, off, ring, end - below)
            ws.tier[part]["falls"] = FALLS
            make_youngest(ws, inst, part, ring)
        end = below


@leaf
def _miss(ws, lane, inst, off, lo, extent, first, end):
    """Adapt to those of the chunks `end - 1` down to `first` of an extent that are not here."""
    while first < end:
        node = runs.find_below(ws, extent, end)
        upto = first
        below = first
        ghosts = False
        if node != NONE:
            upto = max(first, np.int64(ws.tier[node]["end"]))
            below = max(first, np.int64(ws.tier[node]["first"]))
            ghosts = ws.tier[node]["readers"] == GHOST
        if upto > first and ghosts:
            _miss_ghosts(ws, lane, inst, off, lo, node, below, min(upto, end))
            upto = below
        for slot in range(lo + upto, lo + end):
            ws.seen[slot] |= MISSED
        end = below


@leaf
def miss(inp, ws, lane, inst, off, request, first, end):
    """Adapt to those of the chunks `end - 1` down to `first` of a request that are not here.

    What it has missed before counts no more.
    """
    slot = slot_with(inp, lane, request["chain_lo"], end - 1)
    while first < end:
        link = inp.chain[slot]
        below = max(first, chunks_of(lane, np.int64(link["first"])))
        extent = extent_at(lane, inst, link["extent"])
        if below < end:
            _miss(ws, lane, inst, off, request["key_lo"], extent, below, end)
            end = below
        slot -= 1


@leaf
def forget(ws, inst, off, extent, first, end):
    """Forget the ghosts of the chunks `first` to `end - 1` of an extent, none of which is here."""
    node = runs.find_run(ws, extent, first)
    while node != NONE and ws.tier[node]["first"] < end:
        upto = min(end, np.int64(ws.tier[node]["end"]))
        node = runs.cut(ws, inst, node, max(first, np.int64(ws.tier[node]["first"])), upto)
        size = ws.tier[node]["end"] - ws.tier[node]["first"]
        count_ghosts(off, np.int64(ws.tier[node]["rank"]), -size)
        runs.drop_run(ws, inst, node)
        node = runs.find_run(ws, extent, first)
