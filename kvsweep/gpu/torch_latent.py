"""Multi-head latent attention on its cache of one vector a token (DeepSeek-V2 and V3).

A prefill computes keys and values of all heads from the vectors of its whole prompt, as vLLM does
for what is cached before a chunk, and attends by `varlen_attn` on CUDA and by
`scaled_dot_product_attention` elsewhere. A decode attends to the vectors themselves, whose 576
channels no attention kernel of PyTorch's takes: by two batched products and a softmax, which read
them twice. So decoding with long contexts comes out slower than with a kernel made for it
(FlashMLA); the preset's coefficient of that context is an upper bound.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from kvsweep.gpu.shard import Shard
from kvsweep.gpu.torch_attention import causal_mask
from kvsweep.gpu.torch_kit import EPSILON, Kit, angles
from kvsweep.gpu.torch_layout import Layout
from kvsweep.gpu.torch_linear import Linear, matrix
from kvsweep.sizing.defaults import BLOCK_SIZE


class LatentAttention:
    """Latent attention of one layer, with its cache.

    Parameters
    ----------
    shard : Shard
        One GPU's part of a model.
    kit : Kit
        How it is built.
    blocks : int
        Of the KV cache.
    """

    def __init__(self, shard: Shard, kit: Kit, blocks: int) -> None:
        assert shard.latent is not None
        latent = self._latent = shard.latent
        heads = self._heads = shard.heads
        self._scale = (latent.plain + latent.rotary) ** -0.5
        width = latent.plain + latent.rotary
        self._down = Linear(
            shard.hidden, latent.query_rank + latent.rank + latent.rotary, **kit.products
        )
        into = latent.query_rank or shard.hidden
        self._queries = Linear(into, heads * width, **kit.products)
        self._expand = Linear(latent.rank, heads * (latent.plain + latent.value), **kit.products)
        # The same weights by head, as a decode has them beside its queries and its output.
        self._keys_up = matrix(heads, latent.plain, latent.rank, device=kit.device)
        self._values_up = matrix(heads, latent.rank, latent.value, device=kit.device)
        self._back = Linear(heads * latent.value, shard.hidden, **kit.products)
        self._rotate = kit.rotate
        self._cache = torch.empty(
            blocks * BLOCK_SIZE,
            latent.rank + latent.rotary,
            dtype=torch.bfloat16,
            device=kit.device,
        ).normal_()

    def angles(self, layout: Layout) -> tuple[Any, Any]:
        """Return the rotary embeddings of a batch, which are the same in all layers."""
        return angles(layout.positions, self._latent.rotary)

    def __call__(self, x: Any, layout: Layout, turned: tuple[Any, Any]) -> Any:
        """Return what is added to the residual stream; the vectors go to the cache."""
        latent, chunk = self._latent, layout.batch.prefill
        sizes = [latent.query_rank, latent.rank, latent.rotary]
        low, vector, key = self._down(x).split(sizes, dim=-1)
        if latent.query_rank:
            low = functional.rms_norm(low, low.shape[-1:], eps=EPSILON)
        q = self._queries(low if latent.query_rank else x).view(len(x), self._heads, -1)
        plain, turning = q.split([latent.plain, latent.rotary], dim=-1)
        q = torch.cat((plain, self._rotate(turning, *turned)), dim=-1)
        key = self._rotate(key[:, None], *turned)[:, 0]
        vector = functional.rms_norm(vector, vector.shape[-1:], eps=EPSILON)
        self._cache[layout.slots] = torch.cat((vector, key), dim=-1)
        outputs = []
        if chunk:
            outputs.append(self._prefill(q[:chunk], layout))
        if layout.batch.decode:
            outputs.append(self._decode(q[chunk:], layout))
        return self._back(torch.cat(outputs).reshape(len(x), -1))

    def _prefill(self, q: Any, layout: Layout) -> Any:
        """Return the values of a chunk, shape (tokens, heads, channels)."""
        latent, length = self._latent, layout.batch.prefill + layout.batch.prefill_context
        vectors, key = self._cache[:length].split([latent.rank, latent.rotary], dim=-1)
        made = self._expand(vectors).view(length, self._heads, -1)
        plain, v = made.split([latent.plain, latent.value], dim=-1)
        k = torch.cat((plain, key[:, None].expand(-1, self._heads, -1)), dim=-1)
        if q.is_cuda:
            return self._varlen(q, k, v, layout)
        mask = causal_mask(len(q), length, None, q.device)
        q, k, v = (part.transpose(0, 1)[None] for part in (q, k, v))
        out = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None, scale=self._scale
        )
        return out[0].transpose(0, 1)

    def _varlen(self, q: Any, k: Any, v: Any, layout: Layout) -> Any:
        """Attend by FlashAttention-2, which wants values as wide as keys: padded, as in vLLM."""
        from torch.nn.attention.varlen import varlen_attn

        width = self._latent.value
        wide = functional.pad(v, (0, q.shape[-1] - width))
        out = varlen_attn(
            q,
            k,
            wide,
            layout.starts_q[:2],
            layout.starts_k[:2],
            len(q),
            len(k),
            window_size=(-1, 0),
            scale=self._scale,
        )
        return out[..., :width]

    def _decode(self, q: Any, layout: Layout) -> Any:
        """Return the values of decoding requests, shape (requests, heads, channels)."""
        latent, batch = self._latent, layout.batch
        begin = batch.prefill + batch.prefill_context if batch.prefill else 0
        cache = self._cache[begin : batch.held].view(batch.decode, -1, self._cache.shape[-1])
        plain, turning = q.split([latent.plain, latent.rotary], dim=-1)
        inner = torch.einsum("bhp,hpr->bhr", plain, self._keys_up)
        scores = torch.cat((inner, turning), dim=-1) @ cache.transpose(1, 2)
        shares = (scores * self._scale).softmax(dim=-1)
        return torch.einsum("bhr,hrv->bhv", shares @ cache[..., : latent.rank], self._values_up)
