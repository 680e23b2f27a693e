"""Where a request that decodes stands: it follows from its `base` and the step.

It computes one token in each step that serves it, so nothing of it is stored that changes from step
to step: when a step begins it has computed ``step - base`` tokens (docs/kernel.md has an example).
It takes a block in the steps whose `phase`, the step modulo the block size, is that of its base.
Here is all the arithmetic of the two; what lets a request compute several tokens a step, or takes
computed ones away again, changes these functions.
"""

import numpy as np

from ..._jit import leaf
from ...records import LEAVING
from ..blocks.sizes import tokens_beyond
from .windows import all_inside, count_anew, join_short, leave_short


@leaf
def most_computed(request):
    """Return the tokens that a request has computed at its end: its last one is never computed."""
    return request["prompt"] + request["output"] - 1


@leaf
def known_tokens(request, progress):
    """Return the prompt and the sampled tokens of a request that does not decode."""
    return request["prompt"] + progress["outputs"]


@leaf
def decoded_tokens(progress, step):
    """Return the tokens that a decoding request has computed when `step` begins."""
    return step - progress["base"]


@leaf
def computed_tokens(progress, step):
    """Return the tokens that a request has computed when `step` begins, whatever it does."""
    computed = progress["computed"]
    if progress["decoding"]:
        computed = decoded_tokens(progress, step)
    return computed


@leaf
def settled_tokens(lane, request, progress, step, latest):
    """Return the tokens of a request that are computed and known when `step` is to be scheduled.

    Synchronously all that are computed. Asynchronously the last of them is not yet known while its
    step, `latest`, is on its way; who missed that step has none there (rule R10.4).
    """
    tokens = decoded_tokens(progress, step)
    if lane["async_scheduling"]:
        if progress["decoding"] == LEAVING:
            tokens = most_computed(request) - 1
        elif progress["missed"] != latest:
            tokens -= 1
    return tokens


@leaf
def all_decoded_tokens(inst, count, step):
    """Return the tokens that the `count` decoding requests have computed, all together."""
    return count * step - inst["base_sum"]


@leaf
def _look(ws, lane, inst, step):
    """Count who of those who decode is short at `step`."""
    count_anew(inst, step)
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        progress = ws.progress[ws.running[place]]
        if progress["decoding"] == 1:
            join_short(lane, inst, progress["base"])


@leaf
def all_decoded_inside(ws, lane, inst, count, step):
    """Return the tokens inside a window before those that the `count` requests decode in `step`."""
    found = np.int64(0)
    if lane["reach"]:
        if step >= inst["outgrown_at"]:
            _look(ws, lane, inst, step)
        found = np.int64(all_inside(lane, inst, count, step))
    return found


@leaf
def outputs_sampled(request, computed):
    """Return the tokens that a decoding request has sampled once it has computed so many."""
    return computed + 1 - request["prompt"]


@leaf
def last_decode(request, progress):
    """Return the step in which a decoding request computes its last token."""
    return progress["base"] + most_computed(request) - 1


@leaf
def next_fill(lane, progress, step):
    """Return the first step from `step` on in which a decoding request fills a block."""
    return step + lane["block_size"] - 1 - tokens_beyond(lane, decoded_tokens(progress, step))


@leaf
def filling_step(lane, progress, block):
    """Return the step in which a decoding request fills a block of its own, by its number."""
    return progress["base"] + (block + 1) * lane["block_size"] - 1


@leaf
def fills_block(lane, progress, step):
    """Return whether a decoding request fills a block in this step."""
    return tokens_beyond(lane, decoded_tokens(progress, step + 1)) == 0


@leaf
def next_phase(lane, phase):
    """Return the phase of the step after one of `phase`, without a division."""
    return phase + 1 if phase + 1 < lane["block_size"] else 0


@leaf
def previous_phase(lane, phase):
    """Return the phase of the step before one of `phase`."""
    return phase - 1 if phase > 0 else lane["block_size"] - 1


@leaf
def set_base(ws, lane, inst, progress, step, computed):
    """Count a request among those that decode: when `step` begins it has `computed` tokens."""
    base = step - computed
    phase = inst["phase"] - tokens_beyond(lane, inst["step"] - base)
    if phase < 0:
        phase += lane["block_size"]
    progress["base"] = base
    progress["phase"] = phase
    ws.phases[inst["phase_lo"] + progress["phase"]] += 1
    inst["base_sum"] += base
    join_short(lane, inst, base)


@leaf
def drop_base(ws, lane, inst, progress):
    """Take a request that stops decoding out of the counts of those that do."""
    ws.phases[inst["phase_lo"] + progress["phase"]] -= 1
    inst["base_sum"] -= progress["base"]
    leave_short(lane, inst, progress["base"])


@leaf
def miss_step(ws, lane, inst, progress):
    """Let a decoding request have computed no more when the next step begins than now."""
    drop_base(ws, lane, inst, progress)
    computed = decoded_tokens(progress, inst["step"])
    set_base(ws, lane, inst, progress, inst["step"] + 1, computed)
