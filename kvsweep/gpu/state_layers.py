"""A layer of Mamba-2 as one GPU holds it, and where the requests of a batch have their states."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple


@dataclass(frozen=True)
class Mamba:
    """What one GPU holds of a layer of Mamba-2.

    Attributes
    ----------
    heads, head_dim : int
        Heads of the recurrence, and channels of a head.
    groups, size : int
        Groups that share what is read and written of a state, and numbers of a state's row.
    taps : int
        Tokens that the convolution looks at, the token itself among them.
    chunk : int
        Tokens of a prompt that are computed at once.
    cell_bytes : int
        Bytes of a number of a state.
    bias : bool
        Whether the convolution has one.
    """

    heads: int
    head_dim: int
    groups: int
    size: int
    taps: int
    chunk: int
    cell_bytes: int
    bias: bool

    @property
    def inner(self) -> int:
        """Channels of the recurrence's inputs, of its outputs and of the gate."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Channels of the convolution."""
        return self.inner + 2 * self.groups * self.size

    @property
    def state_bytes(self) -> int:
        """Bytes of what the layer keeps of a request."""
        cells = self.heads * self.head_dim * self.size * self.cell_bytes
        return cells + self.channels * (self.taps - 1) * 2


class Chunks(NamedTuple):
    """The pieces in which prompts are computed, none with tokens of two.

    Attributes
    ----------
    starts : list of int
        First tokens, and the end.
    prompts : list of int
        Of each piece, its prompt.
    last : list of int
        Of each prompt, its last piece.
    """

    starts: list[int]
    prompts: list[int]
    last: list[int]


def chunks_of(prompts: list[tuple[int, int]], size: int) -> Chunks:
    """Cut new tokens of prompts where vLLM does: at every `size`-th token of a prompt.

    Counterpart of ``_compute_chunk_metadata`` in vLLM's ``v1/attention/backends/mamba_attn.py``.

    Parameters
    ----------
    prompts : list of tuple of 2 int
        New tokens of each, and tokens before them.
    size : int
        Tokens of a chunk.

    Examples
    --------
    >>> chunks_of([(10, 6), (3, 0)], 8)
    Chunks(starts=[0, 2, 10, 13], prompts=[0, 0, 1], last=[1, 2])
    """
    lengths, owners, last = [], [], []
    for prompt, (new, before) in enumerate(prompts):
        ends = [*range((before // size + 1) * size, before + new, size), before + new]
        lengths += [end - begin for begin, end in pairwise([before, *ends])]
        owners += [prompt] * len(ends)
        last.append(len(lengths) - 1)
    return Chunks([0, *accumulate(lengths)], owners, last)
