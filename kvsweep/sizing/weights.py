"""The weights of a model, counted from its ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvsweep.limits import MAX_LAYERS
from kvsweep.sizing.architectures import Architecture
from kvsweep.sizing.attention import head_dim, kv_heads, query_heads
from kvsweep.sizing.config_values import Values
from kvsweep.sizing.exchange import all_reduces
from kvsweep.sizing.model import LayerWeights, Weights, Work
from kvsweep.sizing.quantization import method
from kvsweep.sizing.state_weights import state_model_counts
from kvsweep.sizing.state_work import recurrence, reduces
from kvsweep.sizing.states import StateShape

FP8_BLOCK = 128 * 128
"""Weights that share a scale of 4 bytes in DeepSeek's FP8."""

MXFP4_BYTES = 17 / 32
"""Bytes of a weight in MXFP4: 4 bits, and 8 for each 32 of them (OCP MX 1.0)."""


class Store(NamedTuple):
    """Bytes of a weight: of linear layers, of experts, of all others."""

    linear: float
    expert: float
    other: float
    text: str
    eight_bit: bool = False


def store(about: Values | None, dtype: str) -> Store | str:
    """Return how weights are stored, or why that is not known.

    Parameters
    ----------
    about : Values or None
        What the file says of quantization (`kvsweep.sizing.quantization.quantization`).
    dtype : str
        Data type of weights that are not quantized.
    """
    # vLLM runs float32 checkpoints in 16 bits.
    shown = "bfloat16" if dtype == "float32" else dtype
    if about is None:
        return Store(2, 2, 2, shown)
    by = method(about)
    if by == "fp8":
        each = 1 + 4 / FP8_BLOCK
        return Store(each, each, 2, f"8-bit linear layers, {shown} otherwise", eight_bit=True)
    if by == "mxfp4":
        return Store(2, MXFP4_BYTES, 2, f"MXFP4 experts, {shown} otherwise")
    return f"quantized by {by or 'a method that is not named'}"


def count_weights(
    config: Values, about: Architecture, kept: Store, states: tuple[StateShape, ...] = ()
) -> Weights:
    """Return the weights of a model.

    Parameters
    ----------
    config : Values
        Its text model.
    about : Architecture
        What is known of its architecture.
    kept : Store
        Bytes of a weight.
    states : tuple of StateShape
        Of an architecture that has states, those of its layers.
    """
    hidden, vocabulary = config.count("hidden_size"), config.count("vocab_size")
    counts = _layers(config, about, states)
    tied = config.switch("tie_word_embeddings", about.tied) and not about.apart
    matrix = hidden * vocabulary
    parameters = sum(sum(count.values()) for count in counts) + matrix * (1 if tied else 2) + hidden
    heads = 0 if about.mla else kv_heads(config)
    return Weights(
        tuple(_bytes(count, kept, heads) for count in counts),
        embedding=matrix * kept.other,
        output=matrix * kept.other,
        tied=tied,
        parameters=parameters,
        text=kept.text,
    )


def count_work(
    config: Values, about: Architecture, kept: Store, states: tuple[StateShape, ...] = ()
) -> Work | None:
    """Return what a token is computed with; arguments are those of `count_weights`.

    None for sparse MLA, which reads parts of a context, and for experts of which nothing tells how
    many a token is sent to.
    """
    counts, active, copied = _layers(config, about, states), 0, 0
    experts = expert_count(config) if any(count["expert"] for count in counts) else 0
    chosen = config.number("num_experts_per_tok")
    if config.table.get("index_topk") is not None or (experts and not 1 <= chosen <= experts):
        return None
    for count in counts:
        met = count["expert"] * chosen // experts if experts else 0
        active += count["linear"] + count["kv"] + met
        copied += count["copied"]
    prefill, decode = _pairs(config, about)
    plain = about.states is None
    return Work(
        active,
        config.count("hidden_size") * config.count("vocab_size"),
        prefill,
        decode,
        config.count("hidden_size"),
        all_reduces(len(counts)) if plain else reduces(config, about, states),
        copied,
        kept.eight_bit,
        chosen / experts if experts else 1.0,
        recurrence(states),
    )


