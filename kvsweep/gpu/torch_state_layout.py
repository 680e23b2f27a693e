"""What a layer of Mamba-2 keeps as tensors, and where requests of a batch have their states."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from kvsweep.gpu.state_layers import Mamba, chunks_of

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


def split_parts(mamba: Mamba, made: Any) -> tuple[Any, Any, Any]:
    """Return inputs by head, and both vectors by group."""
    wide = mamba.groups * mamba.size
    inner, b, c = made.split([mamba.inner, wide, wide], dim=-1)
    shape = len(made), mamba.groups, mamba.size
    return inner.view(len(made), mamba.heads, mamba.head_dim), b.view(shape), c.view(shape)


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
