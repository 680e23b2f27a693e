"""Entries of the kernel: each is compiled for lanes that lack some features, without their code.

What a feature costs others, to compile and to run, is nothing: an entry gets LANE records that lack
the fields of the features that none of its lanes has, and the compiler takes a field that is not
there as 0 (`_compiler`). An entry is compiled when first asked for.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
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
    NO_CONNECTOR,
    NO_EXPLICIT,
    PIPELINE,
    RARE,
    STATES,
    TIERS,
    Inputs,
    Outputs,
    Workspace,
    without,
)
from .lane_records import lane_record


@dataclass(frozen=True)
class Entry:
    """One entry of the kernel.

    Attributes
    ----------
    run : callable (Inputs, Workspace, Outputs, int64 (n,))
        It runs the lanes of these numbers.
    absent : tuple of str
        Fields of LANE that are 0 in all lanes that it can run.
    first : str
        Which run is the first to need it, for a message.
    more : int
        Seconds that it takes longer to compile than the usual one.
    """

    run: Callable[..., None]
    absent: tuple[str, ...]
    first: str
    more: int = 0

    @property
    def name(self) -> str:
        """Name of the entry."""
        return self.run.__name__

    @property
    def loaded(self) -> bool:
        """Whether this process has its code."""
        return _plain(self.run) or bool(self.run.signatures)  # type: ignore[attr-defined]

    @property
    def cached(self) -> bool:
        """Whether its code is in the cache folder, or it runs as plain Python, which needs none."""
        if _plain(self.run):
            return True
        folder = self.run.stats.cache_path  # type: ignore[attr-defined]
        return bool(folder and any(Path(folder).glob(f"engine.{self.name}-*.nbc")))

    @property
    def message(self) -> str:
        """What a user is told who waits for it."""
        seconds = _cache.seconds + _cache.steeper * self.more
        return f"compiling the kernel ({self.first} only, about {seconds} s)"

    @cached_property
    def lane(self) -> np.dtype[Any]:
        """LANE without the fields that are absent."""
        return without(LANE, self.absent)

    @cached_property
    def _bytes(self) -> NDArray[np.int64]:
        """Where in a LANE record the fields are that are absent."""
        fields = (LANE.fields or {}).items()
        places = [range(f[1], f[1] + f[0].itemsize) for name, f in fields if name in self.absent]
        return np.array([place for each in places for place in each], np.int64)

    def covers(self, lanes: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which lanes it can run: all that is absent is 0."""
        # All bytes at once: field by field it took 2 % of a simulation in batches of 30.
        content = lanes.view(np.uint8).reshape(len(lanes), LANE.itemsize)
        found: NDArray[np.bool_] = np.logical_not(content[:, self._bytes].any(axis=1))
        return found

    def __call__(
        self, inputs: Inputs, workspace: Workspace, outputs: Outputs, numbers: NDArray[np.int64]
    ) -> None:
        """Run the lanes of these numbers, in their order."""
        inputs = inputs._replace(lanes=inputs.lanes.view(self.lane))
        workspace = workspace._replace(own=workspace.own.view(self.lane))
        self.run(inputs, workspace, outputs, numbers)


def _plain(run: Callable[..., None]) -> bool:
    """Return whether nothing is compiled, as ``NUMBA_DISABLE_JIT`` asks for."""
    return not hasattr(run, "signatures")


def _rare_but(*names: str) -> tuple[str, ...]:
    return tuple(name for name in RARE if name not in names)


_EXPLICIT = (*NO_EXPLICIT, *CONNECTOR, *PIPELINE)
_LEAN = (*_EXPLICIT, *ASYNC, *RARE)
_WITH_WINDOW = (*_EXPLICIT, *ASYNC, *_rare_but("reach"))  # where hybrid models are
USUAL = Entry(engine.run_batch, (*ASYNC, *RARE, *CONNECTOR, *EXPLICIT), "first run")
# From few features to many: a lane goes to the first that covers it.
ALL: tuple[Entry, ...] = (
    USUAL,
    Entry(engine.run_async, (*RARE, *CONNECTOR, *EXPLICIT), "first run with async_scheduling"),
    Entry(
        engine.run_tiered,
        (*ASYNC, *_rare_but(*TIERS), *CONNECTOR, *EXPLICIT),
        "first run with a CPU tier of kvsweep's own",
        more=20,
    ),
    Entry(engine.run_rare, (*CONNECTOR, *EXPLICIT), "first run with rarer features", more=30),
    Entry(
        engine.run_connected,
        (*NO_CONNECTOR, *ASYNC, *RARE, *EXPLICIT),
        'first run with offload = "vllm"',
        more=40,
    ),
    Entry(
        engine.run_connected_rare,
        (*NO_CONNECTOR, *TIERS, *EXPLICIT),
        'first run with offload = "vllm" and rarer features',
        more=50,
    ),
    Entry(
        engine.run_groups,
        (*_WITH_WINDOW, *STATES, *DRAFTS, *APART),
        "first run with groups or pools",
        more=10,
    ),
    Entry(engine.run_drafts, (*_LEAN, *GROUPS, *STATES, *APART), "first run with drafts", more=10),
    Entry(
        engine.run_apart,
        (*_LEAN, *GROUPS, *STATES, *DRAFTS),
        "first run with prefill and decode apart",
        more=20,
    ),
    Entry(
        engine.run_explicit,
        (*_EXPLICIT, *STATES, *_rare_but("concurrency", "lease", "reach")),
        "first run with several of groups, drafts, roles, or with rarer features beside",
        more=40,
    ),
    Entry(
        engine.run_states,
        (*_EXPLICIT, *_rare_but("concurrency", "reach"), "windows", *APART),
        "first run with groups of states",
        more=20,
    ),
    Entry(
        engine.run_pipelines,
        (*NO_EXPLICIT, *CONNECTOR, *_rare_but("concurrency", "reach"), *APART),
        "first run with pipelines",
        more=30,
    ),
)
ENTRIES = ALL
FEW = ("run_batch", "run_rare", "run_connected_rare", "run_explicit", "run_states", "run_pipelines")
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
