"""Searches of all groups side by side: their simulations are shared out over threads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import isnan
from typing import Any

import numpy as np

from kvsweep import simulate
from kvsweep.config.axes import POLICY, RATES
from kvsweep.processors import usable_processors
from kvsweep.search.aims import Ask, Enough, Found, Given
from kvsweep.search.misleading import Watch, read_of
from kvsweep.search.problem import Labels, Problem
from kvsweep.search.root import Search
from kvsweep.search.samples import Floats

LOOK_EVERY = 0.2
"""Seconds between two looks whether the user has pressed Ctrl-C."""


@dataclass(frozen=True)
class Job:
    """Simulations that are done together: values of the axis with the same seeds."""

    group: int
    values: tuple[float, ...]
    first: int
    last: int

    @property
    def simulations(self) -> int:
        """Their number."""
        return len(self.values) * (self.last - self.first)


@dataclass(frozen=True)
class Simulated:
    """What a job gave.

    Attributes
    ----------
    excess : float64 (values, targets, seeds)
        As in `Samples`; where whole cells are asked for, those that drop requests have no value.
    dropping : frozenset of float
        Values at which requests are dropped, where cells need not be whole.
    read : dict of str to float64 (values, seeds)
        As `misleading.read_of` returns it.
    """

    excess: Floats
    dropping: frozenset[float]
    read: dict[str, Floats]


@dataclass
class _Running:
    """A search and what it waits for."""

    search: Search
    steps: Generator[Ask, Given, Found]
    parts: dict[float, list[tuple[int, Floats]]]
    missing: int = 0
    watch: Watch = field(default_factory=Watch)


def run(
    problem: Problem,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    notify: Callable[[str], None] | None = None,
) -> tuple[list[Found], bool]:
    """Search in every group.

    Parameters
    ----------
    problem : Problem
        What is searched for.
    workers : int, optional
        Threads; as many as processors if not given.
    progress : callable (done, total), optional
        Called with the simulations done and those asked for so far.
    notify : callable (str), optional
        Called with a line for the user before something that takes long.

    Returns
    -------
    list of Found
        For each group.
    bool
        Whether it was interrupted; searches under way then tell what is known.
    """
    ends = (problem.scenario(group, problem.space.low) for group in problem.groups)
    simulate.warm_up(notify, simulate.kernel_entries(ends))
    threads = workers or usable_processors()
    driver = _Driver(problem, threads, progress or (lambda done, total: None))
    return driver.run()


class _Driver:
    def __init__(
        self, problem: Problem, workers: int, progress: Callable[[int, int], None]
    ) -> None:
        self._problem = problem
        self._workers = workers
        self._progress = progress
        self._done = self._asked = 0
        self._found: dict[int, Found] = {}
        self._running: dict[int, _Running] = {}
        self._futures: dict[Future[Simulated], Job] = {}

    def run(self) -> tuple[list[Found], bool]:
        interrupted = False
        pool = ThreadPoolExecutor(self._workers)
        try:
            self._begin(pool)
            while self._futures:
                done, _ = wait(self._futures, LOOK_EVERY, FIRST_COMPLETED)
                for future in done:
                    self._take(pool, self._futures.pop(future), future.result())
        except KeyboardInterrupt:
            interrupted = True
            for number, running in self._running.items():
                if number not in self._found:  # one that has ended has told already
                    self._step(number, partial(running.steps.throw, Enough("interrupted")))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return [self._found[number] for number in sorted(self._found)], interrupted

    def _begin(self, pool: ThreadPoolExecutor) -> None:
        problem = self._problem
        for number in range(len(problem.groups)):
            search = Search(
                problem.space, problem.aim, oriented=problem.oriented, unclear=problem.unclear
            )
            self._running[number] = running = _Running(search, search.run(), {})
            ask = self._step(number, partial(next, running.steps))
            self._send(pool, number, ask)

    def _step(self, number: int, step: Callable[[], Ask]) -> Ask:
        """Let a search go on; when it ends, nothing is asked for."""
        try:
            return step()
        except StopIteration as ended:
            self._found[number] = self._watched(number, ended.value)
            return {}

    def _watched(self, number: int, found: Found) -> Found:
        """Add what misleads at the answer, or without one why the generous end has no value."""
        problem, watch = self._problem, self._running[number].watch
        if isnan(found.answer) and not problem.whole:
            return found
        at = found.samples.space.ends[0] if isnan(found.answer) else found.answer
        scenario = problem.scenario(problem.groups[number], at)
        if isnan(found.answer):
            told = watch.dropped(at, scenario)
        else:
            cliff = not problem.aim.shown
            sized = not cliff or problem.axis.key in RATES
            listed = problem.trace(problem.groups[number], at) if sized else None
            told = watch.warnings(at, scenario, cliff=cliff, sized=sized, requests=listed)
        return replace(found, warnings=tuple(told))

    def _send(self, pool: ThreadPoolExecutor, number: int, ask: Ask) -> None:
        running = self._running[number]
        running.parts = {value: [] for value in ask}
        shares = 1 if len(self._problem.groups) >= self._workers else self._workers
        for job in jobs_of(number, ask, shares):
            running.missing += 1
            self._asked += job.simulations
            self._futures[pool.submit(self._simulate, job)] = job

    def _take(self, pool: ThreadPoolExecutor, job: Job, simulated: Simulated) -> None:
        running = self._running[job.group]
        running.search.samples.dropping |= simulated.dropping
        running.watch.add(job.values, job.first, simulated.read)
        for value, part in zip(job.values, simulated.excess, strict=True):
            running.parts[value].append((job.first, part))
        running.missing -= 1
        self._done += job.simulations
        self._progress(self._done, self._asked)
        if not running.missing:
            given = {
                value: np.concatenate([p for _, p in sorted(parts, key=lambda p: p[0])], axis=1)
                for value, parts in running.parts.items()
            }
            ask = self._step(job.group, partial(running.steps.send, given))
            self._send(pool, job.group, ask)

    def _simulate(self, job: Job) -> Simulated:
        return simulated(self._problem, self._problem.groups[job.group], job)


def simulated(problem: Problem, group: Labels, job: Job) -> Simulated:
    """Simulate values of the axis with some of the seeds."""
    variants = [problem.scenario(group, value) for value in job.values]
    results: dict[str, Any] = simulate.simulate_batch(
        variants,
        problem.seeds[job.first : job.last],
        entropy=problem.sweep.entropy,
        policies=[group.get(POLICY)] * len(variants),
        base_dir=problem.sweep.base_dir.resolve(),
    )
    excess = np.stack([t.excess(t.values(results)) for t in problem.targets], axis=1)
    dropped = results["dropped_unservable"] > 0
    if problem.whole:
        excess, dropped = np.where(dropped[:, None], np.nan, excess), np.zeros_like(dropped)
    losing = zip(job.values, dropped.any(axis=1), strict=True)
    dropping = frozenset(value for value, any_of in losing if any_of)
    return Simulated(excess, dropping, read_of(results))


def jobs_of(group: int, ask: Ask, shares: int) -> Iterator[Job]:
    """Divide what a search asks for: values with the same seeds together, in even shares."""
    ranges: dict[tuple[int, int], list[float]] = {}
    for value, seeds in ask.items():
        ranges.setdefault(seeds, []).append(value)
    for (first, last), values in ranges.items():
        cuts = np.linspace(first, last, min(shares, last - first) + 1).round().astype(int).tolist()
        if len(cuts) <= shares:  # fewer seeds than threads: share the values out
            for part in range(shares):
                if chosen := tuple(values[part::shares]):
                    yield Job(group, chosen, first, last)
            continue
        for begin, end in pairwise(cuts):
            yield Job(group, tuple(values), begin, end)
