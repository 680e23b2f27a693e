"""A small kernel, to see whether numba does what `_compiler` wants of it (0.5 s)."""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from kvsweep import _cache


class Sample(NamedTuple):
    """Arrays as a kernel gets them."""

    numbers: Any
    records: Any


get: Any
add: Any
count: Any


def _get(sample, at):
    return sample.numbers[at]


def _add(sample, at, by):
    count(sample.records[at], get(sample, at) + by)
    return sample.records[at]["sum"]


def _count(record, by):
    if record["absent"]:
        by = nobody_has_this_name  # type: ignore[name-defined]  # noqa: F821
    record["sum"] += by


def _run(sample):
    return add(sample, np.int32(1), 1) + add(sample, 1, 2)


def try_out(how: ModuleType) -> None:
    """Compile and run a kernel by the decorators of a module, and load it if that is possible.

    Raises
    ------
    Exception
        Of whatever kind, if that does not work.
    """
    global get, add, count
    how.pass_whole(Sample)
    how.may_lack("absent")
    get, add, count = how.leaf(_get), how.part(_add), how.leaf(_count)
    for _ in range(2 if _cache.folder else 1):
        sample = Sample(np.arange(3), np.zeros(2, [("sum", "i8")]))
        if how.kernel(_run)(sample) != 7:
            raise RuntimeError("a sample kernel gave a wrong result")
