"""How long a step takes: linear in sums that the engine keeps, or the larger of two such sums.

A token's context is the number of tokens before it in its request, so both context terms are sums
over the tokens of a step. Sums are added from left to right and the result is truncated, as the
recorder of the vLLM goldens and inference-sim do.
"""

import math

from ..._jit import leaf


@leaf
def token_time(lane, prefill_tokens, decode_tokens):
    """Return the duration in us of a step of a lane whose step times depend on token counts."""
    return int(lane["beta0"] + lane["beta1"] * prefill_tokens + lane["beta2"] * decode_tokens)


@leaf
def _linear(lane, inst, first):
    tokens = first + lane["beta1"] * inst["prefill_tokens"] + lane["beta2"] * inst["decode_tokens"]
    time = tokens + lane["beta3"] * inst["decode_context"] + lane["beta4"] * inst["prefill_context"]
    if lane["reach"]:
        time += lane["beta5"] * inst["decode_inside"]
        time += lane["beta6"] * inst["prefill_inside"]
    return time


@leaf
def _memory(lane, inst):
    prefill_tokens, decode_tokens = inst["prefill_tokens"], inst["decode_tokens"]
    least = lane["memory0"]
    if lane["experts"] > 0.0:  # times 1 - (1 - share)^tokens, those that any token is sent to
        least -= lane["experts"] * math.expm1(lane["missed"] * (prefill_tokens + decode_tokens))
    tokens = least + lane["memory1"] * prefill_tokens + lane["memory2"] * decode_tokens
    time = tokens + lane["memory3"] * inst["decode_context"]
    time += lane["memory4"] * inst["prefill_context"]
    if lane["reach"]:
        time += lane["memory5"] * inst["decode_inside"]
        time += lane["memory6"] * inst["prefill_inside"]
    return time


@leaf
def _context_time(lane, inst):
    """Return the duration of a step in us, whatever it depends on.

    Roofline: a step takes its overhead and what takes longer, computing or moving data.
    """
    if lane["roofline"]:
        time = lane["beta0"] + max(_linear(lane, inst, 0.0), _memory(lane, inst))
    else:
        time = _linear(lane, inst, lane["beta0"])
    return int(time)


@leaf
def step_time(lane, inst):
    """Return the duration in us of the step that has just been scheduled, in a warm instance."""
    if lane["context"]:
        return _context_time(lane, inst)
    return token_time(lane, inst["prefill_tokens"], inst["decode_tokens"])


@leaf
def is_cold(lane, inst):
    """Return whether the next step with tokens is one of the first: these take longer."""
    return lane["first_steps"] > 0 and inst["step"] - inst["empty"] < lane["first_steps"]


@leaf
def cold_time(lane, inst):
    """Return what the step that has just been scheduled takes longer, us."""
    step = inst["step"] - inst["empty"]
    extra = 0
    if step == 0:
        extra = lane["first_step0"]
    elif step == 1:
        extra = lane["first_step1"]
    elif step == 2:
        extra = lane["first_step2"]
    elif step == 3:
        extra = lane["first_step3"]
    return extra


@leaf
def queueing_delay(lane, prompt_tokens):
    """Return the time from routing to entry into the waiting list, us, truncated."""
    return int(lane["alpha0"] + lane["alpha1"] * prompt_tokens)
