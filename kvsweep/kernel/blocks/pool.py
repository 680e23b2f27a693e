"""The block pool of one instance: allocate, cache, look up, touch, free, evict.

A block without a key needs no id: those being filled, and free ones that are not cached, are only
counted (``free - evictable``). Free blocks with a key wait in the LRU list. vLLM allocates uncached
blocks first (0.33.0, BlockPool and FreeKVCacheBlockQueue; rules R3.1 to R3.6).

Blocks with keys are accounted for by *extents*: stretches of content that every request has all or
nothing of, in the same place (`kvsweep.workload.blocks`). Mostly, whoever holds a block of one
holds all that are present of it; then they are freed, hit and evicted as one, but the last block
first. One record stands for such a *whole* extent: it has its first `size` blocks, and is full, or
empty, or has at most one user, who adds to it. What does not fit that makes it *split* (split.py;
H8: 120 us with all split, 45 us whole): a hit of a part, two who compute one, a copy of a free one.

Under ``lru`` cached content has no holes: whoever holds a block holds those in front of it.
"""

import numpy as np

from ..._jit import leaf
from ...policies import Eviction
from ..memory import extent_at
from ..offload.pins import note_evicted
from . import eviction, lru, prefix_table, split
from .split import is_split


@leaf
def _next_to_evict(inst):
    """Return the node, a block or a whole extent (its last block), that is next (rule R3.1).

    Freeing makes the order (`_free_part`), by the policy of eviction (eviction.py).
    """
    return inst["lru_head"]


@leaf
def _shrink(ws, inst, node, count):
    """Take the keys from the last `count` blocks of a whole extent that nobody uses."""
    extent = ws.extents[node - inst["node_lo"]]
    extent["size"] -= count
    inst["whole_blocks"] -= count
    if extent["size"] == 0:
        lru.unlink(ws, inst, node)


@leaf
def evict(ws, inst, count):
    """Evict `count` of the cached blocks that nobody uses, if that is more than 0."""
    while count > 0:
        node = _next_to_evict(inst)
        evicted = np.int64(1)
        if node < inst["node_lo"]:
            rests = inst["watches"] and note_evicted(ws, inst, node)
            split.uncache_block(ws, inst, node)
            if rests:
                prefix_table.withhold(ws, inst, node)
        else:
            evicted = min(count, np.int64(ws.extents[node - inst["node_lo"]]["size"]))
            _shrink(ws, inst, node, evicted)
        inst["evictable"] -= evicted
        inst["evictions"] += evicted
        count -= evicted


@leaf
def uncache_first(inp, ws, inst):
    """Take the keys from the cached block that is evicted next, or from all of a whole extent.

    Returns
    -------
    extent, first, end : int
        The extent, and the keys `first` to `end - 1` of it; the last of them went first.
    """
    node = _next_to_evict(inst)
    count = np.int64(1)
    if node < inst["node_lo"]:
        index = np.int64(ws.blocks[node]["extent"])
        first = np.int64(ws.blocks[node]["key"])
        split.uncache_block(ws, inst, node)
    else:
        index = node - inst["node_lo"]
        count = np.int64(ws.extents[index]["size"])
        first = np.int64(inp.keys[ws.extents[index]["key_lo"]])
        _shrink(ws, inst, node, count)
    inst["evictable"] -= count
    return index, first, first + count


@leaf
def allocate(ws, inst, count):
    """Take `count` of the free blocks: uncached ones first, then by evicting cached ones."""
    lacking = count - (inst["free"] - inst["evictable"])
    inst["free"] -= count
    evict(ws, inst, lacking)


@leaf
def _cache_part(inp, ws, lane, inst, request, link, first, end):
    """Cache blocks `first` to `end - 1` of a request, which belong to one extent."""
    index = extent_at(lane, inst, link["extent"])
    extent = ws.extents[index]
    lo = request["key_lo"]
    if not is_split(lane, extent) and first == link["first"] and extent["size"] > 0:
        split.split_extent(inp, ws, lane, inst, index, lo + first, first)
    if is_split(lane, extent):
        split.cache_split(inp, ws, inst, index, lo + first, lo + end)
    else:
        if extent["size"] == 0:
            extent["key_lo"] = lo + first
        extent["size"] += end - first
        extent["ref_count"] = 1


@leaf
def link_of(inp, slot, block):
    """Return the slot in the chain list of `block`: `slot`, or the next if that ends before it."""
    if block == inp.chain[slot]["end"]:
        slot += 1
    return slot


