"""The model section: what is served, on which GPU, and so how many blocks a cache has."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cache
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from kvsweep.config.base import Count, Key, KeyProblem, Name, Positive, Section
from kvsweep.config.cache_section import CAPACITIES
from kvsweep.config.groups import CacheGroup, attention_groups, is_hybrid, keeps_some
from kvsweep.errors import InputError
from kvsweep.limits import MAX_BLOCKS, MAX_GROUPS, MAX_LAYERS, MAX_MEMORY_BYTES
from kvsweep.sizing.defaults import UTILIZATION
from kvsweep.sizing.sizes import GIB

if TYPE_CHECKING:
    from kvsweep.config.engine_section import Engine
    from kvsweep.config.scenario import Scenario
    from kvsweep.config.schema import KeyPath
    from kvsweep.sizing.answer import Answer
    from kvsweep.sizing.capacity import Layout
    from kvsweep.sizing.layers import LayerCache
    from kvsweep.sizing.question import Question

STAGES = ("engine.pipeline_parallel_size", "model.pp")
"""Keys of the stages of a pipeline: of a scenario with a model, one decides the other."""

Gib = Annotated[Positive, Field(le=MAX_MEMORY_BYTES / GIB)]
Parallel = Annotated[Count, Field(le=MAX_LAYERS)]

RETENTION = "prefix_cache_retention_interval"


class ServedModel(Section):
    """What is served, as ``kvsweep blocks`` takes it; it decides the blocks of a cache.

    Attributes
    ----------
    preset, config : str or None
        One of the two: a model that comes with the package (`kvsweep.sizing.shapes.model_names`),
        or a Hugging Face ``config.json``.
    gpu : str or None
        A GPU (`kvsweep.sizing.gpus.gpu_names`), or its memory as CUDA reports it: ``80GiB``.
    kv_gib : float or None
        Instead of `gpu`: memory of the KV cache on each GPU, GiB.
    tp, pp : int
        GPUs of tensor and of pipeline parallelism, of each instance; `pp` is the engine's
        `pipeline_parallel_size` too.
    dtype : str
        Data type of keys and values, vLLM's ``--kv-cache-dtype``.
    utilization : float
        vLLM's ``gpu_memory_utilization``.
    weights_gib, activation_gib : float or None
        Weights of all GPUs of an instance, and what a step takes on each; None: counted, and
        estimated.
    """

    preset: Annotated[Name | None, Key("1", "model, by its name")] = None
    config: Annotated[Name | None, Key("1", "model, by its config.json")] = None
    gpu: Annotated[Name | None, Key("1", "GPU that the model is served on")] = None
    kv_gib: Annotated[Gib | None, Key("GiB", "memory of the KV cache on each GPU")] = None
    tp: Annotated[Parallel, Key("1", "tensor parallel GPUs of an instance")] = 1
    pp: Annotated[Parallel, Key("1", "pipeline parallel GPUs of an instance")] = 1
    dtype: Annotated[Name, Key("1", "data type of keys and values")] = "auto"
    utilization: Annotated[
        Annotated[Positive, Field(le=1.0)], Key("1", "share of the memory of a GPU that is used")
    ] = UTILIZATION
    weights_gib: Annotated[Gib | None, Key("GiB", "weights, on all GPUs of an instance")] = None
    activation_gib: Annotated[Gib | None, Key("GiB", "memory of a step on each GPU")] = None

    @model_validator(mode="after")
    def _says_what(self) -> Self:
        if (self.preset is None) == (self.config is None):
            raise KeyProblem((), "give either a preset or a config")
        if self.gpu is not None and self.kv_gib is not None:
            raise KeyProblem(("kv_gib",), "give either gpu or kv_gib")
        return self

    @property
    def decides(self) -> bool:
        """Whether it has the memory of the cache, and so its blocks."""
        return self.gpu is not None or self.kv_gib is not None


def stages_of(model: ServedModel, engine: Engine) -> int:
    """Return the stages of the pipeline, which the model or the engine gives.

    Raises
    ------
    KeyProblem
        If they give different ones.
    """
    stages = engine.pipeline_parallel_size
    if "pp" not in model.model_fields_set:
        return stages
    if "pipeline_parallel_size" in engine.model_fields_set and stages != model.pp:
        raise KeyProblem(
            ("model", "pp"),
            f"{model.pp}, but engine.pipeline_parallel_size is {stages}: give one of the two, "
            "which decides the other",
        )
    return model.pp


def key_of_stages(scenario: Scenario) -> KeyPath:
    """Return the key that gives the stages of the pipeline."""
    given = "pipeline_parallel_size" in scenario.engine.model_fields_set
    if given or scenario.model is None:
        return ("engine", "pipeline_parallel_size")
    return ("model", "pp")


def from_model(scenario: Scenario, folder: Path) -> dict[str, Any]:
    """Return what a scenario's model decides of its cache, by key: groups, blocks, token bytes.

    A hybrid model has its groups of layers, unless groups are given or tokens, which say what fits
    if it had full attention only; they keep in the prefix cache what vLLM's do by default. Blocks
    of a model with states have the size that vLLM raises.

    Raises
    ------
    KeyProblem
        If it cannot be computed, or a simulation has no such cache.
    """
    model, given = scenario.model, scenario.cache.model_fields_set
    assert model is not None
    told = _told(scenario, folder)
    assert told.layout is not None
    found: dict[str, Any] = {}
    token = float(told.layout.token_bytes)
    if not told.layout.plain and not {"groups", "gpu_tokens"} & given:
        found["groups"] = _groups(told)
        token = _padded_bytes(told.layout, found["groups"])
        if keeps_some(found["groups"]) and RETENTION not in given:
            found[RETENTION] = 0  # vLLM's default from 0.29 on
    if "kv_bytes_per_token" not in given and scenario.engine.rules != "blis":
        found["kv_bytes_per_token"] = token
    if model.decides and not any(key in given for key in CAPACITIES):
        blocks = told.blocks - 1  # without vLLM's null block
        if is_taken_for_full(scenario, told):
            blocks = _blocks_of_full(told.layout, blocks) if blocks > 0 else blocks
        if not 1 <= blocks <= MAX_BLOCKS:
            raise _no_such_cache(model, told, blocks)
        found["gpu_blocks"] = blocks
    assert told.served is not None
    if told.served.state is not None and {"groups", "gpu_blocks"} & found.keys():
        found["block_size"] = told.block_size
    return found


def is_taken_for_full(scenario: Scenario, told: Answer) -> bool:
    """Return whether a model with other layers is simulated as one with full attention only.

    Parameters
    ----------
    scenario : Scenario
        Of a sweep.
    told : Answer
        Of `sized`.
    """
    groups, given = scenario.cache.groups, scenario.cache.model_fields_set
    assert told.layout is not None
    return not told.layout.plain and "groups" in given and not is_hybrid(groups)


def _blocks_of_full(layout: Layout, blocks: int) -> int:
    """Return the blocks of full attention that hold as many of the longest requests."""
    # Windows alone take less of a long request, but all of a short one.
    tokens = min(layout.logged_tokens(blocks), blocks * layout.block_sizes[-1])
    return tokens // layout.block_size


def _no_such_cache(model: ServedModel, told: Answer, blocks: int) -> KeyProblem:
    """Return the problem of a memory that holds no block beside the null block, or too many."""
    assert told.layout is not None
    few = blocks < 1
    size = max(told.layout.block_bytes)
    message = f"{max(0, blocks):,} usable blocks, of 1 to {MAX_BLOCKS:,}: "
    if model.kv_gib is None:
        remedy = "a larger one, a higher model.utilization" if few else "a smaller one"
        return KeyProblem(("model", "gpu"), f"{message}take {remedy} or another model.tp")
    if few:  # vLLM has its null block too
        return KeyProblem(
            ("model", "kv_gib"), f"{message}give at least {_rounded(2 * size, up=True)}"
        )
    most = _rounded((MAX_BLOCKS + 1) * size, up=False)
    return KeyProblem(("model", "kv_gib"), f"{message}give at most {most}")


def _rounded(size: int, *, up: bool) -> str:
    """Write bytes as GiB, of few digits and no less, or no more."""
    digits = 10 ** max(0, 3 - floor(log10(size / GIB)))
    return f"{(ceil if up else floor)(size / GIB * digits) / digits:.12g}"


def _groups(told: Answer) -> tuple[CacheGroup, ...]:
    """Return the groups of a hybrid model's layers, in vLLM's order."""
    assert told.layout is not None
    sizes = told.layout.block_sizes
    if sizes != [told.block_size]:
        raise KeyProblem(
            ("model",),
            f"its groups of layers have blocks of {' and '.join(map(str, sizes))} tokens, which is "
            f"not simulated; give cache.gpu_tokens: {told.tokens} hold as many of the longest "
            "requests",
        )
    if len(told.layout.groups) > MAX_GROUPS:
        raise KeyProblem(
            ("model",), f"{len(told.layout.groups)} groups of layers, at most {MAX_GROUPS}"
        )
    return cache_groups(told.layout)


def _padded_bytes(layout: Layout, groups: tuple[CacheGroup, ...]) -> float:
    """Return the bytes of a token on a GPU in all groups of attention, padding of blocks included.

    A block has the layers of one group, and all have the same size: so much of it a copy moves.
    """
    return len(attention_groups(groups)) * max(layout.block_bytes) / layout.block_size


def cache_groups(layout: Layout) -> tuple[CacheGroup, ...]:
    """Return groups of layers as a scenario has them, in vLLM's order."""
    return tuple(_group(group.pages[0].layer) for group in layout.groups)


