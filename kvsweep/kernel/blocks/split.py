"""Blocks of split extents: each has a record, an id by which a request holds it, and duplicates.

An extent becomes split when one record for all of its blocks will not do, and whole again when
its last block is evicted.
"""

import numpy as np

from ..._jit import leaf, part
from ...records import NONE
from ..memory import extent_at, in_table
from . import lru, prefix_table


@leaf
def is_split(lane, extent):
    """Return whether the blocks of an extent have records of their own."""
    return extent["split"] or lane["all_split"]


@leaf
def find_split(inp, ws, inst, first, end):
    """Find the cached ones of the blocks of key slots `first` to `end - 1`, up to a missing one.

    Returns
    -------
    hits, unused : int
        Blocks found (ids are in the table); those of them without a user.
    """
    slot = first
    unused = 0
    while slot < end:
        block = prefix_table.find(ws, inst, inp.keys[slot])
        if block == NONE:
            break
        ws.table[in_table(ws, slot)] = block
        unused += ws.blocks[block]["ref_count"] == 0
        slot += 1
    return slot - first, unused


@leaf
def touch_split(ws, inst, first, end):
    """Add a user to the blocks of table slots `first` to `end - 1`.

    Blocks freed together stand together in the LRU list, in reverse order of the table; so
    they leave it in runs, at the price of one unlinking each.
    """
    left = 0
    slot = first
    while slot < end:
        block = ws.table[in_table(ws, slot)]
        ws.blocks[block]["ref_count"] += 1
        slot += 1
        if ws.blocks[block]["ref_count"] > 1:
            continue
        after = ws.lru[block]["next"]
        left += 1
        while slot < end and ws.lru[block]["prev"] == ws.table[in_table(ws, slot)]:
            block = ws.table[in_table(ws, slot)]
            ws.blocks[block]["ref_count"] = 1
            slot += 1
            left += 1
        lru.link(ws, inst, ws.lru[block]["prev"], after)
    inst["evictable"] -= left
    inst["free"] -= left


@leaf
def common_split(ws, first, end):
    """Return how many of the blocks of table slots `first` to `end - 1` have several users."""
    count = 0
    for slot in range(first, end):
        count += ws.blocks[ws.table[in_table(ws, slot)]]["ref_count"] > 1
    return count


@leaf
def free_split(ws, inst, first, end):
    """Take a user from the blocks of table slots `end - 1` down to `first`."""
    tail = inst["lru_tail"]
    freed = 0
    for slot in range(end - 1, first - 1, -1):
        block = np.int64(ws.table[in_table(ws, slot)])
        ws.blocks[block]["ref_count"] -= 1
        if ws.blocks[block]["ref_count"] == 0:
            ws.lru[block]["prev"] = tail
            if tail == NONE:
                inst["lru_head"] = block
            else:
                ws.lru[tail]["next"] = block
            tail = block
            freed += 1
    if freed > 0:
        ws.lru[tail]["next"] = NONE
        inst["lru_tail"] = tail
        inst["evictable"] += freed
        inst["free"] += freed


@leaf
def cache_split(inp, ws, inst, extent, first, end):
    """Cache the blocks of key slots `first` to `end - 1`, as held by one request."""
    for slot in range(first, end):
        block = prefix_table.cache_block(ws, inst, inp.keys[slot], extent, 1)
        ws.table[in_table(ws, slot)] = block
    ws.extents[extent]["size"] += end - first


@leaf
def uncache_block(ws, inst, block):
    """Take the key from a block without a user."""
    lru.unlink(ws, inst, block)
    prefix_table.forget(ws, inst, block)
    extent = ws.extents[ws.blocks[block]["extent"]]
    extent["size"] -= 1
    if extent["size"] == 0:
        extent["split"] = 0


@leaf
def _tell_holders(inp, ws, lane, inst, key_slot, first, size):
    """Enter the blocks of an extent that was whole into the tables of those who hold it.

    It begins after `first` blocks in every request that has it, with the key of slot `key_slot`.
    """
    for place in range(inst["running"] + inst["held"]):
        if place < inst["running"]:
            r = ws.running[inst["run_lo"] + place]
        else:
            r = ws.hold[inst["hold_lo"] + place - inst["running"]]
        slot = inp.requests[lane["request_lo"] + r]["key_lo"] + first
        if ws.progress[r]["cached_blocks"] > first and inp.keys[slot] == inp.keys[key_slot]:
            for held in range(slot, slot + size):
                ws.table[in_table(ws, held)] = prefix_table.find(ws, inst, inp.keys[held])


@part
def split_extent(inp, ws, lane, inst, extent, key_slot, first):
    """Give a record to each block of a whole extent; nothing else changes.

    The first block of the extent has the key of slot `key_slot`, and `first` blocks before it.
    """
    record = ws.extents[extent]
    record["split"] = 1
    node = inst["node_lo"] + extent
    before = np.int64(ws.lru[node]["prev"])
    after = np.int64(ws.lru[node]["next"])
    for offset in range(record["size"] - 1, -1, -1):
        key = inp.keys[key_slot + offset]
        block = prefix_table.cache_block(ws, inst, key, extent, record["ref_count"])
        if record["ref_count"] == 0:
            lru.link(ws, inst, before, block)
            before = block
    if record["ref_count"] == 0:
        lru.link(ws, inst, before, after)
        inst["whole_blocks"] -= record["size"]
    else:
        _tell_holders(inp, ws, lane, inst, key_slot, first, record["size"])


@leaf
def common_blocks(inp, ws, lane, inst, r):
    """Return how many of the blocks that request `r` holds another request holds too."""
    request = inp.requests[lane["request_lo"] + r]
    end = ws.progress[r]["cached_blocks"]
    slot = ws.progress[r]["link"]
    count = 0
    while end > 0:
        link = inp.chain[slot]
        extent = ws.extents[extent_at(lane, inst, link["extent"])]
        if is_split(lane, extent):
            lo = request["key_lo"]
            count += common_split(ws, lo + link["first"], lo + end)
        elif extent["ref_count"] > 1:
            count += end - link["first"]
        end = link["first"]
        slot -= 1
    return count
