"""Batches of lanes made from traces, and a comparison of their results to the last bit."""

import random
from pathlib import Path

import numpy as np
import strategies

from kvsweep.config import DEFAULT_ENTROPY, parse_scenario
from kvsweep.config.scenario import validate
from kvsweep.simulate.batch import build_inputs
from kvsweep.simulate.explicit_records import looks_ahead
from kvsweep.simulate.kernel_cells import run_lanes
from kvsweep.simulate.list_records import prepare
from kvsweep.simulate.workspace import allocate_outputs
from kvsweep.workload.acceptance import with_acceptance
from kvsweep.workload.blocks import resolve_blocks
from kvsweep.workload.generate import generate
from kvsweep.workload.traces import load_trace

BURST = {
    "workload": {
        "requests": 60,
        "rate": 2000.0,
        "prompt": {"dist": "gaussian", "mean": 120, "std": 40, "min": 8, "max": 300},
        "output": {"dist": "gaussian", "mean": 60, "std": 20, "min": 1, "max": 150},
    },
    "cluster": {"instances": 2},
    "cache": {"gpu_blocks": 120},
    "latency": {"model": "llama-3.1-8b/h100/tp2"},
}
"""A burst that presses two small pools."""

HISTORY = (
    "queued",
    "scheduled",
    "first_token",
    "finish",
    "preemptions",
    "cached_tokens",
    "instance",
)
"""What of a request's final state has a meaning outside the kernel."""


def scenario(*changes):
    """Return the scenario `BURST` with sections updated, as ``{"cache": {...}}`` says."""
    merged = {name: dict(section) for name, section in BURST.items()}
    for change in changes:
        for name, section in change.items():
            merged[name] = merged.get(name, {}) | section
            merged[name] = {key: value for key, value in merged[name].items() if value is not None}
    return validate(merged, Path())


def random_traces(seeds, max_requests=30):
    """Return traces made to provoke trouble, one per seed."""
    return [
        strategies.random_trace(random.Random(seed), max_requests, asynchronous=True)
        for seed in seeds
    ]


def inputs_of(traces):
    """Return the kernel's inputs with one lane per trace."""
    loaded = [load_trace(trace) for trace in traces]
    scenarios = [parse_scenario(item.scenario, "trace") for item in loaded]
    prepared = [
        prepare(
            item.requests,
            resolve_blocks(item.requests, made.cache.block_size, looks_ahead(made)),
        )
        for item, made in zip(loaded, scenarios, strict=True)
    ]
    return build_inputs(scenarios, prepared, np.arange(len(traces))[None, :], prune=False)


def lanes_of(scenario, seeds):
    """Return the inputs of a lane for each seed of a scenario's workload."""
    lists = [generate(scenario.workload, seed, DEFAULT_ENTROPY) for seed in seeds]
    lists = [with_acceptance(each, scenario.engine.speculative, 0) for each in lists]
    size, ahead = scenario.cache.block_size, looks_ahead(scenario)
    prepared = [prepare(each, resolve_blocks(each, size, ahead)) for each in lists]
    return build_inputs([scenario], prepared, np.arange(len(lists))[:, None], prune=False)


def run(traces):
    """Run the traces as one batch."""
    inputs = inputs_of(traces)
    outputs = allocate_outputs(inputs, keep_requests=True)
    run_lanes(inputs, outputs)
    return inputs, outputs


def lane_results(inputs, outputs, lane):
    """Return everything that a lane left, by name."""
    record = inputs.lanes[lane]
    slots = slice(record["out_lo"], record["out_lo"] + record["requests"])
    columns = ("ttft", "e2e", "delay", "preemptions", "request_status")
    found = {name: getattr(outputs, name)[slots] for name in columns}
    found |= {name: outputs.progress[name][slots] for name in HISTORY}
    found |= {f"tally {name}": outputs.tallies[name][lane] for name in outputs.tallies.dtype.names}
    found["completed"] = outputs.completed[lane, : record["instances"]]
    found["peak"] = outputs.peak_blocks[lane, : record["instances"]]
    return found


def differing(one, other):
    """Return the names of results that are not equal bit for bit."""
    assert one.keys() == other.keys()
    return [
        name
        for name in one
        if np.asarray(one[name]).tobytes() != np.asarray(other[name]).tobytes()
        and not np.array_equal(one[name], other[name])
    ]
