"""Entries of the kernel: each is compiled for lanes that lack some features, without their code.

What a feature costs others, to compile and to run, is nothing: an entry gets LANE records that lack
the fields of the features that none of its lanes has, and the compiler takes a field that is not
there as 0 (`_compiler`). An entry is compiled when first asked for.
"""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _cache, _jit
from ..config import Scenario
from ..config.fleet import fleet, is_explicit
from ..config.groups import is_hybrid
from ..kernel import engine
from ..records import (
    APART,
    ASYNC,
    CONNECTOR,
    DRAFTS,
    EXPLICIT,
    GROUPS,
    LANE,
    MOVES,
    NO_CONNECTOR,
    NO_EXPLICIT,
    NO_MOVES,
    PIPELINE,
    RARE,
    STATES,
    TIERS,
    Inputs,
    Outputs,
    Workspace,
)
from .entry import Entry
from .lane_records import lane_record


def _rare_but(*names: str) -> tuple[str, ...]:
    return tuple(name for name in RARE if name not in names)


_EXPLICIT = (*NO_EXPLICIT, *CONNECTOR, *MOVES, *PIPELINE)
# What live servers and benchmarks have, asynchronous steps and closed loops, cost others nothing.
_LEAN = (*_EXPLICIT, *_rare_but("concurrency"))
_WITH_WINDOW = (*_EXPLICIT, *_rare_but("concurrency", "reach"))  # where hybrid models are
USUAL = Entry(engine.run_batch, (*ASYNC, *RARE, *CONNECTOR, *EXPLICIT), "first run")
# From few features to many: a lane goes to the first that covers it.
ALL: tuple[Entry, ...] = (
    USUAL,
    Entry(engine.run_async, (*RARE, *CONNECTOR, *EXPLICIT), "first run with async_scheduling"),
    Entry(
        engine.run_tiered,
        (*ASYNC, *_rare_but(*TIERS), *CONNECTOR, *EXPLICIT),
        "first run with a CPU tier of kvsweep's own",
        more=10,
    ),
    Entry(engine.run_rare, (*CONNECTOR, *EXPLICIT), "first run with rarer features", more=20),
    Entry(
        engine.run_connected,
        (*NO_CONNECTOR, *ASYNC, *RARE, *EXPLICIT),
        'first run with offload = "vllm"',
        more=30,
    ),
    Entry(
        engine.run_connected_rare,
        (*NO_CONNECTOR, *TIERS, *EXPLICIT),
        'first run with offload = "vllm" and rarer features',
        more=30,
    ),
    Entry(
        engine.run_groups,
        (*_WITH_WINDOW, *STATES, *DRAFTS, *APART),
        "first run with groups or pools",
        more=30,
    ),
    Entry(engine.run_drafts, (*_LEAN, *GROUPS, *STATES, *APART), "first run with drafts", more=20),
    Entry(
        engine.run_apart,
        (*_LEAN, *GROUPS, *STATES, *DRAFTS),
        "first run with prefill and decode apart",
        more=20,
    ),
    Entry(
        engine.run_apart_rare,
        (*_EXPLICIT, *_rare_but("concurrency", "lease"), *GROUPS, *STATES),
        "first run with prefill and decode apart, and drafts or leases beside",
        more=40,
    ),
    Entry(
        engine.run_explicit,
        (*_EXPLICIT, *STATES, *_rare_but("concurrency", "lease", "reach", "first_steps")),
        "first run with groups and drafts, or with rarer features beside",
        more=50,
    ),
    Entry(
        engine.run_moving,
        (
            *(*NO_EXPLICIT, *CONNECTOR, *NO_MOVES, *PIPELINE, *STATES, *APART),
            *_rare_but("concurrency", "reach", "first_steps"),
        ),
        'first run with offload = "vllm" and groups, drafts or pools',
        more=30,
    ),
    Entry(
        engine.run_moving_states,
        (
            *(*NO_EXPLICIT, *CONNECTOR, *NO_MOVES, *PIPELINE, *APART, "windows"),
            *_rare_but("concurrency", "reach", "first_steps"),
        ),
        'first run with offload = "vllm" and groups of states',
        more=40,
    ),
    Entry(
        engine.run_apart_moving,
        (
            *(*NO_EXPLICIT, *CONNECTOR, *NO_MOVES, *PIPELINE),
            *_rare_but("concurrency", "lease", "reach", "first_steps"),
        ),
        'first run with offload = "vllm", and prefill and decode apart',
        more=50,
    ),
    Entry(
        engine.run_states,
        (*_EXPLICIT, *_rare_but("concurrency", "reach", "first_steps"), "windows", *APART),
        "first run with groups of states",
        more=30,
    ),
    Entry(
        engine.run_apart_states,
        (*_EXPLICIT, *_rare_but("concurrency", "lease", "reach", "first_steps"), "windows"),
        "first run with groups of states, and prefill and decode apart",
        more=40,
    ),
    Entry(
        engine.run_pipelines,
        (
            *(*NO_EXPLICIT, *CONNECTOR, *MOVES, *_rare_but("concurrency")),
            *(*GROUPS, *STATES, *DRAFTS, *APART),
        ),
        "first run with pipelines",
        more=20,
    ),
    Entry(
        engine.run_pipelines_rare,
        (
            *(*NO_EXPLICIT, *CONNECTOR, *MOVES, *APART),
            *_rare_but("concurrency", "reach", "first_steps"),
        ),
        "first run with pipelines, and groups or drafts beside",
        more=50,
    ),
)
ENTRIES = ALL
FEW = (
    *("run_batch", "run_rare", "run_connected_rare"),
    *("run_explicit", "run_apart_moving", "run_apart_states"),
    "run_pipelines_rare",
)
"""Names of entries that cover all lanes: less to compile where all features are needed."""