def _layers(
    config: Values, about: Architecture, states: tuple[StateShape, ...]
) -> list[dict[str, int]]:
    """Return the weights of each layer, as `_layer` does of one."""
    layers = config.count("num_hidden_layers", most=MAX_LAYERS)
    if about.states is None:
        return [_layer(config, about, layer) for layer in range(layers)]
    return state_model_counts(config, about, states)


def _pairs(config: Values, about: Architecture) -> tuple[int, int]:
    """Return the FLOPs of attention of a token and one of its context: of a prefill, of a decode.

    vLLM prefills MLA with keys and values of all heads, and decodes on the latent vector: a query
    has its channels and the rotary ones, a value those of the vector.
    """
    heads = query_heads(config)
    if not about.mla:
        return (4 * heads * head_dim(config),) * 2
    rotary, rank = config.count("qk_rope_head_dim"), config.count("kv_lora_rank")
    keys_and_values = config.count("qk_nope_head_dim") + rotary + config.count("v_head_dim")
    return 2 * heads * keys_and_values, 2 * heads * (2 * rank + rotary)


def _bytes(count: Mapping[str, int], kept: Store, heads: int) -> LayerWeights:
    return LayerWeights(
        shared=count["linear"] * kept.linear + count["expert"] * kept.expert,
        kv=count["kv"] * kept.linear,
        kv_heads=heads,
        copied=count["copied"] * kept.linear + count["other"] * kept.other,
        experts=count["expert"] * kept.expert,
    )


def _layer(config: Values, about: Architecture, layer: int) -> dict[str, int]:
    """Return the weights of a layer: ``linear``, ``kv``, ``expert``, ``copied`` and ``other``."""
    count = _latent(config) if about.mla else _heads(config, about)
    hidden = config.count("hidden_size")
    count["other"] += hidden * (4 if about.sandwich else 2)
    experts = expert_count(config)
    if not experts or layer < config.number("first_k_dense_replace"):
        count["linear"] += 3 * hidden * config.count("intermediate_size")
        return count
    own = config.table.get("moe_intermediate_size") is not None
    inner = config.count("moe_intermediate_size" if own else "intermediate_size")
    count["expert"] += 3 * experts * hidden * inner
    count["linear"] += 3 * hidden * inner * config.number("n_shared_experts")
    count["other"] += hidden * experts
    if about.all_bias:
        count["other"] += experts + experts * (2 * inner + hidden)
    elif config.table.get("topk_method") == "noaux_tc":
        count["other"] += experts
    return count


def expert_count(config: Values) -> int:
    """Return the experts of a layer, 0 if there are none."""
    for key in ("num_local_experts", "num_experts", "n_routed_experts"):
        if count := config.number(key):
            return count
    return 0


def _heads(config: Values, about: Architecture) -> dict[str, int]:
    hidden, channels = config.count("hidden_size"), head_dim(config)
    heads, pairs = query_heads(config) * channels, kv_heads(config) * channels
    other = 2 * channels if about.qk_norm else 0
    if about.qkv_bias or about.all_bias:
        other += heads + 2 * pairs
    if about.all_bias:
        other += hidden + query_heads(config)
    return {
        "linear": 2 * hidden * heads,
        "kv": 2 * hidden * pairs,
        "expert": 0,
        "copied": 0,
        "other": other,
    }


def _latent(config: Values) -> dict[str, int]:
    hidden, heads = config.count("hidden_size"), query_heads(config)
    rank, rotary = config.count("kv_lora_rank"), config.count("qk_rope_head_dim")
    plain, value = config.count("qk_nope_head_dim"), config.count("v_head_dim")
    queries = config.number("q_lora_rank")
    indexer = 0
    if config.table.get("index_topk") is not None:
        pairs = config.count("index_n_heads") * config.count("index_head_dim")
        indexer = queries * pairs + hidden * (
            config.count("index_head_dim") + config.count("index_n_heads")
        )
    return {
        "linear": (queries or hidden) * heads * (plain + rotary)
        + rank * heads * (plain + value)
        + heads * value * hidden,
        "kv": 0,
        "expert": 0,
        "copied": hidden * (rank + rotary + queries) + indexer,
        "other": rank + queries,
    }
