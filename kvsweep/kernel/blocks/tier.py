"""The CPU tier of an instance: blocks that left the GPU (watermark) or copies (write-through).

Its blocks are runs (runs.py), least recently used first; the place of a block is its key, as the
keys of an extent are numbered one after the other.
"""

import math

import numpy as np

from ..._jit import leaf
from ...policies import Offload
from ...records import NONE
from ..memory import extent_at
from . import pool, runs


@leaf
def _follows(ws, node, extent, first, end, falls):
    """Return whether the places `first` to `end - 1` go on where a run ends, in its direction."""
    run = ws.tier[node]
    found = False
    if run["extent"] == extent:
        single = run["end"] - run["first"] == 1
        if falls:
            found = run["first"] == end and (run["falls"] != 0 or single)
        else:
            found = run["end"] == first and (run["falls"] == 0 or single)
    return found


@leaf
def _append(ws, inst, extent, first, end, falls):
    """Let the tier have the places `first` to `end - 1`, as the most recently used ones."""
    node = ws.tier[inst["tier_lo"]]["prev"]
    if _follows(ws, node, extent, first, end, falls):
        run = ws.tier[node]
        run["falls"] = falls
        if falls:
            run["first"] = first
        else:
            run["end"] = end
    else:
        node = runs.new_run(ws, inst, extent, first, end, falls)
        runs.link_before(ws, node, inst["tier_lo"])


@leaf
def _store_new(ws, lane, inst, extent, first, end, falls, now):
    """Copy blocks that are not on the CPU as far as there is room; return how many: at least one.

    If there is none the run makes room that was used the longest ago.
    """
    room = lane["cpu_blocks"] - inst["tier_used"]
    if room == 0:
        room = runs.take_first(ws, inst, ws.tier[inst["tier_lo"]]["next"], end - first)
        inst["tier_used"] -= room
    count = min(room, end - first)
    if falls:
        first = end - count
    else:
        end = first + count
    inst["tier_used"] += count
    inst["offloads"] += count
    for key in range(first, end):
        ws.tier_came[inst["prefix_lo"] + key] = now
    _append(ws, inst, extent, first, end, falls)
    return count


@leaf
def _store_up(ws, lane, inst, extent, first, end, now):
    """Copy the blocks `first` to `end - 1` of an extent in order; what is there counts as used."""
    while first < end:
        node = runs.find_run(ws, extent, first)
        upto = end
        if node != NONE and ws.tier[node]["first"] <= first:
            upto = min(end, ws.tier[node]["end"])
            runs.drop_run(ws, inst, runs.cut(ws, inst, node, first, upto))
            _append(ws, inst, extent, first, upto, 0)
        else:
            if node != NONE:
                upto = min(end, ws.tier[node]["first"])
            upto = first + _store_new(ws, lane, inst, extent, first, upto, 0, now)
        first = upto


@leaf
def _store_down(ws, lane, inst, extent, first, end, now):
    """Copy the blocks `end - 1` down to `first` of an extent, likewise."""
    while first < end:
        node = runs.find_below(ws, extent, end)
        downto = first
        if node != NONE and ws.tier[node]["end"] >= end:
            downto = max(first, ws.tier[node]["first"])
            runs.drop_run(ws, inst, runs.cut(ws, inst, node, downto, end))
            _append(ws, inst, extent, downto, end, 1)
        else:
            if node != NONE:
                downto = max(first, ws.tier[node]["end"])
            downto = end - _store_new(ws, lane, inst, extent, downto, end, 1, now)
        end = downto


@leaf
def copy(inp, ws, lane, inst, request, slot, first, end, now):
    """Copy the blocks `first` to `end - 1` of a request, which a step scheduled at `now` fills.

    They belong to the extent at `slot` in the chain list, or to later ones.
    """
    lo = request["key_lo"]
    while first < end:
        slot = pool.link_with(inp, slot, first)
        link = inp.chain[slot]
        upto = min(end, link["end"])
        key = inp.keys[lo + first]
        extent = extent_at(lane, inst, link["extent"])
        _store_up(ws, lane, inst, extent, key, key + upto - first, now)
        first = upto


