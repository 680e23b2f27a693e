"""The numba decorators, and a cache folder keyed by the sources.

Numba does not notice that a callee in another file or a global constant changed: a cached caller
then goes on returning the old result. So the cache folder is named by a hash of every source file
of this package and of the numba and numpy versions.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

from kvsweep import _cache, _plain
from kvsweep._sample import try_out

_PACKAGE = Path(__file__).parent
_COMPILED = (
    "_absent.py",
    "_ahead.py",
    "_cache.py",
    "_compiler.py",
    "_entry_cache.py",
    "_jit.py",
    "_plain.py",
    "_sample.py",
    "records",
    "policies.py",
    "kernel",
    "workload/numbering.py",
)
# What else stands between the file of a sweep and its numbers: presets, links, and the memory of
# GPUs are only named in it.
_DECIDING = (
    *_COMPILED,
    "config",
    "grid.py",
    "links.toml",
    "metrics",
    "presets",
    "replica",
    "simulate",
    "sizing",
    "workload",
)


@cache
def source_hash() -> str:
    """Return a hash of the sources that decide results, from a sweep's file to its numbers.

    It is of the files as they are when first asked for, which is when this process loads them.
    """
    return hash_of(_PACKAGE)


def hash_of(package: Path) -> str:
    """Return that hash of the sources in a folder."""
    digest = hashlib.sha256()
    for path in sorted((*package.rglob("*.py"), *package.rglob("*.toml"))):
        name = path.relative_to(package).as_posix()
        if name.startswith(_DECIDING):
            digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _cache_name() -> str:
    """Return the name of the cache folder of these sources, this numba and this numpy."""
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        if path.relative_to(_PACKAGE).as_posix().startswith(_COMPILED):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16] + ("-checked" if numba.config.BOUNDSCHECK else "")


def _set_up() -> Any:
    """Return the module whose decorators are used, and set the folder that goes with it."""
    name = "" if numba.config.DISABLE_JIT else _cache_name()
    forced = os.environ.get("KVSWEEP_PLAIN_NUMBA", "0") not in ("", "0")
    why = "KVSWEEP_PLAIN_NUMBA is set"
    if not forced:
        try:
            return _usual(name)
        except Exception as error:  # whatever of numba is missing, or differs
            why = f"numba {numba.__version__} is not as expected ({type(error).__name__}: {error})"
    if name:
        _cache.folder = None  # what was compiled before does not tell whether the pass works now
        _plain.prune(try_out)
        _cache.folder = _cache.make_folder(f"{name}-plain")
        _cache.tell(
            f"{why}: the kernel is compiled in another way, to the same results, "
            f"{_plain.note_cost()}"
        )
    return _plain


def _usual(name: str) -> Any:
    """Return `_compiler`; before it compiles anything else, a small kernel shows that it works."""
    from kvsweep import _compiler

    if name:
        _cache.folder = _cache.make_folder(name)
        worked = _cache.folder / "works" if _cache.folder else None
        if not (worked and worked.exists()):
            try_out(_compiler)
            if worked:
                with suppress(OSError):
                    worked.touch()
    return _compiler


_how = _set_up()

kernel: Callable[[Callable[..., Any]], Any] = _how.kernel
"""Compile and cache an entry, which only Python calls; it does not hold the GIL."""

part: Callable[[Callable[..., Any]], Any] = _how.part
"""A function that kernels call: not for each block or token, as a call takes some ns."""

leaf: Callable[[Callable[..., Any]], Any] = _how.leaf
"""A function that LLVM inlines into the kernels that call it."""

pass_whole: Callable[..., None] = _how.pass_whole
"""Let compiled functions get these named tuples of arrays by their places."""

may_lack: Callable[..., None] = _how.may_lack
"""Let records that compiled functions get lack fields of these names: those are 0 then."""

prunes: bool = (_how is not _plain or _plain.prunes()) and not numba.config.DISABLE_JIT
"""Whether records may lack them; else each must have all."""
