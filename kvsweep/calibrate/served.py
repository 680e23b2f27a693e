"""What a real server did with a trace's requests: when each began and ended to answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.calibrate.needed import check_told
from kvsweep.config import Latency, Scenario, parse_scenario
from kvsweep.config.compose import parse_override
from kvsweep.config.fleet import has_pools
from kvsweep.config.read_options import parse_reading, refuse_reading
from kvsweep.errors import InputError, dotted, escaped, shown
from kvsweep.limits import MAX_SECONDS, MAX_TIME_US
from kvsweep.workload.checks import misspelling
from kvsweep.workload.requests import Requests
from kvsweep.workload.traces import load_trace

Floats = NDArray[np.float64]

SERIES = ("running", "waiting", "kv_cache_pct")
"""Series that a server's log may give: requests, requests, percent of the KV cache in use."""

ALIKE = 0.8
"""Of difflib's ratio: `kv_cache` is like `kv_cache_pct`, and `prefix_cache_pct` is not."""

FOUND = ("model", "beta", "memory", "experts", "window")
"""Keys of the latencies that a fit finds, so that there is nothing to set."""


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
    left_out : int
        Requests of the file that are not among them.
    """

    requests: Requests
    scenario: Scenario
    first: Floats
    last: Floats
    series: dict[str, Floats]
    about: dict[str, str]
    left_out: int = 0

    @property
    def arrival(self) -> Floats:
        """Arrivals, seconds."""
        return arrivals(self.requests, self.last)

    @property
    def token_s(self) -> Floats:
        """Mean time between tokens of each request, seconds; nan for a single token."""
        return per_token(self.first, self.last, self.requests.output_tokens)


def with_delays(served: Served, alpha: tuple[float, ...]) -> Served:
    """Return the run with a preset's `alpha`, which no fit finds, unless it is told one itself."""
    latency = served.scenario.latency
    if "alpha" in latency.model_fields_set or not any(alpha):
        return served
    held = Latency(alpha=alpha, first_steps_us=latency.first_steps_us)
    return replace(served, scenario=served.scenario.model_copy(update={"latency": held}))


def arrivals(requests: Requests, last: Floats) -> Floats:
    """Return the arrivals, seconds: where they wait for answers, by the last tokens of these."""
    found = requests.arrival_us / 1e6
    waits = requests.after >= 0
    found[waits] = last[requests.after[waits]] + requests.think_us[waits] / 1e6
    return found


def per_token(first: Floats, last: Floats, tokens: NDArray[np.int64]) -> Floats:
    """Return the mean time between the tokens of each request, nan where there is one only."""
    gaps = np.where(tokens > 1, tokens - 1, np.nan)
    share: Floats = (last - first) / gaps
    return share


def read_served(path: Path, overrides: tuple[str, ...], read: tuple[str, ...] = ()) -> Served:
    """Read a trace whose ``expected`` has ``measured_us``: ``first_token_ts``, ``last_token_ts``.

    Results of other tools have them as well, and no scenario: `overrides` give what is needed.

    Both list a time per request, microseconds on the clock of the arrivals: the first token after
    the arrival, the last not before the first. ``timeseries`` may hold lists ``t`` (seconds,
    increasing), ``running``, ``waiting``, ``kv_cache_pct``.

    Raises
    ------
    InputError
        If something is missing or malformed, or an override has no effect.
    """
    refuse_reading(overrides)
    trace = load_trace(path, parse_reading(read))
    scenario = parse_scenario(trace.scenario, trace.where, overrides)
    _refuse_found(overrides)
    if scenario.engine.rules != "vllm":
        raise InputError(f"{path}: engine.rules is {scenario.engine.rules!r}: only 'vllm' is timed")
    if has_pools(scenario):
        where = "cluster.pools" if scenario.cluster.pools else "cluster: prefill and decode apart"
        raise InputError(
            f"{path}: {where}: the step times of one kind of instance are fitted; measure a server "
            "of each kind by itself"
        )
    if trace.unmeasured:
        raise InputError(f"{path}: nothing to calibrate to: {trace.unmeasured}")
    check_told(scenario, path)
    expected = trace.expected if isinstance(trace.expected, dict) else {}
    measured = expected.get("measured_us")
    if not isinstance(measured, dict):
        raise InputError(
            f"{path}: expected.measured_us: missing: nothing to calibrate to (it lists "
            "first_token_ts and last_token_ts, a time in microseconds per request)"
        )
    first, last = _times(measured, trace.requests, f"{path}: expected.measured_us")
    about = trace.about if isinstance(trace.about, dict) else {}
    return Served(
        trace.requests,
        scenario,
        first / 1e6,
        last / 1e6,
        _series(expected.get("timeseries"), f"{path}: expected.timeseries"),
        {escaped(str(key)): escaped(str(value)) for key, value in about.items()},
        trace.left_out,
    )


