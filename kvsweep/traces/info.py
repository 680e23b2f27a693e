"""What is in a request list: lengths, arrivals, reuse, sessions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.records import NONE
from kvsweep.traces.hits import Hits
from kvsweep.workload.requests import Requests

QUANTILES = (0.5, 0.9, 0.95, 0.99)
BINS = 60
"""Bins of the rate over time, at most."""
_WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
_DISPERSION_S = (1, 10, 60)


def describe(requests: Requests, hits: Hits, left_out: int = 0) -> dict[str, Any]:
    """Return what is in a request list, as ``kvsweep trace info --json`` prints it.

    Parameters
    ----------
    requests : Requests
        The list.
    hits : Hits
        What caches find of it.
    left_out : int
        Requests of its file that are not in it.
    """
    tokens = {
        "prompt_tokens": requests.prompt_tokens,
        "output_tokens": requests.output_tokens,
        "total_tokens": requests.prompt_tokens + requests.output_tokens,
    }
    return {
        "requests": len(requests),
        "left_out": left_out,
        **{name: spread(values) | {"sum": int(values.sum())} for name, values in tokens.items()},
        "arrivals": _arrivals(requests.arrival_us),
        "reuse": _reuse(requests, hits),
        "sessions": _sessions(requests),
        "slo_classes": _names(requests.slo_class, requests.slo_names),
        "clients": _names(requests.client, requests.client_names),
    }


def spread(values: NDArray[Any]) -> dict[str, float]:
    """Return least, mean, quantiles and most of values."""
    at = np.quantile(values, QUANTILES).tolist()
    quantiles = {f"p{round(100 * q)}": v for q, v in zip(QUANTILES, at, strict=True)}
    ends = (values.min().item(), values.mean().item(), values.max().item())
    return {"min": ends[0], "mean": ends[1], **quantiles, "max": ends[2]}


def rate_over_time(arrival_us: NDArray[np.int64]) -> tuple[int, int, NDArray[np.int64]]:
    """Return when the first bin begins and how long each is, seconds, and the arrivals in each.

    Bins are counted from time 0, and the first one is that of the first arrival.
    """
    seconds = (arrival_us[-1] - arrival_us[0]) / 1e6
    width = next((w for w in _WIDTHS if seconds < w * BINS), int(seconds / BINS) + 1)
    bins = arrival_us // (width * 10**6)
    return int(bins[0]) * width, width, np.bincount(bins - bins[0])


def whole_bins(begin: int, bins: int) -> tuple[int, int]:
    """Return the first of so many bins that is whole, and the first after it that is not.

    The last one is cut, and the first of a trace that begins late: their rates come out too low.
    Where no other is there, all count.
    """
    first = int(begin > 0)
    return (first, bins - 1) if bins - 1 > first else (0, bins)


def _arrivals(arrival_us: NDArray[np.int64]) -> dict[str, Any]:
    gaps = np.diff(arrival_us)  # whole: of equal ones the deviation is none, not a rounding
    span = float(arrival_us[-1] - arrival_us[0]) / 1e6
    begin, width, counts = rate_over_time(arrival_us)
    mean = float(gaps.mean()) if gaps.size else 0.0
    return {
        "first_s": float(arrival_us[0]) / 1e6,
        "last_s": float(arrival_us[-1]) / 1e6,
        "span_s": span,
        "rate_rps": len(gaps) / span if span else None,
        "gap_mean_s": mean / 1e6 if gaps.size else None,
        # 1 for a Poisson process, more if arrivals come in bursts.
        "gap_cv": float(gaps.std()) / mean if mean else None,
        "dispersion": {f"{w}s": _dispersion(arrival_us, w) for w in _DISPERSION_S},
        "bin_s": width,
        "bins_from_s": begin,
        "bin_requests": counts.tolist(),
        "peak_rps": int(counts.max()) / width,
    }


def _dispersion(arrival_us: NDArray[np.int64], seconds: int) -> float | None:
    """Return variance over mean of the arrivals in whole bins; 1 for a Poisson process."""
    bins = (arrival_us - arrival_us[0]) // (seconds * 10**6)
    whole = int(bins[-1])  # the last one is cut
    # Empty ones are not made: of three years there are 95 million.
    counts = np.unique(bins[bins < whole], return_counts=True)[1]
    if whole < 2 or not counts.size:
        return None
    mean = counts.sum() / whole
    return float(((counts**2).sum() / whole - mean**2) / mean)


def _reuse(requests: Requests, hits: Hits) -> dict[str, Any]:
    found, age_us = hits.reuse(requests.arrival_us)
    ages = weighted_quantiles(age_us / 1e6, found, QUANTILES)
    of_request = hits.found_of_request()
    return {
        "block_size": hits.block_size,
        "ceiling": hits.ceiling / hits.prompt_tokens,
        "hit_tokens": hits.ceiling,
        "requests_with_hits": float((of_request > 0).mean()),
        "full_blocks": hits.blocks,
        "distinct_blocks": hits.distinct,
        "reused_blocks": hits.reused,
        "age_s": {f"p{round(100 * q)}": v for q, v in zip(QUANTILES, ages, strict=True)},
        "blocks_of_largest_request": hits.smallest,
        "blocks_for_all": hits.blocks_for(1.0),
    }


def weighted_quantiles(
    values: NDArray[np.float64], weights: NDArray[np.int64], wanted: tuple[float, ...]
) -> list[float | None]:
    """Return the least values up to which shares of the weight lie; None without weight."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    if not reached.size or not reached[-1]:
        return [None] * len(wanted)
    at = np.searchsorted(reached, np.array(wanted) * reached[-1])
    return [float(value) for value in values[order][at]]


def _sessions(requests: Requests) -> dict[str, Any]:
    session, waits = requests.session, requests.after != NONE
    _, rounds = np.unique(session[session != NONE], return_counts=True)
    return {
        "sessions": len(rounds),
        "requests_in_sessions": int(rounds.sum()),
        "rounds": spread(rounds) if len(rounds) else None,
        "waiting_for_answers": int(waits.sum()),
        "think_s": spread(requests.think_us[waits] / 1e6) if waits.any() else None,
        "impatient": int((requests.patience_us != NONE).sum()),
    }


def _names(codes: NDArray[np.int16], names: tuple[str, ...]) -> dict[str, int]:
    counts = Counter(codes.tolist())
    return {name: counts[i] for i, name in enumerate(names)}
