"""Plain threads of this process: there at once, for sweeps that are over before Dask is loaded."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from itertools import islice
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from kvsweep.workers.job import RETRIES, Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kvsweep.grid import Task


class Threads:
    """So many threads of this process.

    Parameters
    ----------
    count : int
        How many.
    """

    def __init__(self, count: int) -> None:
        self._count = count

    @contextmanager
    def holding(self, job: Job) -> Iterator[_Running]:
        """Let the threads simulate tasks of `job` for the length of the block."""
        running = _Running(job, self._count)
        for _ in range(self._count):
            # An interrupted program does not wait for what they are at.
            Thread(target=running.work, daemon=True).start()
        try:
            yield running
        finally:
            running.close()


class _Running:
    """Tasks that are being simulated: so many at a time, iterated over as they finish."""

    def __init__(self, job: Job, threads: int) -> None:
        self._job = job
        self._threads = threads
        self._waiting: Iterator[Task] = iter(())
        self._open = True
        self._unfinished = 0
        self._todo: SimpleQueue[Task | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[Task, Any]] = SimpleQueue()

    def begin(self, tasks: Iterable[Task]) -> None:
        """Begin with the first of `tasks`; the others follow as those finish."""
        self._waiting = iter(tasks)
        self._add(2 * self._threads + 1)

    def __iter__(self) -> Iterator[tuple[Task, Any]]:
        while self._unfinished:
            yield self._done.get()
            self._unfinished -= 1
            self._add(1)

    def work(self) -> None:
        """Simulate what is added until all is closed."""
        while (task := self._todo.get()) is not None and self._open:
            self._done.put((task, self._outcome(task)))

    def close(self) -> None:
        """Let the threads end; what none of them has begun is not simulated."""
        self._open = False
        for _ in range(self._threads):
            self._todo.put(None)

    def _add(self, count: int) -> None:
        for task in islice(self._waiting, count):
            self._unfinished += 1
            self._todo.put(task)

    def _outcome(self, task: Task) -> Any:
        """Return what a task gives, if need be by halves, or the error of the last try."""
        for _ in range(1 + RETRIES):
            with suppress(Exception):
                return self._job.run(task)
        try:
            return self._job.run_by_halves(task)
        except Exception as error:
            return error
