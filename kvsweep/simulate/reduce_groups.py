"""Measures by round of a session and by SLO class, over all cells of a batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics import NO_COUNT, jain_index, ratio, summarize_latency
from ..policies import RequestStatus
from ..workload.requests import Requests

COUNTED = (
    RequestStatus.COMPLETED,
    RequestStatus.DROPPED_UNSERVABLE,
    RequestStatus.TIMED_OUT,
)
"""Statuses that are counted by group."""


@dataclass(frozen=True)
class Grouping:
    """A division of requests into groups.

    Attributes
    ----------
    name : str
        What the measures are called after: ``ttft_by_<name>_mean_ms``.
    count : int
        Number of groups.
    codes : int64 (requests of all lists,)
        Group of each request, or -1.
    quantiles : bool
        Whether latencies have quantiles too.
    """

    name: str
    count: int
    codes: NDArray[np.int64]
    quantiles: bool


@dataclass(frozen=True)
class Columns:
    """Measured requests of cells with equally many, (cells, requests) each.

    Attributes
    ----------
    ttft, e2e, delay : int64
        Microseconds, -1 where a request has none.
    tpot : float64
        Likewise.
    preemptions : int32
    status : int8
        Codes of `RequestStatus`.
    prompt, cached, output : int64
        Prompt tokens, those found cached at the first admission, or -1, and output tokens.
    """

    ttft: NDArray[Any]
    e2e: NDArray[Any]
    delay: NDArray[Any]
    tpot: NDArray[Any]
    preemptions: NDArray[Any]
    status: NDArray[Any]
    prompt: NDArray[Any]
    cached: NDArray[Any]
    output: NDArray[Any]


def groupings(
    lists: Sequence[Requests], rounds: int, slo_classes: Sequence[str]
) -> tuple[Grouping, ...]:
    """Divide the requests of `lists`, one after the other, by round and by class if they have any.

    Parameters
    ----------
    lists : sequence of Requests
        Request lists.
    rounds : int
        Most rounds of a session, 0 if there are no sessions.
    slo_classes : sequence of str
        The classes, in order.
    """
    found = []
    if rounds:
        codes = np.concatenate([requests.round for requests in lists])
        found.append(Grouping("round", rounds, codes, quantiles=False))
    if slo_classes:
        parts = []
        for requests in lists:
            places = [slo_classes.index(name) for name in requests.slo_names]
            parts.append(np.array([*places, -1], np.int64)[requests.slo_class])
        found.append(Grouping("class", len(slo_classes), np.concatenate(parts), quantiles=True))
    return tuple(found)


def group_totals(
    codes: NDArray[np.int64],
    count: int,
    chosen: NDArray[np.bool_],
    weights: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Count the chosen requests of each group, or sum their weights.

    Parameters
    ----------
    codes : int64 (cells, requests)
        Group of each request, or -1.
    count : int
        Number of groups.
    chosen : bool (cells, requests)
        Which requests count.
    weights : (cells, requests), optional
        What to sum instead of 1.

    Returns
    -------
    int64, or float64 of weights, (cells, count)
    """
    cells = len(codes)
    where = chosen & (codes >= 0)
    bins = (np.arange(cells)[:, None] * count + codes)[where]
    sums = np.bincount(bins, None if weights is None else weights[where], minlength=cells * count)
    return sums.reshape(cells, count)


def measure_groups(
    grouping: Grouping, codes: NDArray[np.int64], columns: Columns
) -> dict[str, NDArray[Any]]:
    """Return the measures of each group.

    Parameters
    ----------
    grouping : Grouping
        The division.
    codes : int64 (cells, requests)
        Its codes of these requests.
    columns : Columns
        The requests.

    Returns
    -------
    dict of str to array (cells, groups, ...)
        By variable of `kvsweep.metrics`; missing where a cell has no request of the group. The
        speed of a class, whose fairness is measured over classes, is the mean over its completed
        requests of output tokens per end-to-end time: 0 if it completes nothing.
    """
    by = f"by_{grouping.name}"
    total = partial(group_totals, codes, grouping.count)
    everywhere = np.ones(codes.shape, np.bool_)
    counts = {
        "injected": total(columns.status != RequestStatus.NOT_ARRIVED),
        "preemptions": total(everywhere, columns.preemptions).astype(np.int64),
        **{status.label: total(columns.status == status) for status in COUNTED},
    }
    exists = total(everywhere) > 0
    values = {f"{name}_{by}": np.where(exists, n, NO_COUNT) for name, n in counts.items()}
    admitted = columns.cached >= 0
    values[f"prefix_hit_rate_{by}"] = ratio(
        total(admitted, columns.cached), total(admitted, columns.prompt)
    )
    latencies = {
        "ttft": columns.ttft,
        "e2e": columns.e2e,
        "tpot": columns.tpot,
        "scheduling_delay": columns.delay,
    }
    for name, times in latencies.items():
        known = times >= 0
        values[f"{name}_{by}_mean_ms"] = ratio(total(known, times), total(known)) / 1000
        if grouping.quantiles:
            rows = [np.where(codes == g, times, -1) for g in range(grouping.count)]
            parts = [summarize_latency(row)[1] for row in rows]
            values[f"{name}_{by}_ms"] = np.stack(parts, axis=1)
    if grouping.name == "class":
        done = (columns.status == RequestStatus.COMPLETED) & (columns.e2e > 0)
        speed = columns.output / np.where(done, columns.e2e, 1)
        mean = np.nan_to_num(ratio(total(done, speed), total(done)))
        values["fairness_classes"] = jain_index(mean, counts["injected"] > 0)
    return values
