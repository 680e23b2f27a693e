"""Calibrate: read, fit, judge; what the command line prints and the preset that it writes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kvsweep.calibrate.comparison import (
    ALL,
    HELD_OUT,
    Floats,
    Row,
    compare,
    request_errors,
    series_errors,
    simulate_series,
)
from kvsweep.calibrate.direct import fit_prefix, simulate_first_token
from kvsweep.calibrate.families import Family
from kvsweep.calibrate.prefix import Measured, Trial
from kvsweep.calibrate.presets import rounded
from kvsweep.calibrate.served import Served
from kvsweep.calibrate.simulated import Simulated, Simulator, fit_served
from kvsweep.config import Latency
from kvsweep.config.latency import Preset


@dataclass(frozen=True)
class Outcome:
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
    rows : list of Row
        Simulated against real.
    """

    until: float
    point: Floats
    latency: Latency
    simulated: Simulated
    rows: list[Row]


@dataclass(frozen=True)
class ServedResult:
    """A calibration on the requests of a real server.

    Attributes
    ----------
    served : Served
    family : Family
    preset : Preset
        Of the fit to all.
    part, whole : Outcome
        Fits to the first part of the run, which predicts the rest, and to all of it.
    request_errors : dict of str to float (3,)
        Median, 90 % quantile and maximum of how far the tokens that `part` predicts are off, s.
    series, series_errors : dict
        The engine's state over time as `part` predicts it, and its mean absolute difference from
        the real one after that part.
    """

    served: Served
    family: Family
    preset: Preset
    part: Outcome
    whole: Outcome
    request_errors: dict[str, Floats]
    series: dict[str, Floats]
    series_errors: dict[str, float]


def calibrate_served(
    path: Path, served: Served, family: Family, split: float, names: dict[str, str]
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
    """
    begin, end = float(served.arrival.min()), float(served.last.max())
    simulator = Simulator(served)
    whole = _outcome(served, simulator, family, end)
    part = whole
    if split < 1:
        part = _outcome(served, simulator, family, begin + split * (end - begin))
    series = simulate_series(served, part.latency)
    preset = Preset(
        model=names.get("model") or served.about.get("model") or path.name.split(".")[0],
        hardware=names.get("hardware") or served.about.get("hardware") or "not told",
        kind=family.kind,
        alpha=whole.latency.alpha,
        source=_source(path, served.about.get("source"), family.source),
        fit=_fit_of(part, whole, split),
        **family.tables(whole.point),
    )
    tokens = request_errors(served, part.simulated.first, part.simulated.last, part.until)
    errors = series_errors(served, series, part.until)
    return ServedResult(served, family, preset, part, whole, tokens, series, errors)


def _outcome(served: Served, simulator: Simulator, family: Family, until: float) -> Outcome:
    found = fit_served(served, simulator, family, until)
    point = np.array([rounded(value) for value in found.point])
    terms = family.terms(point[None, :])
    (simulated,) = simulator(terms)
    latency = Latency(
        alpha=served.scenario.latency.alpha,
        beta=tuple(terms.beta[0].tolist()),
        memory=() if terms.memory is None else tuple(terms.memory[0].tolist()),
    )
    rows = compare(served, simulated.first, simulated.last, until)
    return Outcome(until, point, latency, simulated, rows)


def _source(path: Path, *origins: str | None) -> str:
    digest = ""
    if path.is_file():
        digest = f" (sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]})"
    return "; ".join([f"`kvsweep calibrate` on {path.name}{digest}", *filter(None, origins)])


def _fit_of(part: Outcome, whole: Outcome, split: float) -> str:
    """Say how it was fitted, and how large the errors of the means are, held out if any were."""
    told = f"robust least squares by simulation on every first and last token: {_means(whole, ALL)}"
    if split < 1:
        told += (
            f"; fitted to the first {100 * split:g} % of the run only, the rest is predicted to "
            f"{_means(part, HELD_OUT)}"
        )
    return told


def _means(outcome: Outcome, part: str) -> str:
    return ", ".join(
        f"{row.metric} {100 * row.error:+.2f} %"
        for row in outcome.rows
        if row.part == part and row.statistic == "mean"
    )


@dataclass(frozen=True)
class PrefixCell:
    """The trials of a size and condition, and what the simulation gives for it.

    Attributes
    ----------
    trial : Trial
        One of them.
    count : int
    measured_ms : float
        Median time to first token.
    fitted_ms : float
        Simulated under the coefficients fitted to all sizes.
    predicted_ms : float
        Simulated under those fitted to the other sizes; nan if there are none.
    """

    trial: Trial
    count: int
    measured_ms: float
    fitted_ms: float
    predicted_ms: float


@dataclass(frozen=True)
class PrefixResult:
    """A calibration on first-token times with and without a cached prefix.

    Attributes
    ----------
    preset : Preset
    latency : Latency
        The same, as a scenario has it.
    cells : list of PrefixCell
    """

    preset: Preset
    latency: Latency
    cells: list[PrefixCell]


def calibrate_prefix(path: Path, measured: Measured, names: dict[str, str]) -> PrefixResult:
    """Fit to all sizes, and predict each from the others."""
    latency = _rounded(fit_prefix(measured.trials))
    cells = [cell for size in measured.sizes for cell in _cells(measured, size, latency)]
    errors = [abs(cell.predicted_ms / cell.measured_ms - 1) for cell in cells]
    misses = [abs(cell.fitted_ms / cell.measured_ms - 1) for cell in cells]
    held_out = "one size only, nothing held out"
    if len(measured.sizes) > 1:
        held_out = (
            "each size predicted from the others: errors of the median times to first token mean "
            f"{100 * np.mean(errors):.1f} %, largest {100 * max(errors):.1f} %"
        )
    preset = Preset(
        model=names.get("model") or measured.about.get("model_name") or path.name.split(".")[0],
        hardware=names.get("hardware") or _machine(measured.about),
        kind="linear",
        alpha=latency.alpha,
        beta=latency.beta,
        source=_source(path),
        fit=(
            f"robust non-negative least squares on {len(measured.trials)} trials of sizes "
            f"{', '.join(measured.sizes)}: largest error of a median {100 * max(misses):.1f} %; "
            f"{held_out}"
        ),
    )
    return PrefixResult(preset, latency, cells)


def _machine(about: dict[str, str]) -> str:
    """Say on what a store was measured."""
    told = [about.get("cpu"), about.get("runtime"), about.get("runtime_version")]
    threads = about.get("threads")
    told.append(f"threads: {threads}" if threads else None)
    return ", ".join(filter(None, told)) or "not told"


def _rounded(latency: Latency) -> Latency:
    alpha, beta = (tuple(map(rounded, values)) for values in (latency.alpha, latency.beta))
    return Latency(alpha=alpha, beta=beta)


def _cells(measured: Measured, size: str, latency: Latency) -> list[PrefixCell]:
    others = [trial for trial in measured.trials if trial.size != size]
    without = _rounded(fit_prefix(others)) if others else None
    cells = []
    for condition in dict.fromkeys(trial.condition for trial in measured.trials):
        trials = [t for t in measured.trials if t.size == size and t.condition == condition]
        if trials:
            median = float(np.median([trial.ttft_ms for trial in trials]))
            fitted = simulate_first_token(latency, trials[0])
            predicted = simulate_first_token(without, trials[0]) if without else np.nan
            cells.append(PrefixCell(trials[0], len(trials), median, fitted, predicted))
    return cells
