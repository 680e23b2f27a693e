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

from .._jit import leaf
from ..policies import Scheduler
from ..records import NONE


@leaf
def _shared_part(lane, request, count):
    """Return how many of the first `count` blocks of a request have ids.

    Under the priority scheduler all have: a victim there may have published blocks in this step
    that are not computed; it then publishes them again, and the twins must be told apart.
    """
    if lane["scheduler"] != Scheduler.PRIORITY:
        count = min(count, request["reusable"])
    return count


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
def _append_lru(ws, inst, node):
    """Put a block or private tail at the tail of the LRU list: evicted last."""
    tail = inst["lru_tail"]
    ws.blocks[node]["lru_prev"] = tail
    ws.blocks[node]["lru_next"] = NONE
    if tail == NONE:
        inst["lru_head"] = node
    else:
        ws.blocks[tail]["lru_next"] = node
    inst["lru_tail"] = node


@leaf
def _unlink_lru(ws, inst, node):
    """Take a block or private tail out of the LRU list, wherever it is."""
    before = ws.blocks[node]["lru_prev"]
    after = ws.blocks[node]["lru_next"]
    if before == NONE:
        inst["lru_head"] = after
    else:
        ws.blocks[before]["lru_next"] = after
    if after == NONE:
        inst["lru_tail"] = before
    else:
        ws.blocks[after]["lru_prev"] = before


@leaf
def _forget(ws, inst, block):
    """Take the key from a block that leaves the LRU list; its id becomes spare."""
    record = ws.blocks[block]
    twin = record["twin_next"]
    if twin != block:
        ws.blocks[record["twin_prev"]]["twin_next"] = twin
        ws.blocks[twin]["twin_prev"] = record["twin_prev"]
        slot = inst["prefix_lo"] + record["key"]
        if ws.prefix[slot] == block:
            ws.prefix[slot] = twin
    record["key"] = NONE
    record["lru_next"] = inst["spare"]
    inst["spare"] = block
    inst["keyed"] -= 1


@leaf
def _evict(ws, inst, count):
    """Evict up to `count` of the least recently used cached blocks; return how many."""
    node = inst["lru_head"]
    if node < inst["tail_lo"]:
        _unlink_lru(ws, inst, node)
        _forget(ws, inst, node)
        count = 1
    else:
        count = min(count, ws.blocks[node]["size"])
        ws.blocks[node]["size"] -= count
        inst["tails"] -= count
        if ws.blocks[node]["size"] == 0:
            _unlink_lru(ws, inst, node)
    inst["cached"] -= count
    inst["evictions"] += count
    return count


@leaf
def take(ws, inst, count):
    """Take `count` of the free blocks: blank ones first, then by evicting cached ones."""
    lacking = count - (inst["free"] - inst["cached"])
    inst["free"] -= count
    while lacking > 0:
        lacking -= _evict(ws, inst, lacking)


@leaf
def _new_id(ws, inst):
    """Return a block id that carries no key."""
    block = inst["spare"]
    if block == NONE:
        block = inst["block_lo"] + inst["fresh"]
        inst["fresh"] += 1
        ws.blocks[block]["key"] = NONE  # it may hold an earlier lane's
    else:
        inst["spare"] = ws.blocks[block]["lru_next"]
    return block


@leaf
def _publish_block(ws, inst, key, slot):
    """Give the block of table slot `slot` an id and `key`, as the youngest of its twins."""
    block = _new_id(ws, inst)
    oldest = find(ws, inst, key)
    if oldest == NONE:
        ws.prefix[inst["prefix_lo"] + key] = block
        ws.blocks[block]["twin_prev"] = block
        ws.blocks[block]["twin_next"] = block
    else:
        youngest = ws.blocks[oldest]["twin_prev"]
        ws.blocks[block]["twin_prev"] = youngest
        ws.blocks[block]["twin_next"] = oldest
        ws.blocks[youngest]["twin_next"] = block
        ws.blocks[oldest]["twin_prev"] = block
    ws.blocks[block]["key"] = key
    ws.blocks[block]["users"] = 1
    ws.table[slot] = block
    inst["keyed"] += 1


@leaf
def publish(inp, ws, lane, inst, request, progress, count):
    """Publish the first `count` blocks of a request, as far as they are not published yet."""
    lo = request["key_lo"]
    for slot in range(lo + progress["published"], lo + _shared_part(lane, request, count)):
        _publish_block(ws, inst, inp.keys[slot], slot)
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
        block = find(ws, inst, inp.keys[request["key_lo"] + hits])
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
def touch(inp, ws, lane, inst, r, hits):
    """Add a user to the first `hits` blocks of `r`; those without one leave the LRU list."""
    request = inp.requests[lane["request_lo"] + r]
    lo = request["key_lo"]
    shared = _shared_part(lane, request, hits)
    for slot in range(lo, lo + shared):
        block = ws.table[slot]
        if ws.blocks[block]["users"] == 0:
            _unlink_lru(ws, inst, block)
            inst["cached"] -= 1
            inst["free"] -= 1
        ws.blocks[block]["users"] += 1
    tail = hits - shared
    if tail > 0:
        _unlink_lru(ws, inst, inst["tail_lo"] + r)
        inst["tails"] -= tail
        inst["cached"] -= tail
        inst["free"] -= tail
    ws.progress[r]["has_tail"] = 0


@leaf
def _release_tail(ws, inst, r, count):
    """Put the private tail of `r`, `count` blocks without other users, into the LRU list."""
    ws.blocks[inst["tail_lo"] + r]["size"] = count
    ws.progress[r]["has_tail"] = 1
    _append_lru(ws, inst, inst["tail_lo"] + r)
    inst["tails"] += count
    inst["cached"] += count


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
    for slot in range(request["key_lo"] + shared - 1, request["key_lo"] - 1, -1):
        block = ws.table[slot]
        ws.blocks[block]["users"] -= 1
        if ws.blocks[block]["users"] == 0:
            _append_lru(ws, inst, block)
            inst["cached"] += 1
            inst["free"] += 1
    ws.progress[r]["published"] = 0
