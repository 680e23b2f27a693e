"""The pool of an instance: take, touch, release, cache (rules R3.1 to R3.5).

Only what somebody may look up has a record: a cached block that other requests have too, or that a
victim had. All other blocks are counted. A request's *own* cached blocks become free together, as a
*stretch* with one record. Free blocks with a key are the LRU list, of blocks and of stretches.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks import lru
from ..blocks.prefix_table import add_key, cache_block, forget, new_id

STRETCH = np.int32(-2)
"""Key of a stretch: blocks `duplicate_prev` to ``duplicate_next - 1`` of the state `extent` in the
group `hits`, the last one evicted first; of no state, notes (left_behind.py), the first first. A
refused head that watches it has `ref_count` 1."""


@leaf
def _drop(ws, inst, stretch):
    """Let a stretch have no blocks any more; its id becomes spare."""
    lru.unlink(ws, inst, stretch)
    ws.blocks[stretch]["key"] = NONE
    ws.lru[stretch]["next"] = inst["spare"]
    inst["spare"] = stretch


@leaf
def _evict(ws, inst, count):
    """Evict up to so many blocks from the head of the LRU list; return how many."""
    head = np.int64(inst["lru_head"])
    record = ws.blocks[head]
    evicted = np.int64(1)
    if record["key"] == STRETCH:
        size = np.int64(record["duplicate_next"]) - record["duplicate_prev"]
        evicted = min(count, size)
        if record["extent"] == NONE:
            record["duplicate_prev"] += evicted
        else:
            record["duplicate_next"] -= evicted
        inst["keyed"] -= evicted
        if evicted == size:
            _drop(ws, inst, head)
    else:
        lru.unlink(ws, inst, head)
        forget(ws, inst, head)
    inst["evictable"] -= evicted
    inst["evictions"] += evicted
    return evicted


@leaf
def take(ws, inst, count):
    """Take so many free blocks: those without a key, then the next to evict."""
    lacks = count - (inst["free"] - inst["evictable"])
    while lacks > 0:
        lacks -= _evict(ws, inst, lacks)
    inst["free"] -= count


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
    """Take a user from a cached block; without any it is free, the last to be evicted."""
    ws.blocks[block]["ref_count"] -= 1
    if ws.blocks[block]["ref_count"] == 0:
        lru.append(ws, inst, block)
        inst["free"] += 1
        inst["evictable"] += 1


@leaf
def cache(ws, inst, key):
    """Let a used block be found by `key`, behind those that have it already; return its record."""
    return cache_block(ws, inst, key, NONE, 1)


@leaf
def release_stretch(ws, inst, s, group, first, end):
    """Free the cached blocks `first` to ``end - 1`` of a request, or of none; return the record."""
    block = np.int64(new_id(ws, inst))
    record = ws.blocks[block]
    record["key"] = STRETCH
    record["ref_count"] = 0
    record["extent"] = s
    record["hits"] = group
    record["duplicate_prev"] = first
    record["duplicate_next"] = end
    lru.append(ws, inst, block)
    inst["free"] += end - first
    inst["evictable"] += end - first
    inst["keyed"] += end - first
    return block


@leaf
def take_stretch(ws, inst, stretch):
    """Let the blocks of a stretch be used again."""
    size = np.int64(ws.blocks[stretch]["duplicate_next"]) - ws.blocks[stretch]["duplicate_prev"]
    inst["free"] -= size
    inst["evictable"] -= size
    inst["keyed"] -= size
    _drop(ws, inst, stretch)


@leaf
def is_stretch_with(ws, inst, record, s, group, block):
    """Return whether this record, which may be of an earlier lane, has a block of a request."""
    lo = inst["block_lo"]
    found = False
    if lo <= record < lo + inst["fresh"] and ws.blocks[record]["key"] == STRETCH:
        stretch = ws.blocks[record]
        found = stretch["extent"] == s and stretch["hits"] == group
        found = found and stretch["duplicate_prev"] <= block < stretch["duplicate_next"]
    return found


@leaf
def give_key(ws, inst, block, key):
    """Let a free block that was part of a stretch be found by `key`."""
    ws.blocks[block]["ref_count"] = 0
    ws.blocks[block]["hits"] = 0
    add_key(ws, inst, block, key)
    inst["keyed"] -= 1


@leaf
def split_last(ws, inst, stretch, key):
    """Give the last block of a stretch a record of its own, with `key`; return it."""
    record = ws.blocks[stretch]
    block = np.int64(stretch)
    record["duplicate_next"] -= 1
    if record["duplicate_next"] > record["duplicate_prev"]:
        block = np.int64(new_id(ws, inst))
        lru.link(ws, inst, ws.lru[stretch]["prev"], block)
        lru.link(ws, inst, block, stretch)
    give_key(ws, inst, block, key)
    return block
