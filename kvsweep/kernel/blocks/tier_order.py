"""The order in which the blocks of a CPU tier make room: what was used the longest ago goes first.

A use has a rank: its step, then the turn of the request among those admitted, as the requests of
a step are served in that order. Runs that were used at once stand in one ring, in the order of
their ranks. What a request fills by decoding is a ``LOOSE`` run: its blocks are used one by one, a
block's tokens of steps apart, so it has the rank of its first block, and that tells the others'.
It stands in the ring ``GROWN`` while it has lost nothing from its front, then in ``TRIMMED``: both
are in order by themselves, as what is trimmed last has the largest rank.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from . import runs
from .ring import link_before, unlink
from .runs import FALLS, LOOSE, RISES

GROWN, TRIMMED = 1, 2
"""Rings of loose runs, counted from `tier_lo`, the end of the ring of all others."""

TURN_BITS = 31


@leaf
def rank_at(step, progress):
    """Return the rank of what a request uses in a step."""
    return (step << TURN_BITS) + np.int64(progress["turn"])


@leaf
def stride(lane):
    """Return by how much the ranks of a loose run's neighbours differ."""
    return lane["block_size"] << TURN_BITS


@leaf
def _follows(ws, node, extent, first, end, falls, rank):
    """Return whether the places `first` to `end - 1` go on where a run ends, in its direction.

    It must have their rank.
    """
    run = ws.tier[node]
    found = False
    if run["extent"] == extent and run["rank"] == rank:
        single = run["end"] - run["first"] == 1
        if falls == FALLS:
            found = run["first"] == end and (run["falls"] == FALLS or single)
        else:
            found = run["end"] == first and (run["falls"] == RISES or single)
    return found


@leaf
def append(ws, inst, extent, first, end, falls, rank):
    """Let the tier have the places `first` to `end - 1`, as the most recently used ones."""
    node = np.int64(ws.tier[inst["tier_lo"]]["prev"])
    if _follows(ws, node, extent, first, end, falls, rank):
        run = ws.tier[node]
        run["falls"] = falls
        if falls == FALLS:
            run["first"] = first
        else:
            run["end"] = end
    else:
        node = runs.new_run(ws, inst, extent, first, end, falls)
        ws.tier[node]["rank"] = rank
        link_before(ws.tier, node, inst["tier_lo"])


@leaf
def _put_in_order(ws, inst, node, ring):
    """Put a loose run that is in no ring where its rank belongs, which is mostly the end."""
    after = inst["tier_lo"] + ring
    before = np.int64(ws.tier[after]["prev"])
    while ws.tier[before]["extent"] != NONE and ws.tier[before]["rank"] > ws.tier[node]["rank"]:
        after = before
        before = np.int64(ws.tier[before]["prev"])
    link_before(ws.tier, node, after)


@leaf
def _trim(ws, lane, inst, node, end):
    """Take the places before `end`, but not all, out of a loose run."""
    run = ws.tier[node]
    run["rank"] += (end - run["first"]) * stride(lane)
    run["first"] = end
    unlink(ws.tier, node)
    _put_in_order(ws, inst, node, TRIMMED)


@leaf
def _take_out_loose(ws, lane, inst, node, first, end):
    """Take the places `first` to `end - 1` out of a loose run."""
    if end < ws.tier[node]["end"]:
        if first > ws.tier[node]["first"]:
            upper = runs.split(ws, inst, node, first)
            ws.tier[upper]["rank"] += (first - ws.tier[node]["first"]) * stride(lane)
            node = upper
        _trim(ws, lane, inst, node, end)
    elif first > ws.tier[node]["first"]:
        ws.tier[node]["end"] = first
    else:
        runs.drop_run(ws, inst, node)


@leaf
def drop_first(ws, lane, inst, node):
    """Take the first place out of a loose run."""
    first = np.int64(ws.tier[node]["first"])
    if first + 1 < ws.tier[node]["end"]:
        _trim(ws, lane, inst, node, first + 1)
    else:
        runs.drop_run(ws, inst, node)


@leaf
def take_out(ws, lane, inst, node, first, end):
    """Take the places `first` to `end - 1` out of a run."""
    if ws.tier[node]["falls"] == LOOSE:
        _take_out_loose(ws, lane, inst, node, first, end)
    else:
        runs.drop_run(ws, inst, runs.cut(ws, inst, node, first, end))


@leaf
def grow_loose(ws, lane, inst, extent, first, end, rank):
    """Let the tier have the places `first` to `end - 1` by decoding; the first has this rank."""
    node = runs.find_below(ws, extent, first)
    grows = False
    if node != NONE:
        run = ws.tier[node]
        goes_on = run["rank"] + (first - run["first"]) * stride(lane) == rank
        grows = run["end"] == first and run["falls"] == LOOSE and goes_on
    if grows:
        ws.tier[node]["end"] = end
    else:
        node = runs.new_run(ws, inst, extent, first, end, LOOSE)
        ws.tier[node]["rank"] = rank
        _put_in_order(ws, inst, node, GROWN)
