"""What is said of the model that a sweep serves: what it decides, and what wins over it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.config.axes import SEED
from kvsweep.config.cache_section import CAPACITIES
from kvsweep.config.groups import is_hybrid
from kvsweep.config.pool_reads import takes_from
from kvsweep.config.pools import pools_of
from kvsweep.config.preset import load_preset, preset_names
from kvsweep.config.served_model import is_taken_for_full, sized
from kvsweep.errors import InputError
from kvsweep.sizing.exchange import NODE, reached_bandwidth
from kvsweep.sizing.gpus import find_gpu, gpu_names
from kvsweep.sizing.pipeline import longest_stage
from kvsweep.sizing.shapes import load_model, shipped_name
from kvsweep.sizing.sizes import GIB

if TYPE_CHECKING:
    from kvsweep.config.scenario import Scenario
    from kvsweep.config.sweep import Sweep
    from kvsweep.sizing.answer import Answer

NOTED = 1.01
"""Of a pipeline's longest stage, its time over that of an equal part from which on it is told."""


def model_texts(sweep: Sweep) -> list[str]:
    """Write `model_text` of a sweep's scenarios, those that differ in blocks alone as one."""
    alike: dict[str, list[Scenario]] = {}
    probes = 1 + sum(len(axis.values) - 1 for axis in sweep.axes if axis.key != SEED)
    for point in islice(sweep.points(), probes):
        scenario = sweep.scenario(point)
        text = model_text(scenario, sweep.base_dir, "")
        if text is not None:
            alike.setdefault(text, []).extend((scenario, *_of_all_sizes(sweep, point)))
    return [_text_of_all(scenarios, sweep.base_dir) for scenarios in alike.values()]


def _of_all_sizes(sweep: Sweep, point: Mapping[str, Any]) -> Iterator[Scenario]:
    """Yield a probe's scenarios at both ends of an axis of sizes, along which it has neighbours."""
    for axis in sweep.axes:
        if axis.key in (f"cache.{name}" for name in CAPACITIES):
            for value in (min(axis.values), max(axis.values)):
                with suppress(InputError):  # of cells it is told where they are made
                    yield sweep.scenario({**point, axis.key: value})


def models_left(sweep: Sweep) -> int:
    """Count combinations of axes of which a model's text depends that no probe has."""
    texts = (model_text(scenario, sweep.base_dir, "") for scenario in sweep.probes())
    first = next(texts)
    others = (len(axis.values) - 1 for axis in sweep.axes if axis.key != SEED)
    kinds = [len({first, *islice(texts, count)}) for count in others]
    return prod(kinds) - (1 + sum(count - 1 for count in kinds))


def _text_of_all(scenarios: list[Scenario], folder: Path) -> str:
    blocks = [scenario.cache.gpu_blocks for scenario in scenarios]
    ends = f"{min(blocks):,} to {max(blocks):,}" if len(set(blocks)) > 1 else f"{blocks[0]:,}"
    return model_text(scenarios[0], folder, ends) or ""


def model_text(scenario: Scenario, folder: Path, blocks: str | None = None) -> str | None:
    """Write the blocks and step times of a model, and who says so; None without a model.

    `blocks` is written in place of those that a scenario gives itself.
    """
    model = scenario.model
    if model is None:
        return None
    told = sized(scenario, folder)
    assert told.served is not None
    assert told.layout is not None
    name = f"{told.served.model.name}, tp {model.tp}, pp {model.pp}{_asked(scenario, told)}"
    if model.decides:
        where = told.gpu.name if told.gpu else f"{model.kv_gib:g} GiB"
        size = told.blocks * max(told.layout.block_bytes) / GIB
        held = f" of {told.block_size} tokens, to hold a state" if told.served.state else ""
        room = f"{told.blocks - 1:,} usable blocks{held}, {size:.2f} GiB"
        text = f"{name} on {where}: {room if told.blocks else 'no memory is left, as estimated'}"
    else:
        text = f"{name}: {told.layout.token_bytes:,} bytes a token on each GPU"
    times = _times(scenario, told, folder)
    wins = (_who_wins(scenario, told, blocks), _pools_win(scenario))
    return "; ".join(filter(None, (text, *wins, _steps(scenario), times)))


def _asked(scenario: Scenario, told: Answer) -> str:
    """Say what else a scenario gives that decides blocks: several of them are told by it."""
    model, cache = scenario.model, scenario.cache
    assert model is not None
    kind = "" if model.dtype == "auto" else f", keys and values in {model.dtype}"
    given = model.decides and "block_size" in cache.model_fields_set
    given &= told.block_size == cache.block_size  # else it is raised to hold a state
    size = f", block_size {cache.block_size}" if given else ""
    share = (
        f", utilization {model.utilization:g}" if "utilization" in model.model_fields_set else ""
    )
    return kind + size + share


