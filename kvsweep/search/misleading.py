"""What misleads at the answer of a search, as the warnings about a grid tell it of its cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis import variables
from kvsweep.analysis.cells import SEED, Cells
from kvsweep.analysis.losses import errored, horizon, rejected, timed_out, unservable
from kvsweep.analysis.steadiness import burst, filling, held_back, queue_growth
from kvsweep.policies import Status

if TYPE_CHECKING:
    from kvsweep.analysis.warning_records import ResultWarning
    from kvsweep.config import Scenario
    from kvsweep.search.samples import Floats
    from kvsweep.workload.requests import Requests

    Numbers = dict[str, Floats]

CHECKS = (rejected, timed_out, errored, horizon, queue_growth, burst, filling, held_back)
"""Those that are about latencies: in a search nobody looks at the rest, nor at other values."""

READ = (
    "injected",
    "completed",
    "dropped_unservable",
    "rejected",
    "timed_out",
    "errored",
    "queued",
    "running",
    "queue_growth",
    "arrivals_s",
    "e2e_mean_ms",
    "scheduling_delay_mean_ms",
    "throughput_rps",
    "pull_wait_mean_ms",
    "makespan_s",
)
"""Measures that the checks read: they are kept of all values, as any may be the answer."""


def read_of(results: Mapping[str, NDArray[Any]]) -> Numbers:
    """Return what the checks read of a batch, (values, seeds) each; NaN without a result."""
    ok = results["status"] == Status.OK
    found = {name: variables.numbers_of(name, results[name]) for name in READ if name in results}
    return {name: np.where(ok, values, np.nan) for name, values in found.items()} | {"ok": ok}


class Watch:
    """What was read of the simulations of a group, by value of the axis."""

    def __init__(self) -> None:
        self._parts: dict[float, list[tuple[int, Numbers]]] = defaultdict(list)

    def add(self, values: Sequence[float], first: int, numbers: Numbers) -> None:
        """Take what was read of some values, from seed number `first` on."""
        for place, value in enumerate(values):
            part = {name: rows[place] for name, rows in numbers.items()}
            self._parts[value].append((first, part))

    def warnings(
        self,
        value: float,
        scenario: Scenario,
        *,
        cliff: bool,
        sized: bool,
        requests: Requests | None = None,
    ) -> list[ResultWarning]:
        """Return what misleads at a value, the gravest first.

        Parameters
        ----------
        value : float
            It was simulated.
        scenario : Scenario
            There.
        cliff : bool
            Whether a cliff is looked for, as in `Cells`.
        sized : bool
            Whether the value is what a server keeps, as in `Cells`.
        requests : Requests, optional
            The list of a trace, as it is bent there.
        """
        cells = self._cells(value, scenario, cliff, sized, requests)
        return [warning for check in CHECKS if (warning := check(cells))]

    def dropped(self, value: float, scenario: Scenario) -> list[ResultWarning]:
        """Return what is said of requests that can never fit at a value; nothing without such.

        Parameters
        ----------
        value : float
            It may have been simulated.
        scenario : Scenario
            There.
        """
        if value not in self._parts:
            return []
        warning = unservable(self._cells(value, scenario, cliff=False, sized=True))
        return [] if warning is None else [warning]

    def _cells(
        self,
        value: float,
        scenario: Scenario,
        cliff: bool,
        sized: bool,
        requests: Requests | None = None,
    ) -> Cells:
        parts = [part for _, part in sorted(self._parts[value], key=lambda part: part[0])]
        numbers = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        ok = numbers.pop("ok").astype(bool)
        scenarios = np.empty(1, object)
        scenarios[0] = scenario
        return Cells(
            axes={SEED: range(len(ok))},
            ok=ok,
            statuses=dict,
            read=numbers.get,
            names=tuple(numbers),
            cliff=cliff,
            sized=sized,
            scenarios=scenarios,
            requests=None if requests is None else lambda _: requests,
        )
