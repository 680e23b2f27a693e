"""``kvsweep calibrate``: fit latency coefficients to measurements and write them as a preset."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsweep.cli.base import Command, json_option, print_json
from kvsweep.cli.outputs import OutputPath
from kvsweep.errors import InputError

if TYPE_CHECKING:
    from kvsweep.calibrate.comparison import Row
    from kvsweep.calibrate.results import PrefixResult, ServedResult
    from kvsweep.config.latency import Preset


@click.command(
    cls=Command,
    examples=(
        "kvsweep calibrate results/prefix.zarr --out my-laptop.toml",
        "kvsweep calibrate served.json.gz --out my-server.toml",
        "kvsweep calibrate served.json.gz --from llama-3.1-8b/rtx4090/tp1-roofline",
        "kvsweep calibrate served.json.gz --split 0.3 --validate docs/validation-my-server",
    ),
)
@click.argument("measurements", type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=OutputPath(dir_okay=False), help="Write the preset.")
@click.option("--from", "start", metavar="PRESET", help="Kind to fit and where to start: a preset.")
@click.option(
    "--split",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.5,
    show_default=True,
    help="Share of a server's run to fit to and predict the rest from; then all is fitted.",
)
@click.option("--model", help="Name of the model, for the preset.")
@click.option("--hardware", help="Name of the hardware, for the preset.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a trace's key.")
@click.option(
    "--validate",
    "stem",
    metavar="STEM",
    type=OutputPath(),
    help="Draw measured against simulated: STEM-*.png.",
)
@json_option
def calibrate(
    measurements: Path,
    out: Path | None,
    start: str | None,
    split: float,
    model: str | None,
    hardware: str | None,
    settings: tuple[str, ...],
    stem: Path | None,
    as_json: bool,
) -> int:
    """Fit latency coefficients to MEASUREMENTS.

    MEASUREMENTS is a store of `kvsweep measure prefix`, CSV files like its (`*_aA_bB.csv`, or a
    folder of them), or a trace whose `expected.measured_us` lists when a real server gave the
    first and the last token of every request. A server's step times are not known: they are found
    by simulating its requests.

    The preset is used at once, in any sweep: `latency.model = "FILE.toml"`.
    """
    from kvsweep.calibrate.prefix import is_prefix
    from kvsweep.calibrate.presets import write_preset
    from kvsweep.simulate import warm_up

    names = {"model": model or "", "hardware": hardware or ""}
    warm_up(partial(click.echo, err=True))
    found: PrefixResult | ServedResult
    if is_prefix(measurements):
        _refuse_for_prefix(start, settings)
        found = _prefix(measurements, names, stem)
        document, text = _prefix_json(found), _prefix_text(found)
    else:
        found = _served(measurements, start, split, names, settings, stem)
        document, text = _served_json(found), _served_text(found)
    if out:
        write_preset(found.preset, out)
    if as_json:
        print_json({"preset": found.preset.model_dump(exclude_none=True), **document})
    else:
        click.echo(text)
        if out:
            click.echo(f'\nwritten: {out}; use it as latency.model = "{out}"')
    return 0


def _refuse_for_prefix(start: str | None, settings: tuple[str, ...]) -> None:
    for option, given in (("--from", start), ("--set", settings)):
        if given:
            raise InputError(f"{option}: only for a trace of a server; these are fitted directly")


def _prefix(path: Path, names: dict[str, str], stem: Path | None) -> PrefixResult:
    from kvsweep.calibrate.prefix import read_prefix
    from kvsweep.calibrate.results import calibrate_prefix

    found = calibrate_prefix(path, read_prefix(path), names)
    if stem:
        from kvsweep.calibrate.figures import draw_prefix

        draw_prefix(found, stem)
    return found


def _served(
    path: Path,
    start: str | None,
    split: float,
    names: dict[str, str],
    settings: tuple[str, ...],
    stem: Path | None,
) -> ServedResult:
    from kvsweep.calibrate.families import family_of
    from kvsweep.calibrate.results import calibrate_served
    from kvsweep.calibrate.served import read_served

    preset = _preset(start) if start else None
    served = read_served(path, settings)
    found = calibrate_served(path, served, family_of(preset), split, names)
    if stem:
        from kvsweep.calibrate.figures import draw_served

        draw_served(found, stem)
    return found


def _preset(name: str) -> Preset:
    from kvsweep.config.base import KeyProblem
    from kvsweep.config.latency import load_preset

    try:
        return load_preset(name, Path())
    except KeyProblem as problem:
        raise InputError(f"--from: {problem}") from None


def _head(preset: Preset) -> list[str]:
    return [f"{preset.model}, {preset.hardware} ({preset.kind})", f"fit: {preset.fit}", ""]


def _served_text(found: ServedResult) -> str:
    from kvsweep.calibrate.comparison import FITTED
    from kvsweep.report.table import table

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
    lines = _head(found.preset)
    lines += [table(("parameter", *fitted_to), parameters), "", table(header, rows)]
    for name, (median, most_of, worst) in found.request_errors.items():
        quantiles = f"{median:.3f} s in the median, {most_of:.3f} s at p90, {worst:.3f} s at most"
        lines.append(f"{name} after {part.until:.1f} s: off by {quantiles}")
    for name, error in found.series_errors.items():
        lines.append(f"{name}: off by {error:.2f} on average after {part.until:.1f} s")
    return "\n".join(lines)


def _served_row(row: Row, part: str) -> tuple[str, ...]:
    numbers = (
        f"{row.count}",
        f"{row.real:.3f}",
        f"{row.simulated:.3f}",
        f"{100 * row.error:+.2f}%",
    )
    return (part, f"{row.metric} {row.statistic}", row.units, *numbers)


def _served_json(found: ServedResult) -> dict[str, Any]:
    fits = {
        name: {
            "until_s": fit.until,
            "parameters": dict(zip(found.family.names, fit.point.tolist(), strict=True)),
            "preemptions": fit.simulated.preemptions,
            "rows": [asdict(row) | {"error": row.error} for row in fit.rows],
        }
        for name, fit in (("part", found.part), ("whole", found.whole))
    }
    tokens = {name: list(map(float, errors)) for name, errors in found.request_errors.items()}
    return {
        "fits": fits,
        "token_error_s": tokens,
        "series_mean_absolute_difference": found.series_errors,
    }


def _prefix_text(found: PrefixResult) -> str:
    from kvsweep.report.table import table

    lines = _head(found.preset)
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
            f"{cell.fitted_ms:.2f}",
            f"{100 * (cell.fitted_ms / cell.measured_ms - 1):+.1f}%",
            f"{cell.predicted_ms:.2f}",
            f"{100 * (cell.predicted_ms / cell.measured_ms - 1):+.1f}%",
        )
        for cell in found.cells
    ]
    header = ("size", "prompt", "computed tokens", "trials", "measured ms", "fitted", "error",
              "predicted from others", "error")  # fmt: skip
    return "\n".join([*lines, "", table(header, rows)])


def _prefix_json(found: PrefixResult) -> dict[str, Any]:
    def number(value: float) -> float | None:
        return value if value == value else None

    return {
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
        ]
    }