def _steps(scenario: Scenario) -> str | None:
    """Say how many steps a pipeline has on their way; None without one."""
    engine = scenario.engine
    if engine.pipeline_parallel_size == 1:
        return None
    return f"{engine.pipeline_parallel_size} stages, up to {engine.steps_on_way} steps on their way"


def _who_wins(scenario: Scenario, told: Answer, blocks: str | None) -> str | None:
    given = next((k for k in CAPACITIES if k in scenario.cache.model_fields_set), None)
    if scenario.model is None or not scenario.model.decides:
        return None
    if given is not None:
        assert told.layout is not None
        full = not told.layout.plain and not is_hybrid(scenario.cache.groups)
        kind = " of full attention" if full else ""
        if blocks is None:
            blocks = f"{scenario.cache.gpu_blocks:,}"
        return f"cache.{given} wins: {blocks} blocks{kind}"
    said = []
    if told.margin is not None and told.margin[0] != told.margin[1]:
        said.append(f"estimated, {told.margin[0]:,} to {told.margin[1]:,}")
    if is_taken_for_full(scenario, told):
        many = blocks or f"{scenario.cache.gpu_blocks:,}"
        said.append(f"{many} blocks of full attention hold as many")
    return "; ".join(said) or None


def _pools_win(scenario: Scenario) -> str | None:
    """Say that pools have blocks of their own, whatever the model decides."""
    pools = pools_of(scenario.cluster)
    own = [pool.gpu_blocks for _, pool in pools if pool.gpu_blocks is not None]
    if scenario.model is None or not scenario.model.decides or not own:
        return None
    who = "all pools have" if len(own) == len(pools) else "other pools have"
    return f"{who} their own: {', '.join(f'{blocks:,}' for blocks in own)} blocks"


def _times(scenario: Scenario, told: Answer, folder: Path) -> str | None:
    """Say that step times are computed, or are those of another model or of other GPUs."""
    latency, model = scenario.latency, scenario.model
    assert model is not None
    if latency.model is None:
        if not computes_times(scenario):
            return None
        known = measured_times(scenario)
        hint = f', but those of latency.model = "{known}" are{_alone(model.pp)}' if known else ""
        return f"step times computed, not measured{hint}"
    preset = load_preset(latency.model, folder)
    tp = preset.device.tp if preset.device is not None else preset.tp
    others = [] if tp in (None, model.tp) else [f"tp {tp}"]
    if latency.model in preset_names():  # MODEL/GPU/tpN
        of_model, of_gpu, _ = latency.model.split("/")
        if told.gpu is not None and told.gpu.name in gpu_names() and told.gpu.name != of_gpu:
            others.insert(0, of_gpu)
        assert told.served is not None
        if model.preset is not None and told.served.model.name != of_model:
            others.insert(0, of_model)
    if not others:
        return None
    return f"but latency.model {latency.model} has the times of {', '.join(others)}"


def measured_times(scenario: Scenario) -> str | None:
    """Return the preset that was measured of a model on its GPUs, if one comes with kvsweep."""
    model = scenario.model
    if model is None or model.preset is None or model.gpu is None:
        return None
    if model.dtype != "auto" or model.weights_gib is not None:  # other bytes than were measured
        return None
    gpu = find_gpu(model.gpu).name
    name = f"{shipped_name(model.preset)}/{gpu}/tp{model.tp}"
    if name not in preset_names():
        return None
    added = load_preset(name, Path()).added
    hidden = added is not None and added.host_overhead_us == 0
    return None if hidden and not scenario.engine.async_scheduling else name


def computes_times(scenario: Scenario) -> bool:
    """Return whether step times follow from the model that is served."""
    given = scenario.model is None or "latency" in scenario.model_fields_set
    return not given and bool(scenario.latency.model_fields_set)


def measured_text(scenario: Scenario) -> str | None:
    """Say that step times are computed where measured ones are known; None if they are not."""
    if scenario.model is None or not computes_times(scenario):
        return None
    known = measured_times(scenario)
    alone = _alone(scenario.model.pp)
    return known and f'step times are computed; latency.model = "{known}" has measured ones{alone}'


def _alone(pp: int) -> str:
    """Say of measured step times that they are of a model without a pipeline, if it has one."""
    return "" if pp == 1 else ", of one stage with all layers"


