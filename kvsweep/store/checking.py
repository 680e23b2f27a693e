"""Whether the chunks of a store are what was written: a record of checksums for each task.

A record lists the CRC-32 of every chunk of a task, and of itself, with the task's place. It lies in
the folder of the array ``status``, where no reader of Zarr looks. The record is written when all
other chunks are there, the chunk of the status after it. So in a store that is being filled, cells
are done if both are there, and else pending. In a complete store, which says so in its root,
anything that is missing is damage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from zlib import crc32

from kvsweep.reading import regular_bytes
from kvsweep.store.chunks import Place, chunk_name
from kvsweep.store.metadata import Document, Root, hexadecimal

STATUS = "status"
FOLDER = f"{STATUS}/checksums"
COMPLETE = "complete"
_FORMAT = "kvsweep-checksums/1"

Sums = dict[str, int | None]


@dataclass
class Check:
    """What is the matter with a store.

    Attributes
    ----------
    metadata : list of str
        Damaged files of the root, the arrays' metadata and the coordinates.
    done : dict of Place to bytes
        The chunk of the status of every task that is whole.
    damaged : dict of Place to list of str
        Damaged files of each task that is not.
    pending : list of Place
        Tasks that were not done yet.
    compared : int
        Files that were compared with their checksums.
    """

    metadata: list[str] = field(default_factory=list)
    done: dict[Place, bytes] = field(default_factory=dict)
    damaged: dict[Place, list[str]] = field(default_factory=dict)
    pending: list[Place] = field(default_factory=list)
    compared: int = 0

    @property
    def files(self) -> list[str]:
        """All damaged files."""
        return [*self.metadata, *(name for names in self.damaged.values() for name in names)]


def check(path: Path, root: Root) -> Check:
    """Compare every file of the store at `path` with its checksum; each is read once.

    With a damaged root there is nothing to compare with.
    """
    found = Check(root.damaged(path), compared=1 + len(root.files))
    if not root.intact:
        return found  # what it says of the chunks cannot be trusted
    if STATUS not in root.arrays:
        return found  # a measurement, all files of which the root has sums of
    names = measures(root.arrays)
    complete = bool(root.attributes.get(COMPLETE))
    for place in places(root.arrays[STATUS]):
        _check_place(found, path, place, names, complete)
    return found


def measures(arrays: Mapping[str, Document]) -> dict[str, int]:
    """Return the arrays that tasks write, the status among them, with their dimensions."""
    documents = {name: doc for name, doc in arrays.items() if doc["dimension_names"] != [name]}
    return {name: len(documents[name]["shape"]) for name in sorted(documents)}


def places(status: Document) -> Iterator[Place]:
    """Yield the places of all tasks."""
    chunks = status["chunk_grid"]["configuration"]["chunk_shape"]
    pairs = zip(status["shape"], chunks, strict=True)
    return product(*(range(math.ceil(length / size)) for length, size in pairs))


def record_name(place: Place) -> str:
    """Return the file of the record of a task, in the store."""
    return f"{FOLDER}/{'.'.join(map(str, place)) or 'all'}"


def record(place: Place, sums: Mapping[str, int | None]) -> bytes:
    """Return the record of a task: a line for each array, ``-`` where it has no file."""
    lines = [f"{_FORMAT} {record_name(place)}"]
    lines += [f"{name} {_text(sums[name])}" for name in sorted(sums)]
    body = "\n".join(lines) + "\n"
    return f"{body}{hexadecimal(crc32(body.encode()))}\n".encode()


def _check_place(
    found: Check, path: Path, place: Place, names: Mapping[str, int], complete: bool
) -> None:
    """Enter how it stands with one task."""
    files = {name: chunk_name(name, place, dims) for name, dims in names.items()}
    status, there = _read(f"{path}/{files[STATUS]}"), _read(f"{path}/{record_name(place)}")
    if status is None and not complete:
        found.pending.append(place)
        return
    sums: Sums = {name: sum_of(_read(f"{path}/{file}")) for name, file in files.items()}
    found.compared += 1 + sum(value is not None for value in sums.values())
    if status is not None and there == record(place, sums):
        found.done[place] = status
        return
    written = _parse(there, place)
    if written is None:
        found.damaged[place] = [record_name(place)]
    else:
        wrong = [name for name in files if written.get(name) != _text(sums[name])]
        found.damaged[place] = [files[name] for name in wrong] or [record_name(place)]


def _parse(there: bytes | None, place: Place) -> dict[str, str] | None:
    """Return the checksums that a record lists, None if it is not one of this place."""
    text = (there or b"").decode(errors="replace")
    body, _, last = text.removesuffix("\n").rpartition("\n")
    head, *lines = body.split("\n")
    right = last == hexadecimal(crc32(f"{body}\n".encode()))
    if not right or head != f"{_FORMAT} {record_name(place)}":
        return None
    return dict(line.split(" ", 1) for line in lines)


def sum_of(data: bytes | None) -> int | None:
    """Return the CRC-32 of a file, None if there is none."""
    return None if data is None else crc32(data)


def _text(value: int | None) -> str:
    return "-" if value is None else hexadecimal(value)


def _read(path: str) -> bytes | None:
    """Return the bytes of a file, None if there is none; what cannot be read is as if empty."""
    try:
        return regular_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return b""
