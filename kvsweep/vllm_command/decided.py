"""What a command of vLLM decides of a scenario: its keys, and why each has its value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kvsweep.config.served_model import cache_groups
from kvsweep.errors import InputError, clip, escaped
from kvsweep.sizing.asking import answer
from kvsweep.sizing.capacity import layout
from kvsweep.sizing.gpus import Gpu, find_gpu
from kvsweep.sizing.question import Question
from kvsweep.sizing.settings import Asked, Served, serve
from kvsweep.sizing.shapes import (
    is_base,
    load_config,
    load_model,
    model_names,
    nearest_model,
    shipped_name,
)
from kvsweep.vllm_command.backends import with_block
from kvsweep.vllm_command.checks import (
    check_served,
    kept_dtype,
    older_runner,
    said_of_the_command,
)
from kvsweep.vllm_command.divided_experts import divided_times, divided_weights
from kvsweep.vllm_command.drafts import drafts, dropped
from kvsweep.vllm_command.known import DEFAULT, OWN_LOG, Known
from kvsweep.vllm_command.notes import notes_of
from kvsweep.vllm_command.offload import offload
from kvsweep.vllm_command.retention import retention
from kvsweep.vllm_command.step_limits import (
    StepLimits,
    fits_memory,
    largest_item,
    step_limits,
    told_of_item,
)
from kvsweep.vllm_command.values import ONE_GROUP, Values, refuse_what_is_not_simulated
from kvsweep.vllm_command.words import Command


class Line(NamedTuple):
    """A key of a scenario.

    Attributes
    ----------
    key : str
        Dotted.
    value : object
        Its value.
    why : str
        The option that says so, or whose default it is.
    """

    key: str
    value: Any
    why: str


@dataclass
class Settings:
    """A scenario, line by line.

    Attributes
    ----------
    served : Served
        The model and its settings.
    lines : list of Line
        In order of sections.
    notes : list of str
        What is not in the numbers.
    """

    served: Served
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def tells(self, key: str) -> bool:
        """Return whether a key is among the lines."""
        return any(line.key == key for line in self.lines)


def settings_of(command: Command, known: Known) -> Settings:
    """Return the scenario of a command.

    Parameters
    ----------
    command : Command
        What starts the server.
    known : Known
        What else is known of it.

    Raises
    ------
    InputError
        If it decides what is not simulated, or does not tell what a simulation needs.
    """
    refuse_what_is_not_simulated(command)
    values = Values(command)
    model = _model(command, known)
    gpu = find_gpu(known.gpu) if known.gpu is not None else None
    with said_of_the_command(command.where, model.value):
        known = with_block(known, values, load_model(model.value), gpu)
    asked = _asked(values, known, kept_dtype(values, model.value))
    with said_of_the_command(command.where, model.value):
        longest = serve(load_model(model.value), Asked(**asked), gpu).limits.max_model_len
    item = largest_item(values, load_model(model.value))
    limits = step_limits(values, known, gpu, longest, item)
    asked["max_num_batched_tokens"] = limits.worker_tokens
    with said_of_the_command(command.where, model.value):
        served = serve(load_model(model.value), Asked(**asked), gpu)
    check_served(values, served)
    found = Settings(served, [_in_sweep(model), *_memory(values, known, served)])
    found.lines += _scheduling(values, known, limits, longest)
    found.lines += _cache(values, known, served, model.value)
    given = found.tells("cache.gpu_blocks")
    found.lines += _groups(served) if given or gpu is None else ()
    if limits.differ and gpu is not None and not given:
        question = Question(model=model.value, gpu=known.gpu, **asked)
        found.lines.append(_for_the_worker(values, question, limits, served))
    if drafted := drafts(values, known.acceptance):
        if drafted["method"] == "draft" and limits.tokens[0] < limits.worker_tokens:
            told = "not simulated beside a draft model, whose slots are of --max-num-batched-tokens"
            raise values.problem("max-num-scheduled-tokens", f"{told}; leave out one of the two")
        found.lines.append(Line("engine.speculative", drafted, "--speculative-config"))
    tier = offload(values, served, gpu)
    cached = retention(values, served) | tier
    found.lines += [Line(f"cache.{key}", *told) for key, told in cached.items()]
    found.lines += _times(values, known, served, gpu)
    found.lines += _instances(values, command)
    found.lines.sort(key=lambda line: ORDER.index(line.key.partition(".")[0]))
    estimated = not known.blocks_set and not given
    idle, timed = _idle(values, found.lines), found.tells("latency.experts")
    found.notes = [
        *_stands_in(command, known),
        *filter(None, [told_of_item(values, limits, item)]),
        *dropped(drafted, tier),
        *notes_of(command, values, served, idle, estimated=estimated, divided_times=timed),
    ]
    return found


def _idle(values: Values, lines: list[Line]) -> list[str]:
    """Return the options that are given and decide no line, as they may do, or of other models."""
    may = ("gpu-memory-utilization", "kv-cache-memory-bytes", "long-prefill-token-threshold")
    decide = " ".join(line.why for line in lines)
    idle = [f"--{name}" for name in may if values.given(name) and f"--{name}" not in decide]
    return [*idle, f"--{ONE_GROUP}"] if values.switch(ONE_GROUP) else idle


ORDER = ("model", "engine", "cache", "latency", "cluster")
"""Sections of a scenario, what is served first."""


def _model(command: Command, known: Known) -> Line:
    """Return the model, by the name or file that `load_model` takes."""
    if command.model is None and known.model is None:
        raise InputError(f"{command.where}: no model is named: vllm serve MODEL")
    if known.model is not None:
        return Line("model", known.model, "--model")
    assert command.model is not None
    try:
        load_config(command.model)
    except InputError:
        hint = nearest_model(shipped_name(command.model))
        raise InputError(
            f"{command.where}: {clip(escaped(command.model))}: neither a folder with a config.json "
            f"nor a model that is known ({', '.join(model_names())}){hint}; give the name of one "
            "that is like it as --model NAME, or its config.json: --model FILE"
        ) from None
    return Line("model", command.model, command.model)


def _stands_in(command: Command, known: Known) -> list[str]:
    """Say that a model that is known by name is taken for another one, in a list of one or none."""
    name, served = shipped_name(known.model or ""), command.model
    if served is None or name not in model_names():
        return []
    if shipped_name(served) == name and not is_base(served):
        return []
    other = clip(escaped(served))
    return [
        f"weights and step times are those of {name} (--model); if {other} has others, as in FP8, "
        "or takes longer requests, give its config.json"
    ]


def _in_sweep(model: Line) -> Line:
    _, where, source = load_config(model.value)
    key = "model.config" if source is None else "model.preset"
    return Line(key, where, "" if where == model.why else model.why)


def _asked(values: Values, known: Known, dtype: str | None) -> dict[str, Any]:
    """Return what is asked of the model, as `Asked` and `Question` have it both."""
    given = {
        "tp": values.whole("tensor-parallel-size"),
        "pp": values.whole("pipeline-parallel-size"),
        "dtype": dtype,
        "block_size": _first(values.whole("block-size"), known.block_size),
        "max_model_len": _longest(values),
        "max_num_batched_tokens": _first(values.whole("max-num-batched-tokens"), known.tokens),
        "prefix_caching": values.switch("enable-prefix-caching"),
        "gdn_prefill": known.gdn_prefill,
        "is_raised": None if values.given("block-size") else _is_raised(known),
    }
    told = {key: value for key, value in given.items() if value is not None}
    return told | {"async_scheduling": _asynchronous(values, known)[0]}


def _is_raised(known: Known) -> bool:
    """Return whether the size of blocks is the server's last word, raised to hold a state."""
    return known.block_size is not None and known.block_by == OWN_LOG


