"""The attention layers of a model, from its ``config.json``, as vLLM builds them."""

from __future__ import annotations

from kvsweep.errors import InputError, shown
from kvsweep.limits import MAX_LAYERS
from kvsweep.sizing.architectures import BY_METRICS, Architecture
from kvsweep.sizing.config_values import Values
from kvsweep.sizing.model import AttentionShape
from kvsweep.sizing.states import BOTH, layer_kinds
from kvsweep.sizing.states import FULL as FULL_LAYER

FULL, SLIDING = "full_attention", "sliding_attention"

INDEX_BLOCK = 128
"""Channels of an indexer's key that share a scale of 4 bytes (DeepSeek-V3.2)."""


def attention_shapes(config: Values, about: Architecture) -> tuple[AttentionShape, ...]:
    """Return the caches of a model's layers.

    Raises
    ------
    InputError
        If a value is missing or none that is known.
    """
    if about.mla:
        return _latent(config)
    if about.states is not None:
        return _beside_states(config, about)
    windows = layer_windows(config, about)
    own = len(windows) - config.number("num_kv_shared_layers")
    if own < 1:
        raise InputError(f"{config.where}: num_kv_shared_layers: leaves no layer with a cache")
    return tuple(_heads(config, layer, windows[layer]) for layer in range(own))


def _beside_states(config: Values, about: Architecture) -> tuple[AttentionShape, ...]:
    """Return the caches of the layers that keep keys and values, where others keep a state."""
    if config.number("sliding_window") and config.switch("use_sliding_window", True):
        raise InputError(
            f"{config.where}: sliding_window: windows beside states are not computed here; "
            f"{BY_METRICS}"
        )
    kinds = layer_kinds(config, about)
    attending = [layer for layer, kind in enumerate(kinds) if kind in (FULL_LAYER, BOTH)]
    return tuple(_heads(config, layer, None) for layer in attending)


def query_heads(config: Values) -> int:
    """Return the query heads of a layer."""
    return config.count("num_attention_heads", most=MAX_LAYERS)


def head_dim(config: Values) -> int:
    """Return the channels of a head."""
    if config.table.get("head_dim") is not None:
        return config.count("head_dim")
    hidden, heads = config.count("hidden_size"), query_heads(config)
    if hidden % heads:
        raise InputError(
            f"{config.where}: hidden_size: {hidden:,} is no multiple of num_attention_heads, "
            f"{heads}, and there is no head_dim"
        )
    return hidden // heads


def kv_heads(config: Values) -> int:
    """Return the key-value heads of a layer."""
    return config.count("num_key_value_heads", query_heads(config), most=MAX_LAYERS)


def _heads(config: Values, layer: int, window: int | None) -> AttentionShape:
    heads, channels = kv_heads(config), head_dim(config)
    if window is None:  # Gemma 4 has others where attention is full
        channels = config.count("global_head_dim", channels)
        heads = config.count("num_global_key_value_heads", heads, most=MAX_LAYERS)
    return AttentionShape(layer, heads, channels, channels, window)


def _latent(config: Values) -> tuple[AttentionShape, ...]:
    layers = config.count("num_hidden_layers", most=MAX_LAYERS)
    rank, rotary = config.count("kv_lora_rank"), config.count("qk_rope_head_dim")
    shapes = []
    for layer in range(layers):
        shapes.append(AttentionShape(layer, 1, rank, rotary, latent=True))
        if config.table.get("index_topk") is not None:
            key = config.count("index_head_dim")
            size = key + 4 * (key // INDEX_BLOCK)
            shapes.append(AttentionShape(layer, 1, key, 0, latent=True, bytes_of_token=size))
    return tuple(shapes)


def layer_windows(config: Values, about: Architecture) -> list[int | None]:
    """Return the sliding window of each layer, None where attention is full."""
    layers = config.count("num_hidden_layers", most=MAX_LAYERS)
    kinds = config.words("layer_types") or _kinds(config, about, layers)
    if len(kinds) != layers:
        raise InputError(
            f"{config.where}: layer_types: has {len(kinds)} entries; num_hidden_layers is {layers}"
        )
    for kind in kinds:
        if kind not in (FULL, SLIDING):
            raise InputError(
                f"{config.where}: layer_types: {shown(kind)} layers are not computed here; "
                f"known: {FULL}, {SLIDING}; {BY_METRICS}"
            )
    if about.alike:
        kinds = _alike(config, about, kinds)
    elif about.sliding == "alternate" and set(kinds) != {SLIDING}:
        kinds = _kinds(config, about, layers)
    beyond = about.beyond
    return [config.count("sliding_window") + beyond if kind == SLIDING else None for kind in kinds]


def _alike(config: Values, about: Architecture, kinds: list[str]) -> list[str]:
    """Return the kinds of layers where vLLM gives all a window or none: those all are, or full.

    Raises
    ------
    InputError
        If vLLM refuses several kinds.
    """
    layers, several = len(kinds), len(set(kinds)) > 1
    full = config.number("max_window_layers", layers)
    if several and about.sliding == "late" and full != layers:
        raise _some_windows(config, full, layers)
    return [FULL] * layers if several or not _has_window(config, about) else kinds


def _has_window(config: Values, about: Architecture) -> bool:
    switched_off = about.switched and not config.switch("use_sliding_window", True)
    return config.number("sliding_window") > 0 and not switched_off


def _kinds(config: Values, about: Architecture, layers: int) -> list[str]:
    if about.sliding == "listed":
        raise InputError(f"{config.where}: layer_types: missing; the kind of each layer is needed")
    if not _has_window(config, about) or about.sliding == "never":
        return [FULL] * layers
    if about.sliding == "all":
        return [SLIDING] * layers
    if about.sliding == "late":
        return _late(config, layers)
    every = 2  # of "even" and "alternate"
    if about.sliding in ("pattern", "every"):
        every = about.full_every
    if about.sliding == "pattern":
        every = config.count("sliding_window_pattern", every)
    return [FULL if (layer + 1) % every == 0 else SLIDING for layer in range(layers)]


def _late(config: Values, layers: int) -> list[str]:
    """Return the kinds of layers of which the last have a window: all or none of them."""
    full = config.number("max_window_layers")
    if 0 < full < layers:
        raise _some_windows(config, full, layers)
    return [SLIDING if full == 0 else FULL] * layers


def _some_windows(config: Values, full: int, layers: int) -> InputError:
    return InputError(
        f"{config.where}: max_window_layers: {full} of {layers} layers; vLLM does not "
        "start with windows in some layers only of such a model"
    )
