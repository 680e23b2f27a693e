"""What the running requests need in a step, and when those that decode are due.

All of decoding follows from counts: the computed tokens are ``step - base``, and the requests that
take a block in a step are those whose ``base`` has the step's phase modulo the block size
(docs/kernel.md has an example). So a request is *due* at its last step, and where it must cache a
block (caching.py).
"""

from ..._jit import leaf, part
from ...records import LEAVING, NONE
from ..blocks import pool, tier
from ..blocks.sizes import blocks_for, full_blocks
from ..blocks.unsettled import begin_fills
from ..memory import extent_at
from ..offload.counted_stores import begin_counting, may_count
from ..offload.pins import note_freed
from ..time.calendar import IDLE
from ..time.decoding import (
    drop_base,
    known_tokens,
    set_base,
)
from ..time.windows import inside
from . import waiting
from .caching import cache, next_due


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
    if lane["copies_each_step"]:
        begin_fills(inp, ws, lane, inst, request, progress)
    if lane["connects"] and may_count(lane):
        begin_counting(inp, ws, lane, inst, request, progress, step)
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
def charge_decodes(inst, count, context, in_window):
    """Charge a token of each of `count` decoding requests to the step; negative: give back.

    `context` is what they have computed so far, all together, `in_window` of it what is inside a
    window (`time.windows`).
    """
    inst["budget"] -= count
    inst["decode_tokens"] += count
    inst["decode_context"] += context
    inst["decode_inside"] += in_window


@leaf
def charge_chunk(lane, inst, request, progress, sign):
    """Charge the chunk of a prefilling request to the step (`sign` 1) or give it back (-1).

    The chunk is not yet, or no longer, counted as computed.
    """
    tokens = progress["chunk"]
    computed = progress["computed"]
    if is_decode_like(request, progress):
        charge_decodes(inst, sign, sign * computed, sign * inside(lane, computed, 1))
    else:
        inst["budget"] -= sign * tokens
        inst["prefill_tokens"] += sign * tokens
        # Before the token at position p there are p: the sum of an arithmetic series.
        inst["prefill_context"] += sign * (tokens * computed + tokens * (tokens - 1) // 2)
        inst["prefill_inside"] += sign * inside(lane, computed, tokens)


@leaf
def is_decode_like(request, progress):
    """Return whether one known token is uncomputed and an output was sampled before.

    The recompute after a preemption whose hits leave a single token counts as decode.
    """
    rest = known_tokens(request, progress) - progress["computed"]
    return progress["outputs"] > 0 and rest == 1


@leaf
def schedule_chunk(inp, ws, lane, inst, request, progress, position, tokens):
    """Compute `tokens` of a prefilling request and cache the blocks they fill, at once."""
    progress["chunk"] = tokens
    charge_chunk(lane, inst, request, progress, 1)
    progress["computed"] += tokens
    if lane["prefix_caching"]:
        full = full_blocks(lane, progress["computed"])
        cache(inp, ws, lane, inst, request, progress, full)
    due = IDLE
    if progress["computed"] == known_tokens(request, progress):
        due = inst["step"]
        inst["next_due"] = due
    ws.due[inst["run_lo"] + position] = due


@part
def free_request(inp, ws, lane, inst, tally, r, computed, settled):
    """Release the blocks of a request that computed `computed` tokens since its admission.

    Those that the first `settled` of them fill are cached.
    """
    progress = ws.progress[r]
    request = inp.requests[lane["request_lo"] + r]
    measured = r >= lane["warmup"]
    if lane["prefix_caching"]:
        full = full_blocks(lane, settled)
        pool.cache_blocks(inp, ws, lane, inst, request, progress, full)
    held = blocks_for(lane, computed)
    pool.free_blocks(inp, ws, lane, inst, r, held)
    if lane["connects"]:
        note_freed(ws, inst, r, held)
    if lane["tiered"]:
        tier.relieve(inp, ws, lane, inst)
    tally["blocks_taken"] += (held - progress["reused"]) * measured
    if progress["decoding"] == 1:
        drop_base(ws, lane, inst, progress)
        inst["measured"] -= measured
        progress["decoding"] = 0
    else:
        inst["prefilling"] -= 1
        inst["leaving"] -= progress["decoding"] == LEAVING
    if progress["fills"] != NONE:
        ws.extents[progress["fills"]]["fillers"] -= 1
        progress["fills"] = NONE
    waiting.wake_head(inst)
