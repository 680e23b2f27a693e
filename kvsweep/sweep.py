"""Running a sweep: tasks fan out over workers, which write them; here their parts are packed."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kvsweep import simulate
from kvsweep.addresses import Where, store_place
from kvsweep.analysis.planned import cells_of_sweep, left_out_texts
from kvsweep.analysis.warning_records import ResultWarning
from kvsweep.analysis.warnings import UNEQUAL_MEMORY, find_warnings, stored
from kvsweep.analysis.wording import counted
from kvsweep.arguments import checked
from kvsweep.config import Sweep
from kvsweep.config.memory import memory_varies
from kvsweep.enlarging import extension, filled_place, has_all
from kvsweep.errors import InputError
from kvsweep.grid import Plan, Task, plan
from kvsweep.seeding import refuse_shard, run_until
from kvsweep.store import (
    Share,
    Store,
    completed,
    default_path,
    finish_growing,
    load,
    open_results,
    opened,
    pending,
    prepare,
    real_path,
    update_attributes,
)
from kvsweep.workers.choosing import check_workers, found_workers
from kvsweep.workers.job import Job
from kvsweep.workers.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    import xarray as xr

    from kvsweep.workers.cluster import Client, Scheduler
    from kvsweep.workers.job import Running, Workers


class Progress(Protocol):
    """What `run` calls after each task, and once when the workers are ready for the first."""

    def __call__(self, done: int, total: int) -> None:
        """Take note that `done` of `total` cells are in the store."""


@checked
def run(
    sweep: Sweep,
    *,
    out: str | Where | None = None,
    workers: int | None = None,
    processes: bool = False,
    scheduler: Scheduler | None = None,
    scheduler_file: str | Path | None = None,
    client: Client | None = None,
    wait: float | None = None,
    shard: str | None = None,
    overwrite: bool = False,
    extend: bool = False,
    keep_requests: bool = False,
    prune: bool = True,
    progress: Progress | None = None,
    notify: Callable[[str], None] | None = None,
) -> xr.Dataset:
    r"""Simulate every cell of a sweep that its store does not hold yet, and open the store.

    Parameters
    ----------
    sweep : Sweep
        What to simulate, from `kvsweep.load_sweep`.
    out : path, optional
        The store, or its address, as ``s3://bucket/h8.zarr`` (``pip install 'kvsweep[remote]'``);
        ``results/<name of the TOML>.zarr`` if not given.
    workers : int, optional
        Number of threads, or processes; as many as processors if not given.
    processes : bool
        Use a local cluster of processes instead of threads of this one. They import the script
        that calls: there the call belongs under ``if __name__ == "__main__":``.
    scheduler : str, Client or Cluster, optional
        Running Dask scheduler to use: its address (``tcp://host:8786``), or Dask's own objects.
        Workers that would give other numbers (other sources of kvsweep, another numba, numpy
        or numcodecs) are told by name and not used.
    scheduler_file : path, optional
        The file that a Dask scheduler wrote (``dask scheduler --scheduler-file``), instead of its
        address; it is waited for.
    client : Client, optional
        A client of Dask's, with its own `Security`; it stays open.
    wait : float, optional
        Seconds to wait for the file and for a first worker of the scheduler, and for another when
        all are gone; without limit if not given. The scheduler itself has 10 seconds to answer,
        less if this is less, but at least 5.
    shard : str, optional
        ``K/N``: simulate only the K-th of N shares of the cells. Runs of the others may fill the
        same store at the same time, or stores of their own for `kvsweep.merge`; the last run that
        ends in a store with all cells completes it.
    overwrite : bool
        Discard an existing store instead of continuing it.
    extend : bool
        Take over the cells of an existing store of a smaller sweep, all of whose cells this one
        has. The larger store replaces it when it is whole.
    keep_requests : bool
        Store the columns of every request too.
    prune : bool
        Copy cells that are proved equal to one with fewer blocks instead of running them.
    progress : callable (done, total), optional
        Called with numbers of cells, by this thread: in a notebook,
        ``lambda done, total: print(f"\r{done:,} of {total:,}", end="")``.
    notify : callable (str), optional
        Called with a line for the user before something that takes long, and about each trace of
        which requests are left out, as those that failed; without it the latter, and what workers
        wait for, are logged as warnings of ``kvsweep``.

    Returns
    -------
    xr.Dataset
        The results, opened by `kvsweep.open_results`. Look at ``status`` before the numbers, and
        at `kvsweep.warnings_of`, which tells what misleads.

    Raises
    ------
    InputError
        If the sweep, its input files, the store or the scheduler is no good.
    KeyboardInterrupt
        If interrupted; the store then holds every task that was done, and another `run` goes on.

    Examples
    --------
    >>> import kvsweep
    >>> ds = kvsweep.run(kvsweep.load_sweep("small.toml"))
    >>> ds.attrs["title"], ds["status"].size, bool((ds["status"] == "ok").all())
    ('Routing and order under a shrinking cache', 224, True)
    >>> ds["preemption_rate"].sel(policy="base", rate=200.0).mean("seed").values.round(2)
    array([0.41, 0.35, 0.29, 0.32, 0.12, 0.  , 0.  ])
    """
    path = store_place(out if out is not None else default_path(sweep))
    check_workers(workers, processes, scheduler, scheduler_file, client, wait)
    file = None if scheduler_file is None else Path(scheduler_file)
    using = next((given for given in (scheduler, file, client) if given is not None), None)
    for text in left_out_texts(sweep):
        (notify or logging.getLogger("kvsweep").warning)(f"trace: {text}")
    run_once = partial(
        _run,
        path=path,
        workers=workers,
        processes=processes,
        using=using,
        wait=wait,
        shard=shard,
        keep_requests=keep_requests,
        prune=prune,
        progress=progress or _silent,
        notify=notify,
    )
    if sweep.until is None:
        return run_once(sweep, overwrite=overwrite, extend=extend)
    refuse_shard(shard)
    return run_until(sweep, path, run_once, overwrite=overwrite, extend=extend, notify=notify)


def _run(
    sweep: Sweep,
    *,
    path: Where,
    workers: int | None,
    processes: bool,
    using: Any,
    wait: float | None,
    shard: str | None,
    overwrite: bool,
    extend: bool,
    keep_requests: bool,
    prune: bool,
    progress: Progress,
    notify: Callable[[str], None] | None,
) -> xr.Dataset:
    """Run a sweep of given seeds."""
    place = real_path(path)
    share = Share.asked(shard, overwrite=overwrite, extend=extend)
    cells = plan(sweep, keep_requests=keep_requests)
    if share is not None:
        share.check(len(cells.tasks))
    stored_too: dict[str, Any] = {"keep_requests": keep_requests, "prune": prune}
    if extend:
        finish_growing(place)  # else a store that a kill left without a name is none to extend
    known = extension(place, sweep, cells, **stored_too) if extend else None
    job = Job(sweep.name, cells, sweep.entropy, sweep.base_dir.resolve(), keep_requests, prune)
    job = replace(job, known=known)
    stored_too |= {"sweep": sweep, "plan": cells, "source_hash": simulate.source_hash()}
    make = partial(prepare, **stored_too)
    gang: AbstractContextManager[Workers]
    gang = found_workers(job, workers, processes, using, wait, notify)
    # Before a worker is waited for that is not needed, or whose work would be refused.
    waits = using is not None and known is None and not overwrite
    if waits and has_all(place, share, partial(pending, place, **stored_too)):
        gang = nullcontext(Threads(1))
    with (
        gang as found,
        filled_place(place, known) as filled,
        opened(filled, share, partial(make, filled, overwrite=overwrite), anew=overwrite) as target,
    ):
        todo = target.pending()
        if target.damaged and notify:
            count = sum(map(cells.size, todo))
            anew = f"{_damage(target.damaged)} made anew, {counted(count, 'cell')} simulated"
            notify(f"{path}: {anew}")
        if todo and job.entries and using is None:
            # Compiled once, here: processes then load it instead of compiling all at once.
            simulate.warm_up(notify, job.entries)
        if todo:
            job = replace(job, deliver=target.writer(), traces=target.traces)
        with found.holding(job) as running:
            _fill(target, todo, _finished(running, todo), progress)
        if share is None:
            target.finish()
        else:
            ds = load(
                open_results(str(path)), "status", "status_detail"
            )  # before another packs them
    if share is not None and not completed(place, partial(make, place)):
        return ds
    return warned(path, sweep, cells)


def _finished(running: Running, todo: list[Task]) -> Iterator[tuple[Task, Any]]:
    """Yield tasks as they finish."""
    running.begin(todo)
    # `open_results` loads it at the end. Here its half second passes while the workers work.
    import xarray  # noqa: F401

    yield from running


def _fill(
    store: Store,
    todo: list[Task],
    finished: Iterable[tuple[Task, Any]],
    progress: Progress,
) -> None:
    """Take the tasks `todo` into `store` as they come, whatever their order."""
    cells = store.plan
    share = store.share
    total = sum(cells.size(t) for t in cells.tasks if share is None or share.has(t.index))
    done = total - sum(map(cells.size, todo))
    progress(done, total)
    for task, outcome in finished:
        if isinstance(outcome, InputError):
            raise outcome
        if isinstance(outcome, Exception):
            store.write_failure(task, f"{type(outcome).__name__}: {outcome}")
        else:
            store.accept(task, outcome)
        done += cells.size(task)
        progress(done, total)


def warned(path: Where, sweep: Sweep, cells: Plan) -> xr.Dataset:
    """Open the results, and store with them what in them misleads."""
    found = find_warnings(cells_of_sweep(open_results(str(path)), sweep, cells))
    if text := memory_varies(sweep):
        found.append(ResultWarning(UNEQUAL_MEMORY, text, cells.cells, cells.cells, {}))
    update_attributes(path, stored(found))
    # Anew, as a dataset keeps what was read of it: 180 MB of a million cells.
    return open_results(str(path))


def _damage(files: list[str]) -> str:
    if len(files) == 1:
        return f"1 damaged file ({files[0]})"
    return f"{len(files):,} damaged files ({files[0]}, ...)"


def _silent(done: int, total: int) -> None:
    """Report no progress."""
