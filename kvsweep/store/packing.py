"""Packing the parts of a shard into its files, and making parts of them again.

Both can be cut short anywhere: the parts go when the record is there, and the record goes when the
parts are there, so that at any time either is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from kvsweep.store.arrays import Array
from kvsweep.store.layout import chunk_name
from kvsweep.store.parts import Head, name_of, read
from kvsweep.store.shard_records import Record, bodies, record_name
from kvsweep.store.sharding import Place, Sharding

if TYPE_CHECKING:
    from kvsweep.store.places import Storage

# Seconds after which a part that a worker wrote is given up: a network file system shows it late.
VISIBLE_AFTER = 60.0


@dataclass(frozen=True)
class Packer:
    """What packs the shards of a store.

    Attributes
    ----------
    folder : Storage
        The store.
    sweep : str
        Identity of its sweep.
    sharding : Sharding
        Its shards.
    arrays : sequence of Array
        What tasks write, in the order of `layout.names`.
    """

    folder: Storage
    sweep: str
    sharding: Sharding
    arrays: Sequence[Array]

    def pack(self, shard: Place) -> Record:
        """Write the files of a shard, all parts of which are there, then its record.

        Raises
        ------
        OSError
            If a part is not there, or something cannot be written.
        """
        heads, chunks = self._chunks(shard)
        files: dict[str, list[int] | None] = {}
        for array in self.arrays:
            data = array.shard(chunks.pop(array.name))
            name = self.file_of(array, shard)
            if data is None:
                self.folder.delete(name)
            else:
                self.folder.put(name, data)
            files[array.name] = None if data is None else [len(data), crc32(data)]
        record = Record(files, heads)
        self.folder.put(record_name(shard), record.encoded(shard))
        self.folder.delete_all([name_of(head.task) for head in heads])
        return record

    def unpack(self, shard: Place, record: Record, without: set[int]) -> None:
        """Make parts again of the tasks of a shard that are whole, but those `without`.

        Raises
        ------
        OSError
            If one cannot be written.
        """
        names = [array.name for array in self.arrays]
        files = {array.name: self.folder.get(self.file_of(array, shard)) for array in self.arrays}
        for head, body in bodies(record, names, files, self.sharding.order(shard)):
            if head.task not in without:
                self.folder.put(name_of(head.task), head.lines() + body)
        self.folder.delete(record_name(shard))  # without which the files mean nothing
        for array in self.arrays:
            self.folder.delete(self.file_of(array, shard))

    def file_of(self, array: Array, shard: Place) -> str:
        """Return the file of a shard of an array, in the store."""
        return chunk_name(array.name, shard, len(array.shape))

    def _chunks(self, shard: Place) -> tuple[tuple[Head, ...], dict[str, dict[Place, bytes]]]:
        """Read the parts of a shard: their heads, and the chunks of each array by place."""
        names = [array.name for array in self.arrays]
        chunks: dict[str, dict[Place, bytes]] = {name: {} for name in names}
        heads = []
        tasks = list(self.sharding.tasks_of(shard))
        for task, data in zip(tasks, self._data(tasks), strict=True):
            head, body = self._read(task, data)
            heads.append(head)
            place = self.sharding.inside(task)
            for name, chunk in head.chunks(names, body):
                chunks[name][place] = chunk
        return tuple(heads), chunks

    def _data(self, tasks: Sequence[int]) -> Iterator[bytes | None]:
        for _, data in self.folder.get_all(map(name_of, tasks)):
            yield data

    def _read(self, task: int, data: bytes | None) -> tuple[Head, bytes]:
        last = time.monotonic() + VISIBLE_AFTER
        while True:
            found = read(data, self.sweep, task) if data else None
            if found is not None:
                return found
            self.folder.look()
            if time.monotonic() > last:
                raise OSError(f"{name_of(task)} is damaged, or was written and cannot be seen here")
            time.sleep(0.1)
            data = self.folder.get(name_of(task))


def assembled(
    arrays: Mapping[str, Array], name: str, parts: Mapping[Place, tuple[Head, bytes]]
) -> bytes | None:
    """Return a file of a shard of which only these parts are there, by place in it, to be read."""
    names = list(arrays)
    found = {}
    for place, (head, body) in parts.items():
        chunk = dict(head.chunks(names, body)).get(name)
        if chunk is not None:
            found[place] = chunk
    return arrays[name].shard(found, to_read=True)
