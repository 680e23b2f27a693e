"""Warnings of priorities and scorers by SLO class where no class makes a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.cells import Cells
from kvsweep.analysis.warning_records import ResultWarning, seen
from kvsweep.config.choices import choices_of
from kvsweep.config.effects_of_keys import is_urgent_first
from kvsweep.policies import Priority, Scorer, SloClass
from kvsweep.simulate.list_records import class_levels

if TYPE_CHECKING:
    from kvsweep.config import Scenario
    from kvsweep.workload.requests import Requests

NO, DRAWN, REPLAYED = "", "drawn", "replayed"

_OWN_WEIGHT = {SloClass.CRITICAL.label, SloClass.BATCH.label, SloClass.BACKGROUND.label}
_BY_CLASS = {Priority.SLO_CLASS.label, Priority.AGE.label}
_GIVE = "give clients, or requests of a trace, an slo_class"


def one_priority(cells: Cells) -> ResultWarning | None:
    """Warn of priorities by SLO class of requests that are all of one class, or of none.

    Also where they age: the longest waiting one comes first then, as it does without.
    """
    where = _where(cells, _by_class, lambda found: not _own(found) and _levels_of(found) < 2)
    found = None if where is None else seen(cells, where, cells.ok)
    if found is None:
        return None
    scenario = cells.scenario(found.worst)
    assert scenario is not None  # where it is seen
    aging = ", and age alike" if scenario.engine.priority == Priority.AGE.label else ""
    return found.warning(
        "one-priority",
        f"engine.priority '{scenario.engine.priority}' gives all requests the same "
        f"priority{found.share}, as all are of one SLO class, or of none{aging}: "
        f"it is as 'constant'; {_GIVE}",
    )


def constant_priority(cells: Cells) -> ResultWarning | None:
    """Warn of a scheduler that goes by a priority which all requests have, whatever their class."""
    others = cells.settings(_has_other, np.bool_)
    if others is None or others.any():
        return None  # 'constant' is what they are compared with
    where = _where(cells, _constant, lambda found: not _own(found))
    found = None if where is None else seen(cells, where, cells.ok)
    if found is None:
        return None
    scenario = cells.scenario(found.worst)
    assert scenario is not None  # where it is seen
    return found.warning(
        "one-priority",
        f"engine.scheduler '{scenario.engine.scheduler}' goes by arrival alone{found.share}, as "
        "engine.priority is 'constant' and no request has a priority of its own: SLO classes do "
        f"not matter to it; take engine.priority = 'slo-class', and {_GIVE}",
    )


def classless_scorer(cells: Cells) -> ResultWarning | None:
    """Warn of a scorer that weighs by SLO class where no class has a weight of its own."""
    where = _where(cells, _scored, lambda found: _OWN_WEIGHT.isdisjoint(_classes(found)))
    found = None if where is None else seen(cells, where, cells.ok)
    if found is None:
        return None
    return found.warning(
        "classless-scorer",
        f"scorer 'kv-pressure-slo' is as 'kv-pressure'{found.share}: it weighs transfers by SLO "
        f"class, and no request is of class critical, batch or background; {_GIVE}",
    )


def _where(
    cells: Cells, list_of: Callable[[Scenario], str], are_alike: Callable[[Requests], bool]
) -> NDArray[np.bool_] | None:
    """Return the cells whose requests are alike; None if the scenarios are not known.

    `list_of` tells lists of requests apart, those that are `DRAWN` are alike, and of `NO` it does
    not matter; `are_alike` tells of the others.
    """
    of: NDArray[Any] | None = cells.settings(list_of)
    if of is None:
        return None
    where: NDArray[np.bool_] = cells.ok & (of != NO)
    for each in set(of[where]) - {DRAWN}:
        of_it = where & (of == each)
        index = tuple(int(i) for i in np.argwhere(of_it)[0])
        if cells.requests is None or not are_alike(cells.requests(index)):
            where &= ~of_it  # or nobody knows
    return where


def _by_class(scenario: Scenario) -> str:
    if scenario.engine.priority not in _BY_CLASS or not is_urgent_first(scenario):
        return NO
    return _list_of(scenario, lambda classes: _levels(classes) < 2)


def _constant(scenario: Scenario) -> str:
    if scenario.engine.priority != Priority.CONSTANT.label or not is_urgent_first(scenario):
        return NO
    return _list_of(scenario, lambda classes: True)


def _has_other(scenario: Scenario) -> bool:
    """Return whether the scheduler goes by priorities that are not constant."""
    return is_urgent_first(scenario) and scenario.engine.priority != Priority.CONSTANT.label


def _scored(scenario: Scenario) -> str:
    choices = (each for each in choices_of(scenario.cluster) if each.instances > 1)
    name = Scorer.KV_PRESSURE_SLO.label
    if not any(each.is_weighted and each.scorers.get(name, 0) > 0 for each in choices):
        return NO
    return _list_of(scenario, _OWN_WEIGHT.isdisjoint)


def _list_of(scenario: Scenario, are_alike: Callable[[set[str]], bool]) -> str:
    """Return what tells a list of requests from others; `NO` if those drawn are not alike."""
    workload = scenario.workload
    if workload is None:
        return REPLAYED
    if workload.trace is None:
        return DRAWN if are_alike({client.slo_class or "" for client in workload.clients}) else NO
    # Each policy may have a trace of its own, and which one a scenario has is not known.
    return NO if "{policy}" in workload.trace else workload.model_dump_json()


def _levels(classes: Iterable[str]) -> int:
    """Return how many priorities some classes have."""
    names = tuple(classes)
    return np.unique(class_levels(names, np.arange(len(names), dtype=np.int16))).size


def _own(requests: Requests) -> bool:
    """Return whether some requests have a priority of their own."""
    return bool(requests.has_priority.any())


def _levels_of(requests: Requests) -> int:
    """Return how many priorities requests have by their classes."""
    return np.unique(class_levels(requests.slo_names, requests.slo_class)).size


def _classes(requests: Requests) -> set[str]:
    """Return the SLO classes that requests have."""
    codes = np.unique(requests.slo_class)
    return {requests.slo_names[code] for code in codes if 0 <= code < len(requests.slo_names)}
