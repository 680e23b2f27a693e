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

from ..metrics import attainment_name, goodput_name, per_second, ratio
from ..policies import RequestStatus
from .reduce_groups import Columns, Grouping, group_totals


@dataclass(frozen=True)
class LevelTable:
    """The service levels of some cells.

    Attributes
    ----------
    names : tuple of str
        The levels that any cell has, of `LEVELS`.
    ms : float64 (cells, choices, classes + 1, names)
        Milliseconds, NaN where there is no such level; last those of requests without a class.
        A cell may be judged by several choices of levels.
    """

    names: tuple[str, ...]
    ms: NDArray[np.float64]

    def of(self, cells: NDArray[np.intp]) -> LevelTable:
        """Return the levels of some of the cells, by position."""
        return replace(self, ms=self.ms[cells])


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
    dict of str to float64 (cells, choices, ...)
        By variable of `kvsweep.metrics.LEVEL_VARIABLES`; NaN for choices without levels.
    """
    each = [
        _measure(columns, table.names, table.ms[:, choice], measured_us, groups)
        for choice in range(table.ms.shape[1])
    ]
    return {name: np.stack([found[name] for found in each], axis=1) for name in each[0]}


def _measure(
    columns: Columns,
    names: Sequence[str],
    ms: NDArray[np.float64],
    measured_us: NDArray[Any],
    groups: Sequence[tuple[Grouping, NDArray[np.int64]]],
) -> dict[str, NDArray[Any]]:
    """Return what one choice of levels, (cells, classes + 1, names), makes of requests."""
    classes = next((codes for grouping, codes in groups if grouping.name == "class"), None)
    cells = np.arange(len(ms))[:, None]
    limits = ms[cells, -1 if classes is None else classes]
    times = {"ttft": columns.ttft, "tpot": columns.tpot, "e2e": columns.e2e}
    arrived = columns.status != RequestStatus.NOT_ARRIVED
    completed = columns.status == RequestStatus.COMPLETED
    good = completed.copy()
    shares = {}
    for i, name in enumerate(names):
        limit = limits[..., i]
        has = ~np.isnan(limit)
        # In milliseconds, as then 1,001 us are just the 1.001 of a file. One of one token is -1.
        keeps = completed & (times[name] / 1000 <= limit)
        shares[name] = keeps, arrived & has
        good &= keeps | ~has
    shares[""] = good, arrived
    # Cells without any level have no numbers.
    lasted = np.where(np.isnan(ms).all(axis=(1, 2)), np.nan, measured_us)[:, None]
    whole = _of_groups("", 1, np.zeros(good.shape, np.int64), shares, lasted)
    values = {name: each[:, 0] for name, each in whole.items()}
    for grouping, codes in groups:
        values |= _of_groups(grouping.name, grouping.count, codes, shares, lasted)
    return values


def _of_groups(
    by: str,
    count: int,
    codes: NDArray[np.int64],
    shares: dict[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]],
    lasted_us: NDArray[np.float64],
) -> dict[str, NDArray[Any]]:
    """Return shares and rates by group, (cells, groups), from part and whole of each share."""
    values = {}
    for name, (part, whole) in shares.items():
        kept, of = group_totals(codes, count, part), group_totals(codes, count, whole)
        values[attainment_name(name, by)] = np.where(np.isnan(lasted_us), np.nan, ratio(kept, of))
    good, exists = (group_totals(codes, count, each) for each in (shares[""][0], codes >= 0))
    known = (exists > 0) & ~np.isnan(lasted_us)
    values[goodput_name(by)] = np.where(known, per_second(good, lasted_us), np.nan)
    return values
