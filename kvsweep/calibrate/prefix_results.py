"""Calibrate on first-token times with and without a cached prefix: read, fit, judge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kvsweep.calibrate.direct import fit_prefix, not_told, simulate_first_token
from kvsweep.calibrate.judging import judge_prefix, marked
from kvsweep.calibrate.prefix_trials import Measured, Trial
from kvsweep.calibrate.presets import named_after, rounded, source_of
from kvsweep.config import Latency
from kvsweep.config.preset import Preset


@dataclass(frozen=True)
class PrefixCell:
    """The trials of a size and condition, and what the simulation gives for it.

    Attributes
    ----------
    trial : Trial
        The one with the middle prompt.
    count : int
    measured_ms : float
        Median time to first token.
    fitted_ms : float
        The same, of each trial's prompt simulated under the coefficients fitted to all sizes.
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
    problems : tuple of str
        What makes the fit bad; empty if it is good.
    cautions : tuple of str
        Coefficients that the trials do not tell.
    """

    preset: Preset
    latency: Latency
    cells: list[PrefixCell]
    problems: tuple[str, ...]
    cautions: tuple[str, ...]


def calibrate_prefix(path: Path, measured: Measured, names: dict[str, str]) -> PrefixResult:
    """Fit to all sizes, and predict each from the others."""
    latency = _rounded(fit_prefix(measured.trials))
    cells = [cell for size in measured.sizes for cell in _cells(measured, size, latency)]
    errors = [abs(cell.predicted_ms / cell.measured_ms - 1) for cell in cells]
    misses = [abs(cell.fitted_ms / cell.measured_ms - 1) for cell in cells]
    problems = judge_prefix(misses, errors)
    held_out = "one size only, nothing held out"
    if len(measured.sizes) > 1:
        held_out = (
            "each size predicted from the others: errors of the median times to first token mean "
            f"{100 * np.mean(errors):.1f} %, largest {100 * max(errors):.1f} %"
        )
    preset = Preset(
        model=names.get("model") or measured.about.get("model_name") or named_after(path),
        hardware=names.get("hardware") or _machine(measured.about),
        kind="linear",
        alpha=latency.alpha,
        beta=latency.beta,
        source=source_of(path),
        fit=marked(
            f"robust non-negative least squares on {len(measured.trials)} trials of sizes "
            f"{', '.join(measured.sizes)}: largest error of a median {100 * max(misses):.1f} %; "
            f"{held_out}",
            problems,
        ),
    )
    return PrefixResult(preset, latency, cells, problems, tuple(not_told(measured.trials)))


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
            fitted = _median_ms(latency, trials)
            predicted = _median_ms(without, trials) if without else np.nan
            middle = sorted(trials, key=lambda trial: trial.prompt)[(len(trials) - 1) // 2]
            cells.append(PrefixCell(middle, len(trials), median, fitted, predicted))
    return cells


def _median_ms(latency: Latency, trials: list[Trial]) -> float:
    """Return the median of simulated times of trials of a cell, whose queries may differ."""
    prompts = {trial.prompt: trial for trial in trials}
    times = {size: simulate_first_token(latency, trial) for size, trial in prompts.items()}
    return float(np.median([times[trial.prompt] for trial in trials]))
