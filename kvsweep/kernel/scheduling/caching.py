"""When the blocks of running requests are cached, and when a decoding request is due for it.

Blocks that decoding fills are cached late: when they are freed, or before anything is looked up or
cached that could tell. *Duplicates*, whose decode blocks may carry the same key, cache each block
as soon as they may, and are due then, as the first to be cached is found. They may in the step that
fills the block; asynchronously in the next one, as the token is known then (rule R10.4).
"""

from ..._jit import leaf
from ...records import NEVER
from ..blocks import pool, tier, unsettled
from ..blocks.sizes import full_blocks
from ..memory import extent_at
from ..offload import counted_stores
from ..time.decoding import last_decode, next_fill, settled_tokens


@leaf
def caches_at_once(lane, request):
    """Return whether a request caches each decode block in the step that fills it."""
    return request["duplicate"] and lane["prefix_caching"]


@leaf
def next_due(lane, request, progress, step):
    """Return the first step from `step` on at which a decoding request needs attention."""
    due = last_decode(request, progress)
    if caches_at_once(lane, request):
        due = min(due, next_fill(lane, progress, step) + lane["async_scheduling"])
    return due


@leaf
def cache(inp, ws, lane, inst, request, progress, count):
    """Cache the first `count` blocks of a prefill; a write-through tier copies the new ones."""
    if lane["copies_each_step"]:
        if is_being_filled(inp, ws, lane, inst, request):
            unsettled.watch_all(inp, ws, lane, inst)
        tier.copy(inp, ws, lane, inst, request, progress, count, inst["clock"])
    pool.cache_blocks(inp, ws, lane, inst, request, progress, count)


@leaf
def cache_decode(inp, ws, lane, inst, request, progress, position):
    """Cache what a decoding request has filled, this step's token included, and set its due."""
    step = inst["step"]
    full = full_blocks(lane, settled_tokens(lane, request, progress, step + 1, step - 1))
    pool.cache_blocks(inp, ws, lane, inst, request, progress, full)
    if caches_at_once(lane, request) and last_decode(request, progress) > step:
        after = step + 1 - lane["async_scheduling"]
        ws.due[inst["run_lo"] + position] = next_due(lane, request, progress, after)


@leaf
def cache_decodes(inp, ws, lane, inst, step, latest):
    """Cache what decoding requests filled before `step`, where others have the same keys.

    `latest` is the step on its way, as for `settled_tokens`.
    """
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        progress = ws.progress[r]
        request = inp.requests[lane["request_lo"] + r]
        computed = settled_tokens(lane, request, progress, step, latest)
        fills = (progress["cached_blocks"] + 1) * lane["block_size"] <= computed
        if progress["decoding"] and fills and request["shared"]:
            full = full_blocks(lane, computed)
            pool.cache_blocks(inp, ws, lane, inst, request, progress, full)


@leaf
def is_being_filled(inp, ws, lane, inst, request):
    """Return whether a decoding request fills blocks that `request` has too."""
    filled = False
    end = 0
    slot = request["chain_lo"]
    while lane["prefix_caching"] and end < request["reusable"]:
        link = inp.chain[slot]
        filled = filled or ws.extents[extent_at(lane, inst, link["extent"])]["fillers"] > 0
        end = link["end"]
        slot += 1
    return filled


@leaf
def cache_decodes_for(inp, ws, lane, inst, request, step):
    """Cache what decoding requests filled before `step`, if `request` could tell.

    Step `step` - 1 is scheduled, so asynchronously the one before that is on its way.
    """
    if is_being_filled(inp, ws, lane, inst, request):
        if lane["copies_each_step"]:
            unsettled.settle_all(inp, ws, lane, inst)
        if lane["connects"] and inst["unsettled"] > 0:
            counted_stores.settle_all(inp, ws, lane, inst)
        cache_decodes(inp, ws, lane, inst, step, step - 2)


@leaf
def next_useful_fill(inp, ws, lane, inst, request):
    """Return the next step in which a decoding request may fill a block that `request` hits.

    Such a block continues a chain of the same content, so it begins with the same key.
    """
    nearest = NEVER
    late = lane["async_scheduling"]  # cached one step after the one that fills it
    if is_being_filled(inp, ws, lane, inst, request):
        for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
            r = ws.running[place]
            other = inp.requests[lane["request_lo"] + r]
            fills = ws.progress[r]["decoding"] == 1 and other["shared"]
            if fills and other["family"] == request["family"]:
                fill = next_fill(lane, ws.progress[r], inst["step"] + 1 - late)
                nearest = min(nearest, fill + late)
    return nearest
