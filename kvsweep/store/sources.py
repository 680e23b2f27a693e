"""Stores of one sweep that are put together, each with the tasks of some runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvsweep.errors import InputError
from kvsweep.store import details
from kvsweep.store.arrays import from_document
from kvsweep.store.checking import Check, Shards, check
from kvsweep.store.identity import describe, difference
from kvsweep.store.layout import arrays
from kvsweep.store.metadata import Root
from kvsweep.store.parts import FOLDER, Head, name_of, read
from kvsweep.store.places import storage
from kvsweep.store.refusals import damage, read_store, refuse_unsealed
from kvsweep.store.shard_records import bodies
from kvsweep.store.sharding import Place
from kvsweep.store.share import Share
from kvsweep.store.unlike_sweeps import difference_of_sweeps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.addresses import Where
    from kvsweep.config import Sweep
    from kvsweep.grid import Plan


@dataclass
class Source:
    """A store of which tasks are taken.

    Attributes
    ----------
    path : Where
        Its directory, or address.
    root : Root
        What its root says.
    shards : Shards
        Its shards.
    found : Check
        Which tasks are there, whole.
    """

    path: Where
    root: Root
    shards: Shards
    found: Check
    _last: tuple[Place, dict[int, bytes]] | None = field(default=None, repr=False)

    @classmethod
    def open(cls, path: Where) -> Source:
        """Open a store, and compare all of it with its checksums.

        Raises
        ------
        InputError
            If it is no store of results, or its metadata are damaged. Tasks that are damaged are
            as if not there.
        """
        root = read_store(path)
        refuse_unsealed(path, root, "kvsweep grid SWEEP.toml --overwrite")
        folder = storage(path)
        found = check(folder, root)
        if found.metadata:
            raise damage(path, found.metadata)
        return cls(path, root, Shards.of(folder, root), found)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the store."""
        return self.root.attributes

    def shares(self) -> list[Share]:
        """Return the shares that were run in it, as far as it is not packed yet."""
        named = map(Share.named, self.shards.folder.names(FOLDER))
        return [share for share in named if share is not None]

    def part(self, task: int) -> bytes:
        """Return the part of a task that is there; those of a shard are read together."""
        shard = self.shards.sharding.shard_of(task)
        last = self._last  # threads may take turns
        if last is None or last[0] != shard:
            self._last = last = shard, dict(self._parts(shard))
        if task not in last[1]:
            raise InputError(
                f"{self.path}: changes while it is read; try again when no run fills it"
            )
        return last[1][task]

    def values(self, task: int) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the arrays of a task, by name: whole chunks, as they are stored."""
        found = read(self.part(task), self.shards.sweep, task)
        if found is None:
            raise damage(self.path, [name_of(task)])
        for name, chunk in found[0].chunks(list(self.shards.arrays), found[1]):
            yield name, from_document(name, self.root.arrays[name]).decode(chunk)

    def texts(self, task: int) -> dict[int, str]:
        """Return what is to be said of cells of a task, by their place in the grid."""
        told = self.found.done[task].details
        return {cell: text for text, _, cells in told for cell in cells}

    def __getstate__(self) -> dict[str, Any]:
        """Return what other processes need."""
        return self.__dict__ | {"_last": None}

    def _parts(self, shard: Place) -> Iterator[tuple[int, bytes]]:
        record = self.found.packed.get(shard)
        if record is None:
            for task, part in self.shards.parts(shard):
                if part is not None:
                    yield task, part[0].lines() + part[1]
            return
        files = self.shards.files(shard)
        of_file = dict(self.shards.folder.get_all(files.values()))
        data = {name: of_file[file] for name, file in files.items()}
        for head, body in bodies(record, list(files), data, self.shards.sharding.order(shard)):
            yield head.task, head.lines() + body


def check_alike(sources: Sequence[Source]) -> None:
    """Refuse stores that are not of one sweep, or whose numbers are of two kinds.

    Raises
    ------
    InputError
        Naming what differs first.
    """
    first = sources[0]
    for other in sources[1:]:
        names = str(other.path), str(first.path)
        there, wanted = other.attributes, first.attributes
        reason = difference(there, wanted, names)
        if not reason and other.shards.sweep != first.shards.sweep:
            reason = "laid out by another version of kvsweep"
        if reason:
            raise InputError(f"{other.path}: cannot be merged with {first.path}: {reason}")


def chosen(sources: Sequence[Source], tasks: int) -> dict[int, Source]:
    """Return for each task that is anywhere the store that it is taken from.

    One whose cells failed gives way to one whose cells did not.

    Raises
    ------
    InputError
        If a task is in two stores, and not the same in both.
    """
    found = {}
    for task in range(tasks):
        having = [source for source in sources if task in source.found.done]
        having = [s for s in having if not s.found.done[task].again] or having[:1]
        for other in having[1:]:
            refuse_unlike(other.path, {task: other.found.done[task]}, {task: having[0]})
        if having:
            found[task] = having[0]
    return found


def refuse_unlike(path: Where, there: Mapping[int, Head], found: Mapping[int, Source]) -> None:
    """Refuse a store whose tasks are not those that are taken from others.

    Raises
    ------
    InputError
        If a task of these is in both, did not fail, and is not the same.
    """
    for task, head in there.items():
        other = found[task].found.done[task]
        if head.sum != other.sum and not (head.again or other.again):
            raise InputError(
                f"{path}: task {task} is another than in {found[task].path}, though both are "
                "whole; `kvsweep verify` tells which one a simulation gives"
            )


def unlike(source: Source, sweep: Sweep, plan: Plan) -> str:
    """Say why this is not the sweep of a store, though restored from it; empty if it is.

    Presets that it names may be others now, or kvsweep may lay out the cells in another way.
    """
    described = describe(sweep, str(source.attributes["source_hash"]))
    reason = difference_of_sweeps(source.attributes, described, folder=sweep.base_dir)
    if not reason and details.without(source.root)[0] != {
        name: array.document() for name, array in arrays(plan).items()
    }:
        reason = "it was laid out by another version of kvsweep"
    return reason