def _group(layer: LayerCache) -> CacheGroup:
    if layer.state is not None:
        return CacheGroup(kind="state", checkpoint=layer.state.checkpoint or None)
    return CacheGroup(kind="full" if layer.window is None else "sliding", window=layer.window)


def times_of_model(scenario: Scenario, folder: Path) -> dict[str, Any]:
    """Return the latencies of a model on its GPU, computed: a roofline.

    Raises
    ------
    KeyProblem
        If they do not follow from it.
    """
    from kvsweep.sizing.served_steps import step_terms

    if scenario.engine.rules == "blis":
        needed = "give beta of three coefficients, or a model that has them"
        message = (
            f"missing; rules 'blis' has no terms for contexts, which [model] computes: {needed}"
        )
        raise KeyProblem(("latency",), message)
    told = _told(scenario, folder)
    assert told.served is not None
    assert told.gpu is not None
    try:
        return step_terms(told.served, told.gpu.name)._asdict()
    except InputError as problem:
        raise KeyProblem(("latency",), str(problem).removeprefix("latency: ")) from None


def sized(scenario: Scenario, folder: Path) -> Answer:
    """Return the answer of ``kvsweep blocks`` to what a scenario serves.

    Raises
    ------
    InputError
        If there is none.
    """
    from kvsweep.sizing.question import Question
    from kvsweep.sizing.shapes import load_model

    model = scenario.model
    assert model is not None
    name = model.preset
    if name is None:
        name = str(folder / str(model.config))
    else:
        load_model(name)  # a preset is no file
    on_gpu = model.gpu is not None
    engine = scenario.engine
    seqs = min(engine.max_num_seqs, engine.max_num_batched_tokens)  # pools may have other budgets
    return _answer(
        Question(
            model=name,
            gpu=model.gpu,
            kv_memory=_size(model.kv_gib),
            blocks=None if model.decides else 1,
            tp=model.tp,
            pp=model.pp,
            dtype=model.dtype,
            block_size=scenario.cache.block_size,
            utilization=model.utilization if on_gpu else None,
            max_num_batched_tokens=engine.max_num_batched_tokens,
            max_num_seqs=seqs if on_gpu else None,
            async_scheduling=engine.async_scheduling,
            prefix_caching=engine.enable_prefix_caching,
            weights=_size(model.weights_gib) if on_gpu else None,
            activation=_size(model.activation_gib) if on_gpu else None,
            known=not scenario.cache.model_fields_set.isdisjoint(CAPACITIES),
        ),
        None if model.config is None else _state(name),
    )


