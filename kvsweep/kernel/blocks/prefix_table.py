"""The prefix table of an instance: which block of a split extent carries a key, and its duplicates.

Blocks with the same key form a ring, the oldest in the table (vLLM keeps duplicates too).
"""

from ..._jit import leaf
from ...records import NONE
from ..offload.pins import clear_pins


@leaf
def find(ws, inst, key):
    """Return the oldest block that carries `key`, or NONE.

    A slot of the prefix table counts only if the block it names carries the key, so the table
    need not be cleared between lanes (a clear would cost more than a simulation).
    """
    block = ws.prefix[inst["prefix_lo"] + key]
    lo = inst["block_lo"]
    if block < lo or block >= lo + inst["fresh"] or ws.blocks[block]["key"] != key:
        block = NONE
    return block


@leaf
def forget(ws, inst, block):
    """Take the key from a block that leaves the LRU list; its id becomes spare."""
    record = ws.blocks[block]
    following = record["duplicate_next"]
    if following != block:
        ws.blocks[record["duplicate_prev"]]["duplicate_next"] = following
        ws.blocks[following]["duplicate_prev"] = record["duplicate_prev"]
        slot = inst["prefix_lo"] + record["key"]
        if ws.prefix[slot] == block:
            ws.prefix[slot] = following
    record["key"] = NONE
    ws.lru[block]["next"] = inst["spare"]
    inst["spare"] = block
    inst["keyed"] -= 1


@leaf
def withhold(ws, inst, block):
    """Let no other block have the id that has just become spare."""
    inst["spare"] = ws.lru[block]["next"]


@leaf
def new_id(ws, inst):
    """Return a block id that carries no key."""
    block = inst["spare"]
    if block == NONE:
        block = inst["block_lo"] + inst["fresh"]
        inst["fresh"] += 1
        ws.blocks[block]["key"] = NONE  # it may hold an earlier lane's
        if inst["serial"] > 0:
            clear_pins(ws, block)
    else:
        inst["spare"] = ws.lru[block]["next"]
    return block


@leaf
def add_key(ws, inst, block, key):
    """Let a block be found by `key`, as the youngest of its duplicates."""
    oldest = find(ws, inst, key)
    if oldest == NONE:
        ws.prefix[inst["prefix_lo"] + key] = block
        ws.blocks[block]["duplicate_prev"] = block
        ws.blocks[block]["duplicate_next"] = block
    else:
        youngest = ws.blocks[oldest]["duplicate_prev"]
        ws.blocks[block]["duplicate_prev"] = youngest
        ws.blocks[block]["duplicate_next"] = oldest
        ws.blocks[youngest]["duplicate_next"] = block
        ws.blocks[oldest]["duplicate_prev"] = block
    ws.blocks[block]["key"] = key
    inst["keyed"] += 1


@leaf
def cache_block(ws, inst, key, extent, users):
    """Give an id to a block with `key`, as the youngest of its duplicates, and return it."""
    block = new_id(ws, inst)
    add_key(ws, inst, block, key)
    ws.blocks[block]["ref_count"] = users
    ws.blocks[block]["extent"] = extent
    ws.blocks[block]["hits"] = 0
    return block
