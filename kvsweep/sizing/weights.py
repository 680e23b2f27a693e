"""The weights of a model, counted from its ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvsweep.sizing.architectures import Architecture
from kvsweep.sizing.attention import head_dim, kv_heads, query_heads
from kvsweep.sizing.config_values import Values
from kvsweep.sizing.model import LayerWeights, Weights

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


def store(config: Values, dtype: str) -> Store | str:
    """Return how weights are stored, or why that is not known.

    Parameters
    ----------
    config : Values
        The whole file: ``quantization_config`` stands outside of ``text_config``.
    dtype : str
        Data type of weights that are not quantized.
    """
    about = config.section("quantization_config")
    # vLLM runs float32 checkpoints in 16 bits.
    shown = "bfloat16" if dtype == "float32" else dtype
    if about is None:
        return Store(2, 2, 2, shown)
    method = about.word("quant_method", "")
    if method == "fp8":
        each = 1 + 4 / FP8_BLOCK
        return Store(each, each, 2, f"8-bit linear layers, {shown} otherwise")
    if method == "mxfp4":
        return Store(2, MXFP4_BYTES, 2, f"MXFP4 experts, {shown} otherwise")
    return f"quantized by {method or 'a method that is not named'}"


def count_weights(config: Values, about: Architecture, kept: Store) -> Weights:
    """Return the weights of a model.

    Parameters
    ----------
    config : Values
        Its text model.
    about : Architecture
        What is known of its architecture.
    kept : Store
        Bytes of a weight.
    """
    hidden, vocabulary = config.count("hidden_size"), config.count("vocab_size")
    layers = config.count("num_hidden_layers")
    counts = [_layer(config, about, layer) for layer in range(layers)]
    tied = config.switch("tie_word_embeddings", about.tied)
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


def _bytes(count: Mapping[str, int], kept: Store, heads: int) -> LayerWeights:
    return LayerWeights(
        shared=count["linear"] * kept.linear + count["expert"] * kept.expert,
        kv=count["kv"] * kept.linear,
        kv_heads=heads,
        copied=count["copied"] * kept.linear + count["other"] * kept.other,
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
    inner = config.count("moe_intermediate_size", config.table.get("intermediate_size") or 0)
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