if not _jit.prunes:  # each would be compiled with all features
    USUAL = Entry(engine.run_batch, (), "first run")
    ENTRIES = (USUAL,)
elif os.environ.get("KVSWEEP_FEW_ENTRIES", "0") not in ("", "0"):
    ENTRIES = tuple(entry for entry in ALL if entry.name in FEW)


def needed(scenarios: Iterable[Scenario]) -> list[Entry]:
    """Return the fewest entries that run all of some scenarios under vLLM's rules."""
    # A LANE record takes 70 us to fill, and a sweep may have many scenarios but few kinds of them.
    kinds = {_kind(item): item for item in scenarios if item.engine.rules == "vllm"}
    return needed_for(np.array([lane_record(item) for item in kinds.values()], LANE))


def _kind(scenario: Scenario) -> tuple[object, ...]:
    """Return all of a scenario that decides which fields of its LANE record are 0."""
    cache, engine = scenario.cache, scenario.engine
    return (
        *(cache.cpu_blocks > 0, cache.offload, cache.eviction),
        *(is_explicit(scenario), is_hybrid(cache.groups), engine.drafts > 0),
        engine.pipeline_parallel_size > 1,
        any(group.kind == "state" for group in cache.groups),
        scenario.cluster.prefill_instances,
        *(engine.async_scheduling, engine.victim, engine.scheduler, engine.preempt_for_urgent),
        bool(scenario.latency.first_steps_us),
        bool(scenario.latency.window) or any(pool.window for pool in fleet(scenario)),
        scenario.cluster.kv_lease_us is None,
        bool(scenario.workload and scenario.workload.concurrency),
    )


def needed_for(lanes: NDArray[Any]) -> list[Entry]:
    """Return the fewest entries that run all of some lanes.

    Who runs some of them runs those of fewer features too, hardly slower than their own entry.
    """
    left = np.ones(len(lanes), bool)
    found: list[Entry] = []
    for entry in ENTRIES:
        own = left & entry.covers(lanes)
        left &= ~own
        if own.any():
            found = [other for other in found if not set(entry.absent) < set(other.absent)]
            found.append(entry)
    return found


def run(inputs: Inputs, workspace: Workspace, outputs: Outputs, numbers: NDArray[np.int64]) -> None:
    """Run the lanes of these numbers, each by the entry of the fewest features that is there.

    What is needed and not there is compiled.
    """
    lanes = inputs.lanes[numbers]
    usual = ENTRIES[0]
    wanted = [usual] if usual.loaded and usual.covers(lanes).all() else needed_for(lanes)
    left = np.ones(len(lanes), bool)
    for entry in ENTRIES:
        if entry.loaded or entry in wanted:
            own = left & entry.covers(lanes)
            left &= ~own
            if own.any():
                if not (entry.loaded or entry.cached):
                    _cache.tell(entry.message)  # nobody warmed it up
                entry(inputs, workspace, outputs, numbers[own])
        if not left.any():
            break
