"""Warnings of what is missing from the results: cells, and requests that were not served."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.cells import Cells
from kvsweep.analysis.room import room_text
from kvsweep.analysis.warning_records import ResultWarning, Seen, seen
from kvsweep.records import NONE

# What admission control and impatience lose is told from this share on.
LOST = 0.01


def without_numbers(cells: Cells) -> ResultWarning | None:
    """Warn of cells that did not end: means over seeds are those of the others."""
    lost = ~cells.ok
    found = seen(cells, lost, lost)
    if found is None or lost.size == 1:
        return None
    counts = ", ".join(f"{n:,} {name}" for name, n in cells.statuses().items() if name != "ok")
    told = (
        f"none of {lost.size:,} cells has numbers ({counts})"
        if found.count == lost.size
        else f"{found.count:,} of {lost.size:,} cells have no numbers ({counts}), the first"
        f"{found.setting}: means over seeds are those of the others"
    )
    warning = found.warning("no-numbers", told)
    return replace(warning, of=lost.size)  # it is looked for in all, not in those that ended


def unservable(cells: Cells) -> ResultWarning | None:
    """Warn of requests that can never fit: the others are another workload."""
    dropped = _unserved(cells, "dropped_unservable")
    found = seen(cells, dropped > 0, dropped)
    if found is None:
        return None
    return found.warning(
        "unservable",
        f"requests that can never fit are dropped{_most(found, dropped)}: "
        f"{_measured(found, dropped)}{_behind(found)}; {_room(found)}",
    )


def _measured(found: Seen, dropped: NDArray[np.float64]) -> str:
    """Say what is measured beside requests that are dropped."""
    nothing = dropped >= found.cells.number("injected")
    if nothing[found.where].all():
        return f"nothing is measured{' there' if found.count < found.cells.ok.sum() else ''}"
    there = ", of which the worst has none" if nothing[found.worst] else ""
    return f"what is measured are the others{there}"


def _behind(found: Seen) -> str:
    """Say how many requests of the worst cell wait for answers that never come, if that is known.

    With a warm-up it is not, as who arrives is counted without it, nor with a horizon.
    """
    cells, scenario = found.cells, found.cells.scenario(found.worst)
    if scenario is None or cells.requests is None or scenario.engine.horizon_us is not None:
        return ""
    if scenario.workload is not None and scenario.workload.warmup:
        return ""
    requests = cells.requests(found.worst)
    missing = len(requests) - int(found.value("injected"))
    if missing <= 0 or (requests.after == NONE).all():
        return ""
    told = f"{missing:,} of {len(requests):,} never arrive"
    return f", and {told}, as they wait for answers that never come"


def _room(found: Seen) -> str:
    """Say what the longest request of the worst cell needs and what there is."""
    cells, scenario = found.cells, found.cells.scenario(found.worst)
    if scenario is None:
        return "raise cache.gpu_blocks"
    return room_text(scenario, cells.requests(found.worst) if cells.requests else None)


def rejected(cells: Cells) -> ResultWarning | None:
    """Warn of requests that admission control refuses: latencies are those of the admitted."""
    return _lost(
        cells,
        "rejected",
        "admission control rejects requests",
        "latencies are those of the admitted; see rejected beside them, and cluster.admission",
    )


def timed_out(cells: Cells) -> ResultWarning | None:
    """Warn of requests given up by clients: the longest waits are not among the latencies."""
    return _lost(
        cells,
        "timed_out",
        "clients give up waiting",
        "the longest waits are missing from the latencies; see timed_out beside them, and "
        "sessions.patience_s",
    )


def errored(cells: Cells) -> ResultWarning | None:
    """Warn of requests that end as their blocks could not be pulled: nothing follows them."""
    return _lost(
        cells,
        "errored",
        "requests end with an error as their blocks could not be pulled",
        "latencies are those of the others; see errored and expired_leases beside them, and "
        "cluster.kv_load_failure_policy",
    )


def _lost(cells: Cells, name: str, what: str, so: str) -> ResultWarning | None:
    lost = _unserved(cells, name)
    found = seen(cells, lost > LOST * cells.number("injected"), lost)
    if found is None:
        return None
    kind = name.replace("_", "-")
    return found.warning(kind, f"{what}{_most(found, lost)}: {so}")


def _unserved(cells: Cells, outcome: str) -> NDArray[np.float64]:
    """Return how many requests had an outcome other than completion; (grid)."""
    unserved = cells.number("injected") - cells.number("completed")
    return cells.number(outcome) if (unserved > 0).any() else unserved


def _most(found: Seen, count: NDArray[np.float64]) -> str:
    """Say in how many cells it is seen, and how many requests it is in the worst of them."""
    return found.most(f"{count[found.worst]:,.0f} of {found.value('injected'):,.0f}")


def horizon(cells: Cells) -> ResultWarning | None:
    """Warn of requests that the horizon cuts off: only the early ones are measured to the end."""
    left = _unserved(cells, "queued") + _unserved(cells, "running")
    found = seen(cells, left > 0, left)
    if found is None:
        return None
    return found.warning(
        "horizon",
        f"engine.horizon_us ends before all requests are done{_most(found, left)}: latencies are "
        "those of the early ones; raise it or leave it out",
    )
