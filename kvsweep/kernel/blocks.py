"""The block pool of one instance: take, publish, look up, touch, release, evict.

A block without a key has no identity, so it needs no id: blocks being filled and blank free blocks
are only counted (``free - cached`` blank ones). A block gets an id when it is published under its
content key, and keeps it until it is evicted. Free blocks that carry a key wait for reuse in the
LRU list. vLLM takes blank blocks before cached ones, as its free list has the blank ones in front
(semantics: vLLM V1 0.33.0, BlockPool and FreeKVCacheBlockQueue).

The keys that a request shares with no other are the last ones of its chain, because a key stands
for the whole prefix. These blocks, its *private tail*, can be hit by the request itself alone, and
they are released together, last block first. So they need no ids either: in the LRU list one
record stands for all of them (H8, 5000 blocks: 120 us a simulation with ids, 45 us without).
"""

import numpy as np

from .._jit import leaf
from ..records import NONE
from . import lru, prefix


@leaf
def _shared_part(lane, request, count):
    """Return how many of the first `count` blocks of a request have ids.

    Under the priority scheduler all have (`ids`): a victim there may have published blocks in this
    step that are not computed; it then publishes them again, and the twins must be told apart. With
    a CPU tier too, which moves blocks one by one.
    """
    if not lane["ids"]:
        count = min(count, request["reusable"])
    return count


@leaf
def _evict(ws, inst, count):
    """Evict up to `count` of the least recently used cached blocks; return how many."""
    node = inst["lru_head"]
    if node < inst["tail_lo"]:
        lru.unlink(ws, inst, node)
        prefix.forget(ws, inst, node)
        count = 1
    else:
        count = min(count, ws.blocks[node]["size"])
        ws.blocks[node]["size"] -= count
        inst["tails"] -= count
        if ws.blocks[node]["size"] == 0:
            lru.unlink(ws, inst, node)
    inst["cached"] -= count
    inst["evictions"] += count
    return count


@leaf
def blank_first(ws, inst):
    """Take the key from the least recently used cached block, which has an id; return the key."""
    block = inst["lru_head"]
    key = ws.blocks[block]["key"]
    lru.unlink(ws, inst, block)
    prefix.forget(ws, inst, block)
    inst["cached"] -= 1
    return key


@leaf
def take(ws, inst, count):
    """Take `count` of the free blocks: blank ones first, then by evicting cached ones."""
    lacking = count - (inst["free"] - inst["cached"])
    inst["free"] -= count
    while lacking > 0:
        lacking -= _evict(ws, inst, lacking)


@leaf
def publish(inp, ws, lane, inst, request, progress, count):
    """Publish the first `count` blocks of a request, as far as they are not published yet."""
    lo = request["key_lo"]
    for slot in range(lo + progress["published"], lo + _shared_part(lane, request, count)):
        prefix.publish_block(ws, inst, inp.keys[slot], slot)
    progress["published"] = max(count, progress["published"])


@leaf
def find_prefix(inp, ws, lane, inst, r, limit):
    """Find the longest run of cached leading blocks of request `r`, at most `limit`.

    A private tail is evicted before the blocks in front of it, so it counts if all those do.

    Returns
    -------
    hits, unused : int
        Blocks found (ids are in the table); those of them without a user.
    """
    request = inp.requests[lane["request_lo"] + r]
    shared = _shared_part(lane, request, limit)
    hits = 0
    unused = 0
    while hits < shared:
        block = prefix.find(ws, inst, inp.keys[request["key_lo"] + hits])
        if block == NONE:
            break
        ws.table[request["key_lo"] + hits] = block
        unused += ws.blocks[block]["users"] == 0
        hits += 1
    if hits == shared and limit > shared and ws.progress[r]["has_tail"]:
        hits += ws.blocks[inst["tail_lo"] + r]["size"]
        unused += ws.blocks[inst["tail_lo"] + r]["size"]
    return hits, unused


@leaf
def _touch_shared(ws, inst, first, end):
    """Add a user to the blocks of table slots `first` to `end - 1`.

    Blocks released together stand together in the LRU list, in reverse order of the table; so
    they leave it in runs, at the price of one unlinking each.
    """
    left = 0
    slot = first
    while slot < end:
        block = ws.table[slot]
        ws.blocks[block]["users"] += 1
        slot += 1
        if ws.blocks[block]["users"] > 1:
            continue
        after = ws.blocks[block]["lru_next"]
        left += 1
        while slot < end and ws.blocks[block]["lru_prev"] == ws.table[slot]:
            block = ws.table[slot]
            ws.blocks[block]["users"] = 1
            slot += 1
            left += 1
        lru.link(ws, inst, ws.blocks[block]["lru_prev"], after)
    inst["cached"] -= left
    inst["free"] -= left


@leaf
def touch(inp, ws, lane, inst, r, hits):
    """Add a user to the first `hits` blocks of `r`; those without one leave the LRU list."""
    request = inp.requests[lane["request_lo"] + r]
    lo = request["key_lo"]
    shared = _shared_part(lane, request, hits)
    _touch_shared(ws, inst, lo, lo + shared)
    tail = hits - shared
    if tail > 0:
        lru.unlink(ws, inst, inst["tail_lo"] + r)
        inst["tails"] -= tail
        inst["cached"] -= tail
        inst["free"] -= tail
    ws.progress[r]["has_tail"] = 0


@leaf
def _release_tail(ws, inst, r, count):
    """Put the private tail of `r`, `count` blocks without other users, into the LRU list."""
    ws.blocks[inst["tail_lo"] + r]["size"] = count
    ws.progress[r]["has_tail"] = 1
    lru.append(ws, inst, inst["tail_lo"] + r)
    inst["tails"] += count
    inst["cached"] += count


@leaf
def _release_shared(ws, inst, first, end):
    """Take a user from the blocks of table slots `end - 1` down to `first`."""
    tail = inst["lru_tail"]
    freed = 0
    for slot in range(end - 1, first - 1, -1):
        block = np.int64(ws.table[slot])
        record = ws.blocks[block]
        record["users"] -= 1
        if record["users"] == 0:
            record["lru_prev"] = tail
            if tail == NONE:
                inst["lru_head"] = block
            else:
                ws.blocks[tail]["lru_next"] = block
            tail = block
            freed += 1
    if freed > 0:
        ws.blocks[tail]["lru_next"] = NONE
        inst["lru_tail"] = tail
        inst["cached"] += freed
        inst["free"] += freed


@leaf
def release(inp, ws, lane, inst, r, held):
    """Give back the `held` blocks of request `r`, from the last to the first.

    So the tail of a chain is evicted before its head. Unpublished blocks become blank at once.
    """
    request = inp.requests[lane["request_lo"] + r]
    published = ws.progress[r]["published"]
    shared = _shared_part(lane, request, published)
    if published > shared:
        _release_tail(ws, inst, r, published - shared)
    inst["free"] += held - shared
    _release_shared(ws, inst, request["key_lo"], request["key_lo"] + shared)
    ws.progress[r]["published"] = 0
