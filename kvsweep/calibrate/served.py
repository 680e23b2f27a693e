"""What a real server did with a trace's requests: when each began and ended to answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.calibrate.needed import check_told
from kvsweep.config import Scenario, parse_scenario
from kvsweep.errors import InputError
from kvsweep.workload.requests import Requests
from kvsweep.workload.traces import load_trace

Floats = NDArray[np.float64]

SERIES = ("running", "waiting", "kv_cache_pct")
"""Series that a server's log may give: requests, requests, percent of the KV cache in use."""


@dataclass(frozen=True)
class Served:
    """A trace with what was measured.

    Attributes
    ----------
    requests : Requests
    scenario : Scenario
        The trace's, without latencies of its own.
    first, last : float (n,)
        First and last token, seconds on the clock of the arrivals.
    series : dict of str to float (m,)
        ``t`` (seconds) and some of `SERIES`; empty if none were logged.
    about : dict
        What the trace says of its origin.
    """

    requests: Requests
    scenario: Scenario
    first: Floats
    last: Floats
    series: dict[str, Floats]
    about: dict[str, str]

    @property
    def arrival(self) -> Floats:
        """Arrivals, seconds."""
        return self.requests.arrival_us / 1e6

    @property
    def token_s(self) -> Floats:
        """Mean time between tokens of each request, seconds; nan for a single token."""
        return per_token(self.first, self.last, self.requests.output_tokens)


def per_token(first: Floats, last: Floats, tokens: NDArray[np.int64]) -> Floats:
    """Return the mean time between the tokens of each request, nan where there is one only."""
    gaps = np.where(tokens > 1, tokens - 1, np.nan)
    share: Floats = (last - first) / gaps
    return share


def read_served(path: Path, overrides: tuple[str, ...]) -> Served:
    """Read a trace whose ``expected`` has ``measured_us``: ``first_token_ts``, ``last_token_ts``.

    Both list a time per request, integer microseconds on the clock of the arrivals. ``timeseries``
    may hold lists ``t`` (seconds), ``running``, ``waiting``, ``kv_cache_pct``.

    Raises
    ------
    InputError
        If something is missing or malformed.
    """
    trace = load_trace(path)
    scenario = parse_scenario(trace.scenario, trace.where, overrides)
    if scenario.engine.rules != "vllm":
        raise InputError(f"{path}: engine.rules is {scenario.engine.rules!r}: only 'vllm' is timed")
    check_told(scenario, path)
    expected = trace.expected if isinstance(trace.expected, dict) else {}
    measured = expected.get("measured_us")
    if not isinstance(measured, dict):
        raise InputError(
            f"{path}: expected.measured_us: missing: nothing to calibrate to (it lists "
            "first_token_ts and last_token_ts, a time in microseconds per request)"
        )
    count = len(trace.requests)
    first, last = (
        _numbers(measured.get(key), count, f"{path}: expected.measured_us.{key}") / 1e6
        for key in ("first_token_ts", "last_token_ts")
    )
    about = trace.about if isinstance(trace.about, dict) else {}
    return Served(
        trace.requests,
        scenario,
        first,
        last,
        _series(expected.get("timeseries"), str(path)),
        {str(key): str(value) for key, value in about.items()},
    )


def _series(found: Any, where: str) -> dict[str, Floats]:
    if not isinstance(found, dict) or found.get("t") is None:
        return {}
    count = len(found["t"])
    return {
        name: _numbers(found[name], count, f"{where}: expected.timeseries.{name}")
        for name in ("t", *SERIES)
        if found.get(name) is not None  # a null was not recorded
    }


def _numbers(values: Any, count: int, where: str) -> Floats:
    numbers = isinstance(values, list) and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in values
    )
    if not numbers or len(values) != count:
        raise InputError(f"{where}: expected a list of {count} numbers")
    return np.array(values, np.float64)
