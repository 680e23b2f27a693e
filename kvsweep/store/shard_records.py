"""Records: what the files of a shard must be, and what its tasks say of themselves.

A record has the size and CRC-32 of each file of the shard, and the head of every part that was
packed into it: so damage is found, and as the head has the sizes of the chunks and a SHA-256 of
them, the parts of all tasks that are not damaged can be made again. It lies in the folder of the
array ``status``, where no reader of Zarr looks, and is written when all files of the shard are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from kvsweep.store.metadata import hexadecimal
from kvsweep.store.parts import Head, head_of
from kvsweep.store.sharding import Place

FORMAT = "kvsweep-shard/1"
FOLDER = "status/checksums"


@dataclass(frozen=True)
class Record:
    """What is known of a shard.

    Attributes
    ----------
    files : dict of str to list of int, or None
        Size and CRC-32 of the file of each array, None where there is none.
    heads : tuple of Head
        Of the parts of its tasks, in order.
    """

    files: dict[str, list[int] | None]
    heads: tuple[Head, ...]

    def encoded(self, shard: Place) -> bytes:
        """Return the file of the record of a shard."""
        files = json.dumps(self.files, separators=(",", ":"))
        body = f"{FORMAT} {record_name(shard)}\n{files}\n".encode()
        body += b"".join(head.lines() for head in self.heads)
        return body + f"{hexadecimal(crc32(body))}\n".encode()


def record_name(shard: Place) -> str:
    """Return the file of the record of a shard, in the store."""
    return f"{FOLDER}/{'.'.join(map(str, shard)) or 'all'}"


def parse(data: bytes, shard: Place, sweep: str, tasks: Sequence[int]) -> Record | None:
    """Return a record; None if it is damaged, or not that of these tasks of this sweep."""
    body, last = data[:-9], data[-9:]
    if last != f"{hexadecimal(crc32(body))}\n".encode():
        return None
    first, files, *lines = body.decode().splitlines()
    if first != f"{FORMAT} {record_name(shard)}":
        return None
    pairs = zip(lines[::2], lines[1::2], strict=True)
    heads = [head_of(told.encode(), line.encode(), sweep) for told, line in pairs]
    found = tuple(head for head in heads if head is not None)
    if [head.task for head in found] != list(tasks):
        return None
    return Record(json.loads(files), found)


def bodies(
    record: Record, names: Sequence[str], shards: Mapping[str, bytes | None], order: Sequence[int]
) -> Iterator[tuple[Head, bytes]]:
    """Yield head and chunks of every task of a shard that is whole in its files.

    Parameters
    ----------
    record : Record
        Of the shard.
    names : sequence of str
        The arrays, in the order of `layout.names`.
    shards : mapping of str to bytes
        The files of the shard, by array, of which any may be damaged.
    order : sequence of int
        Where in a file the tasks stand: positions in `record.heads`, first to last.
    """
    starts: dict[int, list[int]] = {}
    place = [0] * len(names)
    for i in order:
        starts[i] = list(place)
        place = [at + max(0, n) for at, n in zip(place, record.heads[i].sizes, strict=True)]
    for i, head in enumerate(record.heads):
        pieces = zip(names, starts[i], head.sizes, strict=True)
        body = b"".join((shards[name] or b"")[at : at + n] for name, at, n in pieces if n >= 0)
        if head.fits(body):
            yield head, body
