"""Grouped-query attention on a paged KV cache, by the fastest kernel that PyTorch ships.

In the order in which they are tried, on the device itself:

- ``vllm``: the kernel that vLLM serves with, if vLLM is installed beside PyTorch: FlashAttention-3
  on Hopper, else FlashAttention-2, with a block table, all sequences of a step in one call.
- ``paged``: `torch.nn.attention.varlen.varlen_attn` with a block table. PyTorch 2.15 has it on
  Hopper and Blackwell (cuDNN 9.24).
- ``packed``: the same function without a block table, keys and values of each sequence in one
  piece: FlashAttention-2, on every other GPU. What block tables cost is left out.
- ``gathered``: `scaled_dot_product_attention` on copies of the blocks; what a processor has. The
  copies are part of the time.

`flex_attention` is not among them: it takes block tables too, but is compiled, in seconds, and its
authors state 90 % of FlashAttention-2's speed ("FlexAttention", PyTorch's blog, August 2024).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch.nn import functional

from kvsweep.errors import InputError
from kvsweep.gpu.batches import Batch
from kvsweep.gpu.shard import LayerKind, Shard
from kvsweep.gpu.torch_kit import Kit, angles
from kvsweep.gpu.torch_layout import Layout, blocks_needed, lay_out
from kvsweep.gpu.torch_linear import Linear
from kvsweep.sizing.defaults import BLOCK_SIZE

Kernel = Callable[[Any, Any, Any, Layout, int | None], Any]
"""From queries, both caches (slots, heads, channels), the layout and a window to the output."""


def of_vllm(q: Any, keys: Any, values: Any, layout: Layout, window: int | None) -> Any:
    """Attend through the block table by the kernel of an installed vLLM."""
    from vllm.vllm_flash_attn import flash_attn_varlen_func, is_fa_version_supported

    return flash_attn_varlen_func(
        q,
        *_in_blocks(keys, values),
        cu_seqlens_q=layout.starts_q,
        max_seqlen_q=layout.most_q,
        seqused_k=layout.used,
        max_seqlen_k=layout.most_k,
        causal=True,
        window_size=None if window is None else [window - 1, 0],
        block_table=layout.tables,
        fa_version=3 if is_fa_version_supported(3) else 2,
    )


def paged(q: Any, keys: Any, values: Any, layout: Layout, window: int | None) -> Any:
    """Attend through the block table."""
    from torch.nn.attention.varlen import varlen_attn

    return varlen_attn(
        q,
        *_in_blocks(keys, values),
        layout.starts_q,
        None,
        layout.most_q,
        layout.most_k,
        window_size=(-1 if window is None else window - 1, 0),
        enable_gqa=q.shape[1] != keys.shape[1],
        seqused_k=layout.used,
        block_table=layout.tables,
    )


def _in_blocks(*caches: Any) -> list[Any]:
    return [cache.view(-1, BLOCK_SIZE, *cache.shape[1:]) for cache in caches]


def packed(q: Any, keys: Any, values: Any, layout: Layout, window: int | None) -> Any:
    """Attend to sequences that lie one after the other."""
    from torch.nn.attention.varlen import varlen_attn

    total = layout.batch.held
    grouped = {"enable_gqa": q.shape[1] != keys.shape[1]} if _asks_for_groups(varlen_attn) else {}
    return varlen_attn(
        q,
        keys[:total],
        values[:total],
        layout.starts_q,
        layout.starts_k,
        layout.most_q,
        layout.most_k,
        window_size=(-1 if window is None else window - 1, 0),
        **grouped,
    )


@cache
def _asks_for_groups(function: Callable[..., Any]) -> bool:
    """Return whether heads in groups must be told; PyTorch 2.11 takes heads as they are."""
    return "enable_gqa" in inspect.signature(function).parameters


def gathered(q: Any, keys: Any, values: Any, layout: Layout, window: int | None) -> Any:
    """Attend to copies: the prompt by itself, then all decoding requests."""
    chunk, outputs = layout.batch.prefill, []
    if chunk:
        k, v = (cache[layout.prompt].transpose(0, 1)[None] for cache in (keys, values))
        mask = causal_mask(chunk, k.shape[2], window, q.device)
        made = functional.scaled_dot_product_attention(
            q[:chunk].transpose(0, 1)[None],
            k,
            v,
            attn_mask=mask,
            is_causal=mask is None,
            enable_gqa=True,
        )
        outputs.append(made[0].transpose(0, 1))
    if layout.batch.decode:
        slots = layout.requests if window is None else layout.requests[:, -window:]
        k, v = (cache[slots].transpose(1, 2) for cache in (keys, values))
        made = functional.scaled_dot_product_attention(q[chunk:, :, None], k, v, enable_gqa=True)
        outputs.append(made[:, :, 0])
    return torch.cat(outputs)


def causal_mask(chunk: int, length: int, window: int | None, device: Any) -> Any:
    """Return which tokens those of a chunk attend to; None: all before them, from the first on."""
    if chunk == length and window is None:
        return None
    ends = torch.arange(length - chunk, length, device=device)[:, None]
    places = torch.arange(length, device=device)
    mask = places <= ends
    return mask if window is None else mask & (places > ends - window)


KERNELS: dict[str, Kernel] = {
    "vllm": of_vllm,
    "paged": paged,
    "packed": packed,
    "gathered": gathered,
}


# RuntimeError: no code for this GPU, type or size of heads. ImportError: no vLLM, or a PyTorch
# without `varlen_attn`. TypeError: it has other arguments, as before 2.12. ValueError: heads or
# windows that it does not take, or other values. The rest: a vLLM built for another GPU.
REFUSALS = (
    RuntimeError,
    ImportError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    OSError,
)


def find_kernel(
    shard: Shard, device: Any, kernels: Mapping[str, Kernel] | None = None
) -> tuple[str, str]:
    """Return the first kernel that works for a shard on a device, and why none before it does.

    Parameters
    ----------
    shard : Shard
        One GPU's part of a model.
    device : torch.device
        Where it is to run.
    kernels : mapping of str to Kernel or None
        In the order in which they are tried; None: `KERNELS`, of which a processor has the last.

    Raises
    ------
    InputError
        If none works.
    torch.OutOfMemoryError
        If there is no memory to try one.
    """
    if kernels is None:
        kernels = KERNELS if device.type == "cuda" else {"gathered": gathered}
    refused = []
    for name, kernel in kernels.items():
        try:
            _try(kernel, shard, device, scattered=name != "packed")
        except torch.OutOfMemoryError:  # a RuntimeError too, which says nothing of the kernel
            raise
        except REFUSALS as error:
            refused.append(f"{name}: {' '.join(str(error).split())[:100]}")
            continue
        return name, "; ".join(refused)
    told = "; ".join(refused)
    raise InputError(f"{device}: no attention kernel of PyTorch's works there: {told}")


def _try(kernel: Kernel, shard: Shard, device: Any, *, scattered: bool) -> None:
    """Let a kernel attend to a chunk and four requests, and compare with `gathered`.

    A kernel that takes an argument and ignores it would be fast, and wrong.
    """
    batch = Batch(32, 32, 4, 63)
    layout = lay_out(batch, device, scattered=scattered)
    keys, values = Cache(blocks_needed([batch]), shard, device).parts
    heads = shard.heads + 2 * shard.kv_heads  # beside keys and values, as `Attention` has them
    made = torch.randn(batch.tokens, heads, shard.head_dim, dtype=torch.bfloat16, device=device)
    q = made[:, : shard.heads]
    for window in dict.fromkeys(kind.window for kind in shard.kinds):
        made = kernel(q, keys, values, layout, window)
        # Of unit variance: bfloat16 is off by less than 0.01, a token too many by some 0.1.
        apart = (made - gathered(q, keys, values, layout, window)).abs().max()
        if not float(apart) < 0.05:
            raise ValueError("other values than those of scaled_dot_product_attention")


class Cache:
    """Keys and values of one layer, random until they are written.

    Attributes
    ----------
    tokens : tensor of shape (slots, 2 x KV heads, channels)
        Of a token keys and values lie side by side, so that one kernel writes both, as vLLM's.
    parts : tuple of tensor
        Keys and values, each of shape (slots, KV heads, channels).
    """

    def __init__(self, blocks: int, shard: Shard, device: Any) -> None:
        shape = blocks * BLOCK_SIZE, 2 * shard.kv_heads, shard.head_dim
        self.tokens = torch.empty(*shape, dtype=torch.bfloat16, device=device).normal_()
        self.parts = self.tokens.split(shard.kv_heads, dim=1)


class Attention:
    """Attention of one layer, with its cache.

    Parameters
    ----------
    shard : Shard
        One GPU's part of a model.
    kind : LayerKind
        The layer's.
    kit : Kit
        How it is built.
    blocks : int
        Of the KV cache.
    kernel : str
        A name of `KERNELS`.
    """

    def __init__(self, shard: Shard, kind: LayerKind, kit: Kit, blocks: int, kernel: str) -> None:
        heads, kv_heads, channels = shard.heads, shard.kv_heads, shard.head_dim
        self._into = Linear(shard.hidden, (heads + 2 * kv_heads) * channels, **kit.products)
        self._back = Linear(heads * channels, shard.hidden, **kit.products)
        self._heads, self._turning = heads, heads + kv_heads
        self._window, self._norms = kind.window, shard.qk_norm
        self._turn = kit.turn if shard.rotary else None
        self._kernel, self._channels = KERNELS[kernel], channels
        self._cache = Cache(blocks, shard, kit.device)

    def angles(self, layout: Layout) -> tuple[Any, Any]:
        """Return the rotary embeddings of a batch, which are the same in all layers."""
        return angles(layout.positions, self._channels)

    def __call__(self, x: Any, layout: Layout, turned: tuple[Any, Any]) -> Any:
        """Return what is added to the residual stream; keys and values go to the cache."""
        made = self._into(x).view(len(x), -1, self._channels)
        if self._turn is not None:
            made = self._turn(made, *turned, self._turning, self._norms)
        self._cache.tokens[layout.slots] = made[:, self._heads :]
        q = made[:, : self._heads]
        keys, values = self._cache.parts
        out = self._kernel(q, keys, values, layout, self._window)
        return self._back(out.reshape(len(x), -1))
