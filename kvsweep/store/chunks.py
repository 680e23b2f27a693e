"""The files of an array's chunks."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from kvsweep.files import replace_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.store.arrays import Array

Place = tuple[int, ...]
"""Position of a chunk, in chunks."""


class Chunks:
    """The chunks of an array on disk.

    Parameters
    ----------
    store : Path
        Directory of the store.
    array : Array
        The array.
    """

    def __init__(self, store: Path, array: Array) -> None:
        self.array = array
        self._store = store

    def path(self, place: Place) -> str:
        """Return the file of the chunk at `place`."""
        return f"{self._store}/{chunk_name(self.array.name, place, len(self.array.shape))}"

    def write(self, place: Place, values: NDArray[Any]) -> int | None:
        """Write the chunk at `place` and return its checksum, None if it has no file.

        The file appears whole.
        """
        return self.put(place, self.array.encode(values))

    def put(self, place: Place, data: bytes | None) -> int | None:
        """Write the bytes of a chunk, or remove its file, and return their checksum."""
        path = self.path(place)
        if data is None:
            with suppress(FileNotFoundError):
                os.unlink(path)
            return None
        try:
            replace_file(path, data)
        except FileNotFoundError:
            self._make_folders(path)
            replace_file(path, data)
        return crc32(data)

    def _make_folders(self, path: str) -> None:
        """Make what is missing between the array's folder and a file, never that folder itself."""
        folder = f"{self._store}/{self.array.name}"
        for part in os.path.relpath(path, folder).split(os.sep)[:-1]:
            folder = f"{folder}/{part}"
            with suppress(FileExistsError):
                os.mkdir(folder)


def chunk_name(array: str, place: Place, dims: int) -> str:
    """Return the file of a chunk, in the store; further dimensions are whole in each chunk."""
    further = (0,) * (dims - len(place))
    return "/".join([array, "c", *map(str, place + further)])
