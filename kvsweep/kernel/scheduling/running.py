"""What the running requests need in a step, and when those that decode are due.

All of decoding follows from counts: the computed tokens are ``step - base``, and the requests that
take a block in a step are those whose ``base`` has the step's phase modulo the block size
(docs/kernel.md has an example). Blocks that decoding fills are cached late: when they are freed, or
before anything is looked up or cached that could tell. So a request is *due* at its last step only.
Two kinds cache each block in the step that fills it, and are due then too: *duplicates*, whose
decode blocks may carry the same key, as the first to be cached is found; and all if a CPU tier
copies what is cached (`LANE.cache_each_step`), as the order of copies decides what it forgets.
"""

from ..._jit import leaf
from ...records import NEVER, NONE
from ..blocks import pool, tier
from ..blocks.sizes import blocks_for, full_blocks
from ..memory import extent_at
from ..time.calendar import IDLE
from ..time.decoding import (
    decoded_tokens,
    drop_base,
    known_tokens,
    last_decode,
    next_fill,
    set_base,
)
from . import waiting


@leaf
def caches_at_once(lane, request):
    """Return whether a request caches each decode block in the step that fills it."""
    return lane["cache_each_step"] or (request["duplicate"] and lane["prefix_caching"])


@leaf
def next_due(lane, request, progress, step):
    """Return the first step from `step` on at which a decoding request needs attention."""
    due = last_decode(request, progress)
    if caches_at_once(lane, request):
        due = min(due, next_fill(lane, progress, step))
    return due


@leaf
def _begin_filling(inp, ws, lane, inst, request, progress):
    """Mark the extent in which a request begins to fill blocks that others have too, if it does.

    Whoever has any of the blocks that it will fill has this extent.
    """
    if lane["prefix_caching"] and progress["cached_blocks"] < request["reusable"]:
        link = inp.chain[pool.link_of(inp, progress["link"], progress["cached_blocks"])]
        progress["fills"] = extent_at(lane, inst, link["extent"])
        ws.extents[progress["fills"]]["fillers"] += 1


@leaf
def begin_decode(inp, ws, lane, inst, request, progress, position, step):
    """Let the request at `position` of the running list decode one token a step from `step` on.

    If others have its blocks, the steps that fill them are news to a refused head.
    """
    if request["shared"]:
        waiting.wake_head(inst)
        _begin_filling(inp, ws, lane, inst, request, progress)
    progress["decoding"] = 1
    set_base(ws, lane, inst, progress, step, known_tokens(request, progress) - 1)
    ws.due[inst["run_lo"] + position] = next_due(lane, request, progress, step)


@leaf
def is_alone(inst):
    """Return whether there is just one request, running or waiting."""
    return inst["running"] + inst["waiting"] + inst["held"] <= 1


@leaf
def chunk_of(lane, tokens, budget, alone, splits):
    """Return how many of a prefill's `tokens` uncomputed tokens a step takes (rule R5.5).

    0 if the budget does not suffice and they may not be split.
    """
    if lane["long_prefill"] > 0 and not alone:
        tokens = min(tokens, lane["long_prefill"])
    if tokens > budget and not splits:
        return 0
    return min(tokens, budget)


@leaf
def prefill_chunk(lane, inst, request, progress, budget):
    """Return the tokens of a running request that prefills in this step; it was split before."""
    tokens = known_tokens(request, progress) - progress["computed"]
    return chunk_of(lane, tokens, budget, is_alone(inst), True)


@leaf
def charge_decodes(inst, count, context):
    """Charge a token of each of `count` decoding requests to the step; negative: give back.

    `context` is what they have computed so far, all together.
    """
    inst["budget"] -= count
    inst["decode_tokens"] += count
    inst["decode_context"] += context


