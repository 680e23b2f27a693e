"""Filling a store task by task."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.errors import InputError
from kvsweep.files import unwritable
from kvsweep.policies import Status
from kvsweep.store import checking, details, parts
from kvsweep.store.checking import COMPLETE, IDENTITY, Check
from kvsweep.store.delivery import Delivery, PartWriter
from kvsweep.store.inputs import TRACES
from kvsweep.store.layout import STATUS, STATUS_DETAIL
from kvsweep.store.metadata import Root
from kvsweep.store.packing import Packer
from kvsweep.store.sharding import Place, Sharding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.addresses import Where
    from kvsweep.grid import Plan, Task
    from kvsweep.store.arrays import Array
    from kvsweep.store.parts import Head
    from kvsweep.store.places import Storage
    from kvsweep.store.shard_records import Record
    from kvsweep.store.share import Share

_KEPT = "; all that was done is kept, and the same command goes on with it"


@dataclass
class Store:
    """An open store that is being filled. `writing.prepare` opens it.

    Attributes
    ----------
    folder : Storage
        Where it is.
    plan : Plan
        The cells it holds.
    attributes : dict
        Its attributes while cells are pending.
    root : Root
        Its root as it is on disk.
    arrays : sequence of Array
        What tasks write.
    repaired : list of str
        Damaged files of the metadata and coordinates, which are written anew.
    damaged : list of str
        These, and files of cells that `pending` found damaged: they are pending.
    share : Share or None
        The tasks that are this run's, if others fill the store too: nothing is packed then.
    done : dict of int to Head
        Of every task that `pending` found whole, by its index.
    """

    folder: Storage
    plan: Plan
    attributes: Mapping[str, Any]
    root: Root
    arrays: Sequence[Array]
    repaired: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    share: Share | None = None
    done: dict[int, Head] = field(default_factory=dict)
    _packed: dict[Place, Record] = field(default_factory=dict)
    _todo: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    _broken: set[Place] = field(default_factory=set)
    _writer: PartWriter | None = None

    @property
    def path(self) -> Where:
        """Its directory, or address."""
        return self.folder.path

    @property
    def traces(self) -> dict[str, str]:
        """The sum of each trace that its cells are of, by name."""
        return dict(json.loads(self.attributes.get(TRACES, "{}")))

    @cached_property
    def sharding(self) -> Sharding:
        """How its tasks share files."""
        return Sharding.of_plan(self.plan)

    def pending(self) -> list[Task]:
        """Return the tasks with cells not simulated yet, damaged, or whose worker failed.

        Of a share, those of the share.
        """
        found = checking.check_shards(self.folder, self.root, Check())
        self.damaged = list(dict.fromkeys([*self.repaired, *found.files]))
        self._packed, self._broken = found.packed, found.broken
        self.done = found.done
        done = {task for task, head in found.done.items() if not head.again}
        todo = [task for task in self.plan.tasks if task.index not in done]
        self._todo = defaultdict(set)
        for task in todo:
            self._todo[self.sharding.shard_of(task.index)].add(task.index)
        return [task for task in todo if self.share is None or self.share.has(task.index)]

    def unpack(self) -> None:
        """Make it a store that several runs can fill, each its share, without packed tasks to do.

        Raises
        ------
        InputError
            If it cannot be written.
        """
        if not self.pending():
            return
        with self._writing():
            self._begin()
            for shard in self._packed.keys() & self._todo.keys():
                self._packer.unpack(shard, self._packed.pop(shard), self._todo[shard])

    def has_all(self) -> bool:
        """Whether every task was written, by this run or others."""
        self.pending()
        return len(self.done) == len(self.plan.tasks)

    def writer(self) -> PartWriter:
        """Return what writes the parts of tasks, here or on a worker; the store is opened for it.

        Raises
        ------
        InputError
            If it cannot be written.
        """
        if self._writer is None:
            token, told_in = token_hex(16), self.share.token if self.share else parts.TOKEN
            with self._writing():
                self._begin()
                self.folder.put(told_in, token.encode())
            sweep, folder = str(self.attributes[IDENTITY]), self.folder.for_workers()
            arrays = tuple(self.arrays)
            self._writer = PartWriter(folder, token, told_in, sweep, self.plan, arrays)
        return self._writer

    def accept(self, task: Task, delivery: Delivery) -> None:
        """Take what became of `task` on a worker: its part, or word that it is there.

        Raises
        ------
        InputError
            If not all of it can be written: the cells are pending then.
        """
        shard = self.sharding.shard_of(task.index)
        with self._writing():
            if delivery.data is not None:
                name = parts.name_of(task.index)
                self.folder.put(name, delivery.data, shared=self.share is not None)
            if self.share is not None:
                return  # whoever comes last packs
            todo = self._todo[shard]
            if shard in self._packed:  # with cells that are damaged, or failed
                self._packer.unpack(shard, self._packed.pop(shard), todo | {task.index})
                self._broken.discard(shard)
            self.folder.look()
            todo.discard(task.index)
            if not todo:
                self._packed[shard] = self._packer.pack(shard)

    def write(self, task: Task, results: Mapping[str, NDArray[Any]]) -> None:
        """Write the cells of `task`.

        Parameters
        ----------
        task : Task
            The block of cells.
        results : mapping of str to array (variants, seeds, ...)
            What `kvsweep.simulate.simulate_batch` returned for it.

        Raises
        ------
        InputError
            If not all of it can be written: the cells are pending then.
        """
        self.accept(task, Delivery(self.writer().part(task, results)))

    def write_failure(self, task: Task, detail: str) -> None:
        """Mark every cell of `task` as failed, for the reason `detail`."""
        cells = len(self.plan.variant_indices(task)), len(self.plan.seeds_of(task))
        failed = np.full(cells, Status.FAILED.value, np.int8)
        texts = np.full(cells, detail, object)
        self.write(task, {STATUS.name: failed, STATUS_DETAIL.name: texts})

    def finish(self) -> None:
        """Say that every task was written: what is missing from now on is damage."""
        if self.root.attributes[COMPLETE] and not self._broken:
            return
        with self._writing():
            self._mend()
            for shard in self.sharding.shards:
                if shard not in self._packed:  # a run that was killed had all of its parts
                    self._packed[shard] = self._packer.pack(shard)
            parts.clear(self.folder)
            self._writer = None
            root = Root({**self.root.attributes, COMPLETE: 1}, *self._plain())
            records = [self._packed[shard] for shard in self.sharding.shards]
            told = [head.details for record in records for head in record.heads]
            self._set_root(details.added(self.folder, root, self.plan, told))

    def _begin(self) -> None:
        """Say that cells are pending before anything of them changes."""
        self.folder.look()
        if self.root.attributes != self.attributes:
            self._set_root(Root(dict(self.attributes), *self._plain()))
            details.remove(self.folder)
        self.folder.make(parts.FOLDER)

    def _mend(self) -> None:
        """Pack shards again whose files are damaged in what no chunk of theirs needs."""
        for shard in self._broken & self._packed.keys():
            self._begin()
            self._packer.unpack(shard, self._packed.pop(shard), set())
        self._broken = set()

    def _plain(self) -> details.Plain:
        """Return what the root has of the arrays, without those of the details."""
        return details.without(self.root)

    @cached_property
    def _packer(self) -> Packer:
        identity = str(self.attributes[IDENTITY])
        return Packer(self.folder, identity, self.sharding, self.arrays)

    def _set_root(self, root: Root) -> None:
        self.root = root
        root.write(self.folder)

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
            kept = "" if getattr(error, "lost", False) else _KEPT
            raise unwritable(self.path, error, kept) from None
