"""The layers that keep a state of a request in place of keys and values, as vLLM builds them.

Counterpart of vLLM 0.33.0's ``MambaStateShapeCalculator`` and ``MambaStateDtypeCalculator``
(``model_executor/layers/mamba/mamba_utils.py``) and of what its models give them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvsweep.errors import InputError, shown
from kvsweep.limits import MAX_LAYERS
from kvsweep.sizing.architectures import BY_METRICS, Architecture
from kvsweep.sizing.config_values import Values
from kvsweep.sizing.dtypes import MODEL_DTYPES

FULL, STATE, BOTH, NEITHER = "full", "state", "both", "neither"
"""What a layer keeps of a request: keys and values, a state, both, or nothing."""

_NAMES = {
    "full_attention": FULL,
    "attention": FULL,
    "linear_attention": STATE,
    "mamba": STATE,
    "mlp": NEITHER,
    "moe": NEITHER,
}
"""Kinds by the names that transformers 5 and files made before it have for them."""

_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
"""The names by the letters of ``hybrid_override_pattern``."""

CHANNEL_BYTES = 2
"""Bytes of a number of the convolution: in 16 bits, as vLLM runs all models unless told."""

DELTA_INTERVAL = 4
"""Every so many-th layer of Qwen's has attention unless the file says which."""


@dataclass(frozen=True)
class StateShape:
    """The state of one layer, on all GPUs together: of a convolution, and of the recurrence.

    Attributes
    ----------
    layer : int
        The layer of the model.
    channels : int
        Channels of the convolution, without those of `groups`.
    groups, group : int
        Groups of Mamba-2, and the channels of one; none of a gated delta net.
    taps : int
        Tokens that the convolution looks back on.
    heads : int
        Heads of the recurrence.
    cells : int
        Numbers of a head's state.
    cell_bytes : int or None
        Bytes of a number of a head's state; None: as those of the convolution.
    key : int or None
        Channels of a key of a gated delta net; None: Mamba-2.
    key_heads : int
        Its key heads; 0 likewise.
    """

    layer: int
    channels: int
    groups: int
    group: int
    taps: int
    heads: int
    cells: int
    cell_bytes: int | None
    key: int | None = None
    key_heads: int = 0

    def on_gpu(
        self, tp: int, channel_bytes: int = CHANNEL_BYTES, cell_bytes: int | None = None
    ) -> int:
        """Return the bytes on one GPU of `tp`: a group that cannot be divided is on each.

        Parameters
        ----------
        tp : int
            GPUs of tensor parallelism.
        channel_bytes : int
            Of a number of the convolution.
        cell_bytes : int or None
            Of a number of a head's state, if it is not the model's.
        """
        cell_bytes = cell_bytes or self.cell_bytes or channel_bytes
        groups = self.groups if self.groups % tp == 0 else tp
        channels = (self.channels + groups * self.group) // tp
        return channels * self.taps * channel_bytes + self.heads // tp * self.cells * cell_bytes

    def takes(self, tp: int) -> bool:
        """Return whether `tp` GPUs can have the layer divided among them."""
        divides = self.heads % tp == 0 and self.key_heads % tp == 0 and self.channels % tp == 0
        return divides and (self.groups % tp == 0 or self.groups == 1)


def layer_kinds(config: Values, about: Architecture) -> list[str]:
    """Return what each layer keeps: `FULL`, `STATE`, `BOTH` or `NEITHER`.

    Raises
    ------
    InputError
        If the file does not say it, or names a kind that is not known.
    """
    layers = config.count("num_hidden_layers", most=MAX_LAYERS)
    if about.states == "both":
        return [BOTH] * layers
    if (named := _named(config)) is not None:
        key, names = named
        if len(names) != layers:
            raise InputError(
                f"{config.where}: {key}: has {len(names)} entries; num_hidden_layers is {layers}"
            )
        return [_NAMES[name] for name in names]
    if about.states != "delta":
        raise InputError(f"{config.where}: layer_types: missing; the kind of each layer is needed")
    every = config.count("full_attention_interval", DELTA_INTERVAL)
    return [STATE if (layer + 1) % every else FULL for layer in range(layers)]


def feed_forward(config: Values, about: Architecture) -> list[str]:
    """Return the feed-forward part of each layer: ``dense``, ``experts`` or ``none``."""
    if about.states == "pattern":
        named = _named(config)
        parts = {"mlp": "dense", "moe": "experts"}
        return [parts.get(name, "none") for name in (named[1] if named else ())]
    layers = config.count("num_hidden_layers", most=MAX_LAYERS)
    some = config.number("num_local_experts" if about.states == "named" else "num_experts")
    return ["experts" if some else "dense"] * layers


