"""The pool of an instance block by block: take, touch, release, cache (rules R3.1 to R3.5).

Free blocks without a key are a stack of spare ones, and behind it those that were never used; free
ones with a key are the LRU list. So what vLLM keeps as one list is in the order of that.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks import lru
from ..blocks.prefix_table import add_key, forget


@leaf
def take(ws, inst):
    """Return a free block, which has one user now: one without a key, else the next to evict."""
    if inst["free"] == inst["evictable"]:
        evicted = np.int64(inst["lru_head"])
        lru.unlink(ws, inst, evicted)
        forget(ws, inst, evicted)
        inst["evictable"] -= 1
        inst["evictions"] += 1
    block = np.int64(inst["spare"])
    if block == NONE:
        block = inst["block_lo"] + inst["fresh"]
        inst["fresh"] += 1
        ws.blocks[block]["key"] = NONE  # it may hold an earlier lane's
    else:
        inst["spare"] = np.int64(ws.lru[block]["next"])
    inst["free"] -= 1
    ws.blocks[block]["ref_count"] = 1
    return block


@leaf
def touch(ws, inst, block):
    """Add a user to a cached block."""
    if ws.blocks[block]["ref_count"] == 0:
        lru.unlink(ws, inst, block)
        inst["evictable"] -= 1
        inst["free"] -= 1
    ws.blocks[block]["ref_count"] += 1


@leaf
def release(ws, inst, block):
    """Take a user from a block; without any it is free: spare, or the last to be evicted."""
    ws.blocks[block]["ref_count"] -= 1
    if ws.blocks[block]["ref_count"] == 0:
        inst["free"] += 1
        if ws.blocks[block]["key"] == NONE:
            ws.lru[block]["next"] = inst["spare"]
            inst["spare"] = block
        else:
            lru.append(ws, inst, block)
            inst["evictable"] += 1


@leaf
def cache(ws, inst, block, key):
    """Let a used block be found by `key`, behind those that have it already."""
    add_key(ws, inst, block, key)
