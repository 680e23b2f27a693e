"""Step times from first principles: the shape of a model, the figures of a device.

A step computes or moves data, whichever takes longer (S. Williams, A. Waterman and D. Patterson,
Roofline, CACM 52(4), 2009). Counted are the matrix products and the attention of a dense decoder
with a gated MLP and grouped-query attention, as Llama's, and what they must at least read:

- Computing: two FLOPs per weight and token; the output layer only for decoding requests (a prompt
  needs it once); four FLOPs per layer, attention channel, token and token of its context.
- Moving: all weights once a step; keys and values of the whole context of each decoding request,
  and of each new token. The context that a prefill reads is left out: it is read once for many
  tokens, whose computing takes longer.
- Exchanging, beside both: all-reduces among the devices that share the model.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from kvsweep.config.base import Count, Positive, Real, Section
from kvsweep.sizing.exchange import REACHED, all_reduces, exchange_times
from kvsweep.sizing.step_terms import StepTerms

MICROSECONDS = 1e6

LEAST_PEAK = 1e6
"""Less than any device has: what is told in TFLOP/s or GB/s would be steps of years."""


def _checked_peak(value: float) -> float:
    if value < LEAST_PEAK:
        raise ValueError(f"{value:g} is too little: FLOP/s or bytes/s, as 989.4e12 or 3.35e12")
    return value


Peak = Annotated[float, Field(strict=True, allow_inf_nan=False), AfterValidator(_checked_peak)]
"""Operations or bytes per second."""

Efficiency = Annotated[float, Field(strict=True, ge=1e-6, le=1.0, allow_inf_nan=False)]
"""A number up to 1, but not 0: then nothing would ever be computed."""


class Shape(Section):
    """A dense decoder-only model, as in its ``config.json``.

    Attributes
    ----------
    layers, hidden, heads, kv_heads, ffn, vocab : int
        Layers, width of the residual stream, query heads, key-value heads, width of the gated MLP,
        tokens of the vocabulary.
    head_dim : int or None
        Channels of a head; None: ``hidden / heads``.
    weight_bytes, kv_bytes : float
        Bytes of a weight, and of an element of the KV cache.
    """

    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count
    ffn: Count
    vocab: Count
    head_dim: Count | None = None
    weight_bytes: Positive = 2.0
    kv_bytes: Positive = 2.0

    @property
    def attention_channels(self) -> int:
        """Channels of all query heads."""
        return self.heads * (self.head_dim or self.hidden // self.heads)

    @property
    def kv_channels(self) -> int:
        """Channels of the keys of a token in one layer; as many of its values."""
        return self.kv_heads * (self.head_dim or self.hidden // self.heads)

    @property
    def layer_weights(self) -> int:
        """Weights of all layers."""
        attention = 2 * self.hidden * (self.attention_channels + self.kv_channels)
        return self.layers * (attention + 3 * self.hidden * self.ffn)

    @property
    def output_weights(self) -> int:
        """Weights of the output layer."""
        return self.hidden * self.vocab

    def gpu_token_bytes(self, tp: int) -> float:
        """Return the bytes that the KV cache of one of `tp` devices holds of one token.

        Each has a head at least, which more devices than heads have several times.
        """
        return 2 * self.layers * self.kv_channels * self.kv_bytes / min(tp, self.kv_heads)


class Device(Section):
    """One device, and how well it is used.

    Attributes
    ----------
    flops : float
        Peak of dense matrix products in the weights' precision, FLOP/s.
    bandwidth : float
        Peak memory bandwidth, bytes/s.
    compute_efficiency, bandwidth_efficiency : float
        Share of the peaks that is reached.
    overhead_us : float
        Time of a step that is neither, microseconds.
    tp : int
        Devices that share the model (tensor parallel).
    peer_bandwidth : float or None
        Of a device to the others that share the model, bytes/s, one way, of which `REACHED` is
        reached (`kvsweep.sizing.exchange`); None: not known, and what they exchange is left out.
    flops_8bit : float or None
        Peak of dense matrix products of 8 bits, FLOP/s, for a model whose weights have them
        (`kvsweep.sizing.served_steps`); None: they are computed at `flops`.
    """

    flops: Peak
    bandwidth: Peak
    compute_efficiency: Efficiency = 1.0
    bandwidth_efficiency: Efficiency = 1.0
    overhead_us: Real = 0.0
    tp: Count = 1
    peer_bandwidth: Peak | None = None
    flops_8bit: Peak | None = None

    @property
    def exchange(self) -> float | None:
        """Bytes/s that an all-reduce reaches, None if it is not known."""
        return None if self.peer_bandwidth is None else REACHED * self.peer_bandwidth


def roofline_terms(shape: Shape, device: Device) -> StepTerms:
    """Return the step times of a model on a device.

    Examples
    --------
    One layer of one head, a TFLOP/s and a GB/s: computing is free beside reading weights.

    >>> shape = Shape(layers=1, hidden=2, heads=1, kv_heads=1, ffn=4, vocab=10)
    >>> terms = roofline_terms(shape, Device(flops=1e12, bandwidth=1e9))
    >>> round(terms.memory[0], 3)  # 40 weights of the layer and 20 of the output, two bytes each
    0.12
    """
    flop = MICROSECONDS / (device.flops * device.compute_efficiency * device.tp)
    byte = MICROSECONDS / (device.bandwidth * device.bandwidth_efficiency * device.tp)
    token = 2 * shape.layer_weights * flop
    context = 4 * shape.layers * shape.attention_channels * flop
    output = 2 * shape.output_weights * flop
    weights = (shape.layer_weights + shape.output_weights) * shape.weight_bytes * byte
    kv = shape.gpu_token_bytes(device.tp) * byte * device.tp
    beta = (device.overhead_us, token, token + output, context, context)
    reduces = all_reduces(shape.layers)
    times = exchange_times(reduces, shape.hidden, device.tp, device.exchange)
    return StepTerms(beta, (weights, kv, kv, kv, 0.0)).longer(*times)
