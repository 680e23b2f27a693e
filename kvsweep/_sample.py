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


def _get(sample, at):
    return sample.numbers[at]


def _add(sample, at, by):
    record = sample.records[at]
    record["sum"] += get(sample, at) + by
    return record["sum"]


def _run(sample):
    return add(sample, np.int32(1), 1) + add(sample, 1, 2)


def try_out(how: ModuleType) -> None:
    """Compile and run a kernel by the decorators of a module, and load it if that is possible.

    Raises
    ------
    Exception
        Of whatever kind, if that does not work.
    """
    global get, add
    how.pass_whole(Sample)
    get, add = how.leaf(_get), how.part(_add)
    for _ in range(2 if _cache.folder else 1):
        sample = Sample(np.arange(3), np.zeros(2, [("sum", "i8")]))
        if how.kernel(_run)(sample) != 7:
            raise RuntimeError("a sample kernel gave a wrong result")
