"""Growing a store: cells that it holds are taken over into a larger one, the others simulated.

What is taken over must be what a simulation gives, to the byte. A cell depends on its scenario, its
seed and the sources alone, but for one thing: ``pruned`` says whether it was copied from a scenario
with fewer blocks in the same task. So a cell is taken over if those scenarios are the same in the
larger sweep, and one that is simulated is simulated together with them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.config.axes import SEED
from kvsweep.simulate import smaller_of
from kvsweep.store import Array, Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.grid import Plan, Task

    Results = dict[str, NDArray[Any]]
    Simulate = Callable[[Sequence[int], Sequence[int]], Results]

STATUS_DETAIL = "status_detail"

Key = tuple[str, str | None]
"""Of a variant: all of its scenario, and its policy's name."""


@dataclass(frozen=True)
class Layout:
    """The variants of a plan, and which tasks they are simulated in.

    Attributes
    ----------
    cells : Plan
        The plan.
    prune : bool
        Whether cells are copied from smaller pools.
    """

    cells: Plan
    prune: bool
    _chains: dict[tuple[int, ...], list[tuple[int, ...]]] = field(default_factory=dict)

    @cached_property
    def keys(self) -> list[Key | None]:
        """The key of each variant; None of those that the plan is without (`Plan.only`)."""
        variants = zip(self.cells.variants, self.cells.policies, strict=True)
        return [(v.model_dump_json(), policy) if v else None for v, policy in variants]

    @cached_property
    def numbers(self) -> dict[Key, int]:
        """The position of each variant, by its key."""
        return {key: number for number, key in enumerate(self.keys) if key is not None}

    def chains(self, chosen: Sequence[int]) -> list[tuple[int, ...]]:
        """Return for each variant of a task those that it may be copied from, nearest first."""
        block = tuple(map(int, chosen))
        if block not in self._chains:
            like = smaller_of([self.cells.variants[i] for i in block]) if self.prune else {}
            found = []
            for at in range(len(block)):
                chain: list[int] = []
                while (at := like.get(at, -1)) >= 0:
                    chain.append(block[at])
                found.append(tuple(chain))
            self._chains[block] = found
        return self._chains[block]


