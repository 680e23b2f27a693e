"""A decoder layer of a kind, and the output head, with random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.nn import functional

from kvsweep.gpu.batches import Batch
from kvsweep.gpu.shard import LayerKind, Shard
from kvsweep.gpu.torch_attention import Attention
from kvsweep.gpu.torch_experts import ExpertMlp, GatedMlp
from kvsweep.gpu.torch_kit import EPSILON, Kit
from kvsweep.gpu.torch_latent import LatentAttention
from kvsweep.gpu.torch_layout import lay_out
from kvsweep.gpu.torch_linear import matrix


class Layer:
    """Norm, attention, norm, feed-forward part, each added to the residual stream."""

    def __init__(self, shard: Shard, kind: LayerKind, kit: Kit, blocks: int, kernel: str) -> None:
        self.attention = (
            LatentAttention(shard, kit, blocks)
            if shard.latent
            else Attention(shard, kind, kit, blocks, kernel)
        )
        experts = shard.experts if kind.experts else None
        self._add_norm = kit.add_norm
        self._mlp = (
            ExpertMlp(shard.hidden, experts, kit)
            if experts
            else GatedMlp(shard.hidden, shard.ffn, kit)
        )

    def __call__(
        self, residual: Any, x: Any, layout: Any, turned: tuple[Any, Any]
    ) -> tuple[Any, Any]:
        """Return the residual stream, and what its last part gave, which is not added yet.

        A norm and the sum before it are one kernel, as in vLLM: so a layer begins with what the
        layer before it gave.
        """
        residual, normed = self._add_norm(residual, x)
        residual, normed = self._add_norm(residual, self.attention(normed, layout, turned))
        return residual, self._mlp(normed)


def draw_inputs(shard: Shard, batches: Iterable[Batch], device: Any) -> Any:
    """Return a residual stream that is long enough for all batches, of shape (tokens, hidden).

    It is drawn once: a CUDA graph that cannot be captured leaves PyTorch's generator of the GPU in
    a state in which it refuses to draw.
    """
    tokens = max(batch.tokens for batch in batches)
    return torch.randn(tokens, shard.hidden, dtype=torch.bfloat16, device=device)


class LayerStack:
    """Several layers of one kind one after the other, each with weights and a cache of its own.

    A layer alone would find its weights in the processor's or the GPU's cache, where a model with
    many layers does not.

    Parameters
    ----------
    shard : Shard
        One GPU's part of a model.
    kind : LayerKind
        Of the layers.
    kit : Kit
        How they are built.
    copies : int
        How many there are.
    blocks : int
        Of each KV cache.
    kernel : str
        Of attention.
    inputs : tensor of shape (tokens, hidden)
        The residual stream of as many tokens as any batch has (`draw_inputs`).
    """

    def __init__(
        self,
        shard: Shard,
        kind: LayerKind,
        kit: Kit,
        *,
        copies: int,
        blocks: int,
        kernel: str,
        inputs: Any,
    ) -> None:
        self.copies = copies
        self._layers = [Layer(shard, kind, kit, blocks, kernel) for _ in range(copies)]
        self._device, self._inputs = kit.device, inputs
        self._scattered = not shard.latent and kernel != "packed"

    def prepare(self, batch: Batch) -> Callable[[], tuple[Any, Any]]:
        """Return a function that runs all copies on a batch once."""
        layout = lay_out(batch, self._device, scattered=self._scattered)
        turned = self._layers[0].attention.angles(layout)
        start = self._inputs[: batch.tokens]

        def run() -> tuple[Any, Any]:
            residual, x = start, start
            for layer in self._layers:
                residual, x = layer(residual, x, layout, turned)
            return residual, x

        return run


class HeadStack:
    """The norm after the last layer and the output layer, as often as the cache demands."""

    def __init__(self, shard: Shard, kit: Kit, copies: int, inputs: Any) -> None:
        self.copies = copies
        self._weights = [
            matrix(shard.vocab, shard.hidden, device=kit.device) for _ in range(copies)
        ]
        self._inputs = inputs

    def prepare(self, batch: Batch) -> Callable[[], Any]:
        """Return a function that computes the logits of a batch once with each copy."""
        hidden = self._weights[0].shape[-1]
        x = self._inputs[: batch.sampled]

        def run() -> list[Any]:
            return [
                functional.linear(functional.rms_norm(x, (hidden,), eps=EPSILON), weights)
                for weights in self._weights
            ]

        return run
