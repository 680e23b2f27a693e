"""Filling a store task by task."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.errors import InputError
from kvsweep.files import replace_file, unwritable
from kvsweep.policies import Status
from kvsweep.store import checking
from kvsweep.store.checking import COMPLETE
from kvsweep.store.chunks import Chunks, Place
from kvsweep.store.layout import STATUS, STATUS_DETAIL
from kvsweep.store.metadata import Root

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.grid import Plan, Task

_LABELS = np.array(Status.labels())
_TO_DO = (Status.PENDING.label, Status.FAILED.label)
_KEPT = "; all that was done is kept, and the same command goes on with it"


@dataclass
class Store:
    """An open store that is being filled. `writing.prepare` opens it.

    Attributes
    ----------
    path : Path
        Its directory.
    plan : Plan
        The cells it holds.
    attributes : dict
        Its attributes while cells are pending.
    root : Root
        Its root as it is on disk.
    chunks : dict of str to Chunks
        Of every array that tasks write.
    found : os.stat_result
        The directory when it was opened.
    repaired : list of str
        Damaged files of the metadata and coordinates, which are written anew.
    damaged : list of str
        These, and files of cells that `pending` found damaged: they are pending.
    """

    path: Path
    plan: Plan
    attributes: Mapping[str, Any]
    root: Root
    chunks: Mapping[str, Chunks]
    found: os.stat_result
    repaired: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    def pending(self) -> list[Task]:
        """Return the tasks with cells not simulated yet, damaged, or whose worker failed."""
        found = checking.check(self.path, self.root)
        self.damaged = list(dict.fromkeys([*self.repaired, *found.files]))
        return [task for task in self.plan.tasks if self._is_pending(task, found)]

    def write(self, task: Task, results: Mapping[str, NDArray[Any]]) -> None:
        """Write the cells of `task`.

        Parameters
        ----------
        task : Task
            The block of cells.
        results : mapping of str to array (variants, seeds, ...)
            What `kvsweep.simulate.simulate_batch` returned for it; it has no measures by round,
            say, if no request of the task has a round.

        Raises
        ------
        InputError
            If not all of it can be written: the cells are pending then.
        """
        self._write(task, {**results, STATUS.name: _LABELS[results[STATUS.name]]})

    def write_failure(self, task: Task, detail: str) -> None:
        """Mark every cell of `task` as failed, for the reason `detail`."""
        cells = len(self.plan.variant_indices(task)), len(self.plan.seeds_of(task))
        details = np.full(cells, detail, object)
        self._write(
            task,
            {STATUS_DETAIL.name: details, STATUS.name: np.full(cells, Status.FAILED.label)},
        )

    def finish(self) -> None:
        """Say that every task was written: what is missing from now on is damage."""
        if not self.root.attributes[COMPLETE]:
            with self._writing():
                self._set_attributes({**self.root.attributes, COMPLETE: 1})

    def _is_pending(self, task: Task, found: checking.Check) -> bool:
        data = found.done.get(self._place(task))
        if data is None:
            return True
        status = self.chunks[STATUS.name].array.decode(data)
        cells = tuple(map(slice, self.plan.block_shape(task)))
        return bool(np.isin(status[cells], _TO_DO).any())

    def _write(self, task: Task, values: Mapping[str, NDArray[Any]]) -> None:
        """Write all chunks of a task, then their record, and the status last."""
        place = self._place(task)
        status = self.chunks[STATUS.name]
        last = status.array.encode(self.plan.arrange(task, values[STATUS.name]))
        sums = {STATUS.name: checking.sum_of(last)}
        record = f"{self.path}/{checking.record_name(place)}"
        with self._writing():
            self._begin(status.path(place), record)
            for name in self.chunks:
                if name != STATUS.name:
                    sums[name] = self._put(name, task, values.get(name))
            with suppress(FileExistsError):
                os.mkdir(os.path.dirname(record))
            replace_file(record, checking.record(place, sums))
            self._look()
            status.put(place, last)

    def _begin(self, status: str, record: str) -> None:
        """Say that the cells are pending before anything of them changes."""
        self._look()
        if self.root.attributes != self.attributes:
            self._set_attributes(self.attributes)
        for file in (status, record):
            with suppress(FileNotFoundError):
                os.unlink(file)

    def _put(self, name: str, task: Task, values: NDArray[Any] | None) -> int | None:
        """Write one whole chunk; a batch may have fewer instances or requests than the sweep."""
        chunks = self.chunks[name]
        if values is None:
            return chunks.put(self._place(task), None)
        return chunks.write(self._place(task), self.plan.arrange(task, values))

    def _place(self, task: Task) -> Place:
        cuts = zip(task.region, self.plan.chunks, strict=True)
        return tuple(cut.start // size for cut, size in cuts)

    def _set_attributes(self, attributes: Mapping[str, Any]) -> None:
        root = self.root
        self.root = Root(dict(attributes), root.arrays, root.files)
        self.root.write(self.path)

    def _look(self) -> None:
        """See that the store is still where it was: else a new one would begin to grow there."""
        if not os.path.samestat(os.stat(self.path), self.found):
            raise FileNotFoundError

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Tell in one line what a disk, or somebody else, does to the store."""
        try:
            yield
        except FileNotFoundError:
            raise InputError(
                f"{self.path}: was moved or deleted while it was being filled; what was done is "
                "kept where it is now, and can be continued under its old name"
            ) from None
        except OSError as error:
            raise unwritable(self.path, error, _KEPT) from None
