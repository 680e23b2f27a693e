"""One run at a time writes a store: a lock beside it, which ends with the process that holds it.

The operating system's lock on the file counts, not the file: what a killed run leaves of it does
not stop the next. Where a file system has no locks the file itself counts, and is told to be stale
if its process is gone.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kvsweep.addresses import Address, Where
from kvsweep.errors import InputError, clip
from kvsweep.files import unwritable
from kvsweep.store.folders import hidden

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}
_MAY_NOT = {errno.EACCES, errno.EPERM, errno.EROFS}
_MODE = 0o666
_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OWNER = re.compile(rb"(\d+ \S*)?")


PATIENCE = 10.0
"""Seconds to wait for runs that only look what is there, or set up what others will fill."""


class BusyError(InputError):
    """Another process has the lock."""


class UnlockableError(InputError):
    """Nothing may be written beside the store, no lock either: who only reads needs none."""


@contextmanager
def locked(
    path: Where, ending: str = "lock", *, shared: bool = False, patience: float = 0.0
) -> Iterator[None]:
    """Keep other runs from writing the store at `path` for the length of the block.

    Parameters
    ----------
    path : Where
        The store. In a bucket there are no locks, and leases stand in.
    ending : str
        What the name of the lock ends with.
    shared : bool
        Others that share the lock may have it too. Where the file system has no locks they may not.
    patience : float
        Seconds to wait for another process.

    Raises
    ------
    BusyError
        If another run writes it, which is named.
    UnlockableError
        If nothing may be written beside it.
    InputError
        If no lock can be made for another reason.
    """
    if isinstance(path, Address):
        from kvsweep.store.leases import held

        with held(path, ending, shared=shared, patience=patience):
            yield
        return
    last = time.monotonic() + patience
    while True:
        try:
            file, descriptor, kept = _taken(path, ending, shared)
            break
        except BusyError:
            if time.monotonic() >= last:
                raise
        time.sleep(0.05)
    try:
        yield
    finally:
        if not kept:
            with suppress(OSError):
                file.unlink()
        os.close(descriptor)


def _taken(path: Path, ending: str, shared: bool) -> tuple[Path, int, bool]:
    """Return a lock, open, and whether its file stays for others that may have it too."""
    file = hidden(path, ending)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _lock(file, shared)
        if descriptor is not None:
            return file, descriptor, shared
        file = hidden(path, "pid" if ending == "lock" else f"{ending}.pid")
        return file, _claim(file), False
    except BlockingIOError as error:
        raise BusyError(
            f"{path}: {error.strerror} is writing it; wait for its end, or name another store"
        ) from None
    except OSError as error:
        told = unwritable(path, error)
        if error.errno in _MAY_NOT:
            raise UnlockableError(str(told)) from None
        raise told from None


def _lock(file: Path, shared: bool) -> int | None:
    """Return the open file with the system's lock on it, None where there are no such locks.

    Raises
    ------
    BlockingIOError
        If another process has it; ``strerror`` names that process.
    """
    if fcntl is None:
        return None
    while True:
        descriptor = os.open(file, _OPEN, _MODE)
        try:
            _check_own(file, descriptor)
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if _is_still(file, descriptor):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, _me().encode())
                return descriptor
        except BlockingIOError:
            owner = os.pread(descriptor, 200, 0)
            os.close(descriptor)
            raise BlockingIOError(errno.EAGAIN, _words(owner)) from None
        except OSError as error:
            os.close(descriptor)
            if error.errno not in _NO_LOCKS:
                raise
            return None
        os.close(descriptor)  # its last owner has just removed it


def _check_own(file: Path, descriptor: int) -> None:
    """See that the open file is a lock, which is emptied and removed, and not something else.

    Raises
    ------
    FileExistsError
        If it is.
    """
    regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
    if not regular or not _OWNER.fullmatch(os.pread(descriptor, 1000, 0)):
        raise FileExistsError(
            errno.EEXIST, f"{clip(file.name)} is in the way, which kvsweep did not make"
        )


def _is_still(file: Path, descriptor: int) -> bool:
    """Whether the open file is the one that others find under its name."""
    try:
        return os.path.samestat(os.stat(file), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _claim(file: Path) -> int:
    """Return the open file that only one process can have made.

    Raises
    ------
    BlockingIOError
        If another process made it and may still run.
    """
    for _ in range(2):
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        except FileExistsError:
            owner = file.read_bytes()
            if not _is_gone(owner):
                words = f"{_words(owner)} (or, if that has ended, delete {file}:)"
                raise BlockingIOError(errno.EAGAIN, words) from None
            file.unlink(missing_ok=True)
        else:
            os.write(descriptor, _me().encode())
            return descriptor
    raise BlockingIOError(errno.EAGAIN, _words(b""))


def has_ended(number: str, where: str) -> bool:
    """Whether a process has ended that `here` is of; what runs elsewhere one cannot tell."""
    if where != here() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def here() -> str:
    """Return what tells those whose processes this one sees from others.

    Hosts and containers may have equal names, and containers of one host, as those of a pod, have
    numbers of their own for their processes.
    """
    boot = space = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        space = os.readlink("/proc/self/ns/pid").removeprefix("pid:").strip("[]")
    return f"{socket.gethostname()}/{boot}-{space}"


def _is_gone(owner: bytes) -> bool:
    number, _, where = owner.decode(errors="replace").partition(" ")
    return has_ended(number, where)


def _me() -> str:
    return f"{os.getpid()} {here()}"


def _words(owner: bytes) -> str:
    number, _, where = owner.decode(errors="replace").partition(" ")
    host = where.partition("/")[0]
    return f"process {number} on {host}" if host else "another process"
