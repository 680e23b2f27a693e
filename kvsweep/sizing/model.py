"""A model as far as memory goes: its attention layers and its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvsweep.errors import InputError
from kvsweep.sizing.dtypes import BYTES, SPARSE_MLA, SPARSE_MLA_BYTES
from kvsweep.sizing.exchange import Reduces
from kvsweep.sizing.layers import LayerCache, State
from kvsweep.sizing.states import StateShape


@dataclass(frozen=True)
class AttentionShape:
    """The cache of one attention layer, on all GPUs together.

    Attributes
    ----------
    layer : int
        The layer of the model.
    kv_heads : int
        Key-value heads.
    key, value : int
        Channels of a head's key and value. Of MLA: of the latent vector and of its rotary part.
    window : int or None
        Tokens of a sliding window.
    latent : bool
        Whether it is MLA's: one vector, which every GPU holds.
    bytes_of_token : int or None
        Bytes of a token if they do not follow from channels and data type.
    """

    layer: int
    kv_heads: int
    key: int
    value: int
    window: int | None = None
    latent: bool = False
    bytes_of_token: int | None = None

    def on_gpu(self, tp: int, dtype: str) -> LayerCache:
        """Return what one GPU of `tp` keeps; each has at least one head, as vLLM does it.

        Raises
        ------
        InputError
            If `dtype` is no format of this layer.
        """
        heads = 1 if self.latent else max(1, self.kv_heads // tp)
        return LayerCache(heads, self._head_bytes(dtype), self.window, self.latent)

    def _head_bytes(self, dtype: str) -> int:
        if self.bytes_of_token is not None:
            return self.bytes_of_token
        if dtype != SPARSE_MLA:
            return (self.key + self.value) * BYTES[dtype]
        if not self.latent or (self.key, self.value) != (512, 64):
            raise InputError(f"--dtype: {SPARSE_MLA} is a format of DeepSeek's MLA only")
        return SPARSE_MLA_BYTES


@dataclass(frozen=True)
class LayerWeights:
    """Bytes of the weights of a layer.

    Attributes
    ----------
    shared : float
        Divided among the GPUs of tensor parallelism.
    kv : float
        Of the projections to keys and values, `kv_heads` parts that are divided up to one a GPU.
    kv_heads : int
        Key-value heads; 0 if there are no such projections.
    copied : float
        On every GPU.
    experts : float
        Of the experts that tokens choose among, part of `shared`.
    """

    shared: float
    kv: float = 0.0
    kv_heads: int = 0
    copied: float = 0.0
    experts: float = 0.0

    def on_gpu(self, tp: int) -> float:
        """Return the bytes on one GPU of `tp`."""
        kv = self.kv / min(tp, self.kv_heads) if self.kv_heads else 0.0
        return self.shared / tp + kv + self.copied


@dataclass(frozen=True)
class Weights:
    """Bytes of the weights of a model.

    Attributes
    ----------
    layers : tuple of LayerWeights
        Of each layer.
    embedding, output : float
        Of the embedding and of the output layer.
    tied : bool
        Whether the two are one, where they are on the same GPU.
    parameters : int
        Number of weights.
    text : str
        How they are stored, for messages.
    """

    layers: tuple[LayerWeights, ...]
    embedding: float
    output: float
    tied: bool
    parameters: int
    text: str

    def on_gpu(self, tp: int, stage: range) -> float:
        """Return the bytes on one GPU of a stage of a pipeline.

        Parameters
        ----------
        tp : int
            GPUs of tensor parallelism.
        stage : range
            Layers of the stage.
        """
        ends = self.embedding if stage.start == 0 else 0.0
        if stage.stop == len(self.layers) and not (self.tied and stage.start == 0):
            ends += self.output
        return ends / tp + sum(self.layers[layer].on_gpu(tp) for layer in stage)

    def of_instance(self, tp: int, instances: int) -> float:
        """Return the bytes on all GPUs of an instance of one stage, of so many.

        vLLM divides the experts among all GPUs of tensor and of data parallelism, with and without
        expert parallelism (``FusedMoEParallelConfig.make``); the rest each instance has whole.

        Parameters
        ----------
        tp : int
            GPUs of tensor parallelism.
        instances : int
            Instances that share the experts; 1: it has all.
        """
        experts = sum(layer.experts for layer in self.layers)
        return tp * self.on_gpu(tp, range(len(self.layers))) - experts * (1 - 1 / instances)

    @property
    def total(self) -> float:
        """Bytes of all weights, once."""
        return self.on_gpu(1, range(len(self.layers)))


@dataclass(frozen=True)
class Work:
    """What a token is computed with.

    Attributes
    ----------
    active : int
        Weights of all layers that one token meets, divided among GPUs: not those of experts that it
        is not sent to.
    output : int
        Weights of the output layer.
    prefill, decode : int
        FLOPs of attention in a layer, of a token and one token of its context.
    copied : int
        Weights that one token meets on every GPU.
    eight_bit : bool
        Whether products with `active` and `copied` are of 8 bits.
    hidden : int
        Width of the hidden vector of a token, which GPUs exchange.
    reduces : Reduces
        How often they do in a step.
    chosen : float
        Share of the experts of a layer that a token is sent to.
    recurrence : int
        FLOPs of a token in the recurrences of all layers that keep states, divided among GPUs.
    """

    active: int
    output: int
    prefill: int
    decode: int
    hidden: int
    reduces: Reduces
    copied: int = 0
    eight_bit: bool = False
    chosen: float = 1.0
    recurrence: int = 0


@dataclass(frozen=True)
class Model:
    """What decides the memory of a model.

    Attributes
    ----------
    name : str
        Name or file.
    architecture : str
        vLLM's name of its class.
    attention : tuple of AttentionShape
        Caches, by layer; more than one a layer where an indexer has its own.
    layers : int
        Layers.
    heads : int
        Query heads, which tensor parallelism divides.
    max_model_len : int
        Tokens of the longest request that vLLM derives.
    usual_model_len : int or None
        Of the longest that it takes unless told, if that is shorter.
    dtype : str
        Data type of the weights that are not quantized.
    weights : Weights or None
        None if their bytes do not follow from the configuration.
    weights_unknown : str
        Why, if they are None.
    experts : bool
        Whether it is a mixture of experts.
    source : str
        Where the figures come from.
    published : int or None
        Weights that the publisher tells, of 16 bits each, where they are not counted.
    work : Work or None
        What a token takes to compute; None if that is not counted.
    kept_dtype : str or None
        Data type that the checkpoint wants for keys and values.
    inner : int or None
        Width of the feed-forward part of layers without experts, which tensor parallelism divides;
        None if there are none.
    inner_block : int
        Of that width what shares a scale, so that it is not cut.
    states : tuple of StateShape
        What layers keep of a request in place of keys and values, or beside them.
    item_tokens : int
        Of the largest picture or video, where vLLM schedules each as a whole; 0: it does not.
    whole_items : tuple of str
        Kinds of items that attend to all of themselves, as ``image``.
    """

    name: str
    architecture: str
    attention: tuple[AttentionShape, ...]
    layers: int
    heads: int
    max_model_len: int
    dtype: str
    weights: Weights | None
    weights_unknown: str
    experts: bool
    source: str
    published: int | None = None
    work: Work | None = None
    usual_model_len: int | None = None
    kept_dtype: str | None = None
    inner: int | None = None
    inner_block: int = 1
    states: tuple[StateShape, ...] = ()
    item_tokens: int = 0
    whole_items: tuple[str, ...] = ()

    def takes(self, tp: int) -> bool:
        """Return whether `tp` GPUs can have the model divided among them, heads of keys copied.

        As vLLM's ``QKVParallelLinear``, ``MergedColumnParallelLinear`` (of layers without experts,
        which need not be divided) and the attention of its models demand it.
        """
        return self.takes_heads(tp) and self.takes_inner(tp) and self.takes_states(tp)

    def takes_heads(self, tp: int) -> bool:
        """Return whether `tp` GPUs can have the heads of attention divided, or copied."""
        heads = [shape.kv_heads for shape in self.attention if not shape.latent]
        return self.heads % tp == 0 and not any(n % tp and tp % n for n in heads)

    def takes_inner(self, tp: int) -> bool:
        """Return whether `tp` GPUs can have the feed-forward part divided among them."""
        return tp == 1 or self.inner is None or self.inner % (tp * self.inner_block) == 0

    def takes_states(self, tp: int) -> bool:
        """Return whether `tp` GPUs can have the layers that keep states divided among them."""
        return all(shape.takes(tp) for shape in self.states)

    @property
    def kept(self) -> list[AttentionShape | StateShape]:
        """Caches and states in the order of vLLM's layers; of one layer attention is first."""
        return sorted([*self.attention, *self.states], key=lambda shape: shape.layer)

    def caches(self, tp: int, dtype: str, state: State | None = None) -> list[LayerCache]:
        """Return what the layers keep on one GPU of `tp`, and `state` where they keep one."""
        held = LayerCache(0, 0, state=state)
        return [
            shape.on_gpu(tp, dtype) if isinstance(shape, AttentionShape) else held
            for shape in self.kept
        ]

    def caches_of(self, stage: range) -> Sequence[int]:
        """Return the indices of the caches of a stage's layers."""
        return [i for i, shape in enumerate(self.kept) if shape.layer in stage]

    @property
    def is_sparse(self) -> bool:
        """Whether an indexer chooses among the tokens, which has a cache of its own."""
        return any(shape.bytes_of_token is not None for shape in self.attention)

    @property
    def is_latent(self) -> bool:
        """Whether attention is MLA's."""
        return any(shape.latent for shape in self.attention)
