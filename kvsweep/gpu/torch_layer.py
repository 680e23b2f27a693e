"""A decoder layer of a kind, and the output head, with random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.nn import functional

from kvsweep.gpu.batches import Batch
from kvsweep.gpu.shard import LayerKind, Shard
from kvsweep.gpu.torch_attention import Attention
from kvsweep.gpu.torch_experts import ExpertMlp, GatedMlp, SquaredMlp
from kvsweep.gpu.torch_kit import EPSILON, Kit
from kvsweep.gpu.torch_latent import LatentAttention
from kvsweep.gpu.torch_layout import lay_out
from kvsweep.gpu.torch_linear import matrix
from kvsweep.gpu.torch_state_layout import lay_out_states
from kvsweep.gpu.torch_states import StateMixer
from kvsweep.sizing.states import FULL, STATE


class Layer:
    """Norm and attention or what keeps a state, norm and feed-forward part, or one of the two.

    Each is added to the residual stream.

    Parameters
    ----------
    shard, kind, kit, blocks, kernel
        As of `LayerStack`.
    mixer : StateMixer or None
        What keeps a state.
    """

    def __init__(
        self,
        shard: Shard,
        kind: LayerKind,
        kit: Kit,
        blocks: int,
        kernel: str,
        mixer: StateMixer | None = None,
    ) -> None:
        self.attention = _attention(shard, kind, kit, blocks, kernel)
        self._mixer = mixer or self.attention
        self._add_norm = kit.add_norm
        self._mlp = _mlp(shard, kind, kit)

    def __call__(
        self, residual: Any, x: Any, layout: Any, turned: tuple[Any, Any]
    ) -> tuple[Any, Any]:
        """Return the residual stream, and what its last part gave, which is not added yet.

        A norm and the sum before it are one kernel, as in vLLM: so a layer begins with what the
        layer before it gave.
        """
        if self._mixer is not None:
            residual, normed = self._add_norm(residual, x)
            x = self._mixer(normed, layout, turned)
        if self._mlp is not None:
            residual, normed = self._add_norm(residual, x)
            x = self._mlp(normed)
        return residual, x


def _attention(
    shard: Shard, kind: LayerKind, kit: Kit, blocks: int, kernel: str
) -> Attention | LatentAttention | None:
    """Return the attention of a layer; None: it has none."""
    if kind.keeps != FULL:
        return None
    if shard.latent:
        return LatentAttention(shard, kit, blocks)
    return Attention(shard, kind, kit, blocks, kernel)


def _mlp(shard: Shard, kind: LayerKind, kit: Kit) -> ExpertMlp | GatedMlp | SquaredMlp | None:
    """Return the feed-forward part of a layer; None: it has none."""
    if not kind.mlp:
        return None
    if kind.experts and shard.experts:
        return ExpertMlp(shard.hidden, shard.experts, kit)
    return (GatedMlp if shard.gated else SquaredMlp)(shard.hidden, shard.ffn, kit)


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
    scan : str
        Of what keeps a state (`kvsweep.gpu.torch_scan.SCANS`).
    states : int
        Of requests that each layer keeps.
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
        scan: str = "",
        states: int = 0,
    ) -> None:
        self.copies = copies
        mamba = shard.mamba if kind.keeps == STATE else None
        self._chunk = mamba.chunk if mamba else 0
        self._layers = [
            Layer(
                shard,
                kind,
                kit,
                blocks,
                kernel,
                StateMixer(shard.hidden, mamba, kit, states, scan) if mamba else None,
            )
            for _ in range(copies)
        ]
        self._device, self._inputs = kit.device, inputs
        self._scattered = not shard.latent and kernel != "packed"

    def prepare(self, batch: Batch) -> Callable[[], tuple[Any, Any]]:
        """Return a function that runs all copies on a batch once."""
        layout, turned = self._placed(batch)
        start = self._inputs[: batch.tokens]

        def run() -> tuple[Any, Any]:
            residual, x = start, start
            for layer in self._layers:
                residual, x = layer(residual, x, layout, turned)
            return residual, x

        return run

    def _placed(self, batch: Batch) -> tuple[Any, Any]:
        """Return where a batch is in the caches, and the rotary embeddings of attention."""
        if self._chunk:
            prompts = [(batch.prefill, batch.prefill_context)] if batch.prefill else []
            return lay_out_states(prompts, batch.decode, self._chunk, self._device), None
        attention = self._layers[0].attention
        if attention is None:
            return None, None
        layout = lay_out(batch, self._device, scattered=self._scattered)
        return layout, attention.angles(layout)


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
