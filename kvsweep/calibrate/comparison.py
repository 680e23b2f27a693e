"""Real against simulated: latencies of the requests, and the state of the engine over time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.calibrate.served import Served, arrivals, per_token
from kvsweep.config import Latency
from kvsweep.simulate.logged import run_single

Floats = NDArray[np.float64]

FITTED, HELD_OUT, ALL = "fitted", "held out", "all"

STATISTICS = {"mean": None, "p50": 0.5, "p90": 0.9, "p99": 0.99}
"""Statistics of a latency, with their quantile."""


@dataclass(frozen=True)
class ComparedRow:
    """One statistic of one latency over some of the requests.

    Attributes
    ----------
    part : str
        ``fitted`` (measured before the end of the fit), ``held out`` (after it) or ``all``.
    metric, units, statistic : str
    count : int
        Requests.
    real, simulated : float
    """

    part: str
    metric: str
    units: str
    statistic: str
    count: int
    real: float
    simulated: float

    @property
    def error(self) -> float:
        """Relative error of the simulation; infinite of what was measured as 0."""
        return self.simulated / self.real - 1 if self.real else math.inf


def compare(served: Served, first: Floats, last: Floats, until: float) -> list[ComparedRow]:
    """Compare the latencies of simulated first and last tokens (seconds) with the real ones.

    Whether a latency was held out depends on when it could be measured: the time to the first
    token at the first token, the others at the last.
    """
    real_first, real_last = served.first - served.arrival, served.last - served.arrival
    arrival = arrivals(served.requests, last)
    token = per_token(first, last, served.requests.output_tokens)
    metrics = (
        ("ttft", "s", real_first, first - arrival, served.first),
        ("tpot", "ms", 1e3 * served.token_s, 1e3 * token, served.last),
        ("latency", "s", real_last, last - arrival, served.last),
    )
    rows = []
    for part in (FITTED, HELD_OUT, ALL):
        for metric, units, real, simulated, known_at in metrics:
            early = known_at <= until
            chosen = {FITTED: early, HELD_OUT: ~early, ALL: early | ~early}[part]
            chosen = chosen & ~np.isnan(real)
            if chosen.any():
                rows += [
                    ComparedRow(part, metric, units, name, int(chosen.sum()), *pair)
                    for name, pair in _pairs(real[chosen], simulated[chosen]).items()
                ]
    return rows


def _pairs(real: Floats, simulated: Floats) -> dict[str, tuple[float, float]]:
    return {
        name: (
            (float(real.mean()), float(simulated.mean()))
            if share is None
            else (float(np.quantile(real, share)), float(np.quantile(simulated, share)))
        )
        for name, share in STATISTICS.items()
    }


def request_errors(served: Served, first: Floats, last: Floats, until: float) -> dict[str, Floats]:
    """Return median, 90 % quantile and maximum of how far a token is off after `until`, seconds."""
    pairs = (("first token", served.first, first), ("last token", served.last, last))
    return {
        name: np.quantile(np.abs(simulated - real)[real > until], (0.5, 0.9, 1.0))
        for name, real, simulated in pairs
        if (real > until).any()
    }


def simulate_series(served: Served, latency: Latency) -> dict[str, Floats]:
    """Return the series that the server logged as the simulation has them at the same times.

    Running and waiting requests are those of all instances; the cache in use is a share of all
    blocks.
    """
    if not served.series:
        return {}
    scenario = served.scenario.model_copy(update={"latency": latency})
    outputs = run_single(scenario, served.requests).outputs
    progress, times = outputs.progress, served.series["t"]
    queued, finished = np.sort(progress["queued"]) / 1e6, np.sort(progress["finish"]) / 1e6
    inside = np.searchsorted(queued, times, "right") - np.searchsorted(finished, times, "right")
    running, used = np.zeros(len(times)), np.zeros(len(times))
    for instance in range(scenario.cluster.instances):
        own = outputs.steps[outputs.steps["instance"] == instance]
        if own.size:
            running += _at(times, own, own["running"])
            used += _at(times, own, 1 - own["free_blocks"] / scenario.cache.gpu_blocks)
    found = {
        "running": running,
        "waiting": inside - running,
        "kv_cache_pct": 100 * used / scenario.cluster.instances,
    }
    return {name: values for name, values in found.items() if name in served.series}


def _at(times: Floats, steps: NDArray[np.void], values: NDArray[Any]) -> Floats:
    """Return the values of one instance's steps at `times` (seconds), 0 between steps."""
    step = np.searchsorted(steps["start_us"] / 1e6, times, side="right") - 1
    ends = (steps["start_us"] + steps["duration_us"]) / 1e6
    busy = (step >= 0) & (times < ends[step])
    found: Floats = np.where(busy, values[step], 0.0)
    return found


def series_errors(served: Served, simulated: dict[str, Floats], until: float) -> dict[str, float]:
    """Return the mean absolute difference of each series after `until` (seconds)."""
    late = served.series["t"] > until if served.series else np.zeros(0, bool)
    if not late.any():
        return {}
    return {
        name: float(np.abs(values - served.series[name])[late].mean())
        for name, values in simulated.items()
    }
