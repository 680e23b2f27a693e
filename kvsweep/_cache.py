"""Where compiled kernels are kept, and how a file there is known to be whole and one's own.

What is kept is machine code and pickles, so whoever can write the folder runs code as its reader:
it must belong to the user alone. And a file cut short by a full disk, or with one bit changed, must
not be run: each begins with a checksum of its content and of its own place and meaning.
"""

import hashlib
import logging
import os
import stat
import time
from contextlib import suppress
from multiprocessing import parent_process
from pathlib import Path
from typing import IO

# Seconds to wait for another process that compiles the same kernel, before compiling it too.
LOCK_TIMEOUT = 180.0

MAGIC = b"kvsweep-kernel/1\n"
_log = logging.getLogger("kvsweep")

folder: Path | None = None
"""Where compiled kernels are kept; None if nowhere. Set by `_jit`, on import."""

SECONDS = 30
"""Of a processor, to compile an entry of the kernel: 20 to 28 measured, 34 with a connector."""

steeper = 1
"""How many times what an entry has beyond the usual one takes here. Set by `_jit` too."""

seconds = SECONDS
"""What compiling takes here, for messages. `_jit` sets more if it must do without tricks."""


def every_run() -> str:
    """Say what follows if nothing can be kept."""
    return f"the kernel is compiled anew by every run (about {seconds} s)"


def cache_root() -> Path | None:
    """Return the folder that the user, or the system, has for kvsweep's caches; None if none."""
    for name in ("KVSWEEP_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        if given := os.environ.get(name):
            return Path(os.path.expanduser(given)).absolute()  # images and pods leave the ~
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # a user without an entry in the password file
        return None


def make_folder(name: str) -> Path | None:
    """Return the folder of kernels of these sources, made if need be; None if it is no good.

    In one line on stderr the user is told why, and what follows. Child processes say nothing.
    """
    root = cache_root()
    if root is None:
        tell(f"no cache folder: there is no home; set KVSWEEP_CACHE_DIR, or {every_run()}")
        return None
    chain = [root / "kvsweep", root / "kvsweep" / name]
    if os.environ.get("KVSWEEP_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR"):
        chain.insert(0, root)
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        for path in (root, *chain):
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
            if path in chain and (problem := _not_private(path)):
                tell(f"cache folder {path}: {problem}, so it is not used and {every_run()}")
                return None
        _try_writing(chain[-1])
    except OSError as error:
        reason = error.strerror or error
        tell(f"cache folder {chain[-1]}: cannot be written ({reason}), so {every_run()}")
        return None
    return chain[-1]


def _not_private(path: Path) -> str:
    """Say why others could put files into a folder; empty if they cannot."""
    if not hasattr(os, "geteuid"):
        return ""
    found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by other users (chmod go-w mends that)"
    return ""


def _try_writing(path: Path) -> None:
    probe = path / f".{os.getpid()}.probe"
    probe.touch(mode=0o600)
    probe.unlink()


def tell(line: str) -> None:
    """Tell the user; processes that others started keep quiet, as those have told already."""
    if parent_process() is None:
        _log.warning(line)


def seal(path: str, meaning: str, body: bytes) -> bytes:
    """Return the head of a file: it fits this content, in this place, of this meaning only."""
    place = "/".join(Path(path).parts[-3:])
    digest = hashlib.sha256(f"{place}\n{len(meaning)}\n{meaning}\n".encode())
    digest.update(body)
    return MAGIC + digest.digest()


class Turn:
    """Who compiles, of processes that miss the same kernel: one after the other, the first alone.

    The lock ends with the process, however that ends; where there are no locks, all compile.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def wait(self, path: str) -> None:
        """Take the turn to compile what the file `path` is the lock of."""
        self.end()
        try:
            import fcntl

            self._file = open(path, "ab")  # noqa: SIM115
        except (ImportError, OSError):
            return
        until = time.monotonic() + LOCK_TIMEOUT
        while time.monotonic() < until:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:
                return
            else:
                return

    def end(self) -> None:
        """Let the next one compile, or load what was compiled."""
        if self._file:
            self._file.close()
            self._file = None
