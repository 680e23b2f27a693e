"""The rings of adaptive replacement: two lists of chunks, and two of ghosts, oldest first.

Each is a ring of runs; `RUN.rank` has its number. Mostly a request uses, misses or evicts all of a
run, one chunk after the other: so runs that go on where another one ends are made one.
"""

import numpy as np

from ..._jit import leaf
from ..blocks import runs
from ..blocks.ring import link_before, unlink
from ..blocks.runs import FALLS, RISES
from .room import GHOST

ONCE, AGAIN, ONCE_GHOSTS = 0, 1, 2
"""Rings, counted from `tier_lo`: chunks used once, or again, and the ghosts of those."""


@leaf
def _goes_on(ws, older, younger):
    """Return whether the places of a run follow in turn those of the run before it in its ring."""
    old = ws.tier[older]
    new = ws.tier[younger]
    falls = new["end"] == old["first"]
    way = FALLS if falls else RISES
    follows = falls or old["end"] == new["first"]
    follows = follows and (old["falls"] == way or old["end"] - old["first"] == 1)
    return follows and (new["falls"] == way or new["end"] - new["first"] == 1)


@leaf
def _join(ws, inst, older, younger):
    """Make one of two neighbours of a ring, if they are alike: the older one, which goes on."""
    old = ws.tier[older]
    new = ws.tier[younger]
    alike = old["extent"] == new["extent"] and old["readers"] == new["readers"]
    if alike and (new["readers"] == 0 or new["readers"] == GHOST) and _goes_on(ws, older, younger):
        old["falls"] = FALLS if new["end"] == old["first"] else RISES
        first = min(old["first"], new["first"])
        end = max(old["end"], new["end"])
        runs.drop_run(ws, inst, younger)
        old["first"] = first
        old["end"] = end


@leaf
def join(ws, inst, node):
    """Make one of a run that has become idle and its neighbours, as far as they are alike."""
    _join(ws, inst, node, np.int64(ws.tier[node]["next"]))
    _join(ws, inst, np.int64(ws.tier[node]["prev"]), node)


@leaf
def link_last(ws, inst, node, ring):
    """Make a run that is in no ring the youngest of one."""
    ws.tier[node]["rank"] = ring
    link_before(ws.tier, node, inst["tier_lo"] + ring)


@leaf
def make_youngest(ws, inst, node, ring):
    """Move a run to the end of a ring, where it goes on with what is there if it can."""
    unlink(ws.tier, node)
    link_last(ws, inst, node, ring)
    _join(ws, inst, np.int64(ws.tier[node]["prev"]), node)


@leaf
def count_ghosts(off, ring, count):
    """Count ghosts that come to a ring (negative: that leave it)."""
    if ring == ONCE_GHOSTS:
        off["once_ghosts"] += count
    else:
        off["again_ghosts"] += count
