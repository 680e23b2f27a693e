"""Where compiled kernels are kept, and how a file there is known to be whole and one's own.

What is kept is machine code and pickles, so whoever can write the folder runs code as its reader:
it must belong to the user alone. And a file cut short by a full disk, or with one bit changed, must
not be run: each begins with a checksum of its content and of its own place and meaning.
"""

import hashlib
import logging
import os
import pickle
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import parent_process
from pathlib import Path
from typing import IO, Any, ClassVar

from numba.core.caching import (
    CompileResultCacheImpl,
    IndexDataCacheFile,
    _CacheLocator,
    _SourceFileBackedLocatorMixin,
)
from numba.core.codegen import ll

# Seconds to wait for another process that compiles the same kernel, before compiling it too.
LOCK_TIMEOUT = 180.0
EVERY_RUN = "the kernel is compiled anew by every run (about 30 s)"

_MAGIC = b"kvsweep-kernel/1\n"
_log = logging.getLogger("kvsweep")

folder: Path | None = None
"""Where compiled kernels are kept; None if nowhere. Set by `_jit`, on import."""


def cache_root() -> Path | None:
    """Return the folder that the user, or the system, has for kvsweep's caches; None if none."""
    for name in ("KVSWEEP_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        if given := os.environ.get(name):
            return Path(given).absolute()
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
        _tell(f"no cache folder: there is no home; set KVSWEEP_CACHE_DIR, or {EVERY_RUN}")
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
                _tell(f"cache folder {path}: {problem}, so it is not used and {EVERY_RUN}")
                return None
        _try_writing(chain[-1])
    except OSError as error:
        reason = error.strerror or error
        _tell(f"cache folder {chain[-1]}: cannot be written ({reason}), so {EVERY_RUN}")
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


def _tell(line: str) -> None:
    """Tell the user; processes that others started keep quiet, as those have told already."""
    if parent_process() is None:
        _log.warning(line)


class Locator(_SourceFileBackedLocatorMixin, _CacheLocator):  # type: ignore[misc]
    """Numba's name for where the files of a function are: in `folder`, and nowhere else."""

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        if folder is None:
            raise OSError("there is no cache folder")
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno
        self._cache_path = str(folder / self.get_suitable_cache_subpath(py_file))

    def get_cache_path(self) -> str:
        return self._cache_path


class EntryCode(CompileResultCacheImpl):  # type: ignore[misc]
    """Keep the machine code of an entry without its bitcode, which is for compiled callers.

    It was two thirds of the file, and to parse it a third of the time of loading.
    """

    _locator_classes: ClassVar = [Locator]

    def reduce(self, cres: Any) -> Any:
        (name, kind, (code, _)), *rest = super().reduce(cres)
        return (name, kind, (code, ll.parse_assembly("").as_bitcode())), *rest

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        _, descriptor, *_ = payload
        symbols = target_context.codegen()._engine._defined_symbols
        symbols.add(descriptor.llvm_cpython_wrapper_name)  # numba reads it off the bitcode
        return super().rebuild(target_context, payload)


class SealedFile(IndexDataCacheFile):  # type: ignore[misc]
    """The files of one function: numba's index of signatures, and machine code, under a seal.

    A file that is damaged, or is another's, is discarded before anything of it is unpickled.
    """

    _meaning = ""
    _loaded = ""

    def load(self, key: Any) -> Any:
        """Return what was kept under `key`; None if nothing was, or it is no good."""
        self._meaning = repr(key)
        return super().load(key)

    def save(self, key: Any, data: Any) -> None:
        """Keep `data` under `key`, if that can be."""
        self._meaning = repr(key)
        try:
            super().save(key, data)
        except OSError as error:
            reason = error.strerror or error
            _tell(f"cache folder {self._cache_path}: cannot be written ({reason}); {EVERY_RUN}")

    def _load_index(self) -> dict[Any, str]:
        found = self._read(self._index_path, "")
        if found is None:
            return {}
        version, stamp, overloads = found
        same = (version, stamp) == (self._version, self._source_stamp)
        return overloads if same else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, "", (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        self._loaded = self._data_path(name)
        return self._read(self._data_path(name), self._meaning)

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), self._meaning, data)

    def _read(self, path: str, meaning: str) -> Any:
        """Return what a file holds; None if there is none, or it is no good and was discarded."""
        try:
            content = Path(path).read_bytes()
        except FileNotFoundError:
            return None
        body = content[len(_MAGIC) + 32 :]
        if content[: -len(body) or None] == _seal(path, meaning, body):
            with suppress(Exception):  # of another library's version, say
                return pickle.loads(body)
        self.discard(path)
        return None

    def discard(self, path: str = "") -> None:
        """Remove a file that is no good, by default the one loaded last, and say so."""
        path = path or self._loaded
        _tell(f"{path}: damaged, and discarded; the kernel is compiled anew (about 30 s)")
        with suppress(OSError):
            os.unlink(path)

    def _write(self, path: str, meaning: str, value: Any) -> None:
        body = self._dump(value)
        with self._open_for_write(path) as file:
            file.write(_seal(path, meaning, body) + body)


def _seal(path: str, meaning: str, body: bytes) -> bytes:
    """Return the head of a file: it fits this content, in this place, of this meaning only."""
    place = "/".join(Path(path).parts[-3:])
    digest = hashlib.sha256(f"{place}\n{len(meaning)}\n{meaning}\n".encode())
    digest.update(body)
    return _MAGIC + digest.digest()


class Turn:
    """Who compiles, of processes that miss the same kernel: one after the other, the first alone.

    The lock ends with the process, however that ends; where there are no locks, all compile.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def wait(self, path: str) -> None:
        """Take the turn to compile what is kept in the folder `path`."""
        self.end()
        try:
            import fcntl

            self._file = open(os.path.join(path, ".compiling"), "ab")  # noqa: SIM115
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
