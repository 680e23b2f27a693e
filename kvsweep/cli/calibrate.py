"""``kvsweep calibrate``: fit latency coefficients to measurements and write them as a preset."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvsweep.cli.base import Command, Range, json_option, print_json, read_option
from kvsweep.cli.outputs import OutputPath, PresetPath, check_new, overwrite_option
from kvsweep.cli.progress import waiting
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError

if TYPE_CHECKING:
    from kvsweep.calibrate.prefix_results import PrefixResult
    from kvsweep.calibrate.results import ServedResult
    from kvsweep.config.preset import Preset


SPLIT = 0.5
"""What is fitted to first unless told, and the rest of the run predicted from."""


@click.command(
    cls=Command,
    examples=(
        "kvsweep calibrate results/prefix.zarr --out my-laptop.toml",
        "kvsweep calibrate served.json.gz --out my-server.toml",
        "kvsweep calibrate served.json.gz --from llama-3.1-8b/rtx4090/tp1-roofline",
        "kvsweep calibrate bench.json --set cache.gpu_blocks=2587 --set engine.max_num_seqs=256",
        "kvsweep calibrate served.json.gz --split 0.3 --validate docs/validation-my-server",
    ),
)
@click.argument("measurements", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=PresetPath(), help="Write the preset.")
@click.option(
    "--from",
    "start",
    metavar="PRESET",
    help="Kind to fit and where to start: a preset. Its alpha (unless the trace or --set has one), "
    "link and bytes of a token are kept.",
)
@click.option(
    "--split",
    type=Range(0, 1, min_open=True),
    help="Share of a server's run to fit to and predict the rest from; then all is fitted [0.5].",
)
@click.option("--model", help="Name of the model, for the preset.")
@click.option("--hardware", help="Name of the hardware, for the preset.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a trace's key.")
@read_option
@click.option(
    "--validate",
    "stem",
    metavar="STEM",
    type=OutputPath(),
    help="Draw measured against simulated: STEM-*.png.",
)
@overwrite_option
@json_option
def calibrate(
    measurements: Path,
    out: Path | None,
    start: str | None,
    split: float | None,
    model: str | None,
    hardware: str | None,
    settings: tuple[str, ...],
    read: tuple[str, ...],
    stem: Path | None,
    overwrite: bool,
    as_json: bool,
) -> int:
    """Fit latency coefficients to MEASUREMENTS.

    MEASUREMENTS is a store of `kvsweep measure prefix`, CSV files like its (`*_aA_bB.csv`, or a
    folder of them), or a trace whose `expected.measured_us` lists when a real server gave the first
    and the last token of every request. So do results of `vllm bench serve --save-detailed`,
    aiperf's profile_export.jsonl, inference-perf's per_request_lifecycle_metrics.json, and CSV,
    Parquet and JSON lines with columns for those times: docs/traces.md. They do not know the
    server's settings: give those with --set. A server's step times are not known: they are found by
    simulating its requests.

    The preset is used at once, in any sweep: `latency.model = "FILE.toml"`. A bad fit (a mean off
    by more than 5 %, fitted or held out) is written too, but says so in its `fit`, and the exit
    code is 1.
    """
    from kvsweep.calibrate.prefix_trials import is_prefix
    from kvsweep.calibrate.presets import write_preset
    from kvsweep.calibrate.wording import prefix_json, prefix_text, served_json, served_text

    trials = is_prefix(measurements, read)
    check_new(_inputs(measurements, start), _outputs(out, stem, trials), overwrite)
    names = {"model": model or "", "hardware": hardware or ""}
    found: PrefixResult | ServedResult
    if trials:
        of_runs: dict[str, object] = {
            "--from": start,
            "--split": split,
            "--set": settings,
            "--read": read,
        }
        _refuse_for_prefix(measurements, of_runs)
        found = of_trials = _prefix(measurements, names)
        document, text = prefix_json(of_trials), prefix_text(of_trials)
        draw = partial(_draw_prefix, of_trials)
    else:
        found = of_run = _served(
            measurements, start, SPLIT if split is None else split, names, (settings, read)
        )
        document, text = served_json(of_run), served_text(of_run)
        draw = partial(_draw_served, of_run)
    if out:
        write_preset(found.preset, out)
    if as_json:
        print_json({"preset": found.preset.model_dump(exclude_none=True), **document})
    else:
        echo(text)
        if out:
            echo(f'\nwritten: {out}; a sweep beside it has latency.model = "{Path(out).name}"')
    for problem in found.problems:
        echo(f"kvsweep: bad fit: {problem}", err=True)
    if stem:  # last: what cannot be drawn is no reason to lose a fit that took minutes
        draw(stem)
    return 1 if found.problems else 0


def _inputs(measurements: Path, start: str | None) -> list[Path]:
    """Return what is read: a folder may hold results beside the measurements."""
    files = [measurements]
    if measurements.is_dir() and not (measurements / "zarr.json").is_file():
        files = list(measurements.glob("*.csv"))
    return [*files, Path(start)] if start else files


def _outputs(out: Path | None, stem: Path | None, trials: bool) -> dict[str, Path | None]:
    """Return what may be written, by option: the figures are those of trials or of a run."""
    if stem is None:
        return {"--out": out, "--validate": None}
    outputs: dict[str, Path | None] = {"--out": out}
    for figure in ("ttft",) if trials else ("requests", "series"):
        outputs[f"--validate ({figure})"] = stem.with_name(f"{stem.name}-{figure}.png")
    return outputs


def _refuse_for_prefix(path: Path, options: dict[str, object]) -> None:
    for option, given in options.items():
        if given:
            of_file = "if this is a log of requests, say --read format=csv"
            hint = "of logs of requests name one file" if path.is_dir() else of_file
            raise InputError(
                f"{option}: only for a trace of a server; these are fitted directly ({hint})"
            )


def _prefix(path: Path, names: dict[str, str]) -> PrefixResult:
    from kvsweep.calibrate.prefix_results import calibrate_prefix
    from kvsweep.calibrate.prefix_trials import read_prefix
    from kvsweep.simulate import warm_up

    warm_up(partial(echo, err=True))
    return calibrate_prefix(path, read_prefix(path), names)


def _draw_prefix(found: PrefixResult, stem: Path) -> None:
    from kvsweep.calibrate.figures import draw_prefix

    draw_prefix(found, stem)


def _served(
    path: Path,
    start: str | None,
    split: float,
    names: dict[str, str],
    options: tuple[tuple[str, ...], tuple[str, ...]],
) -> ServedResult:
    from kvsweep.calibrate.families import family_of
    from kvsweep.calibrate.results import calibrate_served
    from kvsweep.calibrate.served import read_served
    from kvsweep.config import Latency
    from kvsweep.simulate import kernel_entries, warm_up

    preset = _preset(start) if start else None
    served = read_served(path, *options)
    scenario, family = served.scenario, family_of(preset)
    if preset is not None:  # its step times may need another kernel
        scenario = scenario.model_copy(update={"latency": Latency(**preset.coefficients())})
    warm_up(partial(echo, err=True), kernel_entries([scenario]))
    with waiting(f"fitting to {len(served.requests):,} requests, by simulation"):
        return calibrate_served(path, served, family, split, names, preset)


def _draw_served(found: ServedResult, stem: Path) -> None:
    from kvsweep.calibrate.figures import draw_served

    other = draw_served(found, stem)
    if other:
        echo(f"kvsweep: {other}: kept, and not of this run, which has no series", err=True)


def _preset(name: str) -> Preset:
    from kvsweep.config.base import KeyProblem
    from kvsweep.config.preset import load_preset

    try:
        return load_preset(name, Path())
    except KeyProblem as problem:
        raise InputError(f"--from: {problem}") from None
