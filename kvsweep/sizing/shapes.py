"""Models by name, from ``models.toml``, or from a ``config.json``."""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from dataclasses import replace
from functools import cache
from importlib import resources
from math import gcd
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError, clip, did_you_mean, shown
from kvsweep.limits import MAX_LAYERS, MAX_SETTINGS_BYTES, MAX_TOKENS
from kvsweep.parsing import parse_json
from kvsweep.reading import read_text
from kvsweep.sizing.architectures import Architecture
from kvsweep.sizing.attention import attention_shapes, query_heads
from kvsweep.sizing.class_defaults import text_model
from kvsweep.sizing.config_values import Values
from kvsweep.sizing.defaults import GEMMA4_VIDEO
from kvsweep.sizing.dtypes import MODEL_DTYPES
from kvsweep.sizing.model import Model, Weights, Work
from kvsweep.sizing.quantization import kept_dtype, quantization, scale_block
from kvsweep.sizing.state_weights import BIASES
from kvsweep.sizing.states import StateShape, state_shapes
from kvsweep.sizing.weights import Store, count_weights, count_work, expert_count, store

SCALED_ALREADY = (
    *("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"),
    *("default", "mrope", ""),
)
"""Rotary embeddings whose factor ``max_position_embeddings`` has in it, as vLLM 0.33.0 takes it."""

LENGTHS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
    *("max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"),
)
"""Names of the longest request (``derive_max_model_len_and_key`` of vLLM 0.33.0)."""

LENGTH_FIRST = "model_max_length"
"""The name of the longest request that wins over all others."""

QUANTIZED = "hf_quant_config.json"
"""Where ModelOpt up to 0.29 writes the quantization, beside ``config.json``."""


_OURS = ("source", "parameters", "also")
"""Keys of a table of ``models.toml`` that no ``config.json`` has."""


@cache
def _tables() -> dict[str, dict[str, Any]]:
    path = Path(str(resources.files("kvsweep"))) / "sizing" / "models.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def model_names() -> list[str]:
    """Return the names of the models that come with the package."""
    return list(_tables())


def load_model(name: str, folder: Path | None = None) -> Model:
    """Return a model.

    Parameters
    ----------
    name : str
        One of `model_names`, also as ``Qwen/Qwen3-8B``, or a Hugging Face ``config.json``, or the
        folder that has it.
    folder : Path or None
        Where relative paths begin; None: the current folder.

    Raises
    ------
    InputError
        If there is no such model or file, or it does not say what is needed.

    Examples
    --------
    >>> load_model("llama-3.1-8b").weights.parameters
    8030261248
    """
    config, where, source = load_config(name, folder)
    model = model_from_config(config, where, source=source)
    table = _tables().get(where, {})
    return replace(model, published=table["parameters"]) if _only_told(model, table) else model


def load_config(name: str, folder: Path | None = None) -> tuple[dict[str, Any], str, str | None]:
    """Return the values of a model's ``config.json``, as `load_model` finds it.

    Returns
    -------
    config : dict
        The values.
    where : str
        The name of the model that comes with the package, or the file.
    source : str or None
        Where the values come from, if they come with the package.

    Raises
    ------
    InputError
        If there is no such model or file.
    """
    path = (folder or Path()) / name
    exists = os.path.exists(path)  # unlike Path.exists it says no to a name that is too long
    # Hugging Face's name of a model, as Qwen/Qwen3-8B, unless it is a folder.
    known_as = name if exists or is_base(name) else shipped_name(name)
    for found in (name, known_as):
        if found in _tables():
            table = _tables()[found]
            config = {key: table[key] for key in table if key not in _OURS}
            return config, found, table["source"]
    if not (name.endswith(".json") or exists):
        known = model_names()
        raise InputError(
            f"--model: {clip(name)!r} is neither a file nor a model that is known: "
            f"{', '.join(known)}; any other by its config.json"
            f"{nearest_model(name.lower().rpartition('/')[2])}"
        )
    if os.path.isdir(path):
        path /= "config.json"
    table = parse_json(read_text(path, MAX_SETTINGS_BYTES), str(path))
    if not isinstance(table, dict):
        raise InputError(f"{path}: is no config.json: it must be an object, is {shown(table)}")
    return _with_quantization(table, path), str(path), None