def _asynchronous(values: Values, known: Known) -> tuple[bool, str]:
    """Return whether the next step is scheduled while one is computed, and who says so."""
    on = values.switch("async-scheduling")
    if on is not None:
        return on, "--async-scheduling" if on else "--no-async-scheduling"
    if known.synchronous:
        return False, OWN_LOG
    if (option := older_runner(values)) is not None:
        return False, f"vLLM's default of a pipeline with {option}"
    return True, DEFAULT


def _first(given: int | None, known: int | None) -> int | None:
    return known if given is None else given


def _longest(values: Values) -> int | None:
    given = values.given("max-model-len") and not fits_memory(values)
    return values.whole("max-model-len") if given else None


def _memory(values: Values, known: Known, served: Served) -> Iterator[Line]:
    if known.gpu is not None:
        yield Line("model.gpu", known.gpu, known.gpu_by)
    for option, key in (("tensor-parallel-size", "tp"), ("pipeline-parallel-size", "pp")):
        if (count := values.whole(option)) is not None:
            yield Line(f"model.{key}", count, f"--{option}")
    if values.given("kv-cache-dtype"):
        yield Line("model.dtype", served.asked.dtype, "--kv-cache-dtype")
    if known.gpu is None:
        return
    decides = known.blocks is None and not values.given("num-gpu-blocks-override")
    share = values.number("gpu-memory-utilization")
    if share is not None and decides and not values.given("kv-cache-memory-bytes"):
        yield Line("model.utilization", share, "--gpu-memory-utilization")
    if (size := divided_weights(values, served)) is not None:
        told = "--data-parallel-size: each instance has its part of the experts"
        yield Line("model.weights_gib", size, told)


