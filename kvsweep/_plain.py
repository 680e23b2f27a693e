"""The decorators by numba's public means, for a numba whose inside is not what `_compiler` needs.

The same functions decide the same. It takes longer to compile them (`SECONDS`) and to run them: a
negative index is tested for, and only the folder keeps others from the cached code, which numba
keeps without checksums.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numba

from kvsweep import _cache

# Of a processor and of memory, to compile the kernel with all its features: 538 s and 8.0 GiB
# measured. Much of it is what `leaf` inlines: without, 269 s and 7.2 GiB, and 15 times slower code.
SECONDS = 540
GIB = 8

_OPTIONS = {"error_model": "numpy"}


@lru_cache
def _known(name: str, value: bool) -> dict[str, Any]:
    """Return an option that saves time, nothing if this numba has none of that name."""
    option = {name: value}
    try:
        inner = numba.njit(**option)(lambda: 0)
        numba.njit(lambda: inner())()
    except Exception:  # of whatever kind for an option that is unknown, or no longer works
        return {}
    return option


def _uncounted() -> dict[str, Any]:
    """Return the option that does without reference counts."""
    return _known("_nrt", False)


def _unwrapped() -> dict[str, Any]:
    """Return the options that do without ways in for Python and C.

    Each would take a hundred arrays apart, and has the function's code in it once more: with them
    compiling took more than 620 s and 12 GiB.
    """
    return _known("no_cpython_wrapper", True) | _known("no_cfunc_wrapper", True)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile and cache an entry, which only Python calls; it does not hold the GIL."""
    decorate = numba.njit(nogil=True, **_OPTIONS, **_uncounted())
    if _cache.folder is None:
        return decorate(function)
    before = numba.config.CACHE_DIR
    # numba looks at it when it makes the cache of a function. The user's own go elsewhere.
    numba.config.CACHE_DIR = str(_cache.folder)
    try:
        with suppress(RuntimeError):  # numba's word for a folder that cannot be written
            return numba.njit(nogil=True, cache=True, **_OPTIONS, **_uncounted())(function)
    finally:
        numba.config.CACHE_DIR = before
    return decorate(function)


def part(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels call."""
    uncounted = _uncounted()
    how = {"forceinline": False} if uncounted else {}  # else as what calls it
    return numba.njit(**_OPTIONS, **uncounted, **_unwrapped(), **how)(function)


def leaf(function: Callable[..., Any]) -> Any:
    """Compile a small function that is inlined into the kernels that call it.

    By LLVM; but by numba where references are counted, so that there is nothing to count.
    """
    uncounted = _uncounted()
    how = {"forceinline": True} if uncounted else {"inline": "always"}
    return numba.njit(**_OPTIONS, **uncounted, **_unwrapped(), **how)(function)


def may_lack(*names: str) -> None:
    """Do nothing: no record lacks a field (`_jit.prunes`)."""


def pass_whole(*bundles: type[tuple[Any, ...]]) -> None:
    """Leave it to numba how named tuples of arrays are passed."""
