"""The linear latency model; all terms are sums that the engine keeps anyway."""

from .._jit import leaf


@leaf
def step_time(lane, prefill_tokens, decode_tokens):
    """Return the duration of a step in us, evaluated left to right and truncated.

    Formula and truncation: the recorder of the vLLM goldens, and inference-sim.
    """
    return int(lane["beta0"] + lane["beta1"] * prefill_tokens + lane["beta2"] * decode_tokens)


@leaf
def queueing_delay(lane, prompt_tokens):
    """Return the time from routing to entry into the waiting list, us, truncated."""
    return int(lane["alpha0"] + lane["alpha1"] * prompt_tokens)
