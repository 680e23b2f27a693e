"""Workers that Dask looks after: threads, local processes, or those of an existing cluster."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import dask
from distributed import Client, LocalCluster, WorkerPlugin, as_completed, get_worker

from kvsweep import simulate
from kvsweep.errors import InputError
from kvsweep.workers.job import RETRIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsweep.grid import Task
    from kvsweep.workers.job import Job, Results

# Seconds to wait for the answer of an existing scheduler.
CONNECT_TIMEOUT = 10.0
LOOPBACK = "127.0.0.1:0"
# Dask looks at its threads 100 times a second for a profile that nobody asks for, and at its own
# responsiveness 50 times: 4 % of a core, in turns with the threads that simulate.
QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "200ms"}


class Cluster:
    """The workers of a client.

    Parameters
    ----------
    client : Client
        A client of a scheduler with workers.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def threads(self) -> int:
        """Tasks that are simulated at the same time."""
        return sum(self._client.nthreads().values())

    @contextmanager
    def holding(self, job: Job) -> Iterator[_Running]:
        """Give the job to every worker for the length of the block."""
        holder = _Holder(job)
        self._client.register_plugin(holder)
        try:
            yield _Running(self._client, holder.name)
        finally:
            self._client.unregister_worker_plugin(holder.name)


class _Running:
    """Tasks that are being simulated: added one by one, iterated over as they finish."""

    def __init__(self, client: Client, holder: str) -> None:
        self._client = client
        self._holder = holder
        self._tasks: dict[str, Task] = {}
        self._futures = as_completed()

    def add(self, task: Task) -> None:
        """Simulate one more."""
        future = self._client.submit(_simulate, self._holder, task, pure=False, retries=RETRIES)
        self._tasks[future.key] = task
        self._futures.add(future)

    def __iter__(self) -> Iterator[tuple[Task, Results | Exception]]:
        for future in self._futures:
            yield self._tasks.pop(future.key), future.exception() or future.result()


class _Holder(WorkerPlugin):  # type: ignore[misc]
    """Holds the job in every worker, also in one that joins later, with the kernel loaded.

    A task is then a few numbers. With its scenarios sent along, Dask pickled, unpickled twice and
    kept 0.3 MB per task of 500 variants: a third of the time and 1 GB at a million cells.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.name = f"kvsweep-{uuid4().hex}"  # several runs may share a scheduler

    def setup(self, worker: Any) -> None:
        if self.job.compiled:
            simulate.warm_up()


def _simulate(holder: str, task: Task) -> Results:
    """Simulate a task of the job that the plugin `holder` of this worker holds."""
    job: Job = get_worker().plugins[holder].job
    return job.simulate(task)


@contextmanager
def local(workers: int | None, processes: bool) -> Iterator[Cluster]:
    """Start a cluster of threads of this process, or of processes, that ends with the block."""
    count = workers or dask.system.CPU_COUNT
    with (
        dask.config.set(QUIET),
        LocalCluster(
            n_workers=count if processes else 1,
            threads_per_worker=1 if processes else count,
            processes=processes,
            memory_limit=0,  # tasks in flight are bounded here; nothing to spill or pause
            silence_logs=logging.ERROR,  # it warns of tasks cut short by Ctrl-C
            dashboard_address=None,
            # Dask opens HTTP ports even without a dashboard, by default to the whole network.
            worker_dashboard_address=LOOPBACK,
            scheduler_kwargs={"dashboard_address": LOOPBACK},
        ) as cluster,
        Client(cluster) as client,
    ):
        yield Cluster(client)


@contextmanager
def existing(address: str) -> Iterator[Cluster]:
    """Use the workers of a running scheduler.

    Raises
    ------
    InputError
        If none answers at `address`, or it has no workers.
    """
    try:
        client = Client(address, timeout=CONNECT_TIMEOUT)
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler {address}: no scheduler with workers answers") from error
    with client:
        yield Cluster(client)
