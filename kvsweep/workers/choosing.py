"""Which workers a sweep gets, and which it cannot have."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING

from kvsweep.errors import InputError, shown
from kvsweep.limits import MAX_SECONDS, MAX_WORKERS
from kvsweep.processors import usable_processors
from kvsweep.workers.starting import refuse_import
from kvsweep.workers.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kvsweep.workers.cluster import Scheduler
    from kvsweep.workers.job import Job, Workers

# Estimated processor seconds of a sweep from which on Dask looks after the workers: to import it
# and start a cluster takes 0.2 s, as long as all cells of a small sweep.
SMALL = 1.0


def check_workers(
    count: int | None,
    processes: bool,
    scheduler: object,
    scheduler_file: object = None,
    client: object = None,
    wait: float | None = None,
) -> None:
    """Refuse workers that there cannot be, and options that exclude each other.

    Parameters
    ----------
    count, processes, scheduler, scheduler_file, client, wait
        As `workers` and the others of `kvsweep.run`.

    Raises
    ------
    InputError
        Naming the option.
    """
    local = count is not None or processes
    remote = {"--scheduler": scheduler, "--scheduler-file": scheduler_file, "client": client}
    given = [name for name, value in remote.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{given[1]}: cannot be used with {given[0]}")
    if local and given:
        raise InputError(f"{given[0]}: cannot be used with --workers or --processes")
    if count is not None and (isinstance(count, bool) or not isinstance(count, Integral)):
        raise InputError(f"--workers: expected an integer, got {shown(count)}")
    if count is not None and count < 1:
        raise InputError(f"--workers: must be at least 1, not {count}")
    if count is not None and count > MAX_WORKERS:
        raise InputError(f"--workers: must be at most {MAX_WORKERS:,}, not {count}")
    if wait is not None and not 0 <= wait <= MAX_SECONDS:
        raise InputError(f"--wait: must be from 0 to {MAX_SECONDS:,.0f} seconds, not {wait}")
    if wait is not None and not given:
        raise InputError("--wait: needs --scheduler or --scheduler-file")
    _check_objects(scheduler, client)
    if processes:
        refuse_import()


def _check_objects(scheduler: object, client: object) -> None:
    """Refuse what is none of Dask's, also where it is not needed."""
    if client is not None and not _is_dasks(client):
        raise InputError(f"client: expected a Client of Dask, got {type(client).__name__}")
    if scheduler is not None and not isinstance(scheduler, str) and not _is_dasks(scheduler):
        raise InputError(
            "scheduler: expected an address as 'tcp://host:8786', a Client or a Cluster of Dask, "
            f"got {type(scheduler).__name__}"
        )


def _is_dasks(value: object) -> bool:
    """Whether this is a client or cluster; there is none unless Dask is loaded."""
    dask = sys.modules.get("distributed")
    return dask is not None and isinstance(value, dask.Client | dask.deploy.Cluster)


@contextmanager
def found_workers(
    job: Job,
    count: int | None,
    processes: bool,
    scheduler: Scheduler | Path | None,
    wait: float | None,
    notify: Callable[[str], None] | None,
) -> Iterator[Workers]:
    """Find workers: of an existing scheduler, or of this machine, which end with the block.

    A path is that of a scheduler's file.
    """
    cells = job.cells
    lacks_threads = scheduler is None and _is_forked()
    if processes and lacks_threads:
        raise InputError(
            "processes: this process was forked from one that had Dask, whose threads it lacks: "
            "start it by 'spawn' or 'forkserver' (multiprocessing), or do without processes"
        )
    if not processes and scheduler is None and (cells.seconds < SMALL or lacks_threads):
        yield Threads(min(count or usable_processors(), len(cells.tasks)))
        return
    from kvsweep.workers import cluster

    if scheduler is None:
        of_them = cluster.local(count, processes, notify)
    else:
        of_them = cluster.existing(scheduler, needs=job.needs, notify=notify, wait=wait)
    with of_them as found:
        yield found


def _is_forked() -> bool:
    """Whether this is a fork of a process that had workers of Dask, which would wait forever."""
    here = os.getpid()
    # While another thread loads the module it is there, and has no such name yet.
    return bool(getattr(sys.modules.get("kvsweep.workers.cluster"), "PROCESS", here) != here)
