"""What Dask's workers are told to do with a task."""

from __future__ import annotations

import pickle
import zlib
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from distributed import get_worker

from kvsweep.simulate import warm_up
from kvsweep.workers.handshake import own_answer, why_not
from kvsweep.workload.trace_sums import other_trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kvsweep.grid import Task
    from kvsweep.workers.handshake import Answer
    from kvsweep.workers.job import Job

# Jobs that a worker keeps unpacked: tasks with the same variants follow each other.
KEPT = 4


class WrongWorkerError(Exception):
    """A task came to a worker that took the address of one that may simulate: address, reason."""


def packed(job: Job) -> bytes:
    """Return a job as it is sent: of scenarios, which are much alike, a 37th is left."""
    return zlib.compress(pickle.dumps(job), 1)


def prepare(entries: tuple[str, ...], folder: Path, traces: Mapping[str, str]) -> str:
    """Load what tasks need; say why they cannot be simulated here, empty if they can."""
    reason = other_trace(traces, folder)
    if not reason:
        warm_up(None, entries)
    return reason


def simulate(job: bytes, task: Task, wanted: Answer) -> Any:
    """Simulate a task of the job."""
    _check(wanted)
    return _unpacked(job).run(task)


def simulate_by_halves(job: bytes, task: Task, wanted: Answer) -> Any:
    """Simulate a task that raised an error."""
    _check(wanted)
    return _unpacked(job).run_by_halves(task)


def simulate_apart(job: bytes, task: Task, wanted: Answer) -> Any:
    """Simulate a task, of which the worker may have died, in other processes."""
    _check(wanted)
    return _unpacked(job).run_by_halves(task, apart=True)


@lru_cache(maxsize=KEPT)
def _unpacked(data: bytes) -> Job:
    job: Job = pickle.loads(zlib.decompress(data))  # from whom Dask takes pickles anyway
    return job


def _check(wanted: Answer) -> None:
    reason = why_not(_own_answer(), wanted)
    if reason:
        raise WrongWorkerError(get_worker().address, reason)


_own_answer = cache(own_answer)
