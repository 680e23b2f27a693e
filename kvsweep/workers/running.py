"""Tasks on Dask's workers: a few in flight, sent again when what they ran on is gone."""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict, deque
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from distributed import KilledWorker, get_worker

from kvsweep.errors import InputError
from kvsweep.workers.halving import DiedError
from kvsweep.workers.handshake import own_answer, why_not
from kvsweep.workers.job import RETRIES
from kvsweep.workers.pool import LOOK_EVERY
from kvsweep.workers.silence import Silence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from distributed import Future

    from kvsweep.grid import Block, Task
    from kvsweep.workers.handshake import Answer
    from kvsweep.workers.job import Job
    from kvsweep.workers.pool import Pool

# Seconds that a result may take from the worker that has it, in tries between which that may be
# found gone; then the task is sent again.
FETCH_TIMEOUTS = (5.0, 10.0, 20.0, 40.0)
# Jobs that are held for tasks to come: each has the variants of some tasks, and tasks with the same
# ones follow each other.
JOBS = 8
# Workers that a task is lost with before it is simulated apart; with twice as many, it fails.
DEATHS = 3


class ClusterRun:
    """Tasks that are being simulated: so many at a time, iterated over as they finish.

    The job is a task too, on which all others depend that have the same variants: workers hand it
    on to each other, and when this process is gone the scheduler forgets it. A task is then a few
    numbers. With its scenarios
    sent along, Dask pickled, unpickled twice and kept 0.3 MB per task of 500 variants: a third of
    the time and 1 GB at a million cells.
    """

    def __init__(self, pool: Pool, job: Job) -> None:
        self._pool = pool
        self._name = f"kvsweep-{job.name}"
        self._token = uuid4().hex[:8]  # several runs may share a scheduler
        self._whole = job
        self._wanted = own_answer()
        self._todo: deque[Task] = deque()
        self._suspects: list[Task] = []
        self._ways: dict[int, Callable[[Job, Task, Answer], Any]] = {}  # of those that failed
        self._given_up: list[tuple[Task, Exception]] = []
        self._losses: Counter[int] = Counter()  # by task
        self._alone = False
        self._tasks: dict[Future, tuple[Task, set[str]]] = {}
        self._done: SimpleQueue[Future] = SimpleQueue()
        self._holders: dict[int, set[str]] = {}  # of the job of a task: who may have it
        self._jobs: OrderedDict[Block, tuple[Future, set[str]]] = OrderedDict()

    def begin(self, tasks: Iterable[Task]) -> None:
        """Send the first of `tasks`; the others follow as those finish."""
        self._todo.extend(tasks)
        self._send()

    def __iter__(self) -> Iterator[tuple[Task, Any]]:
        silence = Silence(self._pool)
        while True:
            self._pool.look()
            if self._tasks:
                silence.look()
            self._send_again()
            while self._given_up:
                yield self._given_up.pop()
            if not self._todo and not self._tasks:
                if not self._suspects:
                    return
                self._alone = True
                self._todo.append(self._suspects.pop())
            self._send()
            try:
                future = self._done.get(timeout=LOOK_EVERY)
            except Empty:
                continue
            silence.heard()
            if future in self._tasks:
                task, on = self._tasks.pop(future)
                outcome = self._outcome(future, task, on)
                if outcome is not None:
                    yield task, outcome

    def close(self) -> None:
        """Let the workers leave what is not done."""
        for future in (*self._tasks, *(job for job, _ in self._jobs.values())):
            with suppress(Exception):  # the scheduler may be gone
                future.release()
        self._tasks.clear()
        self._jobs.clear()

    def _send(self) -> None:
        """Send as many tasks as the workers of the moment need, few enough to bound the memory.

        Those that workers died of come last, one at a time, in processes of their own, which die
        instead of the workers.
        """
        threads = sum(self._pool.usable.values())
        limit = 0 if not threads else 1 if self._alone else 2 * threads + 1
        while self._todo and len(self._tasks) < limit:
            self._submit(self._todo.popleft())

    def _send_again(self) -> None:
        """Send again what only workers that left could do: the scheduler would wait for them."""
        usable = set(self._pool.usable)
        if self._pool.restriction is None or not usable:
            return
        for block in [b for b, (_, on) in self._jobs.items() if not on & usable]:
            del self._jobs[block]
        lost = [
            future
            for future, (task, on) in self._tasks.items()
            if not on & usable or not self._holders[task.index] & usable
        ]
        for future in lost:
            task, _ = self._tasks.pop(future)
            future.release()
            self._lose(task)

    def _lose(self, task: Task) -> None:
        """Do a task again that was lost with its worker; one that may have killed it, at the end.

        Dask counts deaths only of tasks that others than the dead worker may do.
        """
        self._losses[task.index] += 1
        deaths = self._losses[task.index]
        if deaths < DEATHS:
            self._todo.appendleft(task)
        elif deaths < 2 * DEATHS:
            self._ways[task.index] = _simulate_apart
            self._suspects.append(task)
        else:
            self._given_up.append((task, DiedError(f"workers died of it {deaths} times")))

    def _submit(self, task: Task) -> None:
        restriction = self._pool.restriction
        key = f"{self._name}-{task.index}-{self._token}-{uuid4().hex[:8]}"
        future = self._pool.client.submit(
            self._ways.get(task.index, _simulate),
            self._job_of(task, restriction),
            task,
            self._wanted,
            key=key,
            workers=restriction,
            pure=False,
            retries=RETRIES,
        )
        self._tasks[future] = task, set(restriction or ())
        self._holders[task.index] = self._jobs[self._whole.cells.variant_block(task)][1]
        future.add_done_callback(self._done.put)

    def _job_of(self, task: Task, restriction: list[str] | None) -> Future:
        block = self._whole.cells.variant_block(task)
        if block not in self._jobs:
            job = self._pool.client.submit(
                pickle.loads,
                pickle.dumps(self._whole.only(task)),
                key=f"{self._name}-job-{self._token}-{uuid4().hex[:8]}",
                workers=restriction,
                pure=False,
            )
            self._jobs[block] = job, set(restriction or ())
            while len(self._jobs) > JOBS:
                self._jobs.popitem(last=False)  # what is under way keeps it on the scheduler
        self._jobs.move_to_end(block)
        return self._jobs[block][0]

    def _outcome(self, future: Future, task: Task, on: set[str]) -> Any:
        """Return what became of a task; None if that is not known yet, as it was sent again."""
        if future.status == "finished":
            results = self._fetch(future, on)
            if results is not None:
                return results
        elif future.status == "error":
            error: Exception = future.exception()
            if isinstance(error, KilledWorker) and not self._alone:
                self._ways[task.index] = _simulate_apart
                self._suspects.append(task)  # it, or one that shared its worker
                return None
            if isinstance(error, WrongWorkerError):
                self._pool.refuse(*error.args)
                self._todo.appendleft(task)
                return None
            if isinstance(error, InputError) or task.index in self._ways:
                return error
            self._ways[task.index] = _simulate_by_halves
            self._todo.appendleft(task)
            return None
        if self._pool.client.status != "running":
            raise self._pool.gone()
        self._lose(task)
        return None

    def _fetch(self, future: Future, on: set[str]) -> Any:
        """Return what a finished task gave; None if those that had it left first."""
        for timeout in FETCH_TIMEOUTS:
            with suppress(Exception):
                return future.result(timeout=timeout)
            if self._pool.client.status != "running":
                break
            self._pool.look()
            if on and not on & set(self._pool.usable):
                break
        return None


class WrongWorkerError(Exception):
    """A task came to a worker that took the address of one that may simulate: address, reason."""


def _simulate(job: Job, task: Task, wanted: Answer) -> Any:
    """Simulate a task of the job."""
    _check(wanted)
    return job.run(task)


def _simulate_by_halves(job: Job, task: Task, wanted: Answer) -> Any:
    """Simulate a task that raised an error."""
    _check(wanted)
    return job.run_by_halves(task)


def _simulate_apart(job: Job, task: Task, wanted: Answer) -> Any:
    """Simulate a task, of which the worker may have died, in other processes."""
    _check(wanted)
    return job.run_by_halves(task, apart=True)


def _check(wanted: Answer) -> None:
    reason = why_not(_own_answer(), wanted)
    if reason:
        raise WrongWorkerError(get_worker().address, reason)


_own_answer = cache(own_answer)
