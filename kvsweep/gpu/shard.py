"""What one GPU of a served model holds: its layers by kind, and the output head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvsweep.errors import InputError
from kvsweep.limits import MAX_LAYERS
from kvsweep.sizing.architectures import Architecture
from kvsweep.sizing.attention import head_dim, kv_heads, layer_windows, query_heads
from kvsweep.sizing.class_defaults import text_model
from kvsweep.sizing.config_values import Values
from kvsweep.sizing.weights import expert_count


@dataclass(frozen=True)
class Latent:
    """Channels of multi-head latent attention, of one head but for the vectors.

    Attributes
    ----------
    rank, rotary : int
        Of the latent vector, and of its rotary part: what the cache keeps of a token.
    plain, value : int
        Of a query without its rotary part, and of a value.
    query_rank : int
        Of the queries' own vector, 0 if they have none.
    """

    rank: int
    rotary: int
    plain: int
    value: int
    query_rank: int


@dataclass(frozen=True)
class Experts:
    """A mixture of experts.

    Attributes
    ----------
    count, chosen : int
        Experts, and how many of them a token is sent to.
    inner : int
        Width of an expert on this GPU.
    shared : int
        Width of what every token meets beside them on this GPU, 0 if there is none.
    """

    count: int
    chosen: int
    inner: int
    shared: int


@dataclass(frozen=True)
class LayerKind:
    """Layers that are alike.

    Attributes
    ----------
    name : str
        ``full`` or ``window``, and ``-experts`` if it has some.
    layers : int
        How many there are.
    window : int or None
        Tokens of a sliding window.
    experts : bool
        Whether its feed-forward part is a mixture of experts.
    """

    name: str
    layers: int
    window: int | None
    experts: bool


@dataclass(frozen=True)
class Shard:
    """One GPU's part of a model.

    Attributes
    ----------
    model : str
        Name, or file.
    tp : int
        GPUs that share the model (tensor parallelism); all below is of one of them.
    kinds : tuple of LayerKind
        The layers.
    hidden : int
        Width of the residual stream.
    heads, kv_heads, head_dim : int
        Query heads, key-value heads, channels of a head; the last two have no meaning beside
        `latent`.
    ffn : int
        Width of the dense feed-forward part.
    vocab : int
        Tokens of the vocabulary.
    qk_norm : bool
        Whether queries and keys are normed.
    latent : Latent or None
        Of multi-head latent attention.
    experts : Experts or None
        Of layers that have them.
    """

    model: str
    tp: int
    kinds: tuple[LayerKind, ...]
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    qk_norm: bool
    latent: Latent | None
    experts: Experts | None

    @property
    def layers(self) -> int:
        """Layers of the model."""
        return sum(kind.layers for kind in self.kinds)

    @property
    def token_channels(self) -> int:
        """Elements that the cache of one layer keeps of a token."""
        if self.latent:
            return self.latent.rank + self.latent.rotary
        return 2 * self.kv_heads * self.head_dim


def shard_of(config: dict[str, Any], where: str, tp: int) -> Shard:
    """Return one GPU's part of a model.

    Parameters
    ----------
    config : dict
        The values of its ``config.json``.
    where : str
        The model or the file, for messages.
    tp : int
        GPUs of tensor parallelism.

    Raises
    ------
    InputError
        If a value is missing, the architecture is not measured, or `tp` does not divide it.
    """
    _, about, text = text_model(Values(config, where))
    if text.table.get("index_topk") is not None:
        raise InputError(f"{where}: index_topk: sparse attention is not measured")
    if about.states is not None:
        raise InputError(f"{where}: layers that keep a state are not measured")
    sparse = text.table.get("decoder_sparse_step"), text.table.get("moe_layer_freq")
    if text.table.get("mlp_only_layers") or any(step not in (None, 1) for step in sparse):
        raise InputError(f"{where}: experts in some layers only are not measured")
    heads = query_heads(text)
    kinds = _kinds(text, about)
    inner = text.count("intermediate_size")
    dense = any(not kind.experts for kind in kinds)
    for key, size in (
        ("num_attention_heads", heads),
        *((("intermediate_size", inner),) if dense else ()),
    ):
        if tp < 1 or size % tp:
            raise InputError(f"--tp: {tp} does not divide {key} of {where}, {size:,}")
    if not about.mla and kv_heads(text) % tp and tp % kv_heads(text):
        raise InputError(
            f"--tp: {tp} neither divides num_key_value_heads of {where}, {kv_heads(text)}, nor is "
            "divided by it"
        )
    experts = _experts(text, tp) if expert_count(text) else None
    return Shard(
        model=where,
        tp=tp,
        kinds=kinds,
        hidden=text.count("hidden_size"),
        heads=heads // tp,
        kv_heads=1 if about.mla else max(1, kv_heads(text) // tp),
        head_dim=0 if about.mla else head_dim(text),
        ffn=inner // tp,
        vocab=-(-text.count("vocab_size") // tp),
        qk_norm=about.qk_norm,
        latent=_latent(text) if about.mla else None,
        experts=experts,
    )


def _kinds(text: Values, about: Architecture) -> tuple[LayerKind, ...]:
    """Return the layers by kind, in the order of their first ones."""
    layers = text.count("num_hidden_layers", most=MAX_LAYERS)
    windows = [None] * layers if about.mla else layer_windows(text, about)
    dense = text.number("first_k_dense_replace") if expert_count(text) else layers
    counted: dict[tuple[int | None, bool], int] = {}
    for layer, window in enumerate(windows):
        counted[window, layer >= dense] = counted.get((window, layer >= dense), 0) + 1
    return tuple(
        LayerKind(
            ("full" if window is None else "window") + ("-experts" if experts else ""),
            count,
            window,
            experts,
        )
        for (window, experts), count in counted.items()
    )


def _experts(text: Values, tp: int) -> Experts:
    own = text.table.get("moe_intermediate_size") is not None
    key = "moe_intermediate_size" if own else "intermediate_size"
    inner = text.count(key)
    if inner % tp:
        raise InputError(f"--tp: {tp} does not divide {key} of {text.where}, {inner:,}")
    count, chosen = expert_count(text), text.count("num_experts_per_tok")
    if chosen > count:
        raise InputError(f"{text.where}: num_experts_per_tok: {chosen}, of {count} experts")
    return Experts(count, chosen, inner // tp, text.number("n_shared_experts") * inner // tp)


def _latent(text: Values) -> Latent:
    return Latent(
        rank=text.count("kv_lora_rank"),
        rotary=text.count("qk_rope_head_dim"),
        plain=text.count("qk_nope_head_dim"),
        value=text.count("v_head_dim"),
        query_rank=text.number("q_lora_rank"),
    )
