"""The decorators by numba's public means, for a numba whose inside is not what `_compiler` needs.

But for one pass (`_absent`), if that works when it is tried out: then entries lack the code of
features that their lanes have not. Else there is one entry, with all of it.

The same functions decide the same. It takes longer to compile them (`note_cost`) and to run them: a
negative index is tested for, and only the folder keeps others from the cached code, which numba
keeps without checksums.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from types import ModuleType
from typing import Any

import numba

from kvsweep import _cache

SECONDS, GIB = 80, 2
"""Of a processor and of memory, to compile the usual entry: 80 s and 1.4 GiB measured."""

# The entry with most code, of a connector and what is rare: 485 s and 5.7 GiB measured.
MOST_SECONDS, MOST_GIB = 490, 6
STEEPER = 8
"""How many times longer than by `_compiler` what an entry has beyond the usual one takes."""

# The kernel with all its features: 538 s and 8.0 GiB measured. Much of it is what `leaf` inlines:
# without, 269 s and 7.2 GiB, and 15 times slower code.
ALL_SECONDS, ALL_GIB = 540, 8

_OPTIONS: dict[str, Any] = {"error_model": "numpy"}


def prune(try_out: Callable[[ModuleType], None]) -> None:
    """Let records lack fields from now on, if `try_out` shows that the pass for that works."""
    try:
        from kvsweep._absent import Pruning

        _OPTIONS["pipeline_class"] = Pruning
        try_out(sys.modules[__name__])
    except Exception:  # whatever of numba is missing, or differs
        _OPTIONS.pop("pipeline_class", None)


def prunes() -> bool:
    """Return whether records may lack fields."""
    return "pipeline_class" in _OPTIONS


def note_cost() -> str:
    """Note for messages what compiling takes, and say it."""
    _cache.seconds = SECONDS if prunes() else ALL_SECONDS
    _cache.steeper = STEEPER
    if not prunes():
        return f"in about {ALL_SECONDS} s with {ALL_GIB} GiB of memory"
    most = f"rarer features in up to {MOST_SECONDS} s with {MOST_GIB} GiB"
    return f"in about {SECONDS} s with {GIB} GiB of memory, {most}"


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
    """Let records lack fields of these names, which are 0 then, if that works."""
    if prunes():
        from kvsweep import _absent

        _absent.may_lack(*names)


def pass_whole(*bundles: type[tuple[Any, ...]]) -> None:
    """Leave it to numba how named tuples of arrays are passed."""
