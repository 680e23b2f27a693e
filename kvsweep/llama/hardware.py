"""The processor: what it is called, and its physical cores."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_TOPOLOGY = Path("/sys/devices/system/cpu")


def cpu_name() -> str:
    """Return the processor's name as the system tells it, else its architecture."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", _CPUINFO.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def physical_cores() -> int:
    """Count the physical cores that this process may use; hardware threads if none are told."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    usable = os.sched_getaffinity(0)
    try:
        cores = {
            (_TOPOLOGY / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
            for cpu in usable
        }
    except OSError:
        return len(usable)
    return len(cores)
