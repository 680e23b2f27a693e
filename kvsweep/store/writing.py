"""Creating or continuing a store, and filling it task by task."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from kvsweep.errors import InputError
from kvsweep.policies import Status
from kvsweep.store.chunks import Chunks
from kvsweep.store.identity import WAYS_OUT, check_same, describe
from kvsweep.store.layout import (
    STATUS,
    STATUS_DETAIL,
    STATUS_NAMES,
    create,
    names,
)
from kvsweep.store.reading import unreadable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.config import Sweep
    from kvsweep.grid import Plan, Task

_LABELS = np.array(Status.labels(), object)


@dataclass(frozen=True)
class Store:
    """An open store that is being filled.

    Attributes
    ----------
    path : Path
        Its directory.
    plan : Plan
        The cells it holds.
    """

    path: Path
    plan: Plan
    _arrays: Mapping[str, zarr.Array]
    _chunks: Mapping[str, Chunks]

    def pending(self) -> list[Task]:
        """Return the tasks with cells not simulated yet, or whose worker failed.

        Raises
        ------
        InputError
            If the store is damaged.
        """
        try:
            status = self._arrays[STATUS.name][...]
        except Exception as error:
            raise unreadable(self.path, error) from error
        todo = np.isin(status, STATUS_NAMES[[Status.PENDING, Status.FAILED]])
        return [task for task in self.plan.tasks if todo[task.region].any()]

    def write(self, task: Task, results: Mapping[str, NDArray[Any]]) -> None:
        """Write the cells of `task`.

        Parameters
        ----------
        task : Task
            The block of cells.
        results : mapping of str to array (variants, seeds, ...)
            What `kvsweep.simulate.simulate_batch` returned for it; it has no measures by round,
            say, if no request of the task has a round.
        """
        for name in self._measures():
            if name in results:
                self._put(name, task, results[name])
        self._put(STATUS_DETAIL.name, task, results[STATUS_DETAIL.name])
        self._put(STATUS.name, task, _LABELS[results[STATUS.name]])

    def write_failure(self, task: Task, detail: str) -> None:
        """Mark every cell of `task` as failed, for the reason `detail`."""
        cells = len(self.plan.variant_indices(task)), len(self.plan.seeds_of(task))
        for name in self._measures():
            chunks = self._chunks[name]
            shape = cells + self._arrays[name].shape[len(task.region) :]
            self._put(name, task, np.full(shape, chunks.fill_value, chunks.dtype))
        self._put(STATUS_DETAIL.name, task, np.full(cells, detail, object))
        self._put(STATUS.name, task, np.full(cells, Status.FAILED.label, object))

    def _measures(self) -> list[str]:
        return [n for n in self._arrays if n not in (STATUS.name, STATUS_DETAIL.name)]

    def _put(self, name: str, task: Task, values: NDArray[Any]) -> None:
        """Write one whole chunk; a batch may have fewer instances or requests than the sweep."""
        chunks = self._chunks[name]
        block = self.plan.arrange(task, values)
        cuts = zip(task.region, self.plan.chunks, strict=True)
        place = tuple(cut.start // size for cut, size in cuts)
        further = (0,) * (block.ndim - len(place))
        chunks.write(place + further, block)


def prepare(
    path: str | Path,
    sweep: Sweep,
    plan: Plan,
    *,
    overwrite: bool = False,
    keep_requests: bool = False,
    prune: bool = True,
) -> Store:
    """Create the store of `sweep`, or open it where an interrupted run left it.

    Parameters
    ----------
    path : path
        Directory of the store.
    sweep, plan : Sweep, Plan
        What it is to hold.
    overwrite : bool
        Discard a store that exists.
    keep_requests, prune : bool
        As for `kvsweep.run`.

    Raises
    ------
    InputError
        If `path` is something else, was made from another sweep, by other sources or other
        libraries, or cannot be read or written.
    """
    path = Path(path)
    attributes = describe(sweep, keep_requests=keep_requests, prune=prune)
    if path.exists() and overwrite:
        discard(path)
    if not path.exists():
        create(path, plan, attributes)
    else:
        check_same(path, attributes)
        zarr.open_group(path, mode="r+").attrs.put(attributes)
        for partial in path.rglob("*.partial"):  # zarr's temporary files of a killed run
            partial.unlink()
    return _open(path, plan)


def pending(
    path: Path, sweep: Sweep, plan: Plan, *, keep_requests: bool = False, prune: bool = True
) -> list[Task]:
    """Return the tasks that an existing store lacks; nothing is changed.

    Raises
    ------
    InputError
        As `prepare`.
    """
    check_same(path, describe(sweep, keep_requests=keep_requests, prune=prune))
    return _open(path, plan).pending()


def default_path(sweep: Sweep) -> Path:
    """Return the usual store of a sweep: ``results/<name of the TOML>.zarr``."""
    return Path("results") / f"{sweep.name}.zarr"


def update_attributes(path: Path, attributes: Mapping[str, Any]) -> None:
    """Set attributes of a whole store."""
    zarr.open_group(path, mode="r+").attrs.update(dict(attributes))


def _open(path: Path, plan: Plan) -> Store:
    try:
        group = zarr.open_group(path, mode="r+")
        arrays = {name: group[name] for name in names(plan)}
    except Exception as error:
        raise unreadable(path, error) from error
    status = arrays[STATUS.name]
    planned = (status.shape, status.chunks) == (plan.shape, plan.chunks)
    if not planned or not all(map(Chunks.writes, arrays.values())):
        raise InputError(f"{path}: laid out by another version of kvsweep; {WAYS_OUT}")
    chunks = {name: Chunks(path / name, array) for name, array in arrays.items()}
    return Store(path, plan, arrays, chunks)


def discard(path: Path) -> None:
    """Delete a store, and only a store: under another name, so that no half of it is mistaken."""
    if not (path / "zarr.json").is_file():
        raise InputError(f"{path}: is no store of kvsweep and is not overwritten")
    old = path.with_name(path.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    path.rename(old)
    shutil.rmtree(old)
