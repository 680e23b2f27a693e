"""The numba decorators, and a cache folder keyed by the sources.

Numba does not notice that a callee in another file or a global constant changed: a cached caller
then goes on returning the old result. So the cache folder is named by a hash of every source file
of this package and of the numba and numpy versions.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

from . import _cache
from ._compiler import EntryCache, KernelCompiler, PartCompiler, plain

_PACKAGE = Path(__file__).parent
_COMPILED = (
    "_cache.py",
    "_compiler.py",
    "_jit.py",
    "records.py",
    "policies.py",
    "kernel",
    "workload/numbering.py",
)


@cache
def source_hash() -> str:
    """Return a hash of the sources that decide results: kernel, records, workload, metrics.

    It is of the files as they are when first asked for, which is when this process loads them.
    """
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        name = path.relative_to(_PACKAGE).as_posix()
        if name.startswith((*_COMPILED, "workload", "metrics.py", "simulate", "replica")):
            digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _cache_name() -> str:
    """Return the name of the cache folder of these sources, this numba and this numpy."""
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        if path.relative_to(_PACKAGE).as_posix().startswith(_COMPILED):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16] + ("-checked" if numba.config.BOUNDSCHECK else "")


if not numba.config.DISABLE_JIT:
    _cache.folder = _cache.make_folder(_cache_name())


# error_model="numpy": a division does not test for zero (no division by a swept zero is possible).
# No fastmath: results must not depend on the compiler's choice of order.
# _nrt=False: no reference counts. The caller owns every array for the whole call, and the counts
# that numba adds for each array argument of each inlined leaf took 98 % of the time (measured: H8,
# 5000 blocks: 3,300 us with, 120 us without). Such code cannot allocate, which a kernel must not.
_OPTIONS = {"error_model": "numpy", "_nrt": False}
_INNER = {"pipeline_class": PartCompiler, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile and cache an entry, which only Python calls; it does not hold the GIL."""
    found = numba.njit(nogil=True, pipeline_class=KernelCompiler, **_OPTIONS)(function)
    if _cache.folder:
        with suppress(RuntimeError):  # numba's word for a folder that cannot be written
            found._cache = EntryCache(function)
    return found


def _inner(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator of a function that only compiled functions call.

    numba would compile it again for each literal that it gets, and for 32 bits as for 64.
    """
    compiled = numba.njit(**_INNER, **_OPTIONS, **options)

    def decorate(function: Callable[..., Any]) -> Any:
        found = compiled(function)
        if not numba.config.DISABLE_JIT:
            ask = found.get_call_template
            found.get_call_template = lambda args, kws: ask(tuple(map(plain, args)), kws)
        return found

    return decorate


part = _inner()
"""A function of its own that kernels call: a rarely taken path, or one called at many places."""

leaf = _inner(forceinline=True)
"""A small function that LLVM inlines into the kernels that call it.

Inlining on numba's level (``inline="always"``) is no faster and compiles 2.6 times as long.
"""
