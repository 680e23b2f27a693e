"""The recurrence of Mamba-2 and its convolution in PyTorch, chunk by chunk in single precision.

What a kernel is compared with, and what a processor has: no kernel that anything serves with.

Of each head ``S = exp(d a) S + d x b'`` and ``y = S c + D x``, where ``d = softplus(dt + bias)``
(T. Dao and A. Gu, Transformers are SSMs, arXiv 2405.21060).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch.nn import functional

from kvsweep.gpu.state_layers import Mamba, chunks_of
from kvsweep.gpu.torch_state_layout import Coefficients, StateLayout, States, split_parts


def in_chunks(
    mamba: Mamba, x: Any, dt: Any, weights: Coefficients, states: States, layout: StateLayout
) -> Any:
    """Compute in single precision, without a kernel of its own."""
    steps = functional.softplus(dt.float() + weights.step.float())
    outputs, begin = [], 0
    starts = chunks_of(layout.prompts, mamba.chunk).starts
    for place, (new, before) in zip(layout.places, layout.prompts, strict=True):
        part = slice(begin, begin + new)
        made = _convolved(x[part], weights, states.inputs[place], before > 0)
        cells = states.cells[place]
        state = cells.float() if before else torch.zeros_like(cells, dtype=torch.float32)
        for first, end in pairwise(at for at in starts if begin <= at <= part.stop):
            inner, b, c = split_parts(mamba, made[first - begin : end - begin])
            y, state = _chunk(inner, steps[first:end], b, c, weights, state)
            outputs.append(y)
        cells.copy_(state)
        begin += new
    if layout.requests:
        outputs.append(_updated(mamba, x[begin:], steps[begin:], weights, states, layout))
    return torch.cat(outputs).flatten(1).to(x.dtype)


def _convolved(x: Any, weights: Coefficients, kept: Any, begun: bool) -> Any:
    """Return what the convolution gives for new tokens of a prompt; their last ones are kept."""
    before = kept if begun else torch.zeros_like(kept)
    series = torch.cat((before, x.transpose(0, 1)), dim=1)
    kept.copy_(series[:, -kept.shape[1] :])
    bias = None if weights.bias is None else weights.bias.float()
    taps = weights.taps.float()[:, None]
    made = functional.conv1d(series.float()[None], taps, bias, groups=len(series))
    return functional.silu(made[0].transpose(0, 1))


def _chunk(
    x: Any, steps: Any, b: Any, c: Any, weights: Coefficients, state: Any
) -> tuple[Any, Any]:
    """Return outputs of a chunk, and the state after it, by products of matrices."""
    tokens, per = len(x), x.shape[1] // b.shape[1]
    sums = (steps * weights.decay).cumsum(0).transpose(0, 1)  # (heads, tokens)
    later = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
    fading = (sums[:, :, None] - sums[:, None, :]).masked_fill(later, -torch.inf).exp()
    inputs = (x * steps[..., None]).transpose(0, 1)  # (heads, tokens, channels)
    read, written = (each.transpose(0, 1).repeat_interleave(per, 0) for each in (c, b))
    y = (read @ written.transpose(1, 2) * fading) @ inputs
    y = y + (read * sums.exp()[..., None]) @ state.transpose(1, 2)
    left = (sums[:, -1:] - sums).exp()[..., None] * inputs
    state = state * sums[:, -1].exp()[:, None, None] + left.transpose(1, 2) @ written
    return y.transpose(0, 1) + weights.skip.float()[:, None] * x, state


def _updated(
    mamba: Mamba, x: Any, steps: Any, weights: Coefficients, states: States, layout: StateLayout
) -> Any:
    """Return outputs of decoding requests, whose states are written over."""
    places = layout.request_states.long()
    series = torch.cat((states.inputs[places], x[..., None]), dim=2)
    states.inputs[places] = series[..., 1:]
    made = (series.float() * weights.taps.float()).sum(2)
    if weights.bias is not None:
        made = made + weights.bias.float()
    inner, b, c = split_parts(mamba, functional.silu(made))
    per = mamba.heads // mamba.groups
    read, written = (each.repeat_interleave(per, 1) for each in (c, b))
    state = states.cells[places].float() * (steps * weights.decay).exp()[..., None, None]
    state = state + (inner * steps[..., None])[..., None] * written[:, :, None]
    states.cells[places] = state.to(states.cells.dtype)
    return (state @ read[..., None])[..., 0] + weights.skip.float()[:, None] * inner
