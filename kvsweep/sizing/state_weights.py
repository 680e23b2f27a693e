"""The weights of models whose layers keep states, counted as vLLM 0.33.0's models have them."""

from __future__ import annotations

from kvsweep.sizing.architectures import Architecture
from kvsweep.sizing.attention import head_dim, kv_heads, query_heads
from kvsweep.sizing.config_values import Values
from kvsweep.sizing.states import BOTH, FULL, STATE, StateShape, feed_forward, layer_kinds

Count = dict[str, int]
"""Weights of a layer: ``linear``, ``kv``, ``expert``, ``copied`` and ``other``."""


BIASES = ("attention_bias", "mlp_bias", "projectors_bias")
"""Biases that the models that are known have not, and are not counted."""


def state_model_counts(
    config: Values, about: Architecture, states: tuple[StateShape, ...]
) -> list[Count]:
    """Return the weights of each layer.

    Parameters
    ----------
    config : Values
        The text model.
    about : Architecture
        What is known of its architecture.
    states : tuple of StateShape
        Its states.

    Raises
    ------
    InputError
        If a width is missing.
    """
    kinds, parts = layer_kinds(config, about), feed_forward(config, about)
    return [_layer(config, about, states, *each) for each in zip(kinds, parts, strict=True)]


def _layer(
    config: Values, about: Architecture, states: tuple[StateShape, ...], kind: str, part: str
) -> Count:
    found = {"linear": 0, "kv": 0, "expert": 0, "copied": 0, "other": 0}
    found["other"] += config.count("hidden_size") * (1 if about.states == "pattern" else 2)
    if kind in (FULL, BOTH):
        _add(found, _attention(config, about))
    if kind in (STATE, BOTH):
        of_state = _delta if about.states == "delta" else _mamba2
        _add(found, of_state(config, about, states[0]))
    if part == "experts":
        _add(found, _experts(config, about))
    elif part == "dense":
        _add(found, {"linear": _dense(config, about)})
    return found


def _add(found: Count, more: Count) -> None:
    for name, count in more.items():
        found[name] += count


def _attention(config: Values, about: Architecture) -> Count:
    """Return attention; that of Qwen's has a gate as wide as the queries, and norms."""
    hidden, channels = config.count("hidden_size"), head_dim(config)
    heads, gated = query_heads(config) * channels, about.states == "delta"
    return {
        "linear": hidden * heads * (3 if gated else 2),
        "kv": 2 * hidden * kv_heads(config) * channels,
        "other": 2 * channels if gated else 0,
    }


def _delta(config: Values, about: Architecture, state: StateShape) -> Count:
    """Return a gated delta net: projections, a convolution, two numbers a head, a norm."""
    hidden, value = config.count("hidden_size"), config.count("linear_value_head_dim")
    wide = state.heads * value
    projections = hidden * (state.channels + wide + 2 * state.heads) + wide * hidden
    return {
        "linear": projections + state.channels * (state.taps + 1) + 2 * state.heads,
        "other": value,
    }


def _mamba2(config: Values, about: Architecture, state: StateShape) -> Count:
    """Return Mamba-2: projections, a convolution, three numbers a head, a norm."""
    hidden = config.count("hidden_size")
    channels = state.channels + state.groups * state.group
    into, out = hidden * (state.channels + channels + state.heads), state.channels * hidden
    found = into + out + channels * (state.taps + 1) + 3 * state.heads
    if config.switch("mamba_conv_bias", True) and config.switch("use_conv_bias", True):
        found += channels
    if config.switch("mamba_proj_bias", False) or config.switch("use_bias", False):
        found += state.channels + channels + state.heads + hidden
    if has_norm(config, about):
        found += state.channels
    return {"linear": found}


def has_norm(config: Values, about: Architecture) -> bool:
    """Return whether Mamba-2 has a norm, which Falcon-H1 has where the file says so."""
    return about.states != "both" or config.switch("mamba_rms_norm", False)


def _dense(config: Values, about: Architecture) -> int:
    """Return a feed-forward part without experts; NVIDIA's has no gate."""
    hidden = config.count("hidden_size")
    if about.states == "named":
        return 3 * hidden * config.number("shared_intermediate_size")
    return (2 if about.states == "pattern" else 3) * hidden * config.count("intermediate_size")


def _experts(config: Values, about: Architecture) -> Count:
    hidden = config.count("hidden_size")
    if about.states == "pattern":
        return _experts_of_nvidia(config, hidden)
    if about.states == "named":
        experts, inner = config.count("num_local_experts"), config.count("intermediate_size")
        shared, gate = config.number("shared_intermediate_size"), 0
    else:
        experts, inner = config.count("num_experts"), config.count("moe_intermediate_size")
        shared, gate = config.count("shared_expert_intermediate_size"), hidden
    return {
        "expert": 3 * experts * hidden * inner,
        "linear": 3 * hidden * shared,
        "other": hidden * experts + gate,
    }


def _experts_of_nvidia(config: Values, hidden: int) -> Count:
    """Return experts without gates, of a narrower vector where there is one."""
    experts, latent = config.count("n_routed_experts"), config.number("moe_latent_size")
    shared = config.number("n_shared_experts") and config.count(
        "moe_shared_expert_intermediate_size"
    ) * config.number("n_shared_experts")
    return {
        "expert": 2 * experts * (latent or hidden) * config.count("moe_intermediate_size"),
        "linear": 2 * hidden * shared,
        "copied": 2 * hidden * latent,
        "other": hidden * experts + experts,
    }
