"""Tasks on Dask's workers: a few in flight, sent again when what they ran on is gone."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from distributed import KilledWorker

from kvsweep.errors import InputError
from kvsweep.workers.fetching import Fetching
from kvsweep.workers.halving import DiedError
from kvsweep.workers.handshake import own_answer
from kvsweep.workers.job import RETRIES
from kvsweep.workers.pool import LOOK_EVERY
from kvsweep.workers.remote_tasks import (
    WrongWorkerError,
    packed,
    simulate,
    simulate_apart,
    simulate_by_halves,
)
from kvsweep.workers.silence import Silence, keys_of, waiting_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from distributed import Future

    from kvsweep.grid import Block, Task
    from kvsweep.workers.handshake import Answer
    from kvsweep.workers.job import Job
    from kvsweep.workers.pool import Pool

# Jobs that are held for tasks to come: each has the variants of some tasks, and tasks with the same
# ones follow each other.
JOBS = 8
# Workers that a task is lost with before it is simulated apart; with twice as many, it fails.
DEATHS = 3


class Sent(NamedTuple):
    """What was sent as one future: with its job, and the workers that may have either."""

    task: Task
    on: set[str]
    job: Future
    job_on: set[str]


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
        self._ways: dict[int, Callable[[bytes, Task, Answer], Any]] = {}  # of those that failed
        self._given_up: list[tuple[Task, Exception]] = []
        self._losses: Counter[int] = Counter()  # by task
        self._alone = False
        self._tasks: dict[Future, Sent] = {}
        self._done: SimpleQueue[tuple[Future, Any]] = SimpleQueue()
        self._fetching = Fetching(pool.client, self._done)
        self._jobs: OrderedDict[Block, tuple[Future, set[str]]] = OrderedDict()

    def begin(self, tasks: Iterable[Task]) -> None:
        """Send the first of `tasks`; the others follow as those finish."""
        self._todo.extend(tasks)
        self._send()

    def __iter__(self) -> Iterator[tuple[Task, Any]]:
        silence = Silence(self._pool)
        while True:
            self._pool.look()
            if self._tasks and silence.look():
                self._take_back()
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
                future, results = self._done.get(timeout=LOOK_EVERY)
            except Empty:
                continue
            if future in self._tasks:
                silence.heard()
                task = self._tasks.pop(future).task
                outcome = self._outcome(future, task) if results is None else results
                if outcome is not None:
                    yield task, outcome

    def close(self) -> None:
        """Let the workers leave what is not done."""
        with suppress(Exception):  # the scheduler may be gone
            for future in list(self._tasks):
                self._drop(future)
            for job, _ in self._jobs.values():
                job.release()
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
        self._pool.demand.show(len(self._todo), self._name)

    def _send_again(self) -> None:
        """Send again what only workers that left could do: the scheduler would wait for them."""
        usable = set(self._pool.usable)
        if self._pool.restriction is None or not usable:
            return
        for block in [b for b, (_, on) in self._jobs.items() if not on & usable]:
            del self._jobs[block]
        for future, sent in list(self._tasks.items()):
            if not sent.on & usable or not sent.job_on & usable:
                lost = not (sent.on | sent.job_on) & self._pool.paused
                (self._lose if lost else self._todo.appendleft)(self._drop(future))

    def _take_back(self) -> None:
        """Let others do what silent workers have: tasks, and results that are not fetched.

        And what waits for a job that is there. Dask would wait for all that, until it gives the
        workers up. When they are back they do it too: the part that they write is the same. Paused
        ones hand on what they have done, and nobody has died of what they have not.
        """
        silent, paused = set(self._pool.silent), self._pool.paused
        if self._pool.restriction is None or silent & set(self._pool.usable):
            return
        try:
            frozen = keys_of(self._pool.client, silent - paused)
            there = frozen | keys_of(self._pool.client, paused)
            jobs = {future: sent.job for future, sent in self._tasks.items()}
            stuck = waiting_for(self._pool.client, there, jobs)
        except Exception as error:
            raise self._pool.gone() from error
        for block in [b for b, (job, _) in self._jobs.items() if job.key in there]:
            del self._jobs[block]
        self._todo.extendleft(map(self._drop, stuck))  # nobody can have died of these
        for future in [future for future in self._tasks if future.key in there]:
            if future.key in frozen:
                self._lose(self._drop(future))
            elif not future.done():
                self._todo.appendleft(self._drop(future))

    def _drop(self, future: Future) -> Task:
        """Leave what was sent, and return its task."""
        future.release()
        self._fetching.leave(future)
        return self._tasks.pop(future).task

    def _lose(self, task: Task) -> None:
        """Do a task again that was lost with its worker; one that may have killed it, at the end.

        Dask counts deaths only of tasks that others than the dead worker may do.
        """
        self._losses[task.index] += 1
        deaths = self._losses[task.index]
        if deaths < DEATHS:
            self._todo.appendleft(task)
        elif deaths < 2 * DEATHS:
            self._ways[task.index] = simulate_apart
            self._suspects.append(task)
        else:
            self._given_up.append((task, DiedError(f"workers died of it {deaths} times")))

    def _submit(self, task: Task) -> None:
        restriction = self._pool.restriction
        key = f"{self._name}-{task.index}-{self._token}-{uuid4().hex[:8]}"
        job, job_on = self._job_of(task, restriction)
        future = self._pool.submit(
            self._ways.get(task.index, simulate),
            job,
            task,
            self._wanted,
            key=key,
            workers=restriction,
            retries=RETRIES,
        )
        self._tasks[future] = Sent(task, set(restriction or ()), job, job_on)
        future.add_done_callback(self._fetching.bring)

    def _job_of(self, task: Task, restriction: list[str] | None) -> tuple[Future, set[str]]:
        """Return the job of a task, sent if need be, and the workers that may have it."""
        block = self._whole.cells.variant_block(task)
        if block not in self._jobs or self._jobs[block][0].cancelled():
            job = self._pool.submit(
                bytes,
                packed(self._whole.only(task)),
                key=f"{self._name}-job-{self._token}-{uuid4().hex[:8]}",
                workers=restriction,
            )
            self._jobs[block] = job, set(restriction or ())
            while len(self._jobs) > JOBS:
                self._jobs.popitem(last=False)  # what is under way keeps it on the scheduler
        self._jobs.move_to_end(block)
        return self._jobs[block]

    def _outcome(self, future: Future, task: Task) -> Exception | None:
        """Return the error that a task without results ended with; None if it was sent again."""
        if future.status == "error":
            error: Exception = future.exception()
            if isinstance(error, KilledWorker) and not self._alone:
                self._ways[task.index] = simulate_apart
                self._suspects.append(task)  # it, or one that shared its worker
                self._jobs.pop(self._whole.cells.variant_block(task), None)  # or the job was blamed
                return None
            if isinstance(error, WrongWorkerError):
                self._pool.refuse(*error.args)
                self._todo.appendleft(task)
                return None
            if isinstance(error, InputError) or task.index in self._ways:
                return error
            self._ways[task.index] = simulate_by_halves
            self._todo.appendleft(task)
            return None
        if self._pool.client.status != "running":
            raise self._pool.gone()
        self._lose(task)
        return None
