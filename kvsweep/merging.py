"""Putting stores together that hold shares of one sweep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvsweep import simulate
from kvsweep.addresses import located, overlap, store_place
from kvsweep.analysis.wording import counted
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.grid import plan
from kvsweep.reading import check_folder
from kvsweep.seeding import noted, reached
from kvsweep.store import (
    FOLDERS,
    Delivery,
    Share,
    Source,
    check_alike,
    chosen,
    describe,
    difference_of_makers,
    difference_of_runs,
    difference_of_sweeps,
    input_sums,
    locked,
    prepare,
    real_path,
    refuse_unlike,
    restored_sweep,
)
from kvsweep.sweep import warned

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.config import Sweep
    from kvsweep.grid import Plan

# Tasks and commands that a message names.
NAMED = 5


@checked
def merge(
    stores: Sequence[str | Path],
    *,
    out: str | Path,
    folder: str | Path | None = None,
    overwrite: bool = False,
    notify: Callable[[str], None] | None = None,
) -> xr.Dataset:
    """Put stores of shares of one sweep together: to the byte what one run gives.

    Parameters
    ----------
    stores : list of paths
        Stores that `run` filled with ``shard=``, or cut short, in any order. They are only read.
    out : path
        The store to make, also by its address, or one that a merge left half done: what is there
        must be the same.
    folder : path, optional
        Folder of the sweep file, to which names of files are relative; the current one, or
        ``sweeps`` in it, if not given.
    overwrite : bool
        Discard an existing store at `out`.
    notify : callable (str), optional
        Called with a line for the user.

    Returns
    -------
    xr.Dataset
        The results, as of `run`.

    Raises
    ------
    InputError
        If the stores are not of one sweep, sources and libraries, a task is in none of them (the
        message says which, and how to run it), or differs between two, or a file that the sweep
        names has changed. What is at `out` is as it was then.

    Examples
    --------
    >>> import kvsweep
    >>> sweep = kvsweep.load_sweep("small.toml")
    >>> ds = kvsweep.run(sweep, shard="1/1", out="part.zarr")
    >>> kvsweep.merge(["part.zarr"], out="merged.zarr").identical(ds)
    True
    """
    path = store_place(out)
    if not stores:
        raise InputError("stores: at least one store")
    check_folder(folder)
    sources = [Source.open(located(store)) for store in stores]
    for source in sources:
        if overlap(path, source.path):
            raise InputError(f"out: {path} would replace {source.path}, which is read")
    check_alike(sources)
    sweep, cells = planned(sources[0], folder)
    found = chosen(sources, len(cells.tasks))
    _check_all(sources, found, cells)
    _check_files(sources[0], sweep, cells)
    for source in sources:
        if notify and source.found.files:
            notify(f"{source.path}: damaged: {source.found.files[0]}; taken from the others")
    place = real_path(path)
    first = sources[0].attributes
    with locked(place):
        target = prepare(
            place,
            sweep,
            cells,
            simulate.source_hash(),
            overwrite=overwrite,
            keep_requests=bool(first["per_request"]),
            prune=bool(first["pruned"]),
            identity_of=first,
        )
        todo = target.pending()
        refuse_unlike(path, target.done, found)
        for task in todo:
            target.writer()
            target.accept(task, Delivery(found[task.index].part(task.index)))
        target.finish()
    ds = warned(path, sweep, cells)
    return ds if sweep.until is None else noted(path, ds, reached(ds, sweep.until))


def planned(source: Source, folder: str | Path | None) -> tuple[Sweep, Plan]:
    """Return the sweep of a store, and its cells.

    Raises
    ------
    InputError
        If the store was made by other sources or libraries than those here, or a trace is not
        found.
    """
    reason = difference_of_makers(source.attributes, simulate.source_hash())
    if reason:
        raise InputError(f"{source.path}: {reason}; merge with the kvsweep that made it")
    folders = [Path(folder)] if folder is not None else FOLDERS
    keep = bool(source.attributes["per_request"])
    for place in folders:
        try:
            sweep = restored_sweep(source.attributes, source.path, place)
            return sweep, plan(sweep, keep_requests=keep)
        except InputError as error:
            failure = error
    raise InputError(f"{failure}; --folder names the folder of the sweep file")


def _check_all(sources: Sequence[Source], found: dict[int, Source], cells: Plan) -> None:
    """Refuse to put together what is not there, and say how to run it."""
    missing = [task for task in cells.tasks if task.index not in found]
    if not missing:
        return
    numbers = [task.index for task in missing]
    named = ", ".join(map(str, numbers[:NAMED])) + (", ..." if len(numbers) > NAMED else "")
    count = sum(map(cells.size, missing))
    which = f"{'task' if len(numbers) == 1 else 'tasks'} {named}; {counted(count, 'cell')}"
    raise InputError(
        f"{len(numbers):,} of {len(cells.tasks):,} tasks are in none of the stores ({which}): "
        f"{'; '.join(_commands(sources, numbers))}"
    )


def _check_files(source: Source, sweep: Sweep, cells: Plan) -> None:
    """Refuse other traces, presets and the like than those that the stores were made from."""
    found = source.attributes
    wanted = describe(
        sweep,
        simulate.source_hash(),
        keep_requests=bool(found["per_request"]),
        prune=bool(found["pruned"]),
        inputs=input_sums(cells, sweep.base_dir),
    )
    reason = difference_of_sweeps(found, wanted, folder=sweep.base_dir)
    if reason := reason or difference_of_runs(found, wanted):
        raise InputError(f"{source.path}: {reason}; merge with the files it was made from")


def _commands(sources: Sequence[Source], missing: Sequence[int]) -> list[str]:
    """Return the commands that simulate tasks, by the shares that the stores tell of."""
    stores: dict[Share, str] = {}
    for source in sources:
        stores |= dict.fromkeys(source.shares(), str(source.path))
    counts = {share.of for share in stores}
    if len(counts) != 1:
        return [f"`kvsweep grid SWEEP.toml --out {sources[0].path}` simulates what it lacks"]
    shares: dict[Share, int] = defaultdict(int)
    for task in missing:
        for number in range(1, (of := max(counts)) + 1):
            if Share(number, of).has(task):
                shares[Share(number, of)] += 1
    first = sorted(shares, key=lambda share: share.number)
    said = [
        f"`kvsweep grid SWEEP.toml --shard {share} --out {stores.get(share, 'STORE')}`"
        for share in first[:NAMED]
    ]
    more = [f"and {counted(len(first) - NAMED, 'more shard')}"] if len(first) > NAMED else []
    return [", ".join([*said, *more]) + " simulates " + ("it" if len(missing) == 1 else "them")]
