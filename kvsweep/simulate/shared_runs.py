"""Scenarios that differ in their service levels alone: simulated once, judged by each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import Scenario
from ..config.service_levels import levels_given, same_but_levels
from ..dimensions import LEVELS
from ..metrics import LEVEL_VARIABLES
from .goodput import LevelTable
from .kept import kept

_JUDGED = frozenset(variable.name for variable in LEVEL_VARIABLES)


@dataclass(frozen=True)
class SharedRuns:
    """Which of some scenarios are simulated, and whose runs the others share.

    Attributes
    ----------
    scenarios : tuple of Scenario
        All of them.
    first : tuple of int
        Positions of those that are simulated.
    owner : intp (scenarios,)
        Of each, the position in `first` of the run that is its own too.
    choice : intp (scenarios,)
        How many before it share that run.
    """

    scenarios: tuple[Scenario, ...]
    first: tuple[int, ...]
    owner: NDArray[np.intp]
    choice: NDArray[np.intp]

    def levels(self, slo_classes: Sequence[str]) -> LevelTable | None:
        """Return the levels that each run is judged by; None if no scenario has any."""
        names = levels_given(self.scenarios)
        if not names:
            return None
        shape = (len(self.first), self.choice.max() + 1, len(slo_classes) + 1, len(LEVELS))
        ms = np.full(shape, np.nan)
        places = zip(self.owner.tolist(), self.choice.tolist(), strict=True)
        for place, slo in zip(places, (item.slo for item in self.scenarios), strict=True):
            if slo is not None:
                # No class is called "": its levels are those of all.
                ms[place] = [slo.of_class(name) for name in (*slo_classes, "")]
        return LevelTable(names, ms[..., [LEVELS.index(name) for name in names]])

    def spread(self, found: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return results of the runs, (runs, seeds, ...), as those of all scenarios.

        What levels make of a run, (runs, seeds, choices, ...), loses the dimension of the choices.
        """
        if len(self.first) == len(self.scenarios):
            return {name: a[:, :, 0] if name in _JUDGED else a for name, a in found.items()}
        return {
            name: values[self.owner, :, self.choice] if name in _JUDGED else values[self.owner]
            for name, values in found.items()
        }


@kept
def shared_runs(scenarios: tuple[Scenario, ...]) -> SharedRuns:
    """Find the scenarios that differ in service levels alone."""
    owners = same_but_levels(scenarios)
    first = tuple(dict.fromkeys(owners))
    before: dict[int, int] = {}
    choice = []
    for owner in owners:
        choice.append(before.get(owner, 0))
        before[owner] = choice[-1] + 1
    places = {owner: number for number, owner in enumerate(first)}
    runs = np.array([places[owner] for owner in owners], np.intp)
    return SharedRuns(scenarios, first, runs, np.array(choice, np.intp))
