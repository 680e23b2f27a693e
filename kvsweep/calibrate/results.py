"""Calibrate: read, fit, judge; what the command line prints and the preset that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kvsweep.calibrate.comparison import (
    ALL,
    HELD_OUT,
    ComparedRow,
    Floats,
    compare,
    request_errors,
    series_errors,
    simulate_series,
)
from kvsweep.calibrate.families import Family
from kvsweep.calibrate.holding import Loose, Reference
from kvsweep.calibrate.judging import judge_served, marked
from kvsweep.calibrate.load import unseen, without
from kvsweep.calibrate.needed import assumed
from kvsweep.calibrate.presets import (
    kept,
    kept_words,
    named_after,
    peak_reference,
    rounded,
    source_of,
)
from kvsweep.calibrate.probing import Range
from kvsweep.calibrate.served import Served, arrivals, with_delays
from kvsweep.calibrate.simulated import Simulated, Simulator, fit_served
from kvsweep.config import Latency, Scenario
from kvsweep.config.preset import Preset
from kvsweep.errors import InputError


@dataclass(frozen=True)
class ServedFit:
    """A fit to a part of a run, and the whole run simulated under it.

    Attributes
    ----------
    until : float
        End of the part, seconds.
    point : float (k,)
        The parameters, as rounded as a preset has them.
    latency : Latency
        What they stand for.
    simulated : Simulated
    rows : list of ComparedRow
        Simulated against real.
    loose : tuple of Loose
        Parameters that the part does not tell, and what they are held to.
    ranges : tuple of Range
        Others of which values far from the one found fit about as well.
    """

    until: float
    point: Floats
    latency: Latency
    simulated: Simulated
    rows: list[ComparedRow]
    loose: tuple[Loose, ...]
    ranges: tuple[Range, ...]


@dataclass(frozen=True)
class ServedResult:
    """A calibration on the requests of a real server.

    Attributes
    ----------
    served : Served
    family : Family
    preset : Preset
        Of the fit to all.
    part, whole : ServedFit
        Fits to the first part of the run, which predicts the rest, and to all of it.
    request_errors : dict of str to float (3,)
        Median, 90 % quantile and maximum of how far the tokens that `part` predicts are off, s.
    series, series_errors : dict
        The engine's state over time as `part` predicts it, and its mean absolute difference from
        the real one after that part.
    problems : tuple of str
        What makes the fit bad; empty if it is good.
    cautions : tuple of str
        What it rests on and has not seen: settings assumed, requests left out, load unseen,
        parameters that are not or hardly told.
    """

    served: Served
    family: Family
    preset: Preset
    part: ServedFit
    whole: ServedFit
    request_errors: dict[str, Floats]
    series: dict[str, Floats]
    series_errors: dict[str, float]
    problems: tuple[str, ...]
    cautions: tuple[str, ...]


def calibrate_served(
    path: Path,
    served: Served,
    family: Family,
    split: float,
    names: dict[str, str],
    start: Preset | None = None,
) -> ServedResult:
    """Fit to the first `split` of the run's time and judge on the rest; then fit to all.

    Parameters
    ----------
    path : Path
        The trace, for the preset's provenance.
    served : Served
    family : Family
    split : float
        Share of the time from the first arrival to the last token; 1: nothing is held out.
    names : dict
        ``model`` and ``hardware`` where they are to differ from what the trace says.
    start : Preset, optional
        Whose link and bytes of a token the preset keeps: a server's times do not tell them. Nor is
        `alpha` fitted: its own holds, where the run has none.

    Raises
    ------
    InputError
        If a request cannot be served, under any step times or those fitted, or a part is too short.
    """
    if start is not None:
        served = with_delays(served, start.alpha)
    begin, end = float(served.arrival.min()), float(served.last.max())
    simulator = Simulator(served)
    model = names.get("model") or served.about.get("model") or named_after(path)
    hardware = names.get("hardware") or served.about.get("hardware") or "not told"
    reference = family.reference() or peak_reference(model, hardware)
    ends = [begin + split * (end - begin), end] if split < 1 else [end]
    with said_of(path):
        fits = [_outcome(served, simulator, family, until, reference) for until in ends]
    part, whole = fits[0], fits[-1]
    series = simulate_series(served, part.latency)
    problems = judge_served(part.rows, whole.rows, _request_error(served, whole))
    words = kept_words(start, whole.latency.alpha)
    preset = Preset(
        model=model,
        hardware=hardware,
        kind=family.kind,
        alpha=whole.latency.alpha,
        source=source_of(path, served.about.get("source"), family.source, words),
        fit=marked(_fit_of(served, part, whole, split), problems),
        **family.tables(whole.point),
        **kept(start),
    )
    tokens = request_errors(served, part.simulated.first, part.simulated.last, part.until)
    errors = series_errors(served, series, part.until)
    not_told = _not_told(part, whole, family)
    loads = (*without(served), *unseen(served, part.until))
    cautions = (*assumed(served.scenario), *loads, *not_told)
    return ServedResult(
        served, family, preset, part, whole, tokens, series, errors, problems, cautions
    )


@contextmanager
def said_of(path: Path) -> Iterator[None]:
    """Begin complaints with the name of the file."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _not_told(part: ServedFit, whole: ServedFit, family: Family) -> Iterator[str]:
    """Say which parameters the fits do not tell."""
    started = family.reference() is not None
    fits = [(whole, "fit to all")]
    if part is not whole:
        fits.insert(0, (part, f"fit to {part.until:.1f} s"))
    for fit, where in fits:
        yield from (f"{where}: {loose.told(started)}" for loose in fit.loose)
        yield from (f"{where}: {one.told()}" for one in fit.ranges)


