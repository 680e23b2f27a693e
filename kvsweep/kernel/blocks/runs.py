"""Runs: stretches of an extent that a CPU tier has, next to each other and alike in all it knows.

One record for a run, not one for each block: a request mostly stores, finds and uses again all of
an extent (`kvsweep.workload.blocks`), so a tier of 2,000 blocks has 100 runs. What a part of a run
does makes it two (`cut`); runs that have become alike are made one by who knows that they are.

A place is a number that goes up by one from block to block, or from chunk to chunk, and is the same
for everybody who has the extent. The runs of an extent are a ring in order of place
(`Workspace.tier_heads` has the lowest). All runs of an instance are another one in the order in
which they make room, and the places of a run stand in it one after the other, from its end if it
`falls`. (``LOOSE`` runs stand in two rings of their own, see tier_order.py.) The records from
`tier_lo` on are the ends of these rings.
"""

import numpy as np

from ..._jit import leaf
from ...records import NEVER, NONE
from ..memory import TIER_RINGS, count_extents
from .ring import close_ring, link_before, unlink

RISES, FALLS, LOOSE = 0, 1, 2
"""`RUN.falls`: its first place makes room first, or its last one; LOOSE: its first one, and each of
the others in its own time."""


@leaf
def begin_runs(ws, inst):
    """Empty the tier of an instance."""
    for end in range(inst["tier_lo"], inst["tier_lo"] + TIER_RINGS):
        close_ring(ws.tier, end)
        ws.tier[end]["extent"] = NONE
        ws.tier[end]["rank"] = NEVER


@leaf
def clear_heads(ws, lane):
    """Let no extent have runs."""
    for extent in range(count_extents(lane)):
        ws.tier_heads[extent] = NONE


@leaf
def _new_record(ws, inst):
    node = inst["tier_spare"]
    if node == NONE:
        node = inst["tier_lo"] + TIER_RINGS + inst["tier_fresh"]
        inst["tier_fresh"] += 1
    else:
        inst["tier_spare"] = np.int64(ws.tier[node]["next"])
    return node


@leaf
def find_run(ws, extent, place):
    """Return the lowest run of an extent that ends beyond `place`, or NONE."""
    node = np.int64(ws.tier_heads[extent])
    if node != NONE:
        if ws.tier[ws.tier[node]["left"]]["end"] <= place:
            return NONE
        while ws.tier[node]["end"] <= place:
            node = np.int64(ws.tier[node]["right"])
    return node


@leaf
def find_below(ws, extent, place):
    """Return the highest run of an extent that begins before `place`, or NONE."""
    node = np.int64(ws.tier_heads[extent])
    if node != NONE:
        if ws.tier[node]["first"] >= place:
            return NONE
        node = np.int64(ws.tier[node]["left"])
        while ws.tier[node]["first"] >= place:
            node = np.int64(ws.tier[node]["left"])
    return node


@leaf
def _link_after(ws, node, before):
    """Put a run into the ring of its extent, behind another one."""
    after = ws.tier[before]["right"]
    ws.tier[node]["left"] = before
    ws.tier[node]["right"] = after
    ws.tier[before]["right"] = node
    ws.tier[after]["left"] = node


@leaf
def new_run(ws, inst, extent, first, end, falls):
    """Return a run of the places `first` to `end - 1`, none of which the tier has; in no order."""
    node = _new_record(ws, inst)
    run = ws.tier[node]
    run["extent"] = extent
    run["first"] = first
    run["end"] = end
    run["falls"] = falls
    head = np.int64(ws.tier_heads[extent])
    if head == NONE:
        run["left"] = node
        run["right"] = node
        ws.tier_heads[extent] = node
    else:
        after = find_run(ws, extent, first)
        _link_after(ws, node, ws.tier[head if after == NONE else after]["left"])
        if after == head:
            ws.tier_heads[extent] = node
    return node


@leaf
def drop_run(ws, inst, node):
    """Forget a run, which stands in its rings."""
    left = ws.tier[node]["left"]
    right = ws.tier[node]["right"]
    extent = ws.tier[node]["extent"]
    if right == node:
        ws.tier_heads[extent] = NONE
    else:
        ws.tier[left]["right"] = right
        ws.tier[right]["left"] = left
        if ws.tier_heads[extent] == node:
            ws.tier_heads[extent] = right
    unlink(ws.tier, node)
    ws.tier[node]["next"] = inst["tier_spare"]
    inst["tier_spare"] = node


@leaf
def split(ws, inst, node, place):
    """Make a run of its own of the places of a run from `place` on, next to it; return it."""
    upper = _new_record(ws, inst)
    ws.tier[upper] = ws.tier[node]
    ws.tier[upper]["first"] = place
    ws.tier[node]["end"] = place
    _link_after(ws, upper, node)
    falls = ws.tier[node]["falls"] == FALLS
    link_before(ws.tier, upper, node if falls else ws.tier[node]["next"])
    return upper


@leaf
def cut(ws, inst, node, first, end):
    """Return the run of the places `first` to `end - 1` of a run, split from the rest of it."""
    if ws.tier[node]["first"] < first:
        node = split(ws, inst, node, first)
    if ws.tier[node]["end"] > end:
        split(ws, inst, node, end)
    return node


@leaf
def take_first(ws, inst, node, count):
    """Take up to `count` places out of a run, those that make room first; return how many."""
    run = ws.tier[node]
    size = run["end"] - run["first"]
    if count >= size:
        drop_run(ws, inst, node)
        count = size
    elif run["falls"] == FALLS:
        run["end"] -= count
    else:
        run["first"] += count
    return count
