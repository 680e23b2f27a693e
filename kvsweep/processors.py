"""How many processors this process may use, where the machine has more."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_OF_PROCESS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
# Where the first version of control groups has those of processors, by distribution.
_FIRST_VERSION = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


def usable_processors() -> int:
    """Count the processors that this process may use: by its affinity and its control groups.

    A job of a batch system, or a container, has some of its machine.
    """
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:  # macOS, Windows
        count = os.cpu_count() or 1
    return min([count, *_shares()])


def _shares() -> Iterator[int]:
    """Yield how many processors each control group may have in which this process is, if told."""
    for text in _limits():
        try:
            quota, period = map(int, text.split())
        except ValueError:  # "max" has no limit
            continue
        if quota > 0 and period > 0:  # -1 has none either
            yield math.ceil(quota / period)


def _limits() -> Iterator[str]:
    """Yield the texts of limits, a quota and its period each, microseconds."""
    try:
        inner = _GROUPS / _OF_PROCESS.read_text().strip().rpartition(":")[2].strip("/")
    except OSError:  # no Linux
        return
    outer = [folder for folder in inner.parents if folder.is_relative_to(_GROUPS)]
    files: list[tuple[Path, ...]] = [(folder / "cpu.max",) for folder in (inner, *outer)]
    files += [
        (_GROUPS / name / "cpu.cfs_quota_us", _GROUPS / name / "cpu.cfs_period_us")
        for name in _FIRST_VERSION
    ]
    for parts in files:
        try:
            yield " ".join(part.read_text() for part in parts)
        except OSError:  # no such group
            continue
