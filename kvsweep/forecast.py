"""How long a sweep will take: a few of its cells are simulated, for a second or so."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kvsweep import _cache, simulate
from kvsweep.config.axes import SEED
from kvsweep.processors import usable_processors
from kvsweep.scatter import in_rows, scattered
from kvsweep.simulate.request_lists import RequestLists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kvsweep.config import Sweep
    from kvsweep.grid import Block, Plan

BUDGET_S = 1.0
"""Processor seconds after which no further cells are simulated; what is begun is not broken off.

On a busy machine it takes longer, but not more than `PATIENCE_S` by the clock.
"""
PATIENCE_S = 3.0
BATCH_S = 0.1
"""Seconds that a batch should take, so that what a batch takes beside its cells is little."""
# Requests of the first lists, and how much longer the next ones are, until they are whole.
SHORT, LONGER = 500, 8

# What a run does beside simulating, processor seconds: to begin and end (libraries, workers,
# opening and packing the store), a task's files (the writer is one thread), and the figure of a
# cliff. Rough values of one machine, not measured here and now: what they are of a run that
# simulates for long does not matter, and of a short one a second is what is promised.
START_S = 1.7
TASK_S = 0.012
FIGURE_S = 1.0
# How far off a forecast may be even where all cells that were tried were alike.
DOUBT = 1.3
NOMINAL_DOUBT = 5.0
# Batches that say too little of how they differ.
FEW, FEW_DOUBT = 4, 4.0


@dataclass(frozen=True)
class Forecast:
    """Estimated wall-clock time of a run.

    Attributes
    ----------
    seconds : float
        All in all.
    low, high : float
        Range that the time lies in, most likely.
    tried : int
        Cells that were simulated to tell; 0 if none is to do, or the kernel is not compiled yet, so
        that nominal costs are all there is.
    compiling : float
        Seconds of it that the kernel is compiled.
    busy : float
        How often as long as its processor time a simulation took now, as others use the processors
        too; at least 1, and so much is in `seconds`.
    processor : float
        Processor seconds of all threads together, whatever else the machine does.
    """

    seconds: float
    low: float
    high: float
    tried: int
    compiling: float = 0.0
    busy: float = 1.0
    processor: float = 0.0


@dataclass
class _Sample:
    """Batches of cells that were simulated.

    Attributes
    ----------
    list_seconds : float
        To draw or read a request list, and to find its block keys.
    cells : list of int
        Of each batch.
    seconds : list of float
        Processor time of each batch, its lists left out, as if it had had whole ones.
    busy : float
        Time by the clock over processor time.
    """

    list_seconds: float
    cells: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    busy: float = 1.0

    def mean(self) -> tuple[float, float]:
        """Return the seconds of a cell, and by which factor they may be off."""
        cells, seconds = np.array(self.cells), np.array(self.seconds)
        mean = seconds.sum() / cells.sum()
        if len(cells) < FEW:
            return float(mean), FEW_DOUBT
        # Of a ratio of sums: batches differ by the cells that they have.
        spread = np.sqrt(((seconds - mean * cells) ** 2).sum() / (len(cells) - 1))
        error = spread * math.sqrt(len(cells)) / seconds.sum()
        return float(mean), float(1 + 2 * error)


def forecast(
    sweep: Sweep,
    plan: Plan,
    *,
    simulations: int,
    tasks: int,
    workers: int,
    processes: bool = False,
    prune: bool = True,
    planning: float = 0.0,
) -> Forecast:
    """Estimate the time of a run.

    Parameters
    ----------
    sweep, plan : Sweep, Plan
        What is to run.
    simulations, tasks : int
        Cells and tasks that are still to do.
    workers : int
        Threads or processes that simulate at once.
    processes, prune : bool
        As for `kvsweep.run`.
    planning : float
        Processor seconds that laying the plan took, which a run does again.

    Returns
    -------
    Forecast
        Of a run on a machine that is as busy as now.
    """
    begun = planning + START_S + (FIGURE_S if sweep.cliff else 0.0)
    if not simulations:
        return Forecast(begun, begun / DOUBT, begun * DOUBT, 0, processor=begun)
    # The replica is Python, of which threads run one at a time.
    replica = sum(variant.engine.rules != "vllm" for variant in plan.variants) / len(plan.variants)
    entries = simulate.kernel_entries(plan.variants)
    missing = sum(not simulate.is_compiled([name]) for name in entries)
    if missing:
        compiling, busy, tried = float(_cache.seconds * missing), 1.0, 0
        each, doubt = plan.seconds / plan.cells, NOMINAL_DOUBT
    else:
        sample = _try_out(sweep, plan, prune)
        compiling, busy, tried = 0.0, sample.busy, sum(sample.cells)
        each, doubt = sample.mean()
        each += sample.list_seconds * _lists_of_tasks(plan) / plan.cells
    serial = replica if not processes else 0.0
    at_once = tasks / math.ceil(tasks / min(workers, usable_processors()))
    work = max(each * simulations * (serial + (1 - serial) / at_once), TASK_S * tasks)
    begun += compiling
    doubt *= DOUBT
    return Forecast(
        seconds=busy * (begun + work),
        low=begun / DOUBT + work / doubt,
        high=busy * (begun * DOUBT + work * doubt),
        tried=tried,
        compiling=compiling,
        busy=busy,
        processor=begun + each * simulations + TASK_S * tasks,
    )


def _lists_of_tasks(plan: Plan) -> int:
    """Return how many request lists all tasks make: each has those that its cells need."""
    of_block: dict[Block, int] = {}  # of 10,000 tasks most have the variants of others
    total = 0
    for task in plan.tasks:
        block = plan.variant_block(task)
        if block not in of_block:
            of_block[block] = _lists(plan, plan.variant_indices(task))
        total += of_block[block] * len(plan.seeds_of(task))
    return total


def _try_out(sweep: Sweep, plan: Plan, prune: bool) -> _Sample:
    """Simulate batches of cells, in an order that spreads them over the grid."""
    begun, worked = time.perf_counter(), time.thread_time()
    sizes = [len(axis.values) for axis in plan.axes if axis.name != SEED] or [1]
    single, rows = scattered(sizes), in_rows(sizes)
    first = [next(single)]
    sample = _Sample(_list_seconds(sweep, plan, first[0]))

    def simulated(chosen: Sequence[int], seeds: int, limit: int | None) -> float:
        lists = _lists(plan, chosen) * seeds
        took = _seconds(sweep, plan, chosen, seeds, limit, prune)
        return max(took - lists * sample.list_seconds, 0.1 * took)

    limit, scale, cost = _longest_lists(plan, partial(simulated, first, 1))
    while time.thread_time() < worked + BUDGET_S and time.perf_counter() < begun + PATIENCE_S:
        wanted = max(1, int(BATCH_S / max(cost, 1e-5)))
        order = single if wanted < sizes[-1] else rows
        chosen = [next(order) for _ in range(min(wanted, len(plan.variants)))]
        seeds = min(max(1, wanted // len(chosen)), len(plan.seeds))
        took = simulated(chosen, seeds, limit)
        cost = took / (len(chosen) * seeds)
        sample.cells.append(len(chosen) * seeds)
        sample.seconds.append(took * scale)
        if sum(sample.cells) >= 2 * len(plan.variants) * len(plan.seeds):
            break  # each of so few was tried twice
    if not sample.cells:
        sample.cells, sample.seconds = [1], [cost * scale]
    sample.busy = max(1.0, (time.perf_counter() - begun) / (time.thread_time() - worked))
    return sample


def _lists(plan: Plan, chosen: Iterable[int]) -> int:
    """Return how many request lists these variants have, for each seed."""
    return len({plan.variants[i].workload for i in chosen})


def _list_seconds(sweep: Sweep, plan: Plan, variant: int) -> float:
    """Make a request list of a variant, and return the processor time.

    The first loads what numbers blocks too, 50 ms; where that shows, it is made again.
    """
    took = _one_list_seconds(sweep, plan, variant)
    return took if took > BATCH_S else min(took, _one_list_seconds(sweep, plan, variant))


def _one_list_seconds(sweep: Sweep, plan: Plan, variant: int) -> float:
    begun = time.thread_time()
    scenario = plan.variants[variant]
    lists = RequestLists(sweep.entropy, sweep.base_dir)
    lists.load([scenario], plan.seeds[:1], [plan.policies[variant]])
    if scenario.engine.rules == "vllm":
        lists.prepared([lists.kind(0, scenario)])
    return time.thread_time() - begun


def _longest_lists(
    plan: Plan, simulated: Callable[[int | None], float]
) -> tuple[int | None, float, float]:
    """Find how long lists may be for some cells to fit into the budget.

    Returns
    -------
    int or None, float, float
        Requests of the lists, None if whole; how often that goes into a whole one; and the seconds
        of a cell with such lists.
    """
    warmups = (v.workload.warmup for v in plan.variants if v.workload)
    limit, longest = max(SHORT, 2 * max(warmups)), plan.requests
    simulated(limit)  # loads the kernel
    while True:
        if limit >= longest:
            return None, 1.0, simulated(None)
        took = simulated(limit)
        if LONGER * took > BUDGET_S / 2:
            return limit, _times_longer(limit, longest, took, simulated), took
        limit *= LONGER


def _times_longer(
    limit: int, longest: int, took: float, simulated: Callable[[int | None], float]
) -> float:
    """Return how often the seconds of some first requests go into those of all.

    By a line through two numbers of them: 64 instances take a while to begin, whatever they serve.
    """
    fewer = limit * 3 // 4
    each = (took - simulated(fewer)) / (limit - fewer)
    if not 0.0 < each < took / limit:
        return longest / limit
    return 1.0 + each * (longest - limit) / took


def _seconds(
    sweep: Sweep, plan: Plan, chosen: Sequence[int], seeds: int, limit: int | None, prune: bool
) -> float:
    """Simulate some variants with the first seeds, and return the processor time."""
    begun = time.thread_time()
    simulate.simulate_batch(
        [plan.variants[i] for i in chosen],
        plan.seeds[:seeds],
        entropy=sweep.entropy,
        policies=[plan.policies[i] for i in chosen],
        base_dir=sweep.base_dir,
        slo_classes=plan.extra.get("slo_class", ()),
        prune=prune,
        first_requests=limit,
    )
    return time.thread_time() - begun