def with_layers(config: Values) -> Values:
    """Return a configuration with as many layers as it names the kinds of, as NVIDIA's are read."""
    named = _named(config)
    if named is None:
        return config
    return Values(config.table | {"num_hidden_layers": len(named[1])}, config.where)


def _named(config: Values) -> tuple[str, list[str]] | None:
    """Return the key that says what layers there are, and their names; None: no key does."""
    for key in ("layers_block_type", "layer_types"):
        if (names := config.words(key)) is not None:
            return key, [_known(config, key, name, _NAMES) for name in names]
    key = "hybrid_override_pattern"
    if (pattern := config.word(key)) is not None:
        return key, [_LETTERS[_known(config, key, letter, _LETTERS)] for letter in pattern]
    return None


def _known(config: Values, key: str, name: str, known: dict[str, str]) -> str:
    if name not in known:
        raise InputError(
            f"{config.where}: {key}: {shown(name)} layers are not computed here; known: "
            f"{', '.join(known)}; {BY_METRICS}"
        )
    return name


def state_shapes(config: Values, about: Architecture) -> tuple[StateShape, ...]:
    """Return the states of a model's layers.

    Parameters
    ----------
    config : Values
        Its text model.
    about : Architecture
        What is known of its architecture.

    Raises
    ------
    InputError
        If a value is missing or none that is known.
    """
    if about.states is None:
        return ()
    kinds = layer_kinds(config, about)
    kept = [layer for layer, kind in enumerate(kinds) if kind in (STATE, BOTH)]
    if not kept:
        return ()
    if all(kind in (STATE, NEITHER) for kind in kinds):
        raise InputError(
            f"{config.where}: has no layer with keys and values; blocks of states alone are not "
            "computed here"
        )
    shape = (_delta if about.states == "delta" else _mamba2)(config, about)
    return tuple(replace(shape, layer=layer) for layer in kept)


def _cell_bytes(config: Values, about: Architecture) -> int | None:
    """Return the bytes of a number of the recurrence, if a file names its data type."""
    key, usual = about.state_dtype
    name = (config.word(key) if key else None) or usual
    return number_bytes(name, f"{config.where}: {key}")


def number_bytes(name: str | None, where: str) -> int | None:
    """Return the bytes of a number by the name of its data type; None of ``auto``.

    Raises
    ------
    InputError
        If it is none of vLLM's for states.
    """
    if name in (None, "auto"):
        return None
    if name not in MODEL_DTYPES:
        allowed = ", ".join(("auto", *MODEL_DTYPES))
        raise InputError(f"{where}: {shown(name)}; allowed: {allowed}")
    return 4 if name == "float32" else 2


def _delta(config: Values, about: Architecture) -> StateShape:
    """Return the state of a gated delta net, of layer 0."""
    key_heads = config.count("linear_num_key_heads", most=MAX_LAYERS)
    heads = config.count("linear_num_value_heads", most=MAX_LAYERS)
    key, value = config.count("linear_key_head_dim"), config.count("linear_value_head_dim")
    taps = config.count("linear_conv_kernel_dim") - 1
    channels = 2 * key * key_heads + value * heads
    cell = _cell_bytes(config, about)
    return StateShape(0, channels, 0, 0, taps, heads, value * key, cell, key, key_heads)


def _mamba2(config: Values, about: Architecture) -> StateShape:
    """Return the state of Mamba-2, of layer 0; NVIDIA's files have other names for its sizes."""
    pattern = about.states == "pattern"
    heads = config.count("mamba_num_heads" if pattern else "mamba_n_heads", most=MAX_LAYERS)
    groups = config.count("n_groups" if pattern else "mamba_n_groups", most=MAX_LAYERS)
    size = config.count("ssm_state_size" if pattern else "mamba_d_state")
    taps = config.count("conv_kernel" if pattern else "mamba_d_conv") - 1
    if pattern:
        head = config.count("mamba_head_dim")
        inner = heads * head
    else:
        inner = config.count("mamba_d_ssm", 0) or _expanded(config)
        named = config.table.get("mamba_d_head", "auto")
        head = inner // heads if named == "auto" else config.count("mamba_d_head")
    if inner != heads * head:
        raise InputError(
            f"{config.where}: mamba_d_head: {head}; {heads} heads of it are not the {inner:,} "
            "channels of the layer"
        )
    cell = _cell_bytes(config, about)
    return StateShape(0, inner, groups, 2 * size, taps, heads, head * size, cell)


def _expanded(config: Values) -> int:
    return config.count("mamba_expand") * config.count("hidden_size")
