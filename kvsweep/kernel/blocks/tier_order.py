"""The order in which the blocks of a CPU tier make room: what was used the longest ago goes first.

Runs stand in the order of their ranks, what decoding filled in line (tier.py).
"""

import numpy as np

from ..._jit import leaf, part
from ...records import NONE
from . import runs
from .runs import FALLS, LOOSE, RISES


@leaf
def _follows(ws, inst, node, extent, first, end, falls):
    """Return whether the places `first` to `end - 1` go on where a run ends, in its direction.

    It must be what was used just before.
    """
    run = ws.tier[node]
    found = False
    if run["extent"] == extent and run["rank"] == inst["tier_uses"] and run["falls"] != LOOSE:
        single = run["end"] - run["first"] == 1
        if falls == FALLS:
            found = run["first"] == end and (run["falls"] == FALLS or single)
        else:
            found = run["end"] == first and (run["falls"] == RISES or single)
    return found


@leaf
def append(ws, inst, extent, first, end, falls):
    """Let the tier have the places `first` to `end - 1`, as the most recently used ones."""
    node = np.int64(ws.tier[inst["tier_lo"]]["prev"])
    if _follows(ws, inst, node, extent, first, end, falls):
        run = ws.tier[node]
        run["falls"] = falls
        if falls == FALLS:
            run["first"] = first
        else:
            run["end"] = end
    else:
        node = runs.new_run(ws, inst, extent, first, end, falls)
        inst["tier_uses"] += 1
        ws.tier[node]["rank"] = inst["tier_uses"]
        runs.link_before(ws, node, inst["tier_lo"])


@leaf
def _in_line(ws, inst, place):
    """Return the loose run that has the block at a place of the line; NONE: it was used again."""
    entry = ws.tier_line[place]
    key = np.int64(entry["key"])
    node = NONE
    if ws.tier_blocks[inst["prefix_lo"] + key]["used"] == entry["used"]:
        node = runs.find_run(ws, np.int64(entry["extent"]), key)
        if node != NONE and (ws.tier[node]["falls"] != LOOSE or ws.tier[node]["first"] > key):
            node = NONE
    return node


@part
def _close_up(ws, lane, inst):
    """Let only those stand in line that were not used again, from its begin on."""
    lo = inst["number"] * lane["line_places"]
    kept = lo
    for place in range(lo + inst["line_head"], lo + inst["line_tail"]):
        if _in_line(ws, inst, place) != NONE:
            ws.tier_line[kept] = ws.tier_line[place]
            kept += 1
    inst["line_head"] = 0
    inst["line_tail"] = kept - lo


@leaf
def join_line(ws, lane, inst, extent, key):
    """Put a block of an extent, used now, at the end of the line."""
    if inst["line_tail"] == lane["line_places"]:
        _close_up(ws, lane, inst)
    inst["tier_uses"] += 1
    ws.tier_blocks[inst["prefix_lo"] + key]["used"] = inst["tier_uses"]
    entry = ws.tier_line[inst["number"] * lane["line_places"] + inst["line_tail"]]
    entry["used"] = inst["tier_uses"]
    entry["extent"] = extent
    entry["key"] = key
    inst["line_tail"] += 1


@leaf
def take_out(ws, inst, node, first, end):
    """Take the places `first` to `end - 1` out of a run."""
    runs.drop_run(ws, inst, runs.cut(ws, inst, node, first, end))


@leaf
def _evict(ws, lane, inst, count):
    """Let up to `count` blocks make room that were used the longest ago; return how many."""
    node = np.int64(ws.tier[inst["tier_lo"]]["next"])
    lo = inst["number"] * lane["line_places"]
    while inst["line_head"] < inst["line_tail"]:
        place = lo + inst["line_head"]
        if ws.tier_line[place]["used"] > ws.tier[node]["rank"]:
            break
        inst["line_head"] += 1
        loose = _in_line(ws, inst, place)
        if loose != NONE:
            key = np.int64(ws.tier_line[place]["key"])
            take_out(ws, inst, loose, key, key + 1)
            return np.int64(1)
    return runs.take_first(ws, inst, node, count)


@leaf
def find_room(ws, lane, inst, count):
    """Return for how many of `count` blocks there is room: at least one.

    If there is none what was used the longest ago makes room.
    """
    room = lane["cpu_blocks"] - inst["tier_used"]
    if room == 0:
        room = _evict(ws, lane, inst, count)
        inst["tier_used"] -= room
    return min(room, count)


@leaf
def count_new(ws, inst, first, end, now):
    """Count blocks that are copied to the CPU."""
    inst["tier_used"] += end - first
    inst["offloads"] += end - first
    for key in range(inst["prefix_lo"] + first, inst["prefix_lo"] + end):
        ws.tier_blocks[key]["came"] = now


@leaf
def store_up(ws, lane, inst, extent, first, end, now):
    """Copy the blocks `first` to `end - 1` of an extent in order; what is there counts as used."""
    while first < end:
        node = runs.find_run(ws, extent, first)
        upto = end
        if node != NONE and ws.tier[node]["first"] <= first:
            upto = min(end, np.int64(ws.tier[node]["end"]))
            take_out(ws, inst, node, first, upto)
        else:
            if node != NONE:
                upto = min(end, np.int64(ws.tier[node]["first"]))
            upto = first + find_room(ws, lane, inst, upto - first)
            count_new(ws, inst, first, upto, now)
        append(ws, inst, extent, first, upto, RISES)
        first = upto


@leaf
def store_down(ws, lane, inst, extent, first, end, now):
    """Copy the blocks `end - 1` down to `first` of an extent, likewise."""
    while first < end:
        node = runs.find_below(ws, extent, end)
        downto = first
        if node != NONE and ws.tier[node]["end"] >= end:
            downto = max(first, np.int64(ws.tier[node]["first"]))
            take_out(ws, inst, node, downto, end)
        else:
            if node != NONE:
                downto = max(first, np.int64(ws.tier[node]["end"]))
            downto = end - find_room(ws, lane, inst, end - downto)
            count_new(ws, inst, downto, end, now)
        append(ws, inst, extent, downto, end, FALLS)
        end = downto