def _scheduling(values: Values, known: Known, limits: StepLimits, longest: int) -> Iterator[Line]:
    if not fits_memory(values):
        told = "--max-model-len" if values.given("max-model-len") else "the model's"
        yield Line("engine.max_model_len", longest, told)
    yield Line("engine.max_num_seqs", *limits.seqs)
    yield Line("engine.max_num_batched_tokens", *limits.tokens)
    threshold = values.whole("long-prefill-token-threshold") or 0
    if 0 < threshold < limits.tokens[0]:  # else it holds nobody
        option = "--long-prefill-token-threshold"
        yield Line("engine.long_prefill_token_threshold", threshold, option)
    if (policy := values.choice("scheduling-policy", "fcfs", "priority")) is not None:
        yield Line("engine.scheduler", policy, "--scheduling-policy")
    for option, key in (
        ("enable-prefix-caching", "enable_prefix_caching"),
        ("enable-chunked-prefill", "enable_chunked_prefill"),
        ("scheduler-reserve-full-isl", "reserve_full_prompt"),
    ):
        if (on := values.switch(option)) is not None:
            yield Line(f"engine.{key}", on, f"--{option}" if on else f"--no-{option}")
    if (share := values.number("watermark")) is not None:
        yield Line("engine.watermark", share, "--watermark")
    yield Line("engine.async_scheduling", *_asynchronous(values, known))


def _cache(values: Values, known: Known, served: Served, model: str) -> Iterator[Line]:
    told = DEFAULT if known.block_size is None else known.block_by
    option = "--block-size" if values.given("block-size") else told
    if served.raised_from is not None:
        option = f"{served.raised_from}, raised by vLLM to hold a state"
    yield Line("cache.block_size", served.block_size, option)
    null = "less vLLM's null block"
    if (counted := _counted(values, known, served, model)) is not None:
        blocks, name = counted
        if blocks < 2:
            raise values.problem(name, "leaves no block beside vLLM's null block; give more")
        yield Line("cache.gpu_blocks", blocks - 1, f"--{name}, {null}")
    elif known.blocks is not None:
        yield Line("cache.gpu_blocks", known.blocks - 1, f"{OWN_LOG}, {null}")
    elif known.gpu is None and not known.blocks_set:
        raise InputError(
            "--gpu: missing: the command does not tell the blocks of the cache, which follow from "
            "the GPU (or give --log, the server's own log, or --set cache.gpu_blocks=...)"
        )


def _counted(values: Values, known: Known, served: Served, model: str) -> tuple[int, str] | None:
    """Return ``num_gpu_blocks`` where an option decides it, and the option."""
    name = "num-gpu-blocks-override"
    if (override := values.whole(name)) is not None:
        return override, name
    name = "kv-cache-memory-bytes"
    if known.blocks is not None or (size := values.count(name)) is None:
        return None
    asked = _asked(values, known, served.asked.dtype) | _prefill(served)
    return answer(Question(model=model, kv_memory=f"{size}B", **asked)).blocks, name


def _prefill(served: Served) -> dict[str, Any]:
    """Return the prefill of gated delta nets where the GPU is not asked with, which decides it."""
    if served.state is None:
        return {}
    return {"gdn_prefill": "flashinfer" if served.state.checkpoint else "triton"}


def _groups(served: Served) -> Iterator[Line]:
    """Return the groups of a model with states whose blocks are given: `[model]` may not know."""
    if served.state is not None:
        groups = [each.model_dump(exclude_none=True) for each in cache_groups(layout(served))]
        yield Line("cache.groups", groups, "the layers of the model")


def _for_the_worker(values: Values, question: Question, limits: StepLimits, served: Served) -> Line:
    """Return the blocks of a worker that has room for more than is scheduled."""
    size = divided_weights(values, served)
    weights = None if size is None else f"{size}GiB"
    share = values.number("gpu-memory-utilization")
    asked = replace(question, utilization=share, weights=weights, max_num_seqs=limits.worker_seqs)
    why = f"estimated, for {limits.worker_seqs:,} requests and {limits.worker_tokens:,} tokens"
    return Line("cache.gpu_blocks", answer(asked).blocks - 1, why)


def _times(values: Values, known: Known, served: Served, gpu: Gpu | None) -> Iterator[Line]:
    """Return the step times where ``[model]``, which knows of one instance, has others."""
    if gpu is None or known.times_set:
        return
    for key, term in divided_times(values, served, gpu).items():
        part = "--data-parallel-size: each instance reads its part of the experts"
        yield Line(f"latency.{key}", term, part if key == "experts" else f"computed of {gpu.name}")


def _instances(values: Values, command: Command) -> Iterator[Line]:
    count, servers = values.count("data-parallel-size"), command.replicas
    if count is None and servers is None:
        return
    sources = (("--data-parallel-size", count), (command.replicated_by, servers))
    why = ", times ".join(name for name, number in sources if number is not None)
    yield Line("cluster.instances", (count or 1) * (servers or 1), why)
    if (servers or 1) > 1:
        routing, says = command.router or ("round-robin", "a Service knows no loads")
        yield Line("cluster.routing", routing, says)
    elif (count or 1) > 1:
        yield Line("cluster.routing", "least-loaded", "nearest to vLLM's own balancer")