@dataclass(frozen=True)
class Extension:
    """The cells of a store within those of a larger sweep.

    Attributes
    ----------
    source : Source
        The store.
    old, new : Layout
        Its cells, and those of the larger sweep.
    arrays : tuple of Array
        What tasks of the larger sweep write.
    """

    source: Source
    old: Layout
    new: Layout
    arrays: tuple[Array, ...]

    @cached_property
    def _old_chains(self) -> dict[tuple[int, int], tuple[int, ...]]:
        return {}

    @cached_property
    def _seeds(self) -> dict[int, int]:
        return {seed: number for number, seed in enumerate(self.old.cells.seeds)}

    def only(self, task: Task, cells: Plan) -> Extension:
        """Return what tasks with the variants of `task` need: `cells` has these, and no others.

        Of the store, the variants of all tasks in which it has one of these: they tell what a cell
        was copied from.
        """
        if cells is self.new.cells:
            return self
        keys = (self.new.keys[i] for i in self.new.cells.variant_indices(task))
        wanted = {self.old.numbers[key] for key in keys if key in self.old.numbers}
        old = self.old.cells
        old = old.with_variants(old.in_blocks_of(wanted))
        return replace(self, old=Layout(old, self.old.prune), new=Layout(cells, self.new.prune))

    def contains_all(self) -> bool:
        """Whether the larger sweep has every cell of the store."""
        return self.old.numbers.keys() <= self.new.numbers.keys() and self._seeds.keys() <= set(
            self.new.cells.seeds
        )

    def simulations(self, task: Task) -> int:
        """Return how many cells of a task are to be simulated."""
        return sum(len(v) * len(s) for v, s in self._to_simulate(task, self._known(task)))

    def results(self, task: Task, simulate: Simulate) -> Results:
        """Return what a simulation of a task gives; `simulate` is asked for what is not known."""
        known = self._known(task)
        shape = known.shape[:2]
        dims = len(self.new.cells.shape)
        results: Results = {
            a.name: np.full(shape + a.chunks[dims:], a.fill_value, a.dtype) for a in self.arrays
        }
        results[STATUS_DETAIL] = np.full(shape, "", object)
        self._take_over(known, results)
        for variants, seeds in self._to_simulate(task, known):
            found = simulate(variants, seeds)
            at = np.array(variants), np.array(seeds)
            for array in self.arrays:
                if array.name in found:
                    values = array.stored(found[array.name])
                    place = np.ix_(*at, *map(np.arange, values.shape[2:]))
                    results[array.name][place] = values
            results[STATUS_DETAIL][np.ix_(*at)] = found[STATUS_DETAIL]
        return results

    def _known(self, task: Task) -> NDArray[np.int64]:
        """Return for each cell of a task its place in the store, (variants, seeds), or -1."""
        chosen = list(map(int, self.new.cells.variant_indices(task)))
        seeds = self.new.cells.seeds_of(task)
        known = np.full((len(chosen), len(seeds)), -1)
        chains = self._numbered(self.new, chosen)
        for v, number in enumerate(chosen):
            key = self.new.keys[number]
            variant = self.old.numbers.get(key) if key else None
            for s, seed in enumerate(seeds if variant is not None else ()):
                if seed in self._seeds and variant is not None:
                    known[v, s] = self._place(variant, self._seeds[seed], chains[v])
        return known

    def _place(self, variant: int, seed: int, chain: tuple[int, ...]) -> int:
        """Return the place of a cell in the grid of the store if it can be taken over, or -1."""
        cell, task = self._cell_and_task(variant, seed)
        head = self.source.found.done.get(task)
        if head is None or head.again or self._chain(variant, task) != chain:
            return -1
        return cell

    def _cell_and_task(self, variant: int, seed: int) -> tuple[int, int]:
        cells = self.old.cells
        others = [n for n, a in zip(cells.shape, cells.axes, strict=True) if a.name != SEED]
        place = list(np.unravel_index(variant, others)) if others else []
        if SEED in cells.dims:
            place.insert(cells.dims.index(SEED), np.intp(seed))
        if not place:
            return 0, 0
        tasks = self.source.shards.sharding.tasks
        inside = [int(at) // n for at, n in zip(place, cells.chunks, strict=True)]
        return int(np.ravel_multi_index(place, cells.shape)), int(
            np.ravel_multi_index(inside, tasks)
        )

    def _chain(self, variant: int, task: int) -> tuple[int, ...]:
        """Return what a variant may have been copied from in a task of the store."""
        if (variant, task) not in self._old_chains:
            old = self.old.cells
            chosen = list(map(int, old.variant_indices(old.tasks[task])))
            chains = self._numbered(self.old, chosen)
            self._old_chains.update(
                {(v, task): chain for v, chain in zip(chosen, chains, strict=True)}
            )
        return self._old_chains[variant, task]

    def _numbered(self, layout: Layout, chosen: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the chains of a task in numbers that equal variants of both sweeps have.

        Of those that a task with other variants has (`only`) the number is -1.
        """
        known = self.new.numbers

        def number(i: int) -> int:
            key = layout.keys[i]
            return -1 if key is None else known.get(key, -1)

        return [tuple(map(number, chain)) for chain in layout.chains(chosen)]

    def _to_simulate(
        self, task: Task, known: NDArray[np.int64]
    ) -> Iterator[tuple[list[int], list[int]]]:
        """Yield positions of variants and seeds in a task that are simulated together."""
        chosen = list(map(int, self.new.cells.variant_indices(task)))
        chains = self.new.chains(chosen)
        position = {number: v for v, number in enumerate(chosen)}
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for s in range(known.shape[1]):
            wanted = set(np.flatnonzero(known[:, s] < 0).tolist())
            wanted |= {position[i] for v in tuple(wanted) for i in chains[v]}
            if wanted:
                groups[tuple(sorted(wanted))].append(s)
        for variants, seeds in groups.items():
            yield list(variants), seeds

    def _take_over(self, known: NDArray[np.int64], results: Results) -> None:
        """Copy cells of the store to their places in the results of a task."""
        cells = self.old.cells
        places = np.argwhere(known >= 0)
        if not len(places):
            return
        at = known[tuple(places.T)]
        grid = np.array(np.unravel_index(at, cells.shape)).T if cells.shape else at[:, None][:, :0]
        tasks = self._tasks_of(grid)
        order = np.argsort(tasks, kind="stable")
        found, firsts = np.unique(tasks[order], return_index=True)
        for task, here in zip(found.tolist(), np.split(order, firsts[1:]), strict=True):
            into = tuple(places[here].T)
            starts = [cut.start for cut in cells.tasks[task].region]
            inside = tuple((grid[here] - starts).T) if cells.shape else ()
            for name, block in self.source.values(task):
                if name in results:
                    values = block[inside] if inside else block[None]
                    results[name][(*into, *map(slice, values.shape[1:]))] = values
            texts = self.source.texts(task)
            results[STATUS_DETAIL][into] = [texts.get(int(cell), "") for cell in at[here]]

    def _tasks_of(self, grid: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the tasks of the store in which cells are, by their places in the grid."""
        if not grid.shape[1]:
            return np.zeros(len(grid), np.int64)
        inside = tuple((grid // self.old.cells.chunks).T)
        return np.asarray(np.ravel_multi_index(inside, self.source.shards.sharding.tasks))