def _with_quantization(table: dict[str, Any], path: Path) -> dict[str, Any]:
    """Add what older ModelOpt checkpoints say of their quantization in a file of its own."""
    beside = path.with_name(QUANTIZED)
    whole_model = path.name == "config.json" and table.get("quantization_config") is None
    if not whole_model or not os.path.exists(beside):
        return table
    found = parse_json(read_text(beside, MAX_SETTINGS_BYTES), str(beside))
    if not isinstance(found, dict):
        raise InputError(f"{beside}: must be an object, is {shown(found)}")
    return table | {"quantization_config": found}


def published_name(name: str) -> str:
    """Return the name of a shipped model on Hugging Face, which `vllm serve` takes; others as is.

    Examples
    --------
    >>> published_name("llama-3.1-8b")
    'meta-llama/Llama-3.1-8B'
    """
    table = _tables().get(name)
    return name if table is None else re.split("[,:]", table["source"])[0]


def shipped_name(name: str) -> str:
    """Return what a model is called here, as far as can be told of its name on Hugging Face."""
    if name in _tables():
        return name
    for shipped in _tables():
        if published_name(shipped).lower() == name.lower():
            return shipped
    # Llama 3.1 was published as Meta-Llama-3.1-8B, which still leads to it.
    short = name.lower().rpartition("/")[2].removesuffix("-instruct").removeprefix("meta-")
    same = (shipped for shipped, table in _tables().items() if short in table.get("also", ()))
    return next(same, short)


def nearest_model(name: str) -> str:
    """Return the closest name of a model that is known, as a hint: not one of another size.

    Examples
    --------
    >>> nearest_model("qwen3-32b-fp8"), nearest_model("lama-3.1-8b")
    ("; did you mean 'qwen3-32b'?", "; did you mean 'llama-3.1-8b'?")
    >>> nearest_model("llama-3.2-1b"), nearest_model("gemma-2-9b-it")
    ('', '')
    """
    has = _numbers(name)
    return did_you_mean(name, [known for known in model_names() if not has - _numbers(known)])


def _numbers(name: str) -> Counter[str]:
    """Return the numbers in a model's name, but for those of its weights' format."""
    return Counter(re.findall(r"\d+(?:\.\d+)?", re.sub(r"(?:fp|int|w\da)\d+", "", name)))


def is_base(name: str) -> bool:
    """Return whether a name on Hugging Face is that of the base of a shipped -Instruct model.

    It has the same weights and step times, and takes longer requests.

    Examples
    --------
    >>> is_base("Qwen/Qwen2.5-7B"), is_base("Qwen/Qwen2.5-7B-Instruct"), is_base("qwen2.5-7b")
    (True, False, False)
    """
    published = published_name(shipped_name(name)).lower()
    return "/" in name and published.endswith(f"/{name.lower().rpartition('/')[2]}-instruct")


def model_named(name: str) -> str:
    """Return what a model is called here if it is known, as by its name on Hugging Face; or `name`.

    Examples
    --------
    >>> model_named("Qwen/Qwen3-32B"), model_named("qwen3-32b/h100/tp2")
    ('qwen3-32b', 'qwen3-32b/h100/tp2')
    """
    known = shipped_name(name)
    return known if known in _tables() else name


def _only_told(model: Model, table: dict[str, Any]) -> bool:
    return model.weights is None and "parameters" in table


def model_from_config(table: dict[str, Any], name: str, source: str | None = None) -> Model:
    """Return a model from the values of its ``config.json``.

    Parameters
    ----------
    table : dict
        The values.
    name : str
        The file or the model, for messages.
    source : str or None
        Where the values come from; None: `name`.

    Raises
    ------
    InputError
        If a value is missing, or the architecture is not known.
    """
    whole = Values(table, name)
    known_as, about, text = text_model(whole)
    dtype = _dtype(text) or _dtype(whole) or "bfloat16"
    quantized = quantization(whole, text)
    kept = store(quantized, dtype)
    states = state_shapes(text, about)
    weights, unknown = _weights(text, about, kept, states)
    return Model(
        name=name,
        architecture=known_as,
        attention=attention_shapes(text, about),
        states=states,
        layers=text.count("num_hidden_layers", most=MAX_LAYERS),
        heads=query_heads(text),
        max_model_len=_longest(text, known_as),
        usual_model_len=_usual(text),
        dtype=dtype,
        weights=weights,
        weights_unknown=unknown,
        experts=bool(expert_count(text)),
        source=source or name,
        kept_dtype=kept_dtype(quantized, about.mla),
        inner=_inner(text, about),
        inner_block=scale_block(quantized),
        work=None if weights is None else _work(text, about, kept, states),
        item_tokens=_item_tokens(text, known_as),
        whole_items=_whole_items(text, known_as),
    )


