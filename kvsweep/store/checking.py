"""Whether a store is what was written: its metadata, its shards, and parts that are not packed.

In a store that is being filled, tasks without a whole part or a record are pending. In a complete
store, which says so in its root, anything that is missing is damage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvsweep.store.layout import STATUS, chunk_name
from kvsweep.store.metadata import Document, Root
from kvsweep.store.parts import Head, name_of, read
from kvsweep.store.shard_records import Record, bodies, parse, record_name
from kvsweep.store.sharding import Place, Sharding

if TYPE_CHECKING:
    from kvsweep.store.places import Storage

COMPLETE = "complete"
IDENTITY = "identity"


@dataclass
class Check:
    """What is the matter with a store.

    Attributes
    ----------
    metadata : list of str
        Damaged files of the root, the arrays' metadata and the coordinates.
    damaged : list of str
        Other damaged files.
    done : dict of int to Head
        Of every task that is whole, by its index.
    packed : dict of Place to Record
        Of every shard with a record, whole or not.
    broken : set of Place
        Shards of these that have a damaged file; its damage may be in no chunk.
    compared : int
        Files that were compared with their checksums.
    """

    metadata: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    done: dict[int, Head] = field(default_factory=dict)
    packed: dict[Place, Record] = field(default_factory=dict)
    broken: set[Place] = field(default_factory=set)
    compared: int = 0

    @property
    def files(self) -> list[str]:
        """All damaged files."""
        return [*self.metadata, *self.damaged]


@dataclass(frozen=True)
class Shards:
    """The shards of a store, as its root has them.

    Attributes
    ----------
    folder : Storage
        The store.
    sweep : str
        Identity of its sweep.
    complete : bool
        Whether every task was written.
    arrays : dict of str to int
        The arrays that tasks write, in the order of `layout.names`, with their dimensions.
    sharding : Sharding
        The shards.
    """

    folder: Storage
    sweep: str
    complete: bool
    arrays: Mapping[str, int]
    sharding: Sharding

    @classmethod
    def of(cls, folder: Storage, root: Root) -> Shards:
        """Return the shards of a store with this root."""
        status = root.arrays[STATUS.name]
        sharding = Sharding.of_array(status)
        sweep = str(root.attributes.get(IDENTITY))
        complete = bool(root.attributes.get(COMPLETE))
        return cls(folder, sweep, complete, measures(root.arrays), sharding)

    def record(self, shard: Place) -> Record | None:
        """Read the record of a shard, None if there is none, or it is damaged."""
        data = self.folder.get(record_name(shard))
        tasks = list(self.sharding.tasks_of(shard))
        return None if data is None else parse(data, shard, self.sweep, tasks)

    def records(self) -> dict[Place, Record | None]:
        """Read the records of all shards."""
        named = {record_name(shard): shard for shard in self.sharding.shards}
        found: dict[Place, Record | None] = {}
        for name, data in self.folder.get_all(named):
            shard = named[name]
            tasks = list(self.sharding.tasks_of(shard))
            found[shard] = None if data is None else parse(data, shard, self.sweep, tasks)
        return found

    def files(self, shard: Place) -> dict[str, str]:
        """Return the files of a shard, by array."""
        return {name: chunk_name(name, shard, dims) for name, dims in self.arrays.items()}

    def parts(self, shard: Place) -> Iterator[tuple[int, tuple[Head, bytes] | None]]:
        """Yield the tasks of a shard that have a part, None for one that is damaged."""
        named = {name_of(task): task for task in self.sharding.tasks_of(shard)}
        for name, data in self.folder.get_all(named):
            if data is not None:
                yield named[name], read(data, self.sweep, named[name])


def check(folder: Storage, root: Root) -> Check:
    """Compare every file of a store with its checksum; each is read once.

    With a damaged root there is nothing to compare with.
    """
    there = sum(value is not None for value in root.files.values())
    return check_shards(folder, root, Check(root.damaged(folder), compared=1 + there))


def check_shards(folder: Storage, root: Root, found: Check) -> Check:
    """Add what is the matter with shards and parts to what was found of the metadata."""
    if not root.intact or STATUS.name not in root.arrays:
        return found  # nothing of it can be trusted; or a measurement, whose root has all sums
    shards = Shards.of(folder, root)
    for shard in shards.sharding.shards:
        _check_shard(found, shards, shard)
    return found


def measures(arrays: Mapping[str, Document]) -> dict[str, int]:
    """Return the arrays that tasks write, with their dimensions: none of a group, no labels."""
    return {
        name: len(document["shape"])
        for name, document in arrays.items()
        if "/" not in name
        and document["node_type"] == "array"
        and document["dimension_names"] != [name]
    }


def _check_shard(found: Check, shards: Shards, shard: Place) -> None:
    """Enter how it stands with the tasks of one shard."""
    record = shards.record(shard)
    broken = record is None and shards.folder.size(record_name(shard)) is not None
    if broken:
        record = shards.record(shard)  # which another run may have written since
    if record is None:
        if shards.complete or broken:
            found.damaged.append(record_name(shard))
            found.compared += 1
        for task, part in shards.parts(shard):
            found.compared += 1
            if part is None:
                found.damaged.append(name_of(task))
            else:
                found.done[task] = part[0]
        return
    found.packed[shard] = record
    files = shards.files(shard)
    sums = {name: shards.folder.sums(file) for name, file in files.items()}
    wrong = [file for name, file in files.items() if sums[name] != record.files.get(name)]
    found.compared += 1 + sum(value is not None for value in record.files.values())
    if wrong:
        found.damaged += wrong
        found.broken.add(shard)
    whole = _whole(shards, shard, record, files) if wrong else record.heads
    found.done |= {head.task: head for head in whole}


def _whole(shards: Shards, shard: Place, record: Record, files: Mapping[str, str]) -> list[Head]:
    """Return the heads of the tasks of a shard none of whose chunks is damaged."""
    data: dict[str, Any] = {name: shards.folder.get(file) for name, file in files.items()}
    order = shards.sharding.order(shard)
    return [head for head, _ in bodies(record, list(files), data, order)]
