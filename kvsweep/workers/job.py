"""How the tasks of a sweep are simulated, and what workers have in common."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kvsweep import simulate
from kvsweep.errors import InputError
from kvsweep.workload.trace_sums import trace_sums, unchanged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from kvsweep.extending import Extension
    from kvsweep.grid import Plan, Task

    Results = dict[str, NDArray[Any]]

Needs: TypeAlias = "tuple[tuple[str, ...], Path, dict[str, str]]"
"""What a worker needs: entries of the kernel; a folder, and traces in it, by name and sum."""

# Times a task is tried again after an error before it is simulated by halves, so that only cells
# that it is about are marked as failed. Of tasks whose
# worker died Dask itself keeps count (``distributed.scheduler.allowed-failures``).
RETRIES = 2


class Deliver(Protocol):
    """What takes the results of a task where a worker is."""

    def __call__(self, task: Task, results: Results) -> Any:
        """Take them; what it returns goes back."""

    def only(self, cells: Plan) -> Deliver:
        """Return one for tasks with these cells alone."""


@dataclass(frozen=True)
class Job:
    """How the tasks of a sweep are simulated.

    Attributes
    ----------
    name : str
        Name of the sweep, for people who watch the workers.
    cells : Plan
        The cells.
    entropy : int
        Entropy of all random streams.
    base_dir : Path
        Folder that paths of traces are relative to.
    keep_requests, prune : bool
        As for `kvsweep.run`.
    deliver : callable (task, results), optional
        Called on the worker; what it returns goes back instead of the results.
    known : Extension, optional
        Cells of another store, which are not simulated.
    traces : mapping of str to str, optional
        The sum of each trace of the sweep, by name: cells are of no others.
    """

    name: str
    cells: Plan
    entropy: int
    base_dir: Path
    keep_requests: bool
    prune: bool
    deliver: Deliver | None = None
    known: Extension | None = None
    traces: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """Names of the entries of the compiled kernel that the cells need; none need no kernel."""
        return simulate.kernel_entries(self.cells.variants)

    @property
    def needs(self) -> Needs:
        """What workers elsewhere need for it."""
        cells, folder = self.cells, self.base_dir
        return self.entries, folder, trace_sums(cells.variants, cells.policies, cells.seeds, folder)

    def only(self, task: Task) -> Job:
        """Return the job of tasks with the variants of `task`, to be sent: without all others."""
        cells = self.cells.only(task)
        known = self.known and self.known.only(task, cells)
        if cells is self.cells and known is self.known:
            return self
        deliver = self.deliver and self.deliver.only(cells)
        return replace(self, cells=cells, deliver=deliver, known=known)

    def run(self, task: Task) -> Any:
        """Simulate a task, and return what goes back of it."""
        results = self.simulate(task)
        return results if self.deliver is None else self.deliver(task, results)

    def run_by_halves(self, task: Task, *, apart: bool = False) -> Any:
        """Simulate a task that failed: cells that cannot be simulated are marked, the others not.

        Parameters
        ----------
        task : Task
            The task.
        apart : bool
            Some cell may end the process: they are simulated in another.
        """
        from kvsweep.workers.halving import Halves, simulate_apart

        simulate = replace(self, deliver=None, known=None).simulate_cells
        halves = Halves(partial(simulate_apart, simulate) if apart else simulate)
        chosen = self.cells.variant_indices(task).tolist()
        results = halves.results(chosen, self.cells.seeds_of(task))
        return results if self.deliver is None else self.deliver(task, results)

    def simulate(self, task: Task) -> Results:
        """Return arrays (variants, seeds, ...) by variable."""
        seeds = self.cells.seeds_of(task)
        chosen = list(map(int, self.cells.variant_indices(task)))
        if self.known is None:
            return self.simulate_cells(chosen, seeds)

        def some(variants: Sequence[int], places: Sequence[int]) -> Results:
            return self.simulate_cells([chosen[v] for v in variants], [seeds[s] for s in places])

        try:
            return self.known.results(task, some)
        except InputError:  # as of a worker that does not see the store; what it has is the same
            return self.simulate_cells(chosen, seeds)

    def simulate_cells(self, chosen: Sequence[int], seeds: Sequence[int]) -> Results:
        """Return arrays (variants, seeds, ...) by variable; `chosen` are positions of variants."""
        variants = [self.cells.variants[i] for i in chosen]
        policies = [self.cells.policies[i] for i in chosen]
        with unchanged(self.traces, variants, policies, seeds, self.base_dir):
            return simulate.simulate_batch(
                variants,
                seeds,
                entropy=self.entropy,
                policies=policies,
                base_dir=self.base_dir,
                keep_requests=self.keep_requests,
                slo_classes=self.cells.extra.get("slo_class", ()),
                prune=self.prune,
            )


class Running(Protocol):
    """Tasks that are being simulated."""

    def begin(self, tasks: Iterable[Task]) -> None:
        """Begin with the first of `tasks`; the others follow as those finish.

        Few enough are begun at a time to bound the memory of results that wait for the writer.
        """

    def __iter__(self) -> Iterator[tuple[Task, Any]]:
        """Yield tasks as they finish, until none is left, with what `Job.run` returned.

        Or with the error of the last try.
        """


class Workers(Protocol):
    """Who simulates tasks."""

    def holding(self, job: Job) -> AbstractContextManager[Running]:
        """Let the workers simulate tasks of `job` for the length of the block."""
