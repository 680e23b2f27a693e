"""Where a store is kept: bytes under names, which appear whole or not at all.

Whatever holds stores is asked for no more than this, so that another (`bucket.Bucket`) needs no
more: nothing is appended to, changed in place, locked or renamed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from kvsweep.errors import InputError
from kvsweep.files import replace_file
from kvsweep.reading import open_own, regular_bytes

_PIECE = 2**20


class ClosedError(InputError, OSError):
    """A file that may not be read, which is no damage; a subclass of both for its callers."""

    def __init__(self, path: Path, name: str, error: PermissionError) -> None:
        self.strerror = f"{name} cannot be read: {error.strerror}"
        super().__init__(f"{path}: {self.strerror}")


@dataclass(frozen=True)
class Folder:
    """A folder of this machine, or one that it sees.

    Attributes
    ----------
    path : Path
        The folder.
    there : os.stat_result or None
        The folder as it was opened for writing: nothing is written into another of that name.
    """

    path: Path
    there: os.stat_result | None = field(default=None, compare=False)

    def put(self, name: str, data: bytes, *, shared: bool = False) -> None:
        """Write a file, in place of one that is there; if `shared`, others may do so at once.

        Raises
        ------
        FileNotFoundError
            If the folder was moved or deleted meanwhile: a new one would begin to grow there.
        OSError
            If not all of it can be written.
        """
        self.look()
        try:
            replace_file(f"{self.path}/{name}", data, shared=shared)
        except FileNotFoundError:
            if shared:
                raise  # whoever shares the folder made it, and has removed it
            self._make_folders(name)
            replace_file(f"{self.path}/{name}", data)

    def for_workers(self) -> Folder:
        """Return it as workers name it, which may work elsewhere."""
        return Folder(self.path.resolve())

    def exists(self) -> bool:
        """Whether there is anything under its name."""
        return self.path.exists()

    def read(self, name: str) -> bytes:
        """Return a file.

        Raises
        ------
        OSError
            If there is none, or it cannot be read.
        """
        return regular_bytes(f"{self.path}/{name}")

    def get(self, name: str) -> bytes | None:
        """Return a file, None if there is none; what cannot be read is as if empty.

        Raises
        ------
        ClosedError
            If it may not be read.
        """
        try:
            return self.read(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise ClosedError(self.path, name, error) from None
        except OSError:
            return b""

    def get_all(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield files by name, as `get`."""
        for name in names:
            yield name, self.get(name)

    def sums(self, name: str) -> list[int] | None:
        """Return size and CRC-32 of a file, None if there is none, a size of -1 if unreadable.

        Raises
        ------
        ClosedError
            If it may not be read.
        """
        try:
            with open_own(f"{self.path}/{name}") as stream:
                size = total = 0
                while piece := stream.read(_PIECE):
                    size, total = size + len(piece), crc32(piece, total)
                return [size, total]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise ClosedError(self.path, name, error) from None
        except OSError:
            return [-1, 0]

    def size(self, name: str) -> int | None:
        """Return the size of a file, None if there is none."""
        try:
            return os.stat(f"{self.path}/{name}").st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise ClosedError(self.path, name, error) from None

    def version(self, name: str) -> tuple[int, ...] | None:
        """Return what is another once a file was changed or replaced, None if there is no file."""
        try:
            about = os.stat(f"{self.path}/{name}")
        except OSError:
            return None
        changed = about.st_mtime_ns, about.st_ctime_ns
        return about.st_dev, about.st_ino, about.st_size, *changed

    def sizes(self, names: Iterable[str]) -> dict[str, int | None]:
        """Return the sizes of files, None where there is none."""
        return {name: self.size(name) for name in names}

    def names(self, folder: str) -> list[str]:
        """Return the names in `folder`, of files that are being written too."""
        try:
            return sorted(os.listdir(f"{self.path}/{folder}"))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except PermissionError as error:
            raise ClosedError(self.path, folder, error) from None

    def delete(self, name: str) -> None:
        """Remove a file, if there is one."""
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(f"{self.path}/{name}")

    def delete_all(self, names: Iterable[str]) -> None:
        """Remove files."""
        for name in names:
            self.delete(name)

    def delete_folder(self, folder: str) -> bool:
        """Remove a folder with nothing in it; files put there by others who share it then fail.

        Returns
        -------
        bool
            Whether it is gone.
        """
        with suppress(OSError):
            os.rmdir(f"{self.path}/{folder}")
        return not os.path.isdir(f"{self.path}/{folder}")

    def make(self, folder: str) -> None:
        """Make a folder, and those around it."""
        self._make_folders(f"{folder}/.")

    def look(self) -> None:
        """See that the folder is still where it was.

        Raises
        ------
        FileNotFoundError
            If it is not.
        """
        if self.there is not None and not os.path.samestat(os.stat(self.path), self.there):
            raise FileNotFoundError(self.path)

    def _make_folders(self, name: str) -> None:
        """Make what is missing between the folder and a file, never the folder itself."""
        folder = str(self.path)
        for part in name.split("/")[:-1]:
            folder = f"{folder}/{part}"
            with suppress(FileExistsError):
                os.mkdir(folder)
