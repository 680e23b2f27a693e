"""Measured step times as text and as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvsweep.analysis.wording import number
from kvsweep.calibrate.robust import Floats
from kvsweep.calibrate.step_fit import StepFit
from kvsweep.calibrate.step_models import StepTimes, predict
from kvsweep.calibrate.step_results import StepResult, errors_text, hardware, versions, window_of
from kvsweep.config.coefficients import BETAS
from kvsweep.gpu.step_store import BATCHES
from kvsweep.report.table import table


def step_text(found: StepResult) -> str:
    """Write what was measured, all fits, and every batch that was held out."""
    about, times = found.ds.attrs, found.times
    sizes = found.ds.sizes
    lines = [
        f"{about['model']} ({about['dtype']}) on {hardware(about)}: {versions(about)}",
        f"{sizes['batch']} batches x {sizes['part']} parts x {sizes['trial']} trials, which "
        f"scatter by {100 * found.spread:.1f} %; {times.held_out.sum()} batches held out",
        "",
    ]
    for name, fit in found.fits.items():
        chosen = ", in the preset" if name == found.chosen else ""
        lines += [f"{name}{chosen}: {errors_text(fit)}{'; ' if fit.note else ''}{fit.note}"]
    rows = [row for fit in found.fits.values() for row in _fitted(fit)]
    lines += ["", table(("fit", "coefficient", "value", "95 % interval"), rows, keys=2)]
    lines += ["", _held_out(found)]
    added = found.preset.added
    if added is not None:
        terms = ", ".join(f"{key} {value:g}" for key, value in added.model_dump().items())
        lines += ["", f"added, not measured: {terms}"]
    return "\n".join([*lines, *(f"bad fit: {problem}" for problem in found.problems)])


def _fitted(fit: StepFit) -> list[tuple[str, ...]]:
    rows = zip(fit.names, fit.values, fit.low, fit.high, strict=True)
    return [
        (fit.kind, name, f"{value:.4g}", f"[{low:.4g}, {high:.4g}]")
        for name, value, low, high in rows
    ]


def _held_out(found: StepResult) -> str:
    held, times = found.times.held_out, found.times
    columns = [found.ds[variable.name].values[held].tolist() for variable in BATCHES]
    fits = found.fits.values()
    header = ("prefill", "after", "decode", "after", "measured ms")
    rows = zip(
        *columns,
        (times.medians[held] / 1e3).tolist(),
        *(fit.errors.tolist() for fit in fits),
        strict=True,
    )
    texts = [
        (
            *(f"{value:,}" for value in row[: len(columns)]),
            number(row[len(columns)]),
            *(f"{100 * error:+.1f}%" for error in row[len(columns) + 1 :]),
        )
        for row in rows
    ]
    return table((*header, *(fit.kind for fit in fits)), texts, keys=len(columns))


def step_json(found: StepResult) -> dict[str, Any]:
    """Return the same as plain values; times are microseconds."""
    return {
        "preset": found.preset.model_dump(exclude_none=True),
        "chosen": found.chosen,
        "good": not found.problems,
        "problems": list(found.problems),
        "spread": found.spread,
        "timings": found.ds["position"].size,
        "fits": {name: _fit_json(found.times, fit) for name, fit in found.fits.items()},
    }


def _fit_json(times: StepTimes, fit: StepFit) -> dict[str, Any]:
    fitted = ~times.held_out
    misses: Floats = (
        predict(np.array(fit.beta), np.array(fit.memory), times.sums[fitted])
        / times.medians[fitted]
        - 1
    )
    named = zip(fit.names, fit.values, fit.low, fit.high, strict=True)
    return {
        "beta": list(fit.beta[:BETAS]),
        "memory": list(fit.memory[:BETAS]),
        "window": list(window_of(fit, times)),
        "experts_us": next(iter(fit.memory[len(fit.beta) :]), None),
        "fitted": {name: {"value": v, "low": lo, "high": hi} for name, v, lo, hi in named},
        "held_out_error_median": fit.error,
        "held_out_errors": fit.errors.tolist(),
        "note": fit.note,
        "fitted_error_median": float(np.median(np.abs(misses))),
    }
