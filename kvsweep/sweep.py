"""Running a sweep: tasks fan out over Dask, one writer fills the store. Dask lives only here."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import dask
from distributed import Client, Future, LocalCluster, WorkerPlugin, as_completed, get_worker

from kvsweep import simulate
from kvsweep.errors import InputError
from kvsweep.grid import Plan, Task, plan
from kvsweep.store import Store, default_path, open_results, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import xarray as xr
    from numpy.typing import NDArray

    from kvsweep.config import Sweep

# Times a task is tried again after an error before its cells are marked as failed. Of tasks whose
# worker died Dask itself keeps count (``distributed.scheduler.allowed-failures``).
RETRIES = 2
# Seconds to wait for the answer of an existing scheduler.
CONNECT_TIMEOUT = 10.0
LOOPBACK = "127.0.0.1:0"
# Dask looks at its threads 100 times a second for a profile that nobody asks for, and at its own
# responsiveness 50 times: 4 % of a core, in turns with the threads that simulate.
QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "200ms"}


class Progress(Protocol):
    """What `run` calls after each task, and once when the workers are ready for the first."""

    def __call__(self, done: int, total: int) -> None:
        """Take note that `done` of `total` cells are in the store."""


def run(
    sweep: Sweep,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    processes: bool = False,
    scheduler: str | None = None,
    overwrite: bool = False,
    keep_requests: bool = False,
    prune: bool = True,
    progress: Progress | None = None,
    notify: Callable[[str], None] | None = None,
) -> xr.Dataset:
    """Simulate every cell of a sweep that its store does not hold yet, and open the store.

    Parameters
    ----------
    sweep : Sweep
        What to simulate, from `kvsweep.load_sweep`.
    out : path, optional
        The store; ``results/<name of the TOML>.zarr`` if not given.
    workers : int, optional
        Number of threads, or processes; as many as processors if not given.
    processes : bool
        Use a local cluster of processes instead of threads of this one.
    scheduler : str, optional
        Address of a running Dask scheduler to use (``tcp://host:8786``).
    overwrite : bool
        Discard an existing store instead of continuing it.
    keep_requests : bool
        Store the columns of every request too.
    prune : bool
        Copy cells that are proved equal to one with fewer blocks instead of running them.
    progress : callable (done, total), optional
        Called with numbers of cells.
    notify : callable (str), optional
        Called with a line for the user before something that takes long.

    Returns
    -------
    xr.Dataset
        The results, opened by `kvsweep.open_results`. Look at ``status`` before the numbers.

    Raises
    ------
    InputError
        If the sweep, its input files, the store or the scheduler is no good.
    KeyboardInterrupt
        If interrupted; the store then holds every task that was done, and another `run` goes on.
    """
    path = Path(out) if out is not None else default_path(sweep)
    cells = plan(sweep, keep_requests=keep_requests)
    job = _Job(cells, sweep.entropy, sweep.base_dir.resolve(), keep_requests, prune)
    with _connect(workers, processes, scheduler) as client:
        target = prepare(
            path, sweep, cells, overwrite=overwrite, keep_requests=keep_requests, prune=prune
        )
        todo = target.pending()
        if todo and job.compiled and scheduler is None:
            # Compiled once, here: processes then load it instead of compiling all at once.
            simulate.warm_up(notify)
        with _held(client, job) as holder:
            _fill(client, target, todo, holder, progress or _silent)
    return open_results(path)


@dataclass(frozen=True)
class _Job:
    """How the tasks of a sweep are simulated.

    Attributes
    ----------
    cells : Plan
        The cells.
    entropy : int
        Entropy of all random streams.
    base_dir : Path
        Folder that paths of traces are relative to.
    keep_requests, prune : bool
        As for `run`.
    """

    cells: Plan
    entropy: int
    base_dir: Path
    keep_requests: bool
    prune: bool

    @property
    def compiled(self) -> bool:
        """Whether any cell runs on the compiled kernel."""
        return any(variant.engine.rules == "vllm" for variant in self.cells.variants)

    def simulate(self, task: Task) -> dict[str, NDArray[Any]]:
        """Return arrays (variants, seeds, ...) by variable."""
        chosen = self.cells.variant_indices(task)
        return simulate.simulate_batch(
            [self.cells.variants[i] for i in chosen],
            self.cells.seeds_of(task),
            entropy=self.entropy,
            policies=[self.cells.policies[i] for i in chosen],
            base_dir=self.base_dir,
            keep_requests=self.keep_requests,
            slo_classes=self.cells.extra.get("slo_class", ()),
            prune=self.prune,
        )


class _Holder(WorkerPlugin):  # type: ignore[misc]
    """Holds the job in every worker, also in one that joins later, with the kernel loaded.

    A task is then a few numbers. With its scenarios sent along, Dask pickled, unpickled twice and
    kept 0.3 MB per task of 500 variants: a third of the time and 1 GB at a million cells.
    """

    def __init__(self, job: _Job) -> None:
        self.job = job
        self.name = f"kvsweep-{uuid4().hex}"  # several runs may share a scheduler

    def setup(self, worker: Any) -> None:
        if self.job.compiled:
            simulate.warm_up()


def _simulate(holder: str, task: Task) -> dict[str, NDArray[Any]]:
    """Simulate a task of the job that the plugin `holder` of this worker holds."""
    job: _Job = get_worker().plugins[holder].job
    return job.simulate(task)


@contextmanager
def _held(client: Client, job: _Job) -> Iterator[str]:
    """Give the job to every worker, under the name that the block gets."""
    holder = _Holder(job)
    client.register_plugin(holder)
    try:
        yield holder.name
    finally:
        client.unregister_worker_plugin(holder.name)


def _fill(client: Client, store: Store, todo: list[Task], holder: str, progress: Progress) -> None:
    """Simulate the tasks `todo` and write them to `store` as they come, whatever their order."""
    cells = store.plan
    done = cells.cells - sum(map(cells.size, todo))
    progress(done, cells.cells)
    for task, future in _in_flight(client, todo, holder):
        error = future.exception()
        if isinstance(error, InputError):
            raise error
        if error is None:
            store.write(task, future.result())
        else:
            store.write_failure(task, f"{type(error).__name__}: {error}")
        done += cells.size(task)
        progress(done, cells.cells)


def _in_flight(client: Client, todo: list[Task], holder: str) -> Iterator[tuple[Task, Future]]:
    """Yield tasks as they finish, with few enough submitted at a time to bound the memory."""
    waiting = iter(todo)
    tasks: dict[str, Task] = {}
    running = as_completed()

    def submit(number: int) -> None:
        for task in islice(waiting, number):
            future = client.submit(_simulate, holder, task, pure=False, retries=RETRIES)
            tasks[future.key] = task
            running.add(future)

    submit(2 * sum(client.nthreads().values()) + 1)
    # `open_results` loads it at the end. Here its half second passes while the workers work.
    import_module("xarray")
    for future in running:
        yield tasks.pop(future.key), future
        submit(1)


@contextmanager
def _connect(workers: int | None, processes: bool, scheduler: str | None) -> Iterator[Client]:
    """Open a client of an existing scheduler, or of a local cluster that ends with the block."""
    if scheduler is not None and (workers is not None or processes):
        raise InputError("--scheduler: cannot be used with --workers or --processes")
    if workers is not None and workers < 1:
        raise InputError(f"--workers: must be at least 1, not {workers}")
    if scheduler is not None:
        with _existing(scheduler) as client:
            yield client
        return
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
        yield client


def _existing(address: str) -> Client:
    try:
        client = Client(address, timeout=CONNECT_TIMEOUT)
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler {address}: no scheduler with workers answers") from error
    return client


def _silent(done: int, total: int) -> None:
    """Report no progress."""