@leaf
def relieve(inp, ws, lane, inst):
    """Move the cached free blocks of a crowded pool to the CPU (watermark)."""
    used = lane["gpu_blocks"] - inst["free"]
    moves = lane["cpu_blocks"] > 0 and lane["offload"] == Offload.WATERMARK
    if moves and used / lane["gpu_blocks"] > lane["offload_threshold"]:
        while inst["evictable"] > 0:
            extent, first, end = pool.uncache_first(inp, ws, inst)
            _store_down(ws, lane, inst, extent, first, end, inst["clock"])


@leaf
def count_loads(inp, ws, lane, inst, request, first, limit):
    """Return how many keys of a request from `first` on, and before `limit`, are on the CPU."""
    block = first
    goes_on = lane["cpu_blocks"] > 0
    slot = request["chain_lo"]
    while goes_on and block < limit:
        slot = pool.link_with(inp, slot, block)
        link = inp.chain[slot]
        key = inp.keys[request["key_lo"] + block]
        node = runs.find_run(ws, extent_at(lane, inst, link["extent"]), key)
        goes_on = node != NONE and ws.tier[node]["first"] <= key
        if goes_on:
            block = min(limit, link["end"], block + ws.tier[node]["end"] - key)
    return block - first


@leaf
def _leave(ws, inst, extent, first, end):
    """Take the blocks `first` to `end - 1` of an extent, all of them there, off the CPU."""
    inst["tier_used"] -= end - first
    while first < end:
        node = runs.find_run(ws, extent, first)
        upto = min(end, ws.tier[node]["end"])
        runs.drop_run(ws, inst, runs.cut(ws, inst, node, first, upto))
        first = upto


@leaf
def load(inp, ws, lane, inst, request, progress, count):
    """Copy `count` blocks that follow the hits of an admitted request to the GPU.

    The transfer takes its base latency and the tokens over the bandwidth.
    """
    lo = request["key_lo"]
    slot = progress["link"]
    block = progress["cached_blocks"]
    end = block + count
    while block < end:
        slot = pool.link_with(inp, slot, block)
        link = inp.chain[slot]
        upto = min(end, link["end"])
        first = inp.keys[lo + block]
        last = first + upto - block
        for key in range(first, last):
            came = ws.tier_came[inst["prefix_lo"] + key]
            inst["thrashed"] += inst["clock"] - came < lane["thrashing_window"]
        if lane["offload"] == Offload.WATERMARK:
            _leave(ws, inst, extent_at(lane, inst, link["extent"]), first, last)
        block = upto
    tokens = count * lane["block_size"]
    inst["reloads"] += count
    inst["transfer"] += lane["transfer_base"] + math.ceil(tokens / lane["bandwidth"])
    pool.cache_blocks(inp, ws, lane, inst, request, progress, progress["cached_blocks"] + count)


@leaf
def _use(ws, inst, extent, first, end):
    """Count those of the blocks `end - 1` down to `first` that are on the CPU as used."""
    while first < end:
        node = runs.find_below(ws, extent, end)
        if node == NONE or ws.tier[node]["end"] <= first:
            break
        downto = max(first, ws.tier[node]["first"])
        end = min(end, ws.tier[node]["end"])
        runs.drop_run(ws, inst, runs.cut(ws, inst, node, downto, end))
        _append(ws, inst, extent, downto, end, 1)
        end = downto


@leaf
def touch(inp, ws, lane, inst, request, count):
    """Count the copies of the first `count` blocks of a request as used, the first one last."""
    if lane["cpu_blocks"] > 0 and lane["offload"] == Offload.WRITE_THROUGH and count > 0:
        slot = pool.link_with(inp, request["chain_lo"], count - 1)
        while count > 0:
            link = inp.chain[slot]
            first = inp.keys[request["key_lo"] + link["first"]]
            extent = extent_at(lane, inst, link["extent"])
            _use(ws, inst, extent, first, first + count - link["first"])
            count = np.int64(link["first"])
            slot -= 1


@leaf
def add_transfer(lane, inst, compute):
    """Return how long a step takes that computes for `compute` us and waits for transfers."""
    inst["transfer_time"] += inst["transfer"]
    duration = compute + inst["transfer"]
    if lane["overlap"]:
        duration = max(compute, inst["transfer"])
    return duration
