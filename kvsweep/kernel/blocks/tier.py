"""The CPU tier of an instance: blocks that left the GPU (watermark) or copies (write-through).

Its blocks are records in a ring, least recently used first; the record at `tier_lo` is the ring's
end and holds no block. A slot of the tier's table counts only if the record it names carries the
key, as in the prefix table, so nothing is cleared between lanes.
"""

import math

import numpy as np

from ..._jit import leaf
from ...policies import Offload
from ...records import NONE
from . import pool


@leaf
def begin_tier(ws, lane, inst):
    """Empty the tier of an instance."""
    end = inst["tier_lo"]
    if lane["cpu_blocks"] > 0 and not lane["connects"]:
        ws.tier[end]["prev"] = end
        ws.tier[end]["next"] = end
        ws.tier[end]["key"] = NONE


@leaf
def _find(ws, inst, key):
    """Return the record that carries `key`, or NONE."""
    node = np.int64(ws.tier_table[inst["prefix_lo"] + key])
    lo = inst["tier_lo"]
    if node <= lo or node > lo + inst["tier_fresh"] or ws.tier[node]["key"] != key:
        node = NONE
    return node


@leaf
def _unlink(ws, node):
    before = ws.tier[node]["prev"]
    after = ws.tier[node]["next"]
    ws.tier[before]["next"] = after
    ws.tier[after]["prev"] = before


@leaf
def _link_last(ws, inst, node):
    """Make a record the most recently used one."""
    end = inst["tier_lo"]
    before = ws.tier[end]["prev"]
    ws.tier[node]["prev"] = before
    ws.tier[node]["next"] = end
    ws.tier[before]["next"] = node
    ws.tier[end]["prev"] = node


@leaf
def _move_last(ws, inst, first, last):
    """Make the records from `first` to `last`, side by side, the most recently used; or NONE."""
    if first != NONE:
        before = ws.tier[first]["prev"]
        after = ws.tier[last]["next"]
        ws.tier[before]["next"] = after
        ws.tier[after]["prev"] = before
        end = inst["tier_lo"]
        before = ws.tier[end]["prev"]
        ws.tier[first]["prev"] = before
        ws.tier[last]["next"] = end
        ws.tier[before]["next"] = first
        ws.tier[end]["prev"] = last


@leaf
def _new_record(ws, lane, inst):
    """Return a record without a block: a spare one, a fresh one, or the least recently used."""
    node = inst["tier_spare"]
    if node != NONE:
        inst["tier_spare"] = ws.tier[node]["next"]
    elif inst["tier_fresh"] < lane["cpu_blocks"]:
        inst["tier_fresh"] += 1
        node = inst["tier_lo"] + inst["tier_fresh"]
    else:
        node = np.int64(ws.tier[inst["tier_lo"]]["next"])
        _unlink(ws, node)
    return node


@leaf
def _store(ws, lane, inst, key, now):
    """Copy a block to the CPU; if it is there already it counts as used."""
    node = _find(ws, inst, key)
    if node == NONE:
        node = _new_record(ws, lane, inst)
        ws.tier[node]["key"] = key
        ws.tier[node]["came"] = now
        ws.tier_table[inst["prefix_lo"] + key] = node
        inst["offloads"] += 1
    else:
        _unlink(ws, node)
    _link_last(ws, inst, node)


@leaf
def copy(inp, ws, lane, inst, request, first, end, now):
    """Copy the blocks `first` to `end - 1` of a request, which a step scheduled at `now` fills."""
    for slot in range(request["key_lo"] + first, request["key_lo"] + end):
        _store(ws, lane, inst, inp.keys[slot], now)


@leaf
def relieve(inp, ws, lane, inst):
    """Move the cached free blocks of a crowded pool to the CPU (watermark)."""
    used = lane["gpu_blocks"] - inst["free"]
    moves = lane["cpu_blocks"] > 0 and lane["offload"] == Offload.WATERMARK
    if moves and used / lane["gpu_blocks"] > lane["offload_threshold"]:
        while inst["evictable"] > 0:
            _store(ws, lane, inst, pool.uncache_first(inp, ws, inst), inst["clock"])


@leaf
def count_loads(inp, ws, lane, inst, request, first, limit):
    """Return how many keys of a request from `first` on, and before `limit`, are on the CPU."""
    slot = first
    if lane["cpu_blocks"] > 0:
        while slot < limit and _find(ws, inst, inp.keys[request["key_lo"] + slot]) != NONE:
            slot += 1
    return slot - first


@leaf
def _leave(ws, inst, node):
    """Take a block off the CPU."""
    _unlink(ws, node)
    ws.tier[node]["key"] = NONE
    ws.tier[node]["next"] = inst["tier_spare"]
    inst["tier_spare"] = node


@leaf
def load(inp, ws, lane, inst, request, progress, count):
    """Copy `count` blocks that follow the hits of an admitted request to the GPU.

    The transfer takes its base latency and the tokens over the bandwidth.
    """
    first = request["key_lo"] + progress["cached_blocks"]
    for slot in range(first, first + count):
        node = _find(ws, inst, inp.keys[slot])
        inst["thrashed"] += inst["clock"] - ws.tier[node]["came"] < lane["thrashing_window"]
        if lane["offload"] == Offload.WATERMARK:
            _leave(ws, inst, node)
    tokens = count * lane["block_size"]
    inst["reloads"] += count
    inst["transfer"] += lane["transfer_base"] + math.ceil(tokens / lane["bandwidth"])
    pool.cache_blocks(inp, ws, lane, inst, request, progress, progress["cached_blocks"] + count)


@leaf
def touch(inp, ws, lane, inst, request, count):
    """Count the copies of the first `count` blocks of a request as used, the first one last.

    They stand side by side where they were touched together before; so they move in runs.
    """
    if lane["cpu_blocks"] > 0 and lane["offload"] == Offload.WRITE_THROUGH:
        lo = request["key_lo"]
        first = NONE
        last = NONE
        for slot in range(lo + count - 1, lo - 1, -1):
            key = inp.keys[slot]
            if last != NONE and ws.tier[ws.tier[last]["next"]]["key"] == key:
                last = np.int64(ws.tier[last]["next"])
            else:
                _move_last(ws, inst, first, last)
                first = _find(ws, inst, key)
                last = first
        _move_last(ws, inst, first, last)


@leaf
def add_transfer(lane, inst, compute):
    """Return how long a step takes that computes for `compute` us and waits for transfers."""
    inst["transfer_time"] += inst["transfer"]
    duration = compute + inst["transfer"]
    if lane["overlap"]:
        duration = max(compute, inst["transfer"])
    return duration
