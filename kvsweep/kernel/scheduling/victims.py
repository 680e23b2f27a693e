"""Scores of running requests: who has the most is preempted (rule R5.6).

All are of the state when the step began: what it has computed for a request already would be lost,
not wasted, as it is not computed yet.
"""

import numpy as np

from ..._jit import leaf
from ...policies import Victim
from ...records import LEAVING
from ..blocks import split
from ..blocks.sizes import blocks_for
from ..time.decoding import computed_tokens, most_computed, outputs_sampled, settled_tokens

_LOW = np.int64(2**32 - 1)
# Of the best two rounds of multiplications for 32 bits that C. Wellons found (hash-prospector).
_FIRST = np.int64(0x21F0AAAD)
_SECOND = np.int64(0x735A2D97)


@leaf
def _mix(x):
    """Return a permutation of 32 bits in which each bit changes about half of the others."""
    x = x ^ (x >> 16)
    x = (x * _FIRST) & _LOW
    x = x ^ (x >> 15)
    x = (x * _SECOND) & _LOW
    return x ^ (x >> 15)


@leaf
def _draw(inst, request, r):
    """Return 32 bits that look random, of the victims so far and the request.

    So the same requests give the same numbers in every cell, whatever was drawn before.
    """
    x = _mix(inst["victims"] & _LOW)
    x = _mix(x ^ (r & _LOW))
    x = _mix(x ^ (request["prompt"] & _LOW))
    return _mix(x ^ (request["output"] & _LOW))


@leaf
def _outputs(lane, inst, request, progress):
    """Return the tokens that a running request has sampled; one on its way is not known yet."""
    outputs = progress["outputs"]
    if progress["decoding"]:
        settled = settled_tokens(lane, request, progress, inst["step"], inst["step"] - 1)
        outputs = outputs_sampled(request, settled)
    return outputs


@leaf
def _computed(inst, request, progress):
    """Return the tokens that a running request has computed, on their way or not."""
    computed = computed_tokens(progress, inst["step"])
    if progress["decoding"] == LEAVING:
        computed = most_computed(request)
    return computed


@leaf
def _gain(inp, ws, lane, inst, r, request, progress, scheduled):
    """Return the blocks that only `r` has, per known token, less by its share of output done."""
    outputs = _outputs(lane, inst, request, progress)
    computed = _computed(inst, request, progress)
    if progress["decoding"] == 1:
        computed += scheduled  # a chunk is counted as computed at once
    own = blocks_for(lane, computed) - split.common_blocks(inp, ws, lane, inst, r)
    return own / (request["prompt"] + outputs) * (1 - outputs / request["output"])


@leaf
def score(inp, ws, lane, inst, r, scheduled):
    """Return what the victim has most of, float64; `scheduled`: whether `r` is in this step."""
    progress = ws.progress[r]
    request = inp.requests[lane["request_lo"] + r]
    computed = _computed(inst, request, progress)
    if scheduled and not progress["decoding"]:
        computed -= progress["chunk"]
    points = 0.0
    least = lane["victim"] == Victim.LEAST_COMPUTED_FIRST
    if least or lane["victim"] == Victim.LEAST_COMPUTED_OTHER:
        points = -float(computed)
    elif lane["victim"] == Victim.MOST_COMPUTED:
        points = float(computed)
    elif lane["victim"] == Victim.RANDOM:
        points = float(_draw(inst, request, r))
    elif lane["victim"] == Victim.COST_AWARE:
        points = _gain(inp, ws, lane, inst, r, request, progress, scheduled)
    elif lane["victim"] == Victim.FEWEST_REMAINING:
        points = float(_outputs(lane, inst, request, progress) - request["output"])
    return points
