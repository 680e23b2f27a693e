"""Where a store is kept that is not on a file system: objects under names, by fsspec.

An object appears whole or not at all, as a file of `folder.Folder` does. Nothing is renamed,
appended to, or locked. What goes wrong is told in one line; what may pass is tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar
from zlib import crc32

from kvsweep.addresses import Address
from kvsweep.errors import InputError, did_you_mean
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
# What to install for a protocol, where that is not in the extra `remote`.
_PACKAGES = {"gs": "gcsfs", "gcs": "gcsfs"} | dict.fromkeys(("az", "abfs", "abfss", "adl"), "adlfs")
_S3 = ("s3", "s3a")
# What asking again would not mend.
_FINAL = (PermissionError, NotImplementedError, ValueError, TypeError, AttributeError, ImportError)
_NO_KEYS = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "TokenRetrieval")
_WRONG = ("ParamValidation", "InvalidRegion", "InvalidEndpoint")


class RemoteError(InputError, OSError):
    """What a remote store, or the way to it, had to say; a subclass of both for its callers.

    Parameters
    ----------
    message : str
        The whole line.
    reason : str, optional
        What of it is to be told after the name of the store.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.strerror = reason or None


class GoneError(RemoteError):
    """The bucket is not there, or the store is not there any more, nor what was done."""

    lost = True


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
    """

    def __init__(
        self, address: Address, *, watched: bool = False, patience: float | None = None
    ) -> None:
        self.path = address
        self._watched = watched
        self._patience = PATIENCE if patience is None else patience
        self._looked = 0.0

    def for_workers(self) -> Bucket:
        """Return it as others see it: their own libraries have the credentials."""
        return Bucket(self.path)

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
        _, path = filesystem(self.path)
        return f"{path}/{name}" if name else path

    def _gone(self, error: Exception) -> GoneError:
        reason = _line(error)
        return GoneError(f"{self.path}: {reason}", reason)

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
        fs, _ = filesystem(self.path)
        last, pause = time.monotonic() + self._patience, PAUSE
        while True:
            try:
                return action(fs)
            except (FileNotFoundError, FileExistsError, InputError):
                raise
            except Exception as error:  # of many types, as there are libraries
                kind = type(error).__name__
                final = isinstance(error, _FINAL) or kind.startswith(_NO_KEYS + _WRONG)
                left = last - time.monotonic()
                if final or left <= 0:
                    reason = _line(error)
                    raise RemoteError(f"{self.path}: {reason}", reason) from error
                if pause == PAUSE:
                    tell = logging.getLogger("kvsweep").warning
                    tell("%s: %s; tried again for %.0f s", self.path, _line(error), left)
            time.sleep(min(pause, max(left, 0.0)))
            pause *= 2


@lru_cache(maxsize=64)
def filesystem(address: Address) -> tuple[Any, str]:
    """Return fsspec's file system of an address, and what it calls it.

    Credentials and endpoints are its own affair: environment variables, fsspec's configuration.

    Raises
    ------
    RemoteError
        If there is no such protocol, or its package is not installed.
    """
    import fsspec
    import fsspec.asyn

    protocol = address.protocol
    if protocol not in fsspec.available_protocols():
        known = ["s3", "gs", "az", "memory", "file"]
        hint = did_you_mean(protocol, fsspec.available_protocols())
        raise RemoteError(f"{address}: no protocol {protocol!r}; such as {', '.join(known)}{hint}")
    if protocol in ("http", "https"):
        raise RemoteError(f"{address}: nothing is written or listed by {protocol}; copy it first")
    try:
        # s3fs asks for the size of an object before it fetches it, to do so in pieces: twice the
        # requests, for files of a few MB at most.
        options = {"max_concurrency": 1} if protocol in _S3 else {}
        fs, path = fsspec.core.url_to_fs(str(address), use_listings_cache=False, **options)
    except ImportError as error:
        package = _PACKAGES.get(protocol)
        if protocol in _S3:
            package = "'kvsweep[remote]'"
        how = f"`pip install {package}`" if package else _line(error)
        raise RemoteError(f"{address}: needs a package that is not installed: {how}") from error
    except Exception as error:
        raise RemoteError(f"{address}: {_line(error)}") from error
    if getattr(fs, "async_impl", False):
        _hush(fsspec.asyn.get_loop())
    return fs, str(path).rstrip("/")


def _hush(loop: Any) -> None:
    """Print no traceback of half a request that nobody waits for any more.

    When a connection breaks, what is told is the request, which fails and is tried again.
    """

    def note(_: object, context: dict[str, Any]) -> None:
        logging.getLogger("kvsweep").debug("fsspec: %s", context.get("message"))

    if loop.get_exception_handler() is None:
        loop.set_exception_handler(note)


def _line(error: Exception) -> str:
    """Return the first line of what a library says, and what kind of error it is if it is mute."""
    text = (str(error).splitlines() or [""])[0].strip()
    if type(error).__name__.startswith(_NO_KEYS) or isinstance(error, PermissionError):
        return f"access denied: {text or type(error).__name__}"
    return text or type(error).__name__
