"""The model that the servers of a scenario have: its name for vLLM, GPUs, longest request."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvsweep.config.cache_section import CAPACITIES
from kvsweep.config.fleet import InstancePool, fleet, longest_of
from kvsweep.config.groups import is_hybrid
from kvsweep.config.pools import pools_of
from kvsweep.config.preset import load_preset
from kvsweep.config.served_model import sized
from kvsweep.errors import InputError
from kvsweep.sizing.capacity import Layout, layout
from kvsweep.sizing.groups import blocks_per_request
from kvsweep.sizing.layers import cdiv
from kvsweep.sizing.model import Model
from kvsweep.sizing.settings import Asked, serve
from kvsweep.sizing.shapes import load_model, model_names, published_name
from kvsweep.workload.longest import longest_tokens

if TYPE_CHECKING:
    from kvsweep.config import Scenario, Sweep

PLACEHOLDER = "MODEL"


def model_name(scenario: Scenario, folder: Path) -> str:
    """Return what ``vllm serve`` is told to serve: a name, a folder, or `PLACEHOLDER`."""
    model = scenario.model
    if model is None:
        shipped = _shipped(scenario)
        return PLACEHOLDER if shipped is None else published_name(shipped)
    if model.preset is not None:
        return published_name(model.preset)
    path = Path(str(model.config))
    if (folder / path).is_dir():
        return str(path)
    return str(path.parent) if path.name == "config.json" else PLACEHOLDER


def _shipped(scenario: Scenario) -> str | None:
    """Return the model that all step times are of, by the name that presets have for it."""
    presets = presets_of(scenario)
    names = {None if p is None or p.endswith(".toml") else p.split("/")[0] for p in presets}
    return names.pop() if len(names) == 1 else None


def presets_of(scenario: Scenario) -> set[str | None]:
    """Return where the step times of the pools are from; None: they are given."""
    pools = pools_of(scenario.cluster)
    return {(pool.latency or scenario.latency).model for _, pool in pools}


def gpus_of(scenario: Scenario, folder: Path) -> tuple[int | None, int]:
    """Return the GPUs of tensor and of pipeline parallelism; None where nothing tells for all."""
    if scenario.model is not None:
        return scenario.model.tp, scenario.model.pp
    found = {_tp(preset, folder) for preset in presets_of(scenario)}
    stages = scenario.engine.pipeline_parallel_size
    return found.pop() if len(found) == 1 else None, stages


def _tp(name: str | None, folder: Path) -> int | None:
    if name is None:
        return None
    preset = load_preset(name, folder)
    return preset.device.tp if preset.device is not None else preset.tp


def blocks_follow(scenario: Scenario) -> bool:
    """Whether all servers find the blocks by themselves, from the GPU."""
    model = scenario.model
    given = scenario.cache.model_fields_set
    own = any(pool.gpu_blocks is not None for _, pool in pools_of(scenario.cluster))
    return model is not None and model.gpu is not None and given.isdisjoint(CAPACITIES) and not own


def server_blocks(scenario: Scenario, folder: Path) -> list[int]:
    """Return the ``num_gpu_blocks`` of a server of each pool, vLLM's null block included.

    Where a model with other layers is simulated as one with full attention (`other_layers`), these
    are blocks of its own.
    """
    pools, shape = fleet(scenario), other_layers(scenario, folder)
    if shape is None:
        return [pool.gpu_blocks + 1 for pool in pools]
    longest, needed = shape.limits.max_model_len, shape.request_blocks
    tokens = [pool.gpu_blocks * scenario.cache.block_size for pool in pools]
    # Windows alone take less of a long request, but all of a short one.
    size = shape.block_sizes[-1]
    return [max(cdiv(n, size), cdiv(n * needed, longest)) + 1 for n in tokens]


def other_layers(scenario: Scenario, folder: Path) -> Layout | None:
    """Return the layout of a model that is simulated as if it had full attention only.

    Its ``request_blocks`` are those of the longest request that servers take. None where blocks are
    simulated as those of the model: it has full attention, or the scenario has its groups.
    """
    known = _layout(scenario, folder)
    if known is None or known[1].plain or is_hybrid(scenario.cache.groups):
        return None
    model, shape = known
    limits = shape.limits._replace(max_model_len=_wanted(scenario, model))
    needed = blocks_per_request(shape.groups, limits)
    return replace(shape, limits=limits, request_blocks=needed)


def longest_requests(scenario: Scenario, folder: Path) -> list[int | None]:
    """Return the ``--max-model-len`` that each pool needs.

    Without it a server takes requests as long as its model does, and does not start if one of them
    has no room: in its blocks or, with prompts in one piece, in a step.

    Returns
    -------
    list of int or None
        By pool; None where a server starts without it and takes no longer ones than here, 0 where
        no length starts.
    """
    known = _layout(scenario, folder)
    if known is None:
        return [longest_of(scenario, number) for number, _ in enumerate(fleet(scenario))]
    model, shape = known
    usual = _wanted(scenario, model)
    default = model.usual_model_len or model.max_model_len
    lengths = [
        _fitting(scenario, pool, shape.longest(blocks), usual)
        for pool, blocks in zip(fleet(scenario), server_blocks(scenario, folder), strict=True)
    ]
    return [None if length == default else length for length in lengths]


def start_text(sweep: Sweep) -> str | None:
    """Say what servers of a sweep that names its model have to be told of the longest request.

    Of the first cell and its neighbours along each axis.
    """
    scenarios = [scenario for scenario in sweep.probes() if scenario.model is not None]
    cut = [
        length
        for scenario in scenarios
        for length in longest_requests(scenario, sweep.base_dir)
        if length not in (None, scenario.engine.max_model_len)
    ]
    if not cut:
        return None
    if min(cut) == 0:
        return "vLLM does not start with so few blocks, whatever --max-model-len is"
    ends = f"{min(cut):,}" if min(cut) == max(cut) else f"{min(cut):,} to {max(cut):,}"
    return f"vLLM must be told --max-model-len {ends}, or it does not start or refuses requests"


def _wanted(scenario: Scenario, model: Model) -> int:
    """Return the longest request that servers take; more than unless told if some is longer."""
    if scenario.engine.max_model_len is not None:
        return min(scenario.engine.max_model_len, model.max_model_len)
    usual = model.usual_model_len or model.max_model_len
    bounds = None if scenario.workload is None else _bounds(scenario)
    return model.max_model_len if bounds is None or bounds > usual else usual


def _bounds(scenario: Scenario) -> int | None:
    assert scenario.workload is not None
    bounds = None if scenario.workload.trace else longest_tokens(scenario.workload)
    return None if bounds is None else bounds[0]


def _fitting(scenario: Scenario, pool: InstancePool, room: int, most: int) -> int:
    if pool.max_model_len is not None:
        most = min(most, pool.max_model_len)
    if not scenario.engine.enable_chunked_prefill:
        most = min(most, pool.max_num_batched_tokens)
    return min(most, room)


def _layout(scenario: Scenario, folder: Path) -> tuple[Model, Layout] | None:
    """Return the model and how its cache is divided; None where nothing tells both."""
    if scenario.model is not None:
        told = sized(scenario, folder)
        assert told.served is not None
        assert told.layout is not None
        model = told.served.model
        return model, _as_long_as(told.layout, model)
    shipped, (tp, pp) = _shipped(scenario), gpus_of(scenario, folder)
    if shipped not in model_names() or tp is None:
        return None
    engine = scenario.engine
    asked = Asked(
        tp=tp,
        pp=pp,
        block_size=scenario.cache.block_size,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        max_num_seqs=min(engine.max_num_seqs, engine.max_num_batched_tokens),
        async_scheduling=engine.async_scheduling,
    )
    with suppress(InputError):  # a preset of other settings than vLLM takes
        model = load_model(shipped)
        return model, _as_long_as(layout(serve(model, asked, None)), model)
    return None


def _as_long_as(shape: Layout, model: Model) -> Layout:
    limits = shape.limits._replace(max_model_len=model.max_model_len)
    return replace(shape, limits=limits)
