"""From a sweep to labelled cells and to the tasks that fill them; nothing is written.

A *variant* is a scenario: one combination of every axis but the seed. A *cell* is a variant with a
seed: one simulation. A *task* is a block of cells and at the same time one whole chunk of the
store, so that tasks can be written in any order, and again, without touching each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from kvsweep.asked import check_analysis, check_levels
from kvsweep.config.axes import POLICY, SEED, Axis
from kvsweep.config.service_levels import levels_given, same_but_levels
from kvsweep.limits import MAX_TASKS
from kvsweep.metrics import VARIABLES, Variable, coordinates
from kvsweep.nominal import SECONDS_TO_DRAW, seconds_of_variant
from kvsweep.policies import RULES
from kvsweep.survey import survey
from kvsweep.workload.requests import ordered_classes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kvsweep.config import Scenario, Sweep

Block: TypeAlias = tuple[tuple[int, int], ...]
"""Start and stop of the variants of a task along each axis but the seed."""

# A chunk is a 32nd of the sweep, so that many workers share the work evenly, within limits: under
# 0.1 s the fixed cost of a task and of its file (about 10 ms) shows; over 1 s progress stutters
# and a killed run loses more. But the scheduler and this process need some 1 ms for a task, so from
# 10,000 of them on they grow, to a minute, which is what a lost worker costs then. 16 MiB bounds
# what a worker holds.
CHUNKS_WANTED = 32
CHUNK_SECONDS = (0.1, 1.0)
TASKS_WANTED = 10_000
LONGEST_SECONDS = 60.0
CHUNK_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Task:
    """A block of cells that is one whole chunk of the store.

    Attributes
    ----------
    index : int
        Position in `Plan.tasks`.
    region : tuple of slice
        The cells, one slice per dimension of the grid, aligned with the chunks.
    """

    index: int
    region: tuple[slice, ...]


@dataclass(frozen=True)
class Plan:
    """The cells of a sweep and their division into tasks.

    Attributes
    ----------
    axes : tuple of Axis
        Axes in dimension order, the seeds among them if the sweep has such an axis.
    variants : tuple of Scenario
        All combinations of the axes but the seed, the last axis fastest.
    policies : tuple of str or None
        The policy name of each variant, None if the sweep has no such axis.
    seeds : tuple of int
        The seeds of every variant; ``(0,)`` without a dimension if the sweep has no seed axis.
    chunks : tuple of int
        Cells of one chunk along each dimension. They follow from the sweep alone, never from
        workers or measured speed: equal sweeps give equal stores.
    extra : dict of str to tuple
        Coordinates of the dimensions that variables have beyond the grid's own.
    seconds : float
        Processor seconds of the whole sweep by nominal costs, which decide `chunks`; a forecast is
        another thing (`kvsweep.forecast`).
    requests : int
        The longest request list.
    """

    axes: tuple[Axis, ...]
    variants: tuple[Scenario, ...]
    policies: tuple[str | None, ...]
    seeds: tuple[int, ...]
    chunks: tuple[int, ...]
    extra: dict[str, tuple[Any, ...]]
    seconds: float
    requests: int

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dimensions, in grid order."""
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values along each dimension."""
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def cells(self) -> int:
        """Number of cells, which is the number of simulations."""
        return math.prod(self.shape)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of a cell: those whose dimensions, rule books and levels the sweep has."""
        rules = {variant.engine.rules for variant in self.variants}
        levels = levels_given(self.variants)
        return tuple(v for v in VARIABLES.values() if v.is_in(self.extra, rules, levels))

    @property
    def bytes(self) -> int:
        """Size of all cells in memory, names of cells and requests left out."""
        return self.cells * _bytes_per_cell(self.extra, levels_given(self.variants))

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks, the last dimension fastest."""
        pieces = [_pieces(n, step) for n, step in zip(self.shape, self.chunks, strict=True)]
        return tuple(Task(i, region) for i, region in enumerate(product(*pieces)))

    def block_shape(self, task: Task) -> tuple[int, ...]:
        """Return the number of cells of `task` along each dimension."""
        return tuple(cut.stop - cut.start for cut in task.region)

    def size(self, task: Task) -> int:
        """Return the number of cells of `task`."""
        return math.prod(self.block_shape(task))

    def variant_block(self, task: Task) -> Block:
        """Return which variants a task has, to compare: the start and stop along each axis."""
        cuts = zip(task.region, self.axes, strict=True)
        return tuple((cut.start, cut.stop) for cut, axis in cuts if axis.name != SEED)

    def variant_indices(self, task: Task) -> NDArray[np.intp]:
        """Return the positions in `variants` of the scenarios of `task`, in block order."""
        shape = [n for n, axis in zip(self.shape, self.axes, strict=True) if axis.name != SEED]
        cuts = [slice(*cut) for cut in self.variant_block(task)]
        positions = np.arange(len(self.variants)).reshape(shape)
        return positions[tuple(cuts)].ravel()

    def only(self, task: Task) -> Plan:
        """Return the plan for tasks with the variants of `task`, without all others.

        Of 154,722 variants the whole plan takes 30 MB to send, and 0.3 GB where it arrives.
        """
        return self.with_variants(set(self.variant_indices(task).tolist()))

    def in_blocks_of(self, wanted: Collection[int]) -> set[int]:
        """Return the positions of all variants that share a task with some of `wanted`."""
        sizes = [
            (n, step)
            for n, step, axis in zip(self.shape, self.chunks, self.axes, strict=True)
            if axis.name != SEED
        ]
        shape = [n for n, _ in sizes]
        if not shape:
            return set(wanted)
        places = np.unravel_index(np.arange(len(self.variants)), shape)
        inside = [at // step for at, (_, step) in zip(places, sizes, strict=True)]
        blocks = np.ravel_multi_index(inside, [math.ceil(n / step) for n, step in sizes])
        return set(np.flatnonzero(np.isin(blocks, blocks[list(wanted)])).tolist())

    def with_variants(self, kept: set[int]) -> Plan:
        """Return the plan with None in place of all variants but those at the positions `kept`."""
        if len(kept) == len(self.variants):
            return self
        found = (v if i in kept else None for i, v in enumerate(self.variants))
        variants = cast("tuple[Scenario, ...]", tuple(found))
        named = enumerate(self.policies)
        policies = tuple(policy if i in kept else None for i, policy in named)
        return replace(self, variants=variants, policies=policies)

    def seeds_of(self, task: Task) -> tuple[int, ...]:
        """Return the seeds of `task`."""
        if SEED not in self.dims:
            return self.seeds
        return self.seeds[task.region[self.dims.index(SEED)]]

    def arrange(self, task: Task, values: NDArray[Any]) -> NDArray[Any]:
        """Give results of `task`, shape (variants, seeds, ...), the dimensions of the grid."""
        extra = values.shape[2:]
        if SEED not in self.dims:
            return values.reshape((*self.block_shape(task), *extra))  # perhaps no axis at all
        at = self.dims.index(SEED)
        others = [n for i, n in enumerate(self.block_shape(task)) if i != at]
        values = values.reshape(*others, values.shape[1], *extra)
        order = list(range(values.ndim))
        order.insert(at, order.pop(len(others)))
        return values.transpose(order)

    def labels(self, cell: Sequence[int]) -> str:
        """Return the cell at position `cell` in words: ``policy=least-loaded gpu_blocks=1000``."""
        pairs = zip(self.axes, cell, strict=True)
        return " ".join(f"{axis.name}={axis.values[i]}" for axis, i in pairs)


def plan(sweep: Sweep, *, keep_requests: bool = False) -> Plan:
    """Lay out the cells of `sweep`; every scenario is built, and so checked, here.

    Parameters
    ----------
    sweep : Sweep
        The sweep.
    keep_requests : bool
        Per-request columns are stored too, which makes for smaller chunks.

    Raises
    ------
    InputError
        If a combination of axis values is no valid scenario, a trace cannot be read, there is no
        measure that the sweep's analysis asks for, or there are more tasks than are possible.
    """
    axes = sweep.axes
    others = [axis for axis in axes if axis.name != SEED]
    seeds = next((axis.values for axis in axes if axis.name == SEED), (0,))
    combinations = product(*(axis.values for axis in others))
    points = [dict(zip([a.name for a in others], c, strict=True)) for c in combinations]
    variants = tuple(sweep.scenario(point) for point in points)
    policies = tuple(point.get(POLICY) for point in points)
    lists = survey(sweep, variants, policies, seeds)
    extra = coordinates(
        instances=max(v.cluster.instances for v in variants),
        rounds=max(found.rounds for found in lists),
        slo_classes=ordered_classes(name for found in lists for name in found.slo_classes),
        requests=max(found.requests for found in lists) if keep_requests else 0,
    )
    extra = {name: values for name, values in extra.items() if values}
    levels = levels_given(variants)
    check_levels(sweep, variants, extra)
    check_analysis(sweep, extra, levels)
    distinct = {(id(found), policy): found for found, policy in zip(lists, policies, strict=True)}
    drawn = sum(found.requests for found in distinct.values())
    runs = sorted(set(same_but_levels(variants)))
    costs = (seconds_of_variant(variants[v], lists[v]) for v in runs)
    seconds = drawn * SECONDS_TO_DRAW + sum(costs)
    chunks = _chunk_shape(axes, seconds / len(variants), _bytes_per_cell(extra, levels))
    _check_tasks(sweep, chunks)
    longest = max(found.requests for found in lists)
    return Plan(axes, variants, policies, seeds, chunks, extra, len(seeds) * seconds, longest)


def _check_tasks(sweep: Sweep, chunks: Sequence[int]) -> None:
    sizes = [len(axis.values) for axis in sweep.axes]
    tasks = math.prod(math.ceil(n / step) for n, step in zip(sizes, chunks, strict=True))
    if tasks > MAX_TASKS:
        raise sweep.source.error(
            ("grid",),
            f"{math.prod(sizes):,} cells in {tasks:,} tasks, at most {MAX_TASKS:,} make a sweep; "
            "use fewer axes or values, or several sweeps",
        )


def _bytes_per_cell(extra: Mapping[str, Sequence[Any]], levels: Sequence[str]) -> int:
    chosen = (v for v in VARIABLES.values() if v.is_in(extra, RULES, levels))
    return sum(8 * math.prod(len(extra[d]) for d in v.dims) for v in chosen)


def _pieces(length: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def _chunk_shape(
    axes: Sequence[Axis], seconds_per_cell: float, bytes_per_cell: int
) -> tuple[int, ...]:
    """Choose the cells of a chunk along each axis: seeds are divided first, then leading axes.

    A chunk of all variants and some seeds generates each request list once, and all such chunks
    cost the same, whatever a small cache does to the cost of a cell.
    """
    total = seconds_per_cell * math.prod(len(axis.values) for axis in axes)
    seconds = np.clip(total / CHUNKS_WANTED, *CHUNK_SECONDS)
    seconds = max(seconds, min(total / TASKS_WANTED, LONGEST_SECONDS))
    cells = max(1, int(min(seconds / seconds_per_cell, CHUNK_BYTES / bytes_per_cell)))
    sizes = {axis.name: len(axis.values) for axis in axes}
    order = [a.name for a in axes if a.name == SEED] + [a.name for a in axes if a.name != SEED]
    rest = math.prod(sizes.values())
    for name in order:
        rest //= sizes[name]
        sizes[name] = _even_part(sizes[name], cells // rest)
    return tuple(sizes[axis.name] for axis in axes)


def _even_part(length: int, at_most: int) -> int:
    """Return the length of the parts when `length` is cut into the fewest even parts."""
    parts = math.ceil(length / max(1, at_most))
    return math.ceil(length / parts)
