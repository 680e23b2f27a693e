"""What one GPU of a served model holds: its layers by kind, and the output head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvsweep.errors import InputError, shown
from kvsweep.gpu.state_layers import Mamba
from kvsweep.limits import MAX_LAYERS
from kvsweep.sizing.architectures import Architecture
from kvsweep.sizing.attention import head_dim, kv_heads, layer_windows, query_heads
from kvsweep.sizing.class_defaults import text_model
from kvsweep.sizing.config_values import Values
from kvsweep.sizing.exchange import Reduces, all_reduces
from kvsweep.sizing.state_work import reduces
from kvsweep.sizing.states import (
    CHANNEL_BYTES,
    FULL,
    STATE,
    StateShape,
    feed_forward,
    layer_kinds,
    state_shapes,
)
from kvsweep.sizing.weights import expert_count

USUAL_CHUNK = 2048
"""Tokens of a prompt that Mamba-2 computes at once where a model does not say, as vLLM has it."""


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
        ``full``, ``window`` or ``state``, and ``-experts`` if it has some; ``mlp``: nothing else.
    layers : int
        How many there are.
    window : int or None
        Tokens of a sliding window.
    experts : bool
        Whether its feed-forward part is a mixture of experts.
    keeps : str
        What it keeps of a request, as `kvsweep.sizing.states` has it: ``full``, ``state`` or
        ``neither``.
    mlp : bool
        Whether it has a feed-forward part.
    """

    name: str
    layers: int
    window: int | None
    experts: bool
    keeps: str = FULL
    mlp: bool = True

    @property
    def dense(self) -> bool:
        """Whether it has a feed-forward part without experts."""
        return self.mlp and not self.experts


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
    mamba : Mamba or None
        Of layers that keep a state.
    gated, rotary : bool
        Whether the dense feed-forward part has a gate, and attention rotary embeddings.
    reduces : Reduces
        All-reduces of a step, if `tp` is more than 1.
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
    mamba: Mamba | None
    gated: bool
    rotary: bool
    reduces: Reduces

    @property
    def layers(self) -> int:
        """Layers of the model."""
        return _layers(self.kinds)

    @property
    def attending(self) -> int:
        """Layers with attention."""
        return sum(kind.layers for kind in self.kinds if kind.keeps == FULL)

    @property
    def state_bytes(self) -> int:
        """Bytes that one GPU keeps of a request's states, in all layers."""
        if self.mamba is None:
            return 0
        keeping = sum(kind.layers for kind in self.kinds if kind.keeps == STATE)
        return keeping * self.mamba.state_bytes

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
    name, about, text = text_model(Values(config, where))
    if about.cache_only:
        raise InputError(f"{where}: architectures: steps of {shown(name)} are not measured")
    if text.table.get("index_topk") is not None:
        raise InputError(f"{where}: index_topk: sparse attention is not measured")
    sparse = text.table.get("decoder_sparse_step"), text.table.get("moe_layer_freq")
    if text.table.get("mlp_only_layers") or any(step not in (None, 1) for step in sparse):
        raise InputError(f"{where}: experts in some layers only are not measured")
    heads = query_heads(text)
    kinds = _kinds(text, about) if about.states is None else _kinds_with_states(text, about)
    width = "shared_intermediate_size" if about.states == "named" else "intermediate_size"
    dense = any(kind.dense for kind in kinds)
    inner = text.count(width) if dense or about.states is None else 0
    for key, size in (("num_attention_heads", heads), *(((width, inner),) if dense else ())):
        if tp < 1 or size % tp:
            raise InputError(f"--tp: {tp} does not divide {key} of {where}, {size:,}")
    if not about.mla and kv_heads(text) % tp and tp % kv_heads(text):
        raise InputError(
            f"--tp: {tp} neither divides num_key_value_heads of {where}, {kv_heads(text)}, nor is "
            "divided by it"
        )
    experts = _experts(text, tp) if any(kind.experts for kind in kinds) else None
    states = state_shapes(text, about)
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
        mamba=_mamba(text, states[0], tp) if states else None,
        gated=about.states != "pattern",
        rotary=_turns(text, about),
        reduces=reduces(text, about, states) if states else all_reduces(_layers(kinds)),
    )


def _layers(kinds: tuple[LayerKind, ...]) -> int:
    return sum(kind.layers for kind in kinds)


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


def _kinds_with_states(text: Values, about: Architecture) -> tuple[LayerKind, ...]:
    """Return the layers by kind, in the order of their first ones, of a model that keeps states."""
    why = {"delta": "if they are gated delta nets", "both": "if they have attention too"}
    if about.states in why:
        raise InputError(
            f"{text.where}: layers that keep a state are not measured {why[about.states]}"
        )
    parts = feed_forward(text, about)
    if about.states == "pattern" and "experts" in parts:
        raise InputError(f"{text.where}: experts without a gate are not measured")
    pairs = list(zip(layer_kinds(text, about), parts, strict=True))
    found = []
    for keeps, part in dict.fromkeys(pairs):
        name = keeps if keeps in (FULL, STATE) else "mlp"
        experts = part == "experts"
        found.append(
            LayerKind(
                name + ("-experts" if experts else ""),
                pairs.count((keeps, part)),
                None,
                experts,
                keeps,
                part != "none",
            )
        )
    return tuple(found)


def _mamba(text: Values, state: StateShape, tp: int) -> Mamba:
    """Return one GPU's part of a layer that keeps a state."""
    if not state.takes(tp):
        raise InputError(
            f"--tp: {tp} does not divide both heads ({state.heads}) and groups ({state.groups}) of "
            f"the layers that keep a state of {text.where}"
        )
    key = "mamba_chunk_size" if text.table.get("mamba_chunk_size") is not None else "chunk_size"
    chunk = text.count(key, USUAL_CHUNK)
    if chunk & (chunk - 1):
        raise InputError(f"{text.where}: {key}: {chunk}; allowed: powers of 2")
    size = state.group // 2
    return Mamba(
        heads=state.heads // tp,
        head_dim=state.channels // state.heads,
        groups=max(1, state.groups // tp),
        size=size,
        taps=state.taps + 1,
        chunk=chunk,
        cell_bytes=state.cell_bytes or CHANNEL_BYTES,
        bias=text.switch("mamba_conv_bias", True) and text.switch("use_conv_bias", True),
    )


def _turns(text: Values, about: Architecture) -> bool:
    """Return whether attention has rotary embeddings, as vLLM's models have them."""
    if about.states == "named":
        return text.word("position_embedding_type") == "rope"
    return about.states != "pattern"


def _experts(text: Values, tp: int) -> Experts:
    own = text.table.get("moe_intermediate_size") is not None
    key = "moe_intermediate_size" if own else "intermediate_size"
    inner = text.count(key)
    beside = text.number("n_shared_experts") * inner or text.number("shared_intermediate_size")
    if inner % tp:
        raise InputError(f"--tp: {tp} does not divide {key} of {text.where}, {inner:,}")
    count, chosen = expert_count(text), text.count("num_experts_per_tok")
    if chosen > count:
        raise InputError(f"{text.where}: num_experts_per_tok: {chosen}, of {count} experts")
    return Experts(count, chosen, inner // tp, beside // tp)


def _latent(text: Values) -> Latent:
    return Latent(
        rank=text.count("kv_lora_rank"),
        rotary=text.count("qk_rope_head_dim"),
        plain=text.count("qk_nope_head_dim"),
        value=text.count("v_head_dim"),
        query_rank=text.number("q_lora_rank"),
    )
