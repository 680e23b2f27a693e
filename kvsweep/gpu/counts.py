"""What a step of a shard computes and moves: the two sums of a roofline, before any peak.

Counted as `kvsweep.config.roofline` counts, of each kind of layer and of what one GPU holds. Each
count is linear in the sums of a step that `kvsweep.config.latency.Latency` knows.
"""

from __future__ import annotations

from typing import NamedTuple

from kvsweep.gpu.shard import LayerKind, Shard
from kvsweep.gpu.state_layers import Mamba
from kvsweep.sizing.state_work import MAMBA2_FLOPS
from kvsweep.sizing.states import FULL, STATE

KV_BYTES = 2
"""Bytes of an element of the KV cache and of the output head, bfloat16."""

Five = tuple[float, float, float, float, float]


class Counts(NamedTuple):
    """FLOPs and bytes of a step: of itself, and of each unit of its four sums.

    Attributes
    ----------
    flops, bytes : tuple of 5 float
        A step; a prefill token; a decoding request; a token of the context of these, and of those.
    """

    flops: Five
    bytes: Five


def step_counts(shard: Shard, weight_bytes: float) -> Counts:
    """Return the counts of all layers and the output head on one GPU.

    Parameters
    ----------
    shard : Shard
        One GPU's part of a model.
    weight_bytes : float
        Bytes of a weight of the layers; those of the head have two.
    """
    flops, moved = [0.0] * 5, [0.0] * 5
    for kind in shard.kinds:
        met, read = layer_weights(shard, kind)
        moved[0] += kind.layers * read * weight_bytes
        if kind.keeps != FULL:
            computed, of_state = _of_state(shard.mamba if kind.keeps == STATE else None)
            flops[1] += kind.layers * (2 * met + computed)
            flops[2] += kind.layers * (2 * met + computed)
            moved[2] += kind.layers * of_state
            continue
        prefill, decode = pair_flops(shard)
        inside = 0 if kind.window is None else kind.window - 1
        kept = shard.token_channels * KV_BYTES
        flops[1] += kind.layers * (2 * met + inside * prefill)
        flops[2] += kind.layers * (2 * met + inside * decode)
        moved[1] += kind.layers * kept
        moved[2] += kind.layers * kept * (1 + inside)
        if kind.window is None:
            flops[3] += kind.layers * decode
            flops[4] += kind.layers * prefill
            moved[3] += kind.layers * kept
    head = shard.hidden * shard.vocab
    flops[2] += 2 * head
    moved[0] += head * KV_BYTES
    return Counts((*flops,), (*moved,))  # type: ignore[arg-type]


def _of_state(mamba: Mamba | None) -> tuple[int, int]:
    """Return FLOPs of a token's recurrence, and bytes that a decoding request moves of its state.

    The state is read and written. Of a prompt both are left out, as it is done once a chunk.
    """
    if mamba is None:
        return 0, 0
    return MAMBA2_FLOPS * mamba.inner * mamba.size, 2 * mamba.state_bytes


class WindowCounts(NamedTuple):
    """What layers with a sliding window compute and move of the context inside of it.

    Attributes
    ----------
    window : int
        Its tokens, one number for all these layers; 0: there is nothing inside.
    flops, bytes : tuple of 2 float
        Of all these layers, for each token inside: before a decoded one, before one of a prefill.
    """

    window: int
    flops: tuple[float, float]
    bytes: tuple[float, float]


def window_counts(shard: Shard) -> WindowCounts:
    """Return them; `step_counts` has them too, as if every context filled the window."""
    window = max((kind.window for kind in shard.kinds if kind.window is not None), default=0)
    if window < 2:
        return WindowCounts(0, (0.0, 0.0), (0.0, 0.0))
    layers = sum(kind.layers for kind in shard.kinds if kind.window is not None)
    prefill, decode = pair_flops(shard)
    kept = shard.token_channels * KV_BYTES
    return WindowCounts(window, (layers * decode, layers * prefill), (layers * kept, 0.0))


def layer_weights(shard: Shard, kind: LayerKind) -> tuple[int, int]:
    """Return the weights that a token meets in a layer, and all of them, on one GPU."""
    mixer = _mixer_weights(shard, kind)
    if not kind.experts or shard.experts is None:
        dense = (3 if shard.gated else 2) * shard.hidden * shard.ffn if kind.dense else 0
        return mixer + dense, mixer + dense
    one = 3 * shard.hidden * shard.experts.inner
    always = mixer + 3 * shard.hidden * shard.experts.shared
    return always + shard.experts.chosen * one, always + shard.experts.count * one


def experts_weights(shard: Shard) -> int:
    """Return the weights of all routed experts on one GPU, of all layers; 0: there are none."""
    if shard.experts is None:
        return 0
    layers = sum(kind.layers for kind in shard.kinds if kind.experts)
    return layers * shard.experts.count * 3 * shard.hidden * shard.experts.inner


def _mixer_weights(shard: Shard, kind: LayerKind) -> int:
    """Return the weights of attention, or of what keeps a state, of a layer on one GPU."""
    if kind.keeps == FULL:
        return attention_weights(shard)
    if kind.keeps != STATE or shard.mamba is None:
        return 0
    mamba, hidden = shard.mamba, shard.hidden
    products = hidden * (mamba.inner + mamba.channels + mamba.heads) + mamba.inner * hidden
    convolution = mamba.channels * (mamba.taps + mamba.bias)
    return products + convolution + 3 * mamba.heads + mamba.inner


def attention_weights(shard: Shard) -> int:
    """Return the weights of the projections of a layer's attention on one GPU."""
    latent, hidden, heads = shard.latent, shard.hidden, shard.heads
    if latent is None:
        return 2 * hidden * shard.head_dim * (heads + shard.kv_heads)
    into = (latent.query_rank or hidden) * heads * (latent.plain + latent.rotary)
    out = heads * (latent.rank * (latent.plain + latent.value) + latent.value * hidden)
    return into + out + hidden * (latent.query_rank + latent.rank + latent.rotary)


def pair_flops(shard: Shard) -> tuple[int, int]:
    """Return the FLOPs of attention of a token and one of its context: of a prefill, a decode."""
    latent, heads = shard.latent, shard.heads
    if latent is None:
        return (4 * heads * shard.head_dim,) * 2
    keys_and_values = latent.plain + latent.rotary + latent.value
    return 2 * heads * keys_and_values, 2 * heads * (2 * latent.rank + latent.rotary)
