"""Room in a CPU tier of kvsweep's own, and what is copied to it: the least recently used goes."""

import numpy as np

from ..._jit import leaf, part
from ...records import NONE
from . import runs
from .ring import link_before, unlink
from .runs import FALLS, LOOSE, RISES
from .tier_order import GROWN, TRIMMED, TURN_BITS, append, drop_first, stride, take_out
from .unsettled import begins_after, settle_all


@leaf
def _oldest(ws, inst):
    """Return the run whose first place was used the longest ago, or an end of a ring."""
    lo = inst["tier_lo"]
    node = np.int64(ws.tier[lo]["next"])
    loose = np.int64(ws.tier[lo + GROWN]["next"])
    trimmed = np.int64(ws.tier[lo + TRIMMED]["next"])
    if ws.tier[trimmed]["rank"] < ws.tier[loose]["rank"]:
        loose = trimmed
    return node if ws.tier[loose]["rank"] > ws.tier[node]["rank"] else loose


@leaf
def _evict(inp, ws, lane, inst, count):
    """Let up to `count` blocks make room that were used the longest ago; return how many."""
    node = _oldest(ws, inst)
    if not begins_after(inst, ws.tier[node]["rank"]):
        settle_all(inp, ws, lane, inst)
        node = _oldest(ws, inst)
    if ws.tier[node]["falls"] == LOOSE:
        drop_first(ws, lane, inst, node)
        count = np.int64(1)
    else:
        count = runs.take_first(ws, inst, node, count)
    return count


@leaf
def _trim_in_turn(ws, lane, inst, count):
    """Let up to `count` blocks make room, each the first of a trimmed run; return how many.

    Such runs lose one block after the other in turn: who has lost one is the last then. So the end
    of their ring moves, and they keep their places.
    """
    lo = inst["tier_lo"]
    end = lo + TRIMMED
    limit = min(ws.tier[ws.tier[lo]["next"]]["rank"], ws.tier[ws.tier[lo + GROWN]["next"]]["rank"])
    if inst["unsettled"] > 0:
        limit = min(limit, inst["settled_to"] << TURN_BITS)
    node = np.int64(ws.tier[end]["next"])
    last = np.int64(ws.tier[end]["prev"])
    gone = np.int64(0)
    if node != end and (
        node == last or ws.tier[node]["rank"] + stride(lane) > ws.tier[last]["rank"]
    ):
        while gone < count and node != end:
            run = ws.tier[node]
            if run["rank"] >= limit or run["end"] - run["first"] == 1:
                break
            run["rank"] += stride(lane)
            run["first"] += 1
            gone += 1
            node = np.int64(run["next"])
    if gone > 0 and node != end:
        unlink(ws.tier, end)
        link_before(ws.tier, end, node)
    return gone


@part
def find_room(inp, ws, lane, inst, count):
    """Return for how many of `count` blocks there is room: for all, if the tier has so many.

    What was used the longest ago makes room.
    """
    room = lane["cpu_blocks"] - inst["tier_used"]
    while room < count and inst["tier_used"] > 0:
        gone = _trim_in_turn(ws, lane, inst, count - room)
        if gone == 0:
            gone = _evict(inp, ws, lane, inst, count - room)
        inst["tier_used"] -= gone
        room += gone
    return min(room, count)


@leaf
def count_new(ws, inst, first, end, now):
    """Count blocks that are copied to the CPU."""
    inst["tier_used"] += end - first
    inst["offloads"] += end - first
    for key in range(inst["prefix_lo"] + first, inst["prefix_lo"] + end):
        ws.tier_blocks[key]["came"] = now


@leaf
def store_up(inp, ws, lane, inst, extent, first, end, now, rank):
    """Copy the blocks `first` to `end - 1` of an extent in order; what is there counts as used."""
    while first < end:
        node = runs.find_run(ws, extent, first)
        upto = end
        if node != NONE and ws.tier[node]["first"] <= first:
            upto = min(end, np.int64(ws.tier[node]["end"]))
            take_out(ws, lane, inst, node, first, upto)
        else:
            if node != NONE:
                upto = min(end, np.int64(ws.tier[node]["first"]))
            upto = first + find_room(inp, ws, lane, inst, upto - first)
            count_new(ws, inst, first, upto, now)
        append(ws, inst, extent, first, upto, RISES, rank)
        first = upto


@part
def store_down(inp, ws, lane, inst, extent, first, end, now):
    """Copy the blocks `end - 1` down to `first` of an extent, likewise; nothing here is loose."""
    while first < end:
        node = runs.find_below(ws, extent, end)
        downto = first
        if node != NONE and ws.tier[node]["end"] >= end:
            downto = max(first, np.int64(ws.tier[node]["first"]))
            take_out(ws, lane, inst, node, downto, end)
        else:
            if node != NONE:
                downto = max(first, np.int64(ws.tier[node]["end"]))
            downto = end - find_room(inp, ws, lane, inst, end - downto)
            count_new(ws, inst, downto, end, now)
        append(ws, inst, extent, downto, end, FALLS, 0)
        end = downto