def _state(name: str) -> tuple[int, ...] | None:
    """Return what tells a file from another of its name, or from itself as it was; None of none.

    With what may stand beside it (`kvsweep.sizing.shapes.QUANTIZED`).
    """
    from kvsweep.sizing.shapes import QUANTIZED

    path = Path(name)
    with suppress(OSError, ValueError):
        path = path / "config.json" if path.is_dir() else path
        own = _state_of(path)
        with suppress(OSError):
            return own + _state_of(path.with_name(QUANTIZED))
        return own
    return None


def _state_of(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


@cache
def _answer(question: Question, state: tuple[int, ...] | None) -> Answer:
    """Return the answer; with `state`, that of the file as it is, as processes may live long."""
    from kvsweep.sizing.asking import answer

    return answer(question)


def _size(gib: float | None) -> str | None:
    return None if gib is None else f"{round(gib * GIB)}B"


OPTIONS: dict[str, KeyPath] = {
    "--gpu": ("model", "gpu"),
    "--kv-memory": ("model", "kv_gib"),
    "--weights": ("model", "weights_gib"),
    "--activation": ("model", "activation_gib"),
    "--utilization": ("model", "utilization"),
    "--model": ("model", "preset"),
    "--dtype": ("model", "dtype"),
    "--tp": ("model", "tp"),
    "--pp": ("model", "pp"),
    "--block-size": ("cache", "block_size"),
    "--max-num-batched-tokens": ("engine", "max_num_batched_tokens"),
}
"""The keys that options of ``kvsweep blocks`` stand for here."""


def _told(scenario: Scenario, folder: Path) -> Answer:
    """Return `sized`, or what is wrong by the key of the section."""
    try:
        return sized(scenario, folder)
    except InputError as problem:
        option, _, message = str(problem).partition(": ")
        keys = OPTIONS | {"--pp": key_of_stages(scenario)}
        path = keys.get(option)
        for name, (section, key) in keys.items():
            message = re.sub(rf"{name} ([\d.]+)(GiB)?\b", rf"{section}.{key} = \1", message)
            message = message.replace(name, f"{section}.{key}")
        whole = message if path else f"{option}: {message}"
        raise KeyProblem(path or ("model", "config"), whole) from None
