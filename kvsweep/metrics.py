"""What a cell of a sweep is measured by: names, units, meanings, and how the numbers come about.

Quantiles interpolate linearly between ranks, as ``numpy.quantile`` does and as the original
experiments did. *Measured* requests are all but the first ``workload.warmup`` ones.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .policies import Status

QUANTILES = (0.5, 0.9, 0.95, 0.99)
NO_COUNT = -1


class Variable(NamedTuple):
    """A variable of a result dataset.

    Attributes
    ----------
    name : str
        Its name in the store.
    dims : tuple of str
        Dimensions beyond those of the grid.
    dtype : str
        NumPy dtype.
    units : str
        Unit; ``1`` for pure numbers and names.
    long_name : str
        One-line meaning.
    """

    name: str
    dims: tuple[str, ...]
    dtype: str
    units: str
    long_name: str

    @property
    def missing(self) -> float | int:
        """The value where there is no number: NaN, or -1 for integers."""
        return np.nan if np.dtype(self.dtype).kind == "f" else NO_COUNT


def _latency(name: str, meaning: str) -> tuple[Variable, ...]:
    return (
        Variable(f"{name}_mean_ms", (), "float64", "ms", f"mean {meaning}"),
        Variable(f"{name}_ms", ("quantile",), "float64", "ms", f"quantile of {meaning}"),
    )


def _counts(*rows: tuple[str, str, str]) -> tuple[Variable, ...]:
    return tuple(Variable(name, (), "int64", units, doc) for name, units, doc in rows)


def _reals(*rows: tuple[str, str, str]) -> tuple[Variable, ...]:
    return tuple(Variable(name, (), "float64", units, doc) for name, units, doc in rows)


CELL_VARIABLES = (
    *_latency("ttft", "time to first token seen by the client"),
    *_latency("e2e", "time to last token seen by the client"),
    *_latency("itl", "time between consecutive tokens of a request"),
    *_latency("tpot", "time per output token after the first, of each request"),
    *_latency("scheduling_delay", "time from arrival to the first step that computes the request"),
    *_reals(
        ("throughput_rps", "request/s", "throughput of requests"),
        ("output_tokens_per_s", "token/s", "output tokens of completed requests per second"),
    ),
    *_counts(
        ("preemptions", "1", "preemptions of measured requests"),
        ("recomputed_tokens", "token", "tokens computed again that a preemption had made stale"),
    ),
    *_reals(
        ("preemption_rate", "1", "preemptions per completed request"),
        ("preempted_fraction", "1", "share of measured requests preempted at least once"),
        ("recompute_share", "1", "recomputed tokens / computed tokens"),
        ("block_hit_rate", "1", "blocks reused / blocks reused or newly taken, decode included"),
        ("prefix_hit_rate", "1", "prompt tokens found cached / prompt tokens looked up"),
        ("cpu_hit_rate", "1", "prompt tokens loaded from the CPU tier / prompt tokens looked up"),
    ),
    *_counts(
        ("injected", "request", "measured requests of the request list that arrived"),
        ("completed", "request", "requests that sampled all their output"),
        ("queued", "request", "requests still waiting at the end"),
        ("running", "request", "requests still running at the end"),
        ("dropped_unservable", "request", "requests that can never fit into the cache"),
        ("rejected", "request", "requests refused by admission control"),
        ("timed_out", "request", "requests given up by their client"),
    ),
    Variable("peak_blocks", ("instance",), "int64", "block", "most blocks in use at any time"),
    *_reals(
        ("mean_blocks", "block", "blocks in use per instance, mean over the makespan"),
        ("mean_waiting", "request", "requests per instance from arrival to first step, mean"),
        ("mean_running", "request", "requests per instance from first step to completion, mean"),
    ),
    *_counts(
        ("evictions", "block", "cached blocks evicted, warm-up included"),
        ("offloads", "block", "blocks copied to the CPU tier"),
        ("reloads", "block", "blocks copied back from the CPU tier"),
    ),
    *_reals(
        ("thrashing_rate", "1", "blocks reloaded within cache.thrashing_window_us / offloads"),
        ("transfer_s", "s", "transfers from the CPU tier, summed over instances"),
    ),
    *_counts(
        ("priority_inversions", "1", "first admissions while a more urgent request waited there"),
    ),
    *_reals(
        ("priority_inversion_rate", "1", "priority inversions per first admission"),
        ("fairness_classes", "1", "Jain index over SLO classes of their mean speed"),
        ("fairness_instances", "1", "Jain index over instances of the requests completed"),
    ),
    *_counts(("steps", "step", "engine steps of all instances, warm-up included")),
    *_counts(("pruned", "1", "1 if copied from a smaller pool where blocks never ran short")),
    *_reals(
        ("makespan_s", "s", "end of the last step, from time zero"),
        ("arrivals_s", "s", "first to last arrival of the list, closed loops have none"),
        ("queue_growth", "1", "share of the later half of all arrivals by which queues grew then"),
    ),
)


def _by_group(dim: str, by: str) -> tuple[Variable, ...]:
    """Return the measures of a group of requests; `by` ends their names and meanings."""
    rows = (
        (f"injected_{by}", "int64", "request", "arrived requests"),
        (f"completed_{by}", "int64", "request", "completed requests"),
        (f"dropped_unservable_{by}", "int64", "request", "requests that can never fit"),
        (f"timed_out_{by}", "int64", "request", "requests given up by their client"),
        (f"preemptions_{by}", "int64", "1", "preemptions"),
        (f"prefix_hit_rate_{by}", "float64", "1", "prompt tokens found cached / looked up"),
        (f"ttft_{by}_mean_ms", "float64", "ms", "mean time to first token seen by the client"),
        (f"e2e_{by}_mean_ms", "float64", "ms", "mean time to last token seen by the client"),
        (f"tpot_{by}_mean_ms", "float64", "ms", "mean time per output token after the first"),
        (f"scheduling_delay_{by}_mean_ms", "float64", "ms", "mean time from arrival to first step"),
    )
    words = by.replace("_", " ")
    return tuple(Variable(n, (dim,), kind, units, f"{doc} {words}") for n, kind, units, doc in rows)


GROUP_VARIABLES = (
    *_by_group("round", "by_round"),
    *_by_group("slo_class", "by_class"),
    *(
        Variable(
            f"{name}_by_class_ms",
            ("slo_class", "quantile"),
            "float64",
            "ms",
            f"quantile of {name}_ms by class",
        )
        for name in ("ttft", "e2e", "tpot", "scheduling_delay")
    ),
)
"""Measures by round or class: of sweeps whose requests have rounds or classes."""

_REQUEST = ("request",)
REQUEST_VARIABLES = (
    *(
        Variable(f"request_{name}_us", _REQUEST, "int64", "us", doc)
        for name, doc in (
            ("arrival", "arrival at the cluster"),
            ("queued", "entry into the waiting list"),
            ("scheduled", "start of the step of the first admission"),
            ("first_token", "end of the step that sampled the first token"),
            ("finish", "end of the step that sampled the last token"),
            ("ttft", "first token seen by the client, after arrival"),
            ("e2e", "last token seen by the client, after arrival"),
        )
    ),
    Variable("request_prompt_tokens", _REQUEST, "int64", "token", "prompt, or all of its context"),
    Variable("request_output_tokens", _REQUEST, "int64", "token", "output asked for"),
    Variable("request_preemptions", _REQUEST, "int64", "1", "times preempted"),
    Variable("request_recomputed_tokens", _REQUEST, "int64", "token", "computed again after those"),
    Variable("request_cached_tokens", _REQUEST, "int64", "token", "cached at first admission"),
    Variable("request_instance", _REQUEST, "int64", "1", "instance routed to"),
    Variable("request_session", _REQUEST, "int64", "1", "conversation, or -1"),
    Variable("request_round", _REQUEST, "int64", "1", "round of the conversation, or -1"),
    Variable("request_status", _REQUEST, "str", "1", "where the request stands at the end"),
    Variable("request_slo_class", _REQUEST, "str", "1", "class of the request, or empty"),
)

VARIABLES: Mapping[str, Variable] = {
    variable.name: variable for variable in (*CELL_VARIABLES, *GROUP_VARIABLES, *REQUEST_VARIABLES)
}
"""Every variable of a store but ``status`` and ``status_detail``."""


def summarize_latency(times_us: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return mean and quantiles of each row of latencies.

    Parameters
    ----------
    times_us : int64 or float64 (cells, requests)
        Microseconds; negative where a request has none.

    Returns
    -------
    mean : float64 (cells,)
        Milliseconds; NaN for a row without any.
    quantiles : float64 (cells, len(QUANTILES))
        Milliseconds.
    """
    ordered = np.sort(times_us, axis=1)
    counts = (ordered >= 0).sum(axis=1)
    sums = np.where(ordered < 0, 0, ordered).sum(axis=1)
    return mean_latency(sums, counts), latency_quantiles(ordered, counts)


