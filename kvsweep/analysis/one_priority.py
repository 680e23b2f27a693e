"""A warning of priorities by class where no class makes a difference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis.cells import Cells
from kvsweep.analysis.warning_records import ResultWarning, seen
from kvsweep.config.effects_of_keys import is_urgent_first
from kvsweep.policies import Priority
from kvsweep.simulate.list_records import class_levels

if TYPE_CHECKING:
    from kvsweep.config import Scenario

NO, DRAWN, REPLAYED = "", "drawn", "replayed"


def one_priority(cells: Cells) -> ResultWarning | None:
    """Warn of priorities by SLO class of requests that are all of one class, or of none."""
    of = cells.settings(_list_of)
    if of is None:
        return None
    where = cells.ok & (of != NO)
    for each in set(of[where]) - {DRAWN}:
        of_it = where & (of == each)
        if not _are_alike(cells, np.argwhere(of_it)[0]):
            where &= ~of_it
    found = seen(cells, where, cells.ok)
    if found is None:
        return None
    return found.warning(
        "one-priority",
        f"engine.priority 'slo-class' gives all requests the same priority{found.share}, as all "
        "are of one SLO class, or of none: it is as 'constant'; give clients, or requests of a "
        "trace, an slo_class",
    )


def _list_of(scenario: Scenario) -> str:
    """Return what tells a list of requests from others, or `NO`: its classes do not matter.

    Those that are `DRAWN` are known here to have one priority.
    """
    engine, workload = scenario.engine, scenario.workload
    if engine.priority != Priority.SLO_CLASS.label or not is_urgent_first(scenario):
        return NO
    if workload is None:
        return REPLAYED
    if workload.trace is None:
        return DRAWN if _levels(client.slo_class for client in workload.clients) < 2 else NO
    # Each policy may have a trace of its own, and which one a scenario has is not known.
    return NO if "{policy}" in workload.trace else workload.model_dump_json()


def _levels(classes: Iterable[str | None]) -> int:
    """Return how many priorities some classes have."""
    names = tuple({name or "" for name in classes})
    return np.unique(class_levels(names, np.arange(len(names), dtype=np.int16))).size


def _are_alike(cells: Cells, index: Iterable[int]) -> bool:
    """Return whether all requests of a cell have one priority, that of their classes."""
    if cells.requests is None:
        return False  # nobody knows
    requests = cells.requests(tuple(int(i) for i in index))
    levels = class_levels(requests.slo_names, requests.slo_class)
    return not requests.has_priority.any() and np.unique(levels).size < 2