@leaf
def link_with(inp, slot, block):
    """Return the slot in the chain list of `block`: `slot`, or a later one of the request."""
    while inp.chain[slot]["end"] <= block:
        slot += 1
    return slot


@leaf
def cache_blocks(inp, ws, lane, inst, request, progress, count):
    """Cache the first `count` blocks of a request, as far as they are not cached yet."""
    first = progress["cached_blocks"]
    while first < count:
        progress["link"] = link_of(inp, progress["link"], first)
        link = inp.chain[progress["link"]]
        end = min(count, link["end"])
        _cache_part(inp, ws, lane, inst, request, link, first, end)
        first = end
    progress["cached_blocks"] = first


@leaf
def find_prefix(inp, ws, lane, inst, r, limit):
    """Find the longest run of cached leading blocks of request `r`, at most `limit`.

    Returns
    -------
    hits, unused : int
        Blocks found; those of them without a user.
    """
    request = inp.requests[lane["request_lo"] + r]
    slot = request["chain_lo"]
    hits = 0
    end = 0
    unused = 0
    while hits == end and hits < limit:
        link = inp.chain[slot]
        end = min(limit, link["end"])
        extent = ws.extents[extent_at(lane, inst, link["extent"])]
        if is_split(lane, extent):
            lo = request["key_lo"]
            found, idle = split.find_split(inp, ws, inst, lo + hits, lo + end)
        else:
            found = min(extent["size"], end - hits)
            idle = found if extent["ref_count"] == 0 else 0
        hits += found
        unused += idle
        slot += 1
    return hits, unused


@leaf
def _touch_part(inp, ws, lane, inst, request, link, end):
    """Add a user to the blocks of an extent up to block `end - 1` of a request."""
    index = extent_at(lane, inst, link["extent"])
    extent = ws.extents[index]
    first = link["first"]
    alone = extent["ref_count"] == 0
    lo = request["key_lo"]
    joins = end < link["end"] and not alone
    if not is_split(lane, extent) and (end - first < extent["size"] or joins):
        split.split_extent(inp, ws, lane, inst, index, lo + first, first)
        split.find_split(inp, ws, inst, lo + first, lo + end)
    if is_split(lane, extent):
        split.touch_split(ws, inst, lo + first, lo + end)
        if lane["eviction"] != Eviction.LRU:
            eviction.count_hits(ws, lo + first, lo + end)
    else:
        extent["ref_count"] += 1
        if alone:
            lru.unlink(ws, inst, inst["node_lo"] + index)
            inst["whole_blocks"] -= end - first
            inst["evictable"] -= end - first
            inst["free"] -= end - first


@leaf
def touch(inp, ws, lane, inst, r, hits):
    """Let `r` hold its first `hits` blocks, all cached; those without a user leave the LRU list."""
    request = inp.requests[lane["request_lo"] + r]
    slot = request["chain_lo"]
    done = 0
    while done < hits:
        if done > 0:
            slot += 1
        link = inp.chain[slot]
        done = min(hits, link["end"])
        _touch_part(inp, ws, lane, inst, request, link, done)
    ws.progress[r]["link"] = slot
    ws.progress[r]["cached_blocks"] = hits


@leaf
def _free_part(ws, lane, inst, request, link, end):
    """Take a user from the blocks of an extent, from block `end - 1` of a request backwards."""
    index = extent_at(lane, inst, link["extent"])
    extent = ws.extents[index]
    first = link["first"]
    lo = request["key_lo"]
    if lane["eviction"] != Eviction.LRU:
        eviction.free_ranked(ws, lane, inst, lo + first, lo + end)
    elif is_split(lane, extent):
        split.free_split(ws, inst, lo + first, lo + end)
    else:
        extent["ref_count"] -= 1
        if extent["ref_count"] == 0:
            lru.append(ws, inst, inst["node_lo"] + index)
            inst["whole_blocks"] += end - first
            inst["evictable"] += end - first
            inst["free"] += end - first


@leaf
def free_blocks(inp, ws, lane, inst, r, held):
    """Give back the `held` blocks of request `r`, from the last to the first.

    So the tail of a chain is evicted before its head. Blocks that it has not cached become uncached
    at once.
    """
    request = inp.requests[lane["request_lo"] + r]
    end = ws.progress[r]["cached_blocks"]
    slot = ws.progress[r]["link"]
    inst["free"] += held - end
    while end > 0:
        link = inp.chain[slot]
        _free_part(ws, lane, inst, request, link, end)
        end = link["first"]
        slot -= 1
    ws.progress[r]["cached_blocks"] = 0
