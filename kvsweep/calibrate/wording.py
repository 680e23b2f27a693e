"""Calibrations as text and as plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kvsweep.calibrate.comparison import FITTED, ComparedRow
from kvsweep.calibrate.prefix_results import PrefixResult
from kvsweep.calibrate.results import ServedResult
from kvsweep.report.table import table


def _head(found: ServedResult | PrefixResult) -> list[str]:
    preset = found.preset
    return [f"{preset.model}, {preset.hardware} ({preset.kind})", f"fit: {preset.fit}", ""]


def _judgement(problems: tuple[str, ...], cautions: tuple[str, ...]) -> list[str]:
    """Say what is wrong with a fit, and what it rests on."""
    lines = [f"bad fit: {problem}" for problem in problems]
    lines += [f"caution: {caution}" for caution in cautions]
    return ["", *lines] if lines else []


def served_text(found: ServedResult) -> str:
    """Write a calibration on a server: parameters, real against simulated, what is wrong."""
    part, whole = found.part, found.whole
    fitted_to = (f"fitted to {part.until:.1f} s", "to all", "unit")
    points = zip(part.point, whole.point, strict=True)
    parameters = [
        (name, f"{first:g}", f"{last:g}", unit)
        for name, (first, last), unit in zip(
            found.family.names, points, found.family.units, strict=True
        )
    ]
    header = ("part", "measure", "unit", "requests", "real", "simulated", "error")
    rows = [_served_row(row, row.part) for row in part.rows]
    if whole is not part:
        rows += [_served_row(row, "all, refitted") for row in whole.rows if row.part == FITTED]
    lines = _head(found)
    lines += [table(("parameter", *fitted_to), parameters), "", table(header, rows, keys=2)]
    for name, (median, most_of, worst) in found.request_errors.items():
        quantiles = f"{median:.3f} s in the median, {most_of:.3f} s at p90, {worst:.3f} s at most"
        lines.append(f"{name} after {part.until:.1f} s: off by {quantiles}")
    for name, error in found.series_errors.items():
        lines.append(f"{name}: off by {error:.2f} on average after {part.until:.1f} s")
    return "\n".join([*lines, *_judgement(found.problems, found.cautions)])


def _served_row(row: ComparedRow, part: str) -> tuple[str, ...]:
    numbers = (
        f"{row.count}",
        _figure(row.real),
        _figure(row.simulated),
        f"{100 * row.error:+.2f}%" if row.real else "-",
    )
    return (part, f"{row.metric} {row.statistic}", row.units, *numbers)


def _figure(value: float) -> str:
    """Write a figure to a thousandth, and of less than one to as many digits."""
    return f"{value:.3f}" if value >= 1 or value == 0 else f"{value:#.4g}"


def served_json(found: ServedResult) -> dict[str, Any]:
    """Return the same as plain values, without the preset."""
    fits = {
        name: {
            "until_s": fit.until,
            "parameters": dict(zip(found.family.names, fit.point.tolist(), strict=True)),
            "preemptions": fit.simulated.preemptions,
            "rows": [asdict(row) | {"error": row.error if row.real else None} for row in fit.rows],
            "not_told": [asdict(loose) for loose in fit.loose],
            "ranges": [asdict(one) for one in fit.ranges],
        }
        for name, fit in (("part", found.part), ("whole", found.whole))
    }
    tokens = {name: list(map(float, errors)) for name, errors in found.request_errors.items()}
    return {
        "good": not found.problems,
        "problems": list(found.problems),
        "cautions": list(found.cautions),
        "fits": fits,
        "token_error_s": tokens,
        "series_mean_absolute_difference": found.series_errors,
    }


def prefix_text(found: PrefixResult) -> str:
    """Write a calibration on trials: coefficients, measured against simulated, what is wrong."""
    lines = _head(found)
    for name in ("alpha", "beta"):
        values = ", ".join(f"{value:g}" for value in getattr(found.latency, name))
        lines.append(f"{name:<6} [{values}] us")
    rows = [
        (
            cell.trial.size,
            cell.trial.condition,
            f"{cell.trial.computed}",
            f"{cell.count}",
            f"{cell.measured_ms:.2f}",
            *_simulated(cell.fitted_ms, cell.measured_ms),
            *_simulated(cell.predicted_ms, cell.measured_ms),
        )
        for cell in found.cells
    ]
    header = ("size", "prompt", "computed tokens", "trials", "measured ms", "fitted", "error",
              "predicted from others", "error")  # fmt: skip
    lines += ["", table(header, rows, keys=2), *_judgement(found.problems, found.cautions)]
    return "\n".join(lines)


def _simulated(found_ms: float, measured_ms: float) -> tuple[str, str]:
    """Write what the simulation gives and its error; dashes where there is none."""
    if found_ms != found_ms:
        return "-", "-"
    return f"{found_ms:.2f}", f"{100 * (found_ms / measured_ms - 1):+.1f}%"


def prefix_json(found: PrefixResult) -> dict[str, Any]:
    """Return the same as plain values, without the preset."""

    def number(value: float) -> float | None:
        return value if value == value else None

    return {
        "good": not found.problems,
        "problems": list(found.problems),
        "cautions": list(found.cautions),
        "cells": [
            {
                "size": cell.trial.size,
                "condition": cell.trial.condition,
                "computed_tokens": cell.trial.computed,
                "trials": cell.count,
                "measured_ms": cell.measured_ms,
                "fitted_ms": cell.fitted_ms,
                "predicted_ms": number(cell.predicted_ms),
            }
            for cell in found.cells
        ],
    }
