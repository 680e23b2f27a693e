"""Where a store is kept that is not on a file system: objects under names, by fsspec.

An object appears whole or not at all, as a file of `folder.Folder` does. Nothing is renamed,
appended to, or locked. What goes wrong is told in one line; what may pass is tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar
from zlib import crc32

from kvsweep.addresses import Address
from kvsweep.errors import InputError
from kvsweep.store.connection import GoneError, RemoteError, filesystem, is_final, line_of
from kvsweep.store.metadata import ROOT

T = TypeVar("T")

# Seconds in which a server that does not answer, or fails, is tried again; and between two tries,
# at first. The libraries try several times themselves before it counts as one (10 s, of s3fs).
PATIENCE = 60.0
PAUSE = 0.5
# Seconds between two looks whether a store that is being filled is still there.
LOOK_EVERY = 5.0
# Objects that are fetched at once.
BATCH = 32


class Bucket:
    """A store at an address.

    Parameters
    ----------
    address : Address
        Where it is.
    watched : bool
        It is being filled: nothing is written when it is there no more.
    patience : float
        Seconds to try again for.
    owner : Address
        The store that this belongs to, which is what messages name; by default the store itself.
    """

    def __init__(
        self,
        address: Address,
        *,
        watched: bool = False,
        patience: float | None = None,
        owner: Address | None = None,
    ) -> None:
        self.path = address
        self._told = owner or address
        self._watched = watched
        self._patience = PATIENCE if patience is None else patience
        self._looked = 0.0

    def for_workers(self) -> Bucket:
        """Return it as others see it: their own libraries have the credentials.

        It tries once. What a worker cannot write it sends, and who gets it tries again: a bucket
        that is out of reach for workers alone would hold up each task of theirs.
        """
        return Bucket(self.path, patience=0.0)

    def put(self, name: str, data: bytes, *, shared: bool = False) -> None:
        """Write an object, in place of one that is there.

        Raises
        ------
        GoneError
            If there is no such bucket, or the store is there no more.
        RemoteError
            If it cannot be written.
        """
        self.look()
        try:
            self._try(lambda fs: fs.pipe_file(self._at(name), data))
        except FileNotFoundError as error:
            raise self._gone(error) from None

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that is not there yet; of several who try one does, if the store can.

        Returns
        -------
        bool
            Whether it was written.
        """
        try:
            self._try(lambda fs: fs.pipe_file(self._at(name), data, mode="create"))
        except FileExistsError:
            # Perhaps by a try of ours whose answer was lost.
            return self.get(name) == data
        except FileNotFoundError as error:
            raise self._gone(error) from None
        return True

    def read(self, name: str) -> bytes:
        """Return an object.

        Raises
        ------
        FileNotFoundError
            If there is none.
        RemoteError
            If it cannot be read.
        """
        data: bytes = self._try(lambda fs: fs.cat_file(self._at(name)))
        return data

    def get(self, name: str) -> bytes | None:
        """Return an object, None if there is none."""
        try:
            return self.read(name)
        except FileNotFoundError:
            return None

    def get_all(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield objects by name, None where there is none; several are fetched at once."""
        wanted = list(names)
        for start in range(0, len(wanted), BATCH):
            some = wanted[start : start + BATCH]
            yield from zip(some, self._try(partial(self._cat, some)), strict=True)

    def sums(self, name: str) -> list[int] | None:
        """Return size and CRC-32 of an object, None if there is none."""
        data = self.get(name)
        return None if data is None else [len(data), crc32(data)]

    def size(self, name: str) -> int | None:
        """Return the size of an object, None if there is none."""
        try:
            return int(self._try(lambda fs: fs.info(self._at(name)))["size"])
        except FileNotFoundError:
            return None

    def version(self, name: str) -> tuple[int, ...] | None:
        """Return None: to ask whether an object is still the same is to ask the server."""
        return None

    def sizes(self, names: Iterable[str]) -> dict[str, int | None]:
        """Return the sizes of objects, None where there is none: all are listed at once."""
        there = self.all()
        return {name: there.get(name) for name in names}

    def all(self) -> dict[str, int]:
        """Return the names of all objects of the store, with their sizes."""
        try:
            found = self._try(lambda fs: fs.find(self._at(""), detail=True))
        except FileNotFoundError as error:
            raise self._gone(error) from None
        start = len(self._at("")) + 1
        return {name[start:]: int(about["size"]) for name, about in found.items() if name[start:]}

    def names(self, folder: str) -> list[str]:
        """Return the names of the objects in `folder`."""
        at = self._at(folder)
        try:
            found = self._try(lambda fs: fs.ls(at, detail=False))
        except FileNotFoundError:
            return []
        return sorted(name[len(at) + 1 :] for name in found if name != at)

    def exists(self) -> bool:
        """Whether there is any object of the store.

        Raises
        ------
        RemoteError
            If the bucket is not there, or does not answer.
        """
        try:
            return bool(self._try(lambda fs: fs.ls(self._at(""), detail=False)))
        except FileNotFoundError as error:
            said = str(error).lower().replace(self._at("").lower(), "")
            if "bucket" in said or "container" in said:
                raise self._gone(error) from None
            return False

    def delete(self, name: str) -> None:
        """Remove an object, if there is one."""
        try:
            self._try(lambda fs: fs.rm_file(self._at(name)))
        except FileNotFoundError:
            return

    def delete_all(self, names: Sequence[str]) -> None:
        """Remove objects."""
        if len(names) > 1:
            try:
                self._try(lambda fs: fs.rm([self._at(name) for name in names]))
                return
            except FileNotFoundError:
                pass  # some libraries stop at one that is not there
        for name in names:
            self.delete(name)

    def copy(self, name: str, other: Bucket) -> None:
        """Copy an object to where `other` has it; it does not come here."""
        self._try(lambda fs: fs.cp_file(self._at(name), other._at(name)))

    def delete_folder(self, folder: str) -> bool:
        """Do nothing: there are no folders."""
        return True

    def make(self, folder: str) -> None:
        """Do nothing: there are no folders."""

    def look(self) -> None:
        """See that the store is still there, if the last look is a while ago.

        Raises
        ------
        GoneError
            If it is not.
        RemoteError
            If another run writes it now.
        """
        from kvsweep.store import leases

        now = time.monotonic()
        if not self._watched or now - self._looked < LOOK_EVERY:
            return
        self._looked = now
        leases.check(self.path)
        if self.size(ROOT) is None:
            raise self._gone(FileNotFoundError("there is no zarr.json in it any more"))

    def _at(self, name: str) -> str:
        _, path = self._reach()
        return f"{path}/{name}" if name else path

    def _gone(self, error: Exception) -> GoneError:
        reason = line_of(error)
        return GoneError(f"{self._told}: {reason}", reason)

    def _reach(self) -> tuple[Any, str]:
        """Return what `filesystem` does; if there is none, the store is named that was given."""
        try:
            return filesystem(self.path)
        except RemoteError as error:
            reason = error.strerror or line_of(error)
            raise RemoteError(f"{self._told}: {reason}", reason) from error

    def _cat(self, names: Sequence[str], fs: Any) -> list[bytes | None]:
        """Return objects; errors of any but that there is none are raised."""
        found = fs.cat([self._at(name) for name in names], on_error="return")
        kept: list[bytes | None] = []
        for name in names:
            data = found[self._at(name)]
            if isinstance(data, Exception) and not isinstance(data, FileNotFoundError):
                raise data
            kept.append(None if isinstance(data, Exception) else data)
        return kept

    def _try(self, action: Callable[[Any], T]) -> T:
        """Do something, again and again if what is in the way may pass.

        Raises
        ------
        FileNotFoundError, FileExistsError
            As the store says.
        RemoteError
            Of all else.
        """
        fs, _ = self._reach()
        last, pause = time.monotonic() + self._patience, PAUSE
        while True:
            try:
                return action(fs)
            except (FileNotFoundError, FileExistsError, InputError):
                raise
            except Exception as error:  # of many types, as there are libraries
                final = is_final(error)
                left = last - time.monotonic()
                if final or left <= 0:
                    reason = line_of(error)
                    raise RemoteError(f"{self._told}: {reason}", reason) from error
                if pause == PAUSE:
                    tell = logging.getLogger("kvsweep").warning
                    tell("%s: %s; tried again for %.0f s", self._told, line_of(error), left)
            time.sleep(min(pause, max(left, 0.0)))
            pause *= 2