@leaf
def charge_chunk(inst, request, progress, sign):
    """Charge the chunk of a prefilling request to the step (`sign` 1) or give it back (-1).

    The chunk is not yet, or no longer, counted as computed.
    """
    tokens = progress["chunk"]
    computed = progress["computed"]
    if is_decode_like(request, progress):
        charge_decodes(inst, sign, sign * computed)
    else:
        inst["budget"] -= sign * tokens
        inst["prefill_tokens"] += sign * tokens
        # Before the token at position p there are p: the sum of an arithmetic series.
        inst["prefill_context"] += sign * (tokens * computed + tokens * (tokens - 1) // 2)


@leaf
def is_decode_like(request, progress):
    """Return whether one known token is uncomputed and an output was sampled before.

    The recompute after a preemption whose hits leave a single token counts as decode.
    """
    rest = known_tokens(request, progress) - progress["computed"]
    return progress["outputs"] > 0 and rest == 1


@leaf
def _cache(inp, ws, lane, inst, request, progress, count):
    """Cache the first `count` blocks of a request; a write-through tier copies the new ones."""
    if lane["cache_each_step"]:
        tier.copy(inp, ws, lane, inst, request, progress["cached_blocks"], count)
    pool.cache_blocks(inp, ws, lane, inst, request, progress, count)


@leaf
def schedule_chunk(inp, ws, lane, inst, request, progress, position, tokens):
    """Compute `tokens` of a prefilling request and cache the blocks they fill, at once."""
    progress["chunk"] = tokens
    charge_chunk(inst, request, progress, 1)
    progress["computed"] += tokens
    if lane["prefix_caching"]:
        full = full_blocks(lane, progress["computed"])
        _cache(inp, ws, lane, inst, request, progress, full)
    due = IDLE
    if progress["computed"] == known_tokens(request, progress):
        due = inst["step"]
        inst["next_due"] = due
    ws.due[inst["run_lo"] + position] = due


@leaf
def cache_decode(inp, ws, lane, inst, request, progress, position):
    """Cache what a decoding request has filled, this step's token included, and set its due."""
    step = inst["step"]
    full = full_blocks(lane, decoded_tokens(progress, step + 1))
    _cache(inp, ws, lane, inst, request, progress, full)
    last = last_decode(request, progress)
    if caches_at_once(lane, request) and last > step:
        ws.due[inst["run_lo"] + position] = min(last, step + lane["block_size"])


@leaf
def cache_decodes(inp, ws, lane, inst, step):
    """Cache what decoding requests filled before `step`, where others have the same keys."""
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        progress = ws.progress[r]
        computed = decoded_tokens(progress, step)
        if (
            progress["decoding"]
            and (progress["cached_blocks"] + 1) * lane["block_size"] <= computed
        ):
            request = inp.requests[lane["request_lo"] + r]
            if request["shared"]:
                pool.cache_blocks(
                    inp, ws, lane, inst, request, progress, full_blocks(lane, computed)
                )


@leaf
def _is_being_filled(inp, ws, lane, inst, request):
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
    """Cache what decoding requests filled before `step`, if `request` could tell."""
    if _is_being_filled(inp, ws, lane, inst, request):
        cache_decodes(inp, ws, lane, inst, step)


@leaf
def next_useful_fill(inp, ws, lane, inst, request):
    """Return the next step in which a decoding request may fill a block that `request` hits.

    Such a block continues a chain of the same content, so it begins with the same key.
    """
    nearest = NEVER
    if _is_being_filled(inp, ws, lane, inst, request):
        key = inp.keys[request["key_lo"]]
        for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
            r = ws.running[place]
            other = inp.requests[lane["request_lo"] + r]
            if ws.progress[r]["decoding"] and other["shared"] and inp.keys[other["key_lo"]] == key:
                nearest = min(nearest, next_fill(lane, ws.progress[r], inst["step"] + 1))
    return nearest


@leaf
def free_request(inp, ws, lane, inst, tally, r, computed):
    """Release the blocks of a request that computed `computed` tokens since its admission."""
    progress = ws.progress[r]
    request = inp.requests[lane["request_lo"] + r]
    measured = r >= lane["warmup"]
    if lane["prefix_caching"]:
        full = full_blocks(lane, computed)
        pool.cache_blocks(inp, ws, lane, inst, request, progress, full)
    held = blocks_for(lane, computed)
    pool.free_blocks(inp, ws, lane, inst, r, held)
    tier.relieve(ws, lane, inst)
    tally["blocks_taken"] += (held - progress["reused"]) * measured
    if progress["decoding"]:
        drop_base(ws, inst, progress)
        inst["measured"] -= measured
        progress["decoding"] = 0
        if progress["fills"] != NONE:
            ws.extents[progress["fills"]]["fillers"] -= 1
            progress["fills"] = NONE
    else:
        inst["prefilling"] -= 1
    waiting.wake_head(inst)
