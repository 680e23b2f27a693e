"""The recurrence of Mamba-2 and its convolution, by vLLM's kernels or by PyTorch alone.

- ``vllm``: what vLLM serves with, if it is installed beside PyTorch, in the calls of its
  ``MambaMixer2``: prompts in chunks, decoding requests by an update of their states.
- ``chunks``: the same in PyTorch, chunk by chunk in single precision: what a kernel is compared
  with, and what a processor has. It is no kernel that anything serves with.

Of each head ``S = exp(d a) S + d x b'`` and ``y = S c + D x``, where ``d = softplus(dt + bias)``
(T. Dao and A. Gu, Transformers are SSMs, arXiv 2405.21060).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from kvsweep.errors import InputError
from kvsweep.gpu.state_layers import Mamba, chunks_of
from kvsweep.gpu.torch_attention import REFUSALS

PROGRAM_TOKENS = 8
"""Tokens that a program of vLLM's convolution computes: ``BLOCK_M`` in its ``causal_conv1d_fn``."""


class Coefficients(NamedTuple):
    """Small weights of a layer: of the convolution, and of each head.

    Attributes
    ----------
    taps, bias : tensor of shape (channels, taps), and (channels,) or None
        Of the convolution.
    decay, skip, step : tensor of shape (heads,)
        ``a``, ``D``, and what is added to ``dt``.
    """

    taps: Any
    bias: Any
    decay: Any
    skip: Any
    step: Any


class States(NamedTuple):
    """States of requests; the first is none's, as vLLM's kernels pass it by.

    Attributes
    ----------
    inputs : tensor of shape (states, channels, taps - 1)
        Last inputs of the convolution.
    cells : tensor of shape (states, heads, channels of a head, size)
        Of the recurrence.
    """

    inputs: Any
    cells: Any


@dataclass(frozen=True)
class StateLayout:
    """The sequences of a batch: prompts first, then the decoding requests.

    Attributes
    ----------
    prompts : list of tuple of 2 int
        New tokens of each prompt, and tokens before them.
    places, requests : list of int
        States of prompts, and of decoding requests.
    prompt_states, request_states : tensor, int32
        The same.
    starts : tensor of shape (prompts + 1,), int32
        Where new tokens of each prompt begin.
    begun : tensor of shape (prompts,), bool
        Whether there are tokens before them.
    chunk_starts, chunk_prompts, last_chunks : tensor, int32
        Of `kvsweep.gpu.state_layers.Chunks`.
    programs : namespace
        Which programs of vLLM's convolution there are, as it is told.
    """

    prompts: list[tuple[int, int]]
    places: list[int]
    requests: list[int]
    prompt_states: Any
    request_states: Any
    starts: Any
    begun: Any
    chunk_starts: Any
    chunk_prompts: Any
    last_chunks: Any
    programs: Any

    @property
    def chunk_tokens(self) -> int:
        """New tokens of all prompts."""
        return sum(new for new, _ in self.prompts)


def lay_out_states(
    prompts: list[tuple[int, int]], decode: int, chunk: int, device: Any, seed: int = 0
) -> StateLayout:
    """Give each sequence of a batch a state, in a random order.

    Parameters
    ----------
    prompts : list of tuple of 2 int
        New tokens of each prompt, and tokens before them.
    decode : int
        Decoding requests.
    chunk : int
        Tokens of a prompt that are computed at once.
    device : torch.device
        Where the states are.
    seed : int
        Of the order.
    """

    def ints(values: list[int]) -> Any:
        return torch.tensor(values, dtype=torch.int32, device=device)

    states = list(range(1, 1 + len(prompts) + decode))
    random.Random(seed).shuffle(states)
    places, requests = states[: len(prompts)], states[len(prompts) :]
    pieces = chunks_of(prompts, chunk)
    starts = [0]
    for new, _ in prompts:
        starts.append(starts[-1] + new)
    begun = torch.tensor([before > 0 for _, before in prompts], dtype=torch.bool, device=device)
    return StateLayout(
        prompts,
        places,
        requests,
        ints(places),
        ints(requests),
        ints(starts),
        begun,
        ints(pieces.starts),
        ints(pieces.prompts),
        ints(pieces.last),
        _programs([new for new, _ in prompts], ints),
    )


