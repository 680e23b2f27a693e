"""What the layers of a model keep of a token: vLLM's KV cache specs, by what they decide.

Counterpart of vLLM 0.33.0's ``vllm/v1/kv_cache_interface.py``: `LayerCache` is a
``FullAttentionSpec``, ``MLAAttentionSpec``, ``SlidingWindowSpec`` or ``MambaSpec``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Limits(NamedTuple):
    """What bounds the tokens of a request, and those that are scheduled at a time.

    Attributes
    ----------
    max_model_len : int
        Tokens of the longest request, prompt and output.
    in_flight : int
        Tokens scheduled but not settled: ``max_num_batched_tokens`` for each batch at a time.
    """

    max_model_len: int
    in_flight: int


def concurrent_batches(pp: int, async_scheduling: bool) -> int:
    """Return the batches that vLLM has under way (``VllmConfig.max_concurrent_batches``)."""
    return pp + 1 if async_scheduling else pp


def cdiv(a: int, b: int) -> int:
    """Return a / b, rounded up."""
    return -(-a // b)


class State(NamedTuple):
    """What a layer keeps of a request in place of keys and values.

    Attributes
    ----------
    size : int
        Bytes on one GPU.
    copies : int
        States that a request holds at a time, each in a block of its own.
    block_size : int
        Tokens after which a state may be kept for others: a block's, or all of a request's.
    checkpoint : bool
        Whether the layer can tell the state at a block's end from inside a step.
    """

    size: int
    copies: int
    block_size: int
    checkpoint: bool


@dataclass(frozen=True)
class LayerCache:
    """The KV cache of one attention layer on one GPU, or the state of another.

    Attributes
    ----------
    heads : int
        Key-value heads on the GPU; 1 for MLA's latent vector.
    head_bytes : int
        Bytes of a token in a head: its key and its value, or the latent vector.
    window : int or None
        Tokens of a sliding window; None: full attention.
    latent : bool
        Whether it is MLA's, whose pages cannot be padded.
    state : State or None
        What is kept in place of keys and values, of which there are none then.
    """

    heads: int
    head_bytes: int
    window: int | None = None
    latent: bool = False
    state: State | None = None

    @property
    def token_bytes(self) -> int:
        """Bytes of a token."""
        return self.heads * self.head_bytes

    @property
    def kind(self) -> str:
        """``full``, ``sliding``, ``mla`` or ``state``."""
        if self.state is not None:
            return "state"
        if self.window is not None:
            return "sliding"
        return "mla" if self.latent else "full"


@dataclass(frozen=True)
class PagedLayer:
    """A layer with the size of its blocks.

    Attributes
    ----------
    layer : LayerCache
        What it keeps.
    block_size : int
        Tokens of a block.
    page_bytes : int
        Bytes of a block of this layer, padding included.
    """

    layer: LayerCache
    block_size: int
    page_bytes: int

    def blocks_per_request(self, limits: Limits) -> int:
        """Return the most blocks that a request holds, which vLLM plans with."""
        longest = limits.max_model_len
        if self.layer.state is not None:
            return self.layer.state.copies
        if self.layer.window is None:
            return cdiv(longest, self.block_size)
        held = min(self.layer.window - 1 + limits.in_flight, longest)
        # A window may begin inside a block.
        return cdiv(held, self.block_size) + 1
