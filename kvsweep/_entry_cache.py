"""How compiled entries are kept: under a seal, and compiled by one process for all.

It builds on what numba keeps to itself; `_plain` does without.
"""

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
    _SourceFileBackedLocatorMixin,
)

from kvsweep import _cache


class Locator(_SourceFileBackedLocatorMixin, _CacheLocator):  # type: ignore[misc]
    """Numba's name for where the files of a function are: in `folder`, and nowhere else."""

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        if _cache.folder is None:
            raise OSError("there is no cache folder")
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno
        self._cache_path = str(_cache.folder / self.get_suitable_cache_subpath(py_file))

    def get_cache_path(self) -> str:
        return self._cache_path


class EntryCode(CompileResultCacheImpl):  # type: ignore[misc]
    """Keep the code of an entry in `folder`."""

    _locator_classes: ClassVar = [Locator]


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
            where = f"cache folder {self._cache_path}"
            _cache.tell(f"{where}: cannot be written ({reason}); {_cache.every_run()}")

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
        body = content[len(_cache.MAGIC) + 32 :]
        if content[: -len(body) or None] == _cache.seal(path, meaning, body):
            with suppress(Exception):  # of another library's version, say
                return pickle.loads(body)
        self.discard(path)
        return None

    def discard(self, path: str = "") -> None:
        """Remove a file that is no good, by default the one loaded last, and say so."""
        path = path or self._loaded
        again = f"the kernel is compiled anew (about {_cache.seconds} s)"
        _cache.tell(f"{path}: damaged, and discarded; {again}")
        with suppress(OSError):
            os.unlink(path)

    def _write(self, path: str, meaning: str, value: Any) -> None:
        body = self._dump(value)
        with self._open_for_write(path) as file:
            file.write(_cache.seal(path, meaning, body) + body)


class EntryCache(FunctionCache):  # type: ignore[misc]
    """The cache of an entry, from which it is loaded without all that numba needs to compile.

    What is damaged is compiled anew, and by one process at a time.
    """

    _impl_class = EntryCode

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = SealedFile(self._cache_path, self._impl.filename_base, stamp)
        # Of each function, as different ones can be compiled side by side.
        self._lock = os.path.join(self._cache_path, f".{self._impl.filename_base}.compiling")
        self._turn = _cache.Turn()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code of a signature; what numba prepares (0.2 s) waits until it must compile."""
        found = self._load(sig, target_context)
        if found is None:
            self._turn.wait(self._lock)
            found = self._load(sig, target_context)  # another process may have compiled it
            if found is None:
                target_context.refresh()
            else:
                self._turn.end()
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        try:
            return self._load_overload(sig, target_context)
        except Exception:  # whole, but not what this numba makes code of
            self._cache_file.discard()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code of a signature, and let other processes have it."""
        try:
            super().save_overload(sig, data)
        finally:
            self._turn.end()
