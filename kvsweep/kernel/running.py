"""What the running requests need in a step, and the calendar of those that decode.

A decoding request needs attention only at its *due* step: its last one, or, if another request
has its decode blocks too, the one that fills a block. All else follows from counts: the computed
tokens are ``step - base``, and the requests that take a block in a step are those whose ``base``
has the step's phase modulo the block size.
"""

from .._jit import leaf
from ..records import NEVER
from . import blocks


@leaf
def blocks_for(lane, tokens):
    """Return the blocks that hold `tokens` tokens."""
    return (tokens + lane["block_size"] - 1) // lane["block_size"]


@leaf
def set_base(lane, ws, inst, progress, base):
    """Let a decoding request have computed ``step - base`` tokens; it takes at that phase."""
    progress["base"] = base
    progress["phase"] = base % lane["block_size"]
    ws.phases[inst["phase_lo"] + progress["phase"]] += 1


@leaf
def next_due(lane, request, progress, step):
    """Return the first step from `step` on at which a decoding request needs attention."""
    due = progress["base"] + request["prompt"] + request["output"] - 2
    if request["shared"] and lane["prefix_caching"]:
        size = lane["block_size"]
        due = min(due, step + size - 1 - (step - progress["base"]) % size)
    return due


@leaf
def begin_decode(lane, ws, inst, request, progress, index, step):
    """Let the request at `index` of the running list decode one token a step from `step` on."""
    progress["decoding"] = 1
    set_base(lane, ws, inst, progress, step - (request["prompt"] + progress["outputs"] - 1))
    ws.due[inst["run_lo"] + index] = next_due(lane, request, progress, step)


@leaf
def prefill_chunk(lane, inst, request, progress, budget):
    """Return the tokens of a prefilling request in this step: all, or what the caps leave."""
    tokens = request["prompt"] + progress["outputs"] - progress["computed"]
    alone = inst["running"] + inst["waiting"] <= 1
    if lane["long_prefill"] > 0 and not alone:
        tokens = min(tokens, lane["long_prefill"])
    return min(tokens, budget)


@leaf
def charge_decodes(inst, count):
    """Charge one token each of `count` decoding requests to the step; negative: give back."""
    inst["budget"] -= count
    inst["decode_tokens"] += count


@leaf
def charge_prefill(inst, tokens):
    """Charge tokens of a prompt or a recompute to the step; negative: give back."""
    inst["budget"] -= tokens
    inst["prefill_tokens"] += tokens


@leaf
def is_decode_like(request, progress):
    """Return whether one known token is uncomputed and an output was sampled before.

    The recompute after a preemption whose hits leave a single token counts as decode.
    """
    rest = request["prompt"] + progress["outputs"] - progress["computed"]
    return progress["outputs"] > 0 and rest == 1


@leaf
def schedule_chunk(inp, ws, lane, inst, request, progress, index, tokens):
    """Compute `tokens` of a prefilling request and publish the blocks they fill, at once."""
    if is_decode_like(request, progress):
        charge_decodes(inst, tokens)
    else:
        charge_prefill(inst, tokens)
    progress["computed"] += tokens
    progress["chunk"] = tokens
    if lane["prefix_caching"]:
        full = progress["computed"] // lane["block_size"]
        blocks.publish(inp, ws, lane, inst, request, progress, full)
    due = NEVER
    if progress["computed"] == request["prompt"] + progress["outputs"]:
        due = inst["step"]
        inst["next_due"] = due
    ws.due[inst["run_lo"] + index] = due


@leaf
def publish_decode(inp, ws, lane, inst, request, progress, index):
    """Publish what a decoding request has filled, this step's token included, and set its due."""
    step = inst["step"]
    full = (step + 1 - progress["base"]) // lane["block_size"]
    blocks.publish(inp, ws, lane, inst, request, progress, full)
    last = progress["base"] + request["prompt"] + request["output"] - 2
    if last > step:
        ws.due[inst["run_lo"] + index] = min(last, step + lane["block_size"])
    inst["stale"] = 1


@leaf
def fills_shared_block(lane, request, progress, step):
    """Return whether a decoding request fills in this step a block that others may look up."""
    filled = (step + 1 - progress["base"]) % lane["block_size"] == 0
    return filled and request["shared"] and lane["prefix_caching"]


@leaf
def let_go(inp, ws, lane, inst, tally, r, computed):
    """Release the blocks of a request that computed `computed` tokens since its admission."""
    progress = ws.progress[r]
    request = inp.requests[lane["request_lo"] + r]
    measured = r >= lane["warmup"]
    if lane["prefix_caching"]:
        full = computed // lane["block_size"]
        blocks.publish(inp, ws, lane, inst, request, progress, full)
    held = blocks_for(lane, computed)
    blocks.release(inp, ws, lane, inst, r, held)
    tally["blocks_taken"] += (held - progress["reused"]) * measured
    if progress["decoding"]:
        ws.phases[inst["phase_lo"] + progress["phase"]] -= 1
        inst["measured"] -= measured
        progress["decoding"] = 0
    else:
        inst["prefilling"] -= 1
    inst["stale"] = 1
