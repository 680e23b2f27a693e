"""Workers that Dask looks after: threads, local processes, or those of an existing cluster."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

import dask
from distributed import Client as Client
from distributed import LocalCluster, Nanny, Status

from kvsweep.errors import InputError
from kvsweep.processors import usable_processors
from kvsweep.workers.connecting import Scheduler as Scheduler
from kvsweep.workers.connecting import connected
from kvsweep.workers.idleness import PAUSED
from kvsweep.workers.pool import Pool, Worker
from kvsweep.workers.process_wide import silenced, unobserved
from kvsweep.workers.running import ClusterRun
from kvsweep.workers.starting import check_start

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kvsweep.workers.job import Job, Needs

# Files that are open with no process of `--processes`, and more with each; 18 and 10 were counted.
FILES, FILES_OF_PROCESS = 32, 12
LOOPBACK = "127.0.0.1:0"
# The process that began with Dask; its forks lack the threads that Dask then counts on.
PROCESS = os.getpid()
# Seconds after which workers of this machine that died, again and again, are given up.
DEAD_AFTER = 60.0
# Seconds that a process which does not answer has to end by itself.
KILL_AFTER = 1.0


class ClusterWorkers:
    """The workers of a pool.

    Parameters
    ----------
    pool : Pool
        Workers of a scheduler.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @contextmanager
    def holding(self, job: Job) -> Iterator[ClusterRun]:
        """Let the workers simulate tasks of `job` for the length of the block."""
        running = ClusterRun(self._pool, job)
        try:
            yield running
        finally:
            running.close()


class OwnPool(Pool):
    """The workers of a cluster that this process started: what they run is known.

    Parameters
    ----------
    client : Client
        Its client.
    cluster : LocalCluster
        The cluster.
    count : int
        Workers there should be.
    notify : callable (str), optional
        As for `Pool`.
    """

    def __init__(
        self,
        client: Client,
        cluster: LocalCluster,
        count: int,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        where = "workers of this machine"
        super().__init__(client, where, notify=notify, wait=DEAD_AFTER)
        self._cluster = cluster
        self._count = count

    @property
    def restriction(self) -> None:
        """No restriction: a worker that is started again has another address."""
        return

    patience = 20.0  # to start takes seconds

    def refuse(self, address: str, reason: str) -> None:
        """End the run: any other worker of this machine would be the same.

        Raises
        ------
        InputError
            Always.
        """
        raise InputError(
            f"{self.where} have another kvsweep than this process ({reason}): was it changed "
            "meanwhile? What was simulated is stored, and the same command goes on"
        )

    def what_is_awaited(self) -> str:
        """Say what is waited for while there is no worker."""
        return "all have ended (killed, or out of memory?); starting others"

    def meet(self, present: dict[str, int]) -> None:
        """Use the workers that are there, and have those that are not started."""
        self.workers = {address: Worker(n, None) for address, n in present.items()}
        if len(present) < self._count:
            self._revive()

    def leave(self, silent: Mapping[str, str]) -> str:
        """End processes that do not answer: Dask starts others, which do their tasks too."""
        frozen = {address for address, why in silent.items() if why != PAUSED}
        ended = [n for n in self._nannies() if n.worker_address in frozen]
        for nanny in ended:
            nanny.loop.add_callback(nanny.kill, timeout=KILL_AFTER)
        return "ended, and started again" if ended else super().leave(silent)

    def _nannies(self) -> list[Nanny]:
        """Return what looks after the worker processes; threads have no such."""
        return [worker for worker in self._cluster.workers.values() if isinstance(worker, Nanny)]

    def _revive(self) -> None:
        """Start workers again that Dask gave up: one that dies while it starts stays dead."""
        for name, worker in list(self._cluster.workers.items()):
            if worker.status in (Status.failed, Status.closed):
                self._cluster.workers.pop(name, None)
        self._cluster.scale(self._count)


@contextmanager
def local(
    workers: int | None, processes: bool, notify: Callable[[str], None] | None = None
) -> Iterator[ClusterWorkers]:
    """Start a cluster of threads of this process, or of processes, that ends with the block.

    Raises
    ------
    InputError
        If no worker can be started, or all of them die and no other can be started.
    """
    count = workers or usable_processors()
    size = count if processes else 1
    if processes:
        _check_files(count)
        check_start(dask.config.get("distributed.worker.multiprocessing-method"))
    with (
        unobserved(),
        silenced("distributed", "tornado.application"),
        LocalCluster(
            n_workers=0,
            threads_per_worker=1 if processes else count,
            processes=processes,
            memory_limit=0,  # tasks in flight are bounded here; nothing to spill or pause
            silence_logs=logging.CRITICAL,  # of tasks cut short by Ctrl-C, workers that are killed
            dashboard_address=None,
            # Dask opens HTTP ports even without a dashboard, by default to the whole network.
            worker_dashboard_address=LOOPBACK,
            scheduler_kwargs={"dashboard_address": LOOPBACK},
        ) as cluster,
        Client(cluster) as client,
    ):
        cluster.loop.add_callback(_block_interrupts)
        cluster.scale(size)
        pool = OwnPool(client, cluster, size, notify)
        pool.wait()
        yield ClusterWorkers(pool)


def _check_files(processes: int) -> None:
    """Refuse more processes than this one may have connections to."""
    if resource is None:
        return
    wanted, most = FILES + processes * FILES_OF_PROCESS, resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= most[0] < wanted:
        raise InputError(
            f"--processes: {processes:,} need {wanted:,} open files, {most[0]:,} are allowed "
            "(`ulimit -n`); take fewer (--workers), or threads"
        )


def _block_interrupts() -> None:
    """Let what goes to all processes of a terminal spare those that this thread starts.

    Ctrl-C, and the end of the terminal. They end with this process; each would print a traceback
    before, and of the tracker of resources, which a hang-up ended, there were some more.
    """
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
        resource_tracker.ensure_running()  # when that starts, it unblocks Ctrl-C
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])


@contextmanager
def existing(
    scheduler: Any,
    *,
    needs: Needs | None = None,
    notify: Callable[[str], None] | None = None,
    wait: float | None = None,
) -> Iterator[ClusterWorkers]:
    """Use the workers of a running scheduler.

    Parameters
    ----------
    scheduler : Scheduler or Path
        As for `connected`.
    needs, notify, wait
        As for `Pool`.

    Raises
    ------
    InputError
        If none answers, or none of its workers gives the numbers of this process.
    """
    with connected(scheduler, wait, notify) as (client, where):
        pool = Pool(client, where, needs=needs, notify=notify, wait=wait)
        try:
            pool.wait()
            yield ClusterWorkers(pool)
        finally:
            pool.demand.show(0)  # a client of the user's goes on