def _request_error(served: Served, fit: ServedFit) -> float:
    """Return the median relative error of the times to the last token."""
    real, last = served.last - served.arrival, fit.simulated.last
    off = last - arrivals(served.requests, last) - real
    return float(np.median(np.abs(off / np.maximum(real, 1e-9))))


def _outcome(
    served: Served,
    simulator: Simulator,
    family: Family,
    until: float,
    reference: Reference | None,
) -> ServedFit:
    found, loose, ranges = fit_served(served, simulator, family, until, reference)
    point = np.array([rounded(value) for value in found.point])
    terms = family.terms(point[None, :])
    (simulated,) = simulator(terms)
    simulated.check_served()
    latency = Latency(
        alpha=served.scenario.latency.alpha,
        beta=tuple(terms.beta[0].tolist()),
        memory=() if terms.memory is None else tuple(terms.memory[0].tolist()),
        experts=() if terms.experts is None else tuple(terms.experts[0].tolist()),
        window=() if terms.window is None else tuple(terms.window[0].tolist()),
        first_steps_us=served.scenario.latency.first_steps_us,
    )
    rows = compare(served, simulated.first, simulated.last, until)
    return ServedFit(until, point, latency, simulated, rows, loose, ranges)


def _under(scenario: Scenario) -> str:
    """Name the settings without which a preset's step times are not those of its server."""
    settings = []
    if scenario.engine.async_scheduling:
        settings.append("engine.async_scheduling = true")
    if (stages := scenario.engine.pipeline_parallel_size) > 1:
        settings.append(f"engine.pipeline_parallel_size = {stages}")
    if scenario.latency.first_steps_us:
        settings.append(f"latency.first_steps_us = {list(scenario.latency.first_steps_us)}")
    return f", under {', '.join(settings)}" if settings else ""


def _fit_of(served: Served, part: ServedFit, whole: ServedFit, split: float) -> str:
    """Say how it was fitted, and how large the errors of the means are, held out if any were."""
    told = (
        "robust least squares by simulation on every first and last token"
        f"{_under(served.scenario)}: {_means(whole, ALL)}"
    )
    if split < 1:
        told += (
            f"; fitted to the first {100 * split:g} % of the run only, the rest is predicted to "
            f"{_means(part, HELD_OUT)}"
        )
    return told


def _means(outcome: ServedFit, part: str) -> str:
    return ", ".join(
        f"{row.metric} {100 * row.error:+.2f} %"
        for row in outcome.rows
        if row.part == part and row.statistic == "mean" and row.real
    )