def _programs(lengths: list[int], ints: Callable[[list[int]], Any]) -> Any:
    """Return what vLLM tells its convolution (``compute_causal_conv1d_metadata``)."""
    pieces = [-(-length // PROGRAM_TOKENS) for length in lengths]
    owners = [row for row, count in enumerate(pieces) for _ in range(count)]
    offsets = [piece for count in pieces for piece in range(count)]
    spare = [-1] * (2 * max(1024, len(owners)) - len(owners))
    batch, places = ints(owners + spare), ints(offsets + spare)
    found = {
        "nums": pieces,
        "tot": len(owners),
        "mlist": batch[: len(owners)],
        "mlist_len": len(owners),
        "offsetlist": places[: len(owners)],
        "batch_ptr": batch,
        "token_chunk_offset_ptr": places,
    }
    return SimpleNamespace(
        nums_dict={PROGRAM_TOKENS: found}, batch_ptr=batch, token_chunk_offset_ptr=places
    )


Scan = Callable[[Mamba, Any, Any, Coefficients, States, StateLayout], Any]
"""From a layer, inputs of its convolution (tokens, channels), ``dt`` (tokens, heads), coefficients,
states and the layout to the output (tokens, channels). Inputs may be written over."""


def of_vllm(
    mamba: Mamba, x: Any, dt: Any, weights: Coefficients, states: States, layout: StateLayout
) -> Any:
    """Compute as ``MambaMixer2`` of an installed vLLM does."""
    out = torch.empty(len(x), mamba.inner, dtype=x.dtype, device=x.device)
    chunk = layout.chunk_tokens
    if layout.prompts:
        _vllm_prompts(mamba, x[:chunk], dt[:chunk], weights, states, layout, out[:chunk])
    if layout.requests:
        _vllm_requests(mamba, x[chunk:], dt[chunk:], weights, states, layout, out[chunk:])
    return out


def _vllm_prompts(
    mamba: Mamba,
    x: Any,
    dt: Any,
    weights: Coefficients,
    states: States,
    layout: StateLayout,
    out: Any,
) -> None:
    from vllm.model_executor.layers.mamba.ops.causal_conv1d import causal_conv1d_fn
    from vllm.model_executor.layers.mamba.ops.ssd_combined import mamba_chunk_scan_combined_varlen

    made = causal_conv1d_fn(
        x.transpose(0, 1),
        weights.taps,
        weights.bias,
        activation="silu",
        conv_states=states.inputs,
        has_initial_state=layout.begun,
        cache_indices=layout.prompt_states,
        metadata=layout.programs,
        query_start_loc=layout.starts,
    ).transpose(0, 1)
    inner, b, c = _parts(mamba, made)
    first = None
    if any(before for _, before in layout.prompts):
        kept = states.cells[layout.prompt_states]
        first = torch.where(layout.begun[:, None, None, None], kept, 0)
    states.cells[layout.prompt_states] = mamba_chunk_scan_combined_varlen(
        inner,
        dt,
        weights.decay,
        b,
        c,
        chunk_size=mamba.chunk,
        D=weights.skip,
        z=None,
        dt_bias=weights.step,
        seq_idx=layout.chunk_prompts,
        cu_seqlens=layout.starts,
        cu_chunk_seqlens=layout.chunk_starts,
        last_chunk_indices=layout.last_chunks,
        initial_states=first,
        dt_softplus=True,
        out=out.view(len(x), mamba.heads, mamba.head_dim),
        state_dtype=states.cells.dtype,
    )


def _vllm_requests(
    mamba: Mamba,
    x: Any,
    dt: Any,
    weights: Coefficients,
    states: States,
    layout: StateLayout,
    out: Any,
) -> None:
    from vllm.model_executor.layers.mamba.ops.causal_conv1d import causal_conv1d_update
    from vllm.model_executor.layers.mamba.ops.mamba_ssm import selective_state_update

    made = causal_conv1d_update(
        x,
        states.inputs,
        weights.taps,
        weights.bias,
        "silu",
        conv_state_indices=layout.request_states,
    )
    inner, b, c = _parts(mamba, made)
    heads, channels, size = mamba.heads, mamba.head_dim, mamba.size
    selective_state_update(
        states.cells,
        inner,
        dt[:, :, None].expand(-1, -1, channels),
        weights.decay[:, None, None].expand(-1, channels, size),
        b,
        c,
        weights.skip[:, None].expand(-1, channels),
        weights.step[:, None].expand(-1, channels),
        dt_softplus=True,
        state_batch_indices=layout.request_states,
        dst_state_batch_indices=layout.request_states,
        out=out.view(len(x), heads, channels),
    )


def _parts(mamba: Mamba, made: Any) -> tuple[Any, Any, Any]:
    """Return inputs by head, and both vectors by group."""
    wide = mamba.groups * mamba.size
    inner, b, c = made.split([mamba.inner, wide, wide], dim=-1)
    shape = len(made), mamba.groups, mamba.size
    return inner.view(len(made), mamba.heads, mamba.head_dim), b.view(shape), c.view(shape)


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
            inner, b, c = _parts(mamba, made[first - begin : end - begin])
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
    inner, b, c = _parts(mamba, functional.silu(made))
    per = mamba.heads // mamba.groups
    read, written = (each.repeat_interleave(per, 1) for each in (c, b))
    state = states.cells[places].float() * (steps * weights.decay).exp()[..., None, None]
    state = state + (inner * steps[..., None])[..., None] * written[:, :, None]
    states.cells[places] = state.to(states.cells.dtype)
    return (state @ read[..., None])[..., 0] + weights.skip.float()[:, None] * inner


SCANS: dict[str, Scan] = {"vllm": of_vllm, "chunks": in_chunks}


def coefficients(mamba: Mamba, device: Any) -> Coefficients:
    """Return random weights, of the sizes that models begin their training with."""

    def drawn(*shape: int) -> Any:
        return torch.empty(*shape, dtype=torch.bfloat16, device=device)

    heads = mamba.heads
    return Coefficients(
        drawn(mamba.channels, mamba.taps).normal_(0.0, mamba.taps**-0.5),
        drawn(mamba.channels).normal_(0.0, 0.1) if mamba.bias else None,
        -drawn(heads).float().uniform_(1.0, 16.0),
        drawn(heads).fill_(1.0),
        drawn(heads).uniform_(-6.0, -2.0),  # steps of 0.002 to 0.1
    )


def fresh_states(mamba: Mamba, count: int, device: Any) -> States:
    """Return so many states beside the first, random until they are written."""
    kept = torch.empty(
        1 + count, mamba.taps - 1, mamba.channels, dtype=torch.bfloat16, device=device
    ).normal_()
    dtype = torch.float32 if mamba.cell_bytes == 4 else torch.bfloat16
    shape = 1 + count, mamba.heads, mamba.head_dim, mamba.size
    # Channels lie side by side, as vLLM's kernels have them.
    return States(kept.transpose(1, 2), torch.empty(*shape, dtype=dtype, device=device).normal_())


def find_scan(
    mamba: Mamba, device: Any, scans: Mapping[str, Scan] | None = None
) -> tuple[str, str]:
    """Return the first of `scans` that works for a layer, and why none before it does.

    Parameters
    ----------
    mamba : Mamba
        The layer.
    device : torch.device
        Where it is to run.
    scans : mapping of str to Scan or None
        In the order in which they are tried; None: vLLM's on a GPU, PyTorch's on a processor.

    Raises
    ------
    InputError
        If none works.
    torch.OutOfMemoryError
        If there is no memory to try one.
    """
    if scans is None:
        scans = {"vllm": of_vllm} if device.type == "cuda" else {"chunks": in_chunks}
    refused = []
    for name, scan in scans.items():
        try:
            _try(scan, mamba, device)
        except torch.OutOfMemoryError:  # a RuntimeError too, which says nothing of the kernel
            raise
        except (*REFUSALS, LookupError) as error:
            refused.append(f"{name}: {' '.join(str(error).split())[:100]}")
            continue
        return name, "; ".join(refused)
    raise InputError(
        f"{device}: layers that keep a state are measured with vLLM's kernels, which do not work "
        f"there: {'; '.join(refused)}; pip install kvsweep into an environment of vLLM"
    )


def _try(scan: Scan, mamba: Mamba, device: Any) -> None:
    """Let a kernel compute two prompts and three requests, and compare with `in_chunks`."""
    layout = lay_out_states([(mamba.chunk + 9, 0), (40, 21)], 3, mamba.chunk, device)
    weights, tokens = coefficients(mamba, device), layout.chunk_tokens + 3
    wide = mamba.channels + mamba.heads
    made = torch.empty(tokens, wide, dtype=torch.bfloat16, device=device).normal_()
    found = []
    states = fresh_states(mamba, 5, device)
    for each in (scan, in_chunks):
        x, dt = made.clone().split([mamba.channels, mamba.heads], dim=1)
        own = States(*(part.clone() for part in states))
        out = each(mamba, x, dt, weights, own, layout)
        found.append((out[: layout.chunk_tokens], out[layout.chunk_tokens :], *own))
    for mine, expected in zip(*found, strict=True):
        apart = (mine - expected).float().norm() / expected.float().norm()
        # bfloat16 is off by less than 0.01; what is left out or mixed up, by more than 0.1.
        if not float(apart) < 0.03:
            raise ValueError("other values than those of PyTorch")