def exchange_text(scenario: Scenario, folder: Path) -> str | None:
    """Say what computed step times do not know of what GPUs exchange; None: they know it."""
    latency = scenario.latency
    if latency.model is not None:
        preset = load_preset(latency.model, folder)
        device, added = preset.device, preset.added
        if device is None or device.tp == 1:
            return None
        gpus = f"the {device.tp} GPUs of {latency.model}"
        left_out = added is None or not (added.allreduce_step_us or added.allreduce_token_us)
        known = device.exchange is not None or not left_out
        across = latency.model in preset_names() and device.tp > NODE  # else it is their owner's
    elif computes_times(scenario):
        told = sized(scenario, folder)
        assert told.gpu is not None
        assert told.served is not None
        count = told.served.asked.tp * told.served.asked.pp
        gpus = f"{count} {told.gpu.name}"
        across = told.served.asked.tp > NODE
        known = count == 1 or reached_bandwidth(told.gpu.name, count) is not None
    else:
        return None
    if not known:
        return (
            f"computed step times are too short: what {gpus} exchange is left out, as their links "
            "are not known; give measured ones, or a preset with device.peer_bandwidth"
        )
    if not across:
        return None
    return (
        f"computed step times are too short: what {gpus} exchange is that of one node, which has "
        f"{NODE}; give measured ones, or a preset with device.peer_bandwidth"
    )


def stages_text(scenario: Scenario, folder: Path) -> str | None:
    """Say what the times of a pipeline's stages do not know; None without a pipeline."""
    if scenario.engine.pipeline_parallel_size == 1:
        return None
    if computes_times(scenario):
        times = (
            "step times are computed, as if all GPUs were in one node, and never compared with a "
            "measurement of a pipeline"
        )
    else:
        given = "[latency]" if scenario.latency.model_fields_set else "the pools"
        whose = scenario.latency.model or given
        times = (
            f"the times of {whose} are taken for all stages of the pipeline together, an equal "
            "part for each; what stages hand on to each other is not added"
        )
    return "; ".join(filter(None, (times, _longest_stage(scenario, folder))))


def _longest_stage(scenario: Scenario, folder: Path) -> str | None:
    """Say how much longer than an equal part the longest stage takes; None if not, or not known."""
    if scenario.model is None:
        return None
    told = sized(scenario, folder)
    assert told.served is not None
    model, asked = told.served.model, told.served.asked
    layers, times = longest_stage(model, asked.tp, asked.pp)
    if times < NOTED:
        return None
    last = " and the output layer" if layers.stop == model.layers else ""
    return (
        f"stages are simulated as equal, and the longest ({len(layers)} of {model.layers} "
        f"layers{last}) takes about {times - 1:.0%} more than that"
    )


def states_text(scenario: Scenario, folder: Path) -> str | None:
    """Say that step times of a model with states are computed; None if they are not."""
    latency, states = scenario.latency, False
    if latency.model is not None:
        shape = load_preset(latency.model, folder).shape_of
        states = shape is not None and bool(load_model(shape).states)
    elif computes_times(scenario):
        told = sized(scenario, folder)
        assert told.served is not None
        states = told.served.state is not None
    if not states:
        return None
    return (
        "step times are computed; of the one model with states that was measured, prompts took 14 "
        "to 27 % longer"
    )


def defaults_text(scenario: Scenario, folder: Path) -> str | None:
    """Write what ``vllm serve`` would take on the GPU, if the scenario says neither."""
    from kvsweep.sizing.settings import usual_step

    model = scenario.model
    if model is None or model.gpu is None:
        return None
    told = sized(scenario, folder)
    assert told.gpu is not None
    assert told.served is not None
    usual, engine = usual_step(told.served.model, told.gpu), scenario.engine
    keys = ("max_num_seqs", "max_num_batched_tokens")
    other = [k for k in keys if k not in engine.model_fields_set and takes_from(k)(scenario, None)]
    offered = {f"engine.{k}": (getattr(usual, k), getattr(engine, k)) for k in other}
    if all(there == here for there, here in offered.values()):
        offered = {}
    offered |= _other_block(scenario, told)
    if not offered:
        return None
    takes = ", ".join(f"{key} = {there}" for key, (there, _) in offered.items())
    taken = ", ".join(f"{here:,}" for _, here in offered.values())
    return f"vllm serve on {told.gpu.name} takes {takes}; here {taken}"


def _other_block(scenario: Scenario, told: Answer) -> dict[str, tuple[int, int]]:
    """Return the block size that vLLM takes and the one here, by key, if they differ."""
    from kvsweep.sizing.settings import usual_block

    here = scenario.cache.block_size
    assert told.served is not None
    if told.served.state is not None:
        return {}
    connector = scenario.cache.cpu_blocks > 0 and scenario.cache.offload == "vllm"
    there, _ = usual_block(told.served.model, told.gpu, told.served.dtype, connector)
    given = "block_size" in scenario.cache.model_fields_set
    return {} if given or there == here else {"cache.block_size": (there, here)}
