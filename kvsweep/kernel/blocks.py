"""The block pool of one instance: take, publish, look up, touch, release, evict.

A block without a key has no identity, so it needs no id: blocks being filled and blank free blocks
are only counted (``free - cached`` blank ones). A block gets an id when it is published under its
content key, and keeps it until it is evicted. Free blocks that carry a key wait for reuse in the
LRU list. vLLM takes blank blocks before cached ones, as its free list has the blank ones in front
(semantics: vLLM V1 0.33.0, BlockPool and FreeKVCacheBlockQueue).
"""

from .._jit import leaf
from ..records import NONE


@leaf
def find(ws, inst, key):
    """Return the oldest block that carries `key`, or NONE.

    A slot of the prefix table counts only if the block it names carries the key, so the table
    need not be cleared between lanes (a clear would cost more than a simulation).
    """
    block = ws.prefix[inst["prefix_lo"] + key]
    if block < 0 or block >= inst["fresh"] or ws.blocks[inst["block_lo"] + block]["key"] != key:
        block = NONE
    return block


@leaf
def _append_lru(ws, inst, block):
    """Put `block` at the tail of the LRU list: evicted last."""
    lo = inst["block_lo"]
    tail = inst["lru_tail"]
    ws.blocks[lo + block]["lru_prev"] = tail
    ws.blocks[lo + block]["lru_next"] = NONE
    if tail == NONE:
        inst["lru_head"] = block
    else:
        ws.blocks[lo + tail]["lru_next"] = block
    inst["lru_tail"] = block
    inst["cached"] += 1


@leaf
def _unlink_lru(ws, inst, block):
    """Take `block` out of the LRU list, wherever it is."""
    lo = inst["block_lo"]
    before = ws.blocks[lo + block]["lru_prev"]
    after = ws.blocks[lo + block]["lru_next"]
    if before == NONE:
        inst["lru_head"] = after
    else:
        ws.blocks[lo + before]["lru_next"] = after
    if after == NONE:
        inst["lru_tail"] = before
    else:
        ws.blocks[lo + after]["lru_prev"] = before
    inst["cached"] -= 1


@leaf
def _evict(ws, inst):
    """Evict the least recently used cached block: it loses its key and its id becomes spare."""
    lo = inst["block_lo"]
    block = inst["lru_head"]
    _unlink_lru(ws, inst, block)
    record = ws.blocks[lo + block]
    twin = record["twin_next"]
    if twin != block:
        ws.blocks[lo + record["twin_prev"]]["twin_next"] = twin
        ws.blocks[lo + twin]["twin_prev"] = record["twin_prev"]
        slot = inst["prefix_lo"] + record["key"]
        if ws.prefix[slot] == block:
            ws.prefix[slot] = twin
    record["key"] = NONE
    record["lru_next"] = inst["spare"]
    inst["spare"] = block
    inst["keyed"] -= 1
    inst["evictions"] += 1


@leaf
def take(ws, inst, count):
    """Take `count` of the free blocks: blank ones first, then by evicting cached ones."""
    blank = inst["free"] - inst["cached"]
    inst["free"] -= count
    for _ in range(count - blank):
        _evict(ws, inst)


@leaf
def _publish(ws, inst, key, slot):
    """Give the block of table slot `slot` an id and `key`, as the youngest of its twins."""
    lo = inst["block_lo"]
    block = inst["spare"]
    if block == NONE:
        block = inst["fresh"]
        inst["fresh"] = block + 1
    else:
        inst["spare"] = ws.blocks[lo + block]["lru_next"]
    ws.blocks[lo + block]["key"] = NONE  # an id taken fresh may hold an earlier lane's key
    oldest = find(ws, inst, key)
    if oldest == NONE:
        ws.prefix[inst["prefix_lo"] + key] = block
        ws.blocks[lo + block]["twin_prev"] = block
        ws.blocks[lo + block]["twin_next"] = block
    else:
        youngest = ws.blocks[lo + oldest]["twin_prev"]
        ws.blocks[lo + block]["twin_prev"] = youngest
        ws.blocks[lo + block]["twin_next"] = oldest
        ws.blocks[lo + youngest]["twin_next"] = block
        ws.blocks[lo + oldest]["twin_prev"] = block
    ws.blocks[lo + block]["key"] = key
    ws.blocks[lo + block]["users"] = 1
    ws.table[slot] = block
    inst["keyed"] += 1


@leaf
def publish(inp, ws, inst, progress, key_lo, count):
    """Publish the table's blocks from the first unpublished one up to `count` blocks."""
    for index in range(progress["published"], count):
        _publish(ws, inst, inp.keys[key_lo + index], key_lo + index)
    if count > progress["published"]:
        progress["published"] = count


@leaf
def find_prefix(inp, ws, inst, key_lo, limit):
    """Find the longest run of cached leading blocks, at most `limit`; ids go to the table.

    Returns
    -------
    hits, unused : int
        Blocks found; those of them without a user (they sit in the LRU list).
    """
    hits = 0
    unused = 0
    while hits < limit:
        block = find(ws, inst, inp.keys[key_lo + hits])
        if block == NONE:
            break
        ws.table[key_lo + hits] = block
        if ws.blocks[inst["block_lo"] + block]["users"] == 0:
            unused += 1
        hits += 1
    return hits, unused


@leaf
def touch(ws, inst, key_lo, hits):
    """Add a user to the first `hits` blocks of the table; those without one leave the LRU list."""
    lo = inst["block_lo"]
    for slot in range(key_lo, key_lo + hits):
        block = ws.table[slot]
        if ws.blocks[lo + block]["users"] == 0:
            _unlink_lru(ws, inst, block)
            inst["free"] -= 1
        ws.blocks[lo + block]["users"] += 1


@leaf
def release(ws, inst, key_lo, published, held):
    """Give back a table of `held` blocks, from the last to the first.

    So the tail of a chain is evicted before its head. The blocks beyond `published` have no key
    and become blank at once.
    """
    lo = inst["block_lo"]
    inst["free"] += held - published
    for slot in range(key_lo + published - 1, key_lo - 1, -1):
        block = ws.table[slot]
        ws.blocks[lo + block]["users"] -= 1
        if ws.blocks[lo + block]["users"] == 0:
            _append_lru(ws, inst, block)
            inst["free"] += 1
