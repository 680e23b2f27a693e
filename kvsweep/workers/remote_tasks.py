"""What Dask's workers are told to do with a task."""

from __future__ import annotations

import pickle
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

from distributed import get_worker

from kvsweep.workers.handshake import own_answer, why_not

if TYPE_CHECKING:
    from kvsweep.grid import Task
    from kvsweep.workers.handshake import Answer
    from kvsweep.workers.job import Job


class WrongWorkerError(Exception):
    """A task came to a worker that took the address of one that may simulate: address, reason."""


def packed(job: Job) -> bytes:
    """Return a job as it is sent: scenarios are alike, so that what is left of them is a 37th."""
    return zlib.compress(pickle.dumps(job), 1)


def unpacked(data: bytes) -> Job:
    """Return a job that was sent."""
    job: Job = pickle.loads(zlib.decompress(data))  # Dask hands on pickles anyway
    return job


def simulate(job: Job, task: Task, wanted: Answer) -> Any:
    """Simulate a task of the job."""
    _check(wanted)
    return job.run(task)


def simulate_by_halves(job: Job, task: Task, wanted: Answer) -> Any:
    """Simulate a task that raised an error."""
    _check(wanted)
    return job.run_by_halves(task)


def simulate_apart(job: Job, task: Task, wanted: Answer) -> Any:
    """Simulate a task, of which the worker may have died, in other processes."""
    _check(wanted)
    return job.run_by_halves(task, apart=True)


def _check(wanted: Answer) -> None:
    reason = why_not(_own_answer(), wanted)
    if reason:
        raise WrongWorkerError(get_worker().address, reason)


_own_answer = cache(own_answer)
