"""The CPU tier of an instance: blocks that left the GPU (watermark) or copies (write-through).

Its blocks are runs (runs.py), least recently used first (tier_order.py); the place of a block is
its key, as the keys of an extent are numbered one after the other. All of a run was used at once,
and `RUN.rank` tells when. But what a request fills by decoding is a loose run: it grows block by
block, each used in its own time.
"""

import math

import numpy as np

from ..._jit import leaf, part
from ...policies import Offload
from ...records import NONE
from ..memory import extent_at
from . import pool, runs
from .runs import FALLS
from .tier_order import append, grow_loose, rank_at, take_out
from .tier_room import count_new, find_room, store_down, store_up


@leaf
def take_turn(inst, progress):
    """Give a request that is being admitted its place in the order of uses within a step."""
    inst["turns"] += 1
    progress["turn"] = inst["turns"]


@leaf
def copy_fill(inp, ws, lane, inst, request, progress, block, step, now):
    """Copy the block that a decoding request fills in a step, scheduled at `now`."""
    slot = pool.link_with(inp, progress["link"], block)
    extent = extent_at(lane, inst, inp.chain[slot]["extent"])
    key = np.int64(inp.keys[request["key_lo"] + block])
    node = runs.find_run(ws, extent, key)
    if node != NONE and ws.tier[node]["first"] <= key:
        take_out(ws, lane, inst, node, key, key + 1)
    else:
        find_room(inp, ws, lane, inst, 1)
        count_new(ws, inst, key, key + 1, now)
    grow_loose(ws, lane, inst, extent, key, key + 1, rank_at(step, progress))


@leaf
def copy(inp, ws, lane, inst, request, progress, end, now):
    """Copy those of the first `end` blocks of a request that a step scheduled at `now` fills."""
    lo = request["key_lo"]
    slot = progress["link"]
    first = progress["cached_blocks"]
    rank = rank_at(inst["step"], progress)
    while first < end:
        slot = pool.link_with(inp, slot, first)
        link = inp.chain[slot]
        upto = min(end, link["end"])
        key = np.int64(inp.keys[lo + first])
        extent = extent_at(lane, inst, link["extent"])
        store_up(inp, ws, lane, inst, extent, key, key + upto - first, now, rank)
        first = upto


@part
def relieve(inp, ws, lane, inst):
    """Move the cached free blocks of a crowded pool to the CPU (watermark)."""
    used = lane["gpu_blocks"] - inst["free"]
    moves = lane["cpu_blocks"] > 0 and lane["offload"] == Offload.WATERMARK
    if moves and used / lane["gpu_blocks"] > lane["offload_threshold"]:
        while inst["evictable"] > 0:
            extent, first, end = pool.uncache_first(inp, ws, inst)
            store_down(inp, ws, lane, inst, extent, first, end, inst["clock"])


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
def _leave(ws, lane, inst, extent, first, end):
    """Take the blocks `first` to `end - 1` of an extent, all of them there, off the CPU."""
    inst["tier_used"] -= end - first
    while first < end:
        node = runs.find_run(ws, extent, first)
        upto = min(end, np.int64(ws.tier[node]["end"]))
        take_out(ws, lane, inst, node, first, upto)
        first = upto


@leaf
def _came_after(ws, first, end, time):
    """Return how many of the blocks at places `first` to `end - 1` were copied after `time`."""
    count = 0
    for place in range(first, end):
        count += ws.tier_blocks[place]["came"] > time
    return count


@leaf
def load(inp, ws, lane, inst, request, progress, count):
    """Copy `count` blocks that follow the hits of an admitted request to the GPU.

    The transfer takes its base latency and the tokens over the bandwidth.
    """
    lo = request["key_lo"]
    slot = progress["link"]
    block = progress["cached_blocks"]
    end = block + count
    latest = inst["clock"] - lane["thrashing_window"]
    while block < end:
        slot = pool.link_with(inp, slot, block)
        link = inp.chain[slot]
        upto = min(end, link["end"])
        first = inp.keys[lo + block]
        last = first + upto - block
        inst["thrashed"] += _came_after(
            ws, inst["prefix_lo"] + first, inst["prefix_lo"] + last, latest
        )
        if lane["offload"] == Offload.WATERMARK:
            _leave(ws, lane, inst, extent_at(lane, inst, link["extent"]), first, last)
        block = upto
    tokens = count * lane["block_size"]
    inst["reloads"] += count
    inst["transfer"] += lane["transfer_base"] + math.ceil(tokens / lane["bandwidth"])
    pool.cache_blocks(inp, ws, lane, inst, request, progress, progress["cached_blocks"] + count)


@leaf
def _use(ws, lane, inst, extent, first, end, rank):
    """Count those of the blocks `end - 1` down to `first` that are on the CPU as used."""
    while first < end:
        node = runs.find_below(ws, extent, end)
        if node == NONE or ws.tier[node]["end"] <= first:
            break
        downto = max(first, np.int64(ws.tier[node]["first"]))
        end = min(end, np.int64(ws.tier[node]["end"]))
        take_out(ws, lane, inst, node, downto, end)
        append(ws, inst, extent, downto, end, FALLS, rank)
        end = downto


@leaf
def touch(inp, ws, lane, inst, request, progress, count):
    """Count the copies of the first `count` blocks of a request as used, the first one last."""
    if lane["cpu_blocks"] > 0 and lane["offload"] == Offload.WRITE_THROUGH and count > 0:
        slot = pool.link_with(inp, request["chain_lo"], count - 1)
        rank = rank_at(inst["step"], progress)
        while count > 0:
            link = inp.chain[slot]
            first = inp.keys[request["key_lo"] + link["first"]]
            extent = extent_at(lane, inst, link["extent"])
            _use(ws, lane, inst, extent, first, first + count - link["first"], rank)
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