def _refuse_found(overrides: tuple[str, ...]) -> None:
    """Refuse to set what the fit finds."""
    for text in overrides:
        key, value = parse_override(text)
        section, _, name = key.partition(".")
        names = value if not name and isinstance(value, dict) else (name,)
        if section == "latency" and any(found in names for found in FOUND):
            raise InputError(
                f"--set {key}: has no effect: step times are what is fitted; --from PRESET says "
                "where the search starts"
            )


def _times(measured: dict[str, Any], requests: Requests, where: str) -> tuple[Floats, Floats]:
    """Return the first and last tokens, microseconds, each after what comes before it."""
    first, last = (
        _numbers(measured.get(key), len(requests), f"{where}.{key}", 0, MAX_TIME_US)
        for key in ("first_token_ts", "last_token_ts")
    )
    # Compared in seconds, as they are used: 1e-320 us are none.
    arrival = arrivals(requests, last / 1e6)
    early = np.flatnonzero(first / 1e6 <= arrival)
    if early.size:
        i, after = early[0], requests.after[early[0]]
        made = f" (last_token_ts[{after}] and think_us)" if after >= 0 else ""
        raise InputError(
            f"{where}.first_token_ts[{i}]: {first[i]:.12g} is not after the arrival, "
            f"{1e6 * arrival[i]:.12g}{made}"
        )
    early = np.flatnonzero(last < first)
    if early.size:
        i = early[0]
        raise InputError(
            f"{where}.last_token_ts[{i}]: {last[i]:.12g} is before the first token, {first[i]:.12g}"
        )
    _check_gaps(first, last, requests.output_tokens > 1, where)
    return first, last


def _check_gaps(first: Floats, last: Floats, several: NDArray[np.bool_], where: str) -> None:
    """Refuse times that do not tell how long a token takes, of requests with several of them."""
    if not several.any():
        raise InputError(
            f"{where}: all requests have one output token, which does not tell what the next ones "
            "take: measure with longer outputs"
        )
    later = (last > first)[several]
    if not later.any():
        raise InputError(f"{where}.last_token_ts: no last token is after the first of its request")
    if 2 * later.sum() < later.size:
        raise InputError(
            f"{where}.last_token_ts: of {later.size} requests with several output tokens only "
            f"{later.sum()} have their last one after the first: leave the others out, or measure "
            "with streaming"
        )


def _series(found: Any, where: str) -> dict[str, Floats]:
    """Return the series that were recorded, which those that are null were not."""
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InputError(f"{where}: expected an object, got {shown(found)}")
    known = ("t", *SERIES)
    _check_spelling(found, known, where)
    recorded = {name: found[name] for name in known if found.get(name) is not None}
    if not recorded:
        return {}
    times = recorded.get("t")
    if not isinstance(times, list):
        raise InputError(f"{where}.t: expected a list of seconds, got {shown(times)}")
    if not times:
        return {}
    series = {
        # A log may begin before the first request.
        name: _numbers(
            values, len(times), f"{where}.{name}", -MAX_SECONDS if name == "t" else 0, MAX_SECONDS
        )
        for name, values in recorded.items()
    }
    back = np.flatnonzero(np.diff(series["t"]) <= 0)
    if back.size:
        i = back[0] + 1
        before, value = series["t"][i - 1 : i + 1]
        raise InputError(
            f"{where}.t[{i}]: {value:.12g} is not after the time before, {before:.12g}"
        )
    return series


def _check_spelling(found: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    """Refuse a series that looks like one of `known` that is absent; others are not used."""
    if alike := misspelling(tuple(found), known, ALIKE):
        key, meant = alike
        raise InputError(
            f"{where}.{dotted((key,))}: unknown key; did you mean {meant!r}? If that was not "
            f'recorded, say so: "{meant}": null'
        )


def _numbers(values: Any, count: int, where: str, least: float, most: float) -> Floats:
    """Return a list of `count` numbers from `least` to `most`."""
    if not isinstance(values, list) or len(values) != count:
        got = f"a list of {len(values)}" if isinstance(values, list) else shown(values)
        raise InputError(f"{where}: expected a list of {count} numbers, got {got}")
    for i, value in enumerate(values):
        if type(value) not in (int, float) or not least <= value <= most:
            raise InputError(
                f"{where}[{i}]: expected a number from {least:.12g} to {most:.12g}, got "
                f"{shown(value)}"
            )
    return np.array(values, np.float64)