def mean_latency(sums_us: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return milliseconds from sums of microseconds; NaN where there are none."""
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = sums_us / counts / 1000
    return means


def latency_quantiles(ordered_us: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the quantiles of each row of latencies.

    Parameters
    ----------
    ordered_us : int32, int64 or float64 (cells, requests)
        Microseconds, each row sorted; negative where a request has none.
    counts : int64 (cells,)
        How many of each row have one.

    Returns
    -------
    float64 (cells, len(QUANTILES))
        Milliseconds; NaN for a row without any.
    """
    last = ordered_us.shape[1] - 1
    rank = np.maximum(counts - 1, 0)[:, None] * np.array(QUANTILES)
    below = np.floor(rank).astype(np.int64)
    # Missing values sort to the front, so rank r of the rest is at column missing + r.
    place = np.minimum(last + 1 - counts[:, None] + below, last)
    low = np.take_along_axis(ordered_us, place, axis=1)
    high = np.take_along_axis(ordered_us, np.minimum(place + 1, last), axis=1)
    quantiles: NDArray[np.float64] = low + (high - low) * (rank - below)
    quantiles[counts == 0] = np.nan
    return quantiles / 1000


def ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """Return part / whole, NaN where the whole is zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def jain_index(shares: NDArray[Any], counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the fairness of each row of shares, (sum x)^2 / (n sum x^2).

    1 if all have the same, 1/n if one of n has everything. R. Jain, D. Chiu and W. Hawe, A
    Quantitative Measure of Fairness and Discrimination for Resource Allocation in Shared Computer
    Systems, DEC Research Report TR-301 (1984).

    Parameters
    ----------
    shares : (cells, n)
        What each has, at least 0.
    counted : bool (cells, n)
        Who takes part.

    Returns
    -------
    float64 (cells,)
        NaN where nobody has anything.
    """
    x = np.where(counted, shares, 0).astype(np.float64)
    return ratio(x.sum(axis=1) ** 2, counted.sum(axis=1) * (x**2).sum(axis=1))


def mask_failed(values: dict[str, NDArray[Any]], status: NDArray[np.int8]) -> None:
    """Blank every number of the cells that are not ``ok``, in place."""
    failed = status != Status.OK
    if failed.any():
        for name, array in values.items():
            variable = VARIABLES[name]
            array[failed] = "" if variable.dtype == "str" else variable.missing