def _item_tokens(text: Values, known_as: str) -> int:
    """Return the tokens of the largest picture or video, where each attends to all of itself."""
    sees = known_as == "Gemma4ForConditionalGeneration" and _whole_items(text, known_as)
    return GEMMA4_VIDEO if sees else 0


def _whole_items(text: Values, known_as: str) -> tuple[str, ...]:
    """Return the kinds of items that attend to all of themselves (vLLM's ``is_mm_prefix_lm``)."""
    if known_as == "Gemma3ForConditionalGeneration":
        return ("image",)
    whole = text.table.get("use_bidirectional_attention") == "vision"
    return ("image", "video") if whole and known_as.startswith("Gemma4") else ()


def _inner(text: Values, about: Architecture) -> int | None:
    """Return the width of the feed-forward part of layers without experts, if there are some."""
    if about.states == "named":  # beside experts, or alone
        return text.number("shared_intermediate_size") or None
    dense = not expert_count(text) or text.number("first_k_dense_replace")
    known = text.table.get("intermediate_size")
    if not dense or known is None:
        return None
    if isinstance(known, list):  # of each layer: what divides the widths divides all of them
        each = (Values({"intermediate_size": width}, text.where) for width in known)
        return gcd(*(one.count("intermediate_size") for one in each)) or None
    return text.count("intermediate_size")


def _dtype(values: Values) -> str | None:
    key = "dtype" if values.table.get("dtype") is not None else "torch_dtype"
    name = values.word(key)
    if name is not None and name not in MODEL_DTYPES:
        allowed = ", ".join(MODEL_DTYPES)
        raise InputError(f"{values.where}: {key}: {shown(name)}; allowed: {allowed}")
    return name


def _weights(
    text: Values, about: Architecture, kept: Store | str, states: tuple[StateShape, ...]
) -> tuple[Weights | None, str]:
    """Return the weights, or None and why they cannot be counted."""
    if isinstance(kept, str):
        return None, kept
    if not about.weights:
        return None, "not counted for this architecture"
    sparse = text.table.get("decoder_sparse_step"), text.table.get("moe_layer_freq")
    if text.table.get("mlp_only_layers") or any(step not in (None, 1) for step in sparse):
        return None, "of experts in some layers only, which are not counted"
    if about.states is None:
        return count_weights(text, about, kept), ""
    if any(text.switch(key, False) for key in BIASES) or kept.linear != kept.other:
        return None, "with biases or of 8 bits, which are not counted beside states"
    try:  # blocks follow without widths
        return count_weights(text, about, kept, states), ""
    except InputError as problem:
        return None, f"not counted ({problem})"


def _work(
    text: Values, about: Architecture, kept: Store | str, states: tuple[StateShape, ...]
) -> Work | None:
    return None if isinstance(kept, str) else count_work(text, about, kept, states)


def _rope(config: Values) -> tuple[Values | None, str]:
    """Return what is said of the rotary embedding, and its kind."""
    rope = config.section("rope_scaling") or config.section("rope_parameters")
    return rope, "" if rope is None else rope.word("rope_type") or rope.word("type") or ""


def _usual(config: Values) -> int | None:
    """Return the longest request that vLLM takes unless told, if it takes longer ones."""
    original = "original_max_position_embeddings"
    if _rope(config)[1] != "longrope" or config.table.get(original) is None:
        return None
    return config.count(original)


def _written_length(config: Values) -> int:
    """Return the length that vLLM takes of those in the file: of several the least."""
    if config.table.get(LENGTH_FIRST) is not None:
        return config.count(LENGTH_FIRST)
    there = [key for key in LENGTHS if config.table.get(key) is not None]
    return min(config.count(key) for key in there or LENGTHS)


def _longest(config: Values, known_as: str) -> int:
    """Return the longest request that vLLM derives, tokens."""
    longest = _written_length(config)
    rope, kind = _rope(config)
    # vLLM scales none of the type gemma3, which the class has where the file lacks it.
    if rope is None or known_as.startswith("Gemma3"):
        return longest
    factor = rope.table.get("factor")
    if kind in SCALED_ALREADY or factor is None:
        return longest
    if (
        isinstance(factor, bool)
        or not isinstance(factor, int | float)
        or not (1 <= factor <= MAX_TOKENS / longest)
    ):
        most = f"{MAX_TOKENS / longest:,.0f}, for {MAX_TOKENS:,} tokens"
        raise InputError(f"{rope.where}: factor: {shown(factor)}; allowed: 1 to {most}")
    return int(longest * factor)
