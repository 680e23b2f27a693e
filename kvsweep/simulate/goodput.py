"""Which requests keep their service levels, and the shares and rates that this makes.

As in ``vllm bench serve --goodput``: a level is kept by what takes no longer, a request of one
output token has no time per token and keeps that level, and goodput divides by the same seconds as
throughput. A share there is of the completed requests; here it is of all that arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import Scenario
from ..config.service_levels import levels_given
from ..dimensions import LEVELS
from ..metrics import attainment_name, goodput_name, ratio
from ..policies import RequestStatus
from .reduce_groups import Columns, Grouping, group_totals


@dataclass(frozen=True)
class LevelTable:
    """The service levels of some cells.

    Attributes
    ----------
    names : tuple of str
        The levels that any cell has, of `LEVELS`.
    ms : float64 (cells, classes + 1, names)
        Milliseconds, NaN where there is no such level; last those of requests without a class.
    """

    names: tuple[str, ...]
    ms: NDArray[np.float64]

    def of(self, cells: NDArray[np.intp]) -> LevelTable:
        """Return the levels of some of the cells, by position."""
        return replace(self, ms=self.ms[cells])


def level_table(scenarios: Sequence[Scenario], slo_classes: Sequence[str]) -> LevelTable | None:
    """Return the levels of scenarios, each a cell; None if there are none."""
    names = levels_given(scenarios)
    if not names:
        return None
    wanted = [LEVELS.index(name) for name in names]
    ms = np.full((len(scenarios), len(slo_classes) + 1, len(LEVELS)), np.nan)
    for row, slo in zip(ms, (scenario.slo for scenario in scenarios), strict=True):
        if slo is not None:
            # No class is called "": its levels are those of all.
            row[:] = [slo.of_class(name) for name in (*slo_classes, "")]
    return LevelTable(names, ms[..., wanted])


def measure_levels(
    columns: Columns,
    table: LevelTable,
    measured_us: NDArray[Any],
    groups: Sequence[tuple[Grouping, NDArray[np.int64]]],
) -> dict[str, NDArray[Any]]:
    """Return what service levels make of requests.

    Parameters
    ----------
    columns : Columns
        The measured requests.
    table : LevelTable
        The levels of their cells.
    measured_us : int64 (cells,)
        Microseconds that throughput is divided by.
    groups : sequence of (Grouping, int64 (cells, requests))
        Divisions to measure by, and the codes of these requests. That by class says which levels
        a request has.

    Returns
    -------
    dict of str to float64 (cells, ...)
        By variable of `kvsweep.metrics.LEVEL_VARIABLES`; NaN in cells without levels.
    """
    classes = next((codes for grouping, codes in groups if grouping.name == "class"), None)
    cells = np.arange(len(table.ms))[:, None]
    limits = table.ms[cells, -1 if classes is None else classes]
    times = {"ttft": columns.ttft, "tpot": columns.tpot, "e2e": columns.e2e}
    arrived = columns.status != RequestStatus.NOT_ARRIVED
    completed = columns.status == RequestStatus.COMPLETED
    good = completed.copy()
    shares = {}
    for i, name in enumerate(table.names):
        limit = limits[..., i]
        has = ~np.isnan(limit)
        # In milliseconds, as then 1,001 us are just the 1.001 of a file. One of one token is -1.
        keeps = completed & (times[name] / 1000 <= limit)
        shares[name] = keeps, arrived & has
        good &= keeps | ~has
    shares[""] = good, arrived
    # Cells without any level have no numbers.
    seconds = np.where(np.isnan(table.ms).all(axis=(1, 2)), np.nan, measured_us / 1e6)[:, None]
    whole = _of_groups("", 1, np.zeros(good.shape, np.int64), shares, seconds)
    values = {name: each[:, 0] for name, each in whole.items()}
    for grouping, codes in groups:
        values |= _of_groups(grouping.name, grouping.count, codes, shares, seconds)
    return values


def _of_groups(
    by: str,
    count: int,
    codes: NDArray[np.int64],
    shares: dict[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]],
    seconds: NDArray[np.float64],
) -> dict[str, NDArray[Any]]:
    """Return shares and rates by group, (cells, groups), from part and whole of each share."""
    values = {}
    for name, (part, whole) in shares.items():
        kept, of = group_totals(codes, count, part), group_totals(codes, count, whole)
        values[attainment_name(name, by)] = np.where(np.isnan(seconds), np.nan, ratio(kept, of))
    good, exists = (group_totals(codes, count, each) for each in (shares[""][0], codes >= 0))
    values[goodput_name(by)] = np.where(exists > 0, ratio(good, seconds), np.nan)
    return values
