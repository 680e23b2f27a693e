"""``kvsweep replay``: run one trace and write what happened to every request and in every step."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsweep.cli.base import (
    Command,
    check_outputs,
    json_option,
    named_files,
    print_json,
    read_option,
    warn,
)
from kvsweep.cli.outputs import FIGURES, OutputPath, check_new, overwrite_option
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError
from kvsweep.files import written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.trace_replay import Replay

csv_file = OutputPath(dir_okay=False)


@click.command(
    cls=Command,
    examples=(
        "kvsweep replay trace.json",
        "kvsweep replay trace.json.gz --requests requests.csv --steps steps.csv",
        "kvsweep replay trace.json --set cache.gpu_blocks=1500 --json",
        "kvsweep replay trace.json --timeline life.html",
        "kvsweep replay sweeps/h8.toml --set cache.gpu_blocks=1200 --set policy=round-robin "
        "--set seed=0 --timeline life.png",
        "kvsweep replay mooncake.jsonl.gz --set latency.model=llama-3.1-8b/h100/tp2 "
        "--set cache.gpu_blocks=62491",
        "kvsweep replay log.csv --read columns.arrival=ts --read time_unit=ms --set ...",
    ),
)
@click.argument("file", metavar="TRACE|SWEEP.toml", type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a key.")
@read_option
@click.option("--requests", type=csv_file, metavar="FILE.csv", help="Write a row per request.")
@click.option("--steps", type=csv_file, metavar="FILE.csv", help="Write a row per engine step.")
@click.option(
    "--timeline",
    type=csv_file,
    metavar="FILE.html",
    help="Draw the life of every request, .html to zoom into, .png, .svg or .pdf.",
)
@click.option("--dark", is_flag=True, help="Draw on dark ground; a page follows the browser.")
@overwrite_option
@json_option
def replay(
    file: Path,
    settings: tuple[str, ...],
    read: tuple[str, ...],
    requests: Path | None,
    steps: Path | None,
    timeline: Path | None,
    dark: bool,
    overwrite: bool,
    as_json: bool,
) -> int:
    """Replay a recorded request list under its own scenario.

    TRACE is a kvsweep-trace/1 (JSON), plain or gzipped, or of another tool: Mooncake's or
    Qwen-Bailian's JSON lines, Weka's sessions, Azure's or BurstGPT's CSV, results of vllm bench
    serve, aiperf or inference-perf, or CSV, Parquet or JSON lines of any columns. Its content tells
    which, or --read; docs/traces.md says what is read of each. Only a kvsweep-trace/1 has a
    scenario: with others give latency.model, cache.gpu_blocks and whatever else differs with --set.

    Of a sweep one cell is simulated: --set gives one value to each of its axes.
    """
    from kvsweep.analysis.replayed import cell_of_replay, early_arrivals
    from kvsweep.analysis.warnings import find_warnings
    from kvsweep.trace_replay import is_ok, run_replay

    outputs = {"--timeline": timeline, "--requests": requests, "--steps": steps}
    _check_asked(timeline, dark)
    check_new([file], outputs, overwrite)
    found = run_replay(file, settings, read, notify=partial(echo, err=True))
    check_outputs(named_files(found.scenario.latency.model, file.parent), outputs)
    if requests:
        positions = range(len(found.requests["status"]))
        _write_csv(requests, {"id": positions, **found.requests})
    if steps:
        _write_csv(steps, found.steps)
    if timeline:
        _draw_timeline(timeline, found, dark)
    warnings = [*find_warnings(cell_of_replay(found)), *early_arrivals(found)]
    summary = _summary(found) | {"warnings": [asdict(warning) for warning in warnings]}
    if as_json:
        print_json(summary)
    else:
        _print(summary)
    warn(warnings)
    return 0 if is_ok(found) else 1


def _check_asked(timeline: Path | None, dark: bool) -> None:
    """Refuse ground without a timeline, and one that cannot be drawn, before anything runs."""
    if timeline is None:
        if dark:
            raise InputError("--dark: has no effect without --timeline")
    elif timeline.suffix.lower() not in (".html", *FIGURES):
        raise InputError(f"--timeline {timeline}: is written as .html, .png, .svg or .pdf")
    elif dark and timeline.suffix.lower() == ".html":
        raise InputError("--dark: has no effect on a page, which is dark where its browser is")


def _draw_timeline(path: Path, found: Replay, dark: bool) -> None:
    from kvsweep.analysis.timeline import timeline_of
    from kvsweep.plot import look, save
    from kvsweep.plot.timeline_figure import draw_timeline
    from kvsweep.plot.timeline_page import draw_page

    lives = timeline_of(found)
    if path.suffix.lower() == ".html":
        with written(path) as file:
            file.write(draw_page(lives))
        return
    with look(dark=dark):
        save(draw_timeline(lives), path)


def _write_csv(path: Path, columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
    """Write columns; where there is no value (-1) a field is empty."""
    with written(path) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            rows.writerow("" if value == -1 else value for value in row)


def _summary(found: Replay) -> dict[str, Any]:
    """Return totals; means over the requests that have a value, in milliseconds.

    Of a cell of a sweep preemptions and means are those of its store: without the warm-up.
    """
    statuses = found.requests["status"].tolist()
    workload = found.scenario.workload
    warmup = workload.warmup if workload else 0
    summary: dict[str, Any] = {
        "status": found.status,
        "status_detail": found.status_detail,
        "requests": len(statuses),
        "left_out": found.trace.left_out,
        "request_status": dict(sorted(Counter(statuses).items())),
        "warmup": warmup,
        "preemptions": int(found.requests["preemptions"][warmup:].clip(min=0).sum()),
        "steps": len(found.steps["step"]),
    }
    for name in ("ttft", "e2e"):
        times = found.requests[f"{name}_us"][warmup:]
        times = times[times >= 0]
        summary[f"{name}_mean_ms"] = float(times.mean() / 1000) if times.size else None
    return summary


def _print(summary: dict[str, Any]) -> None:
    from kvsweep.analysis.wording import left_out_lines

    counts = ", ".join(f"{n:,} {name}" for name, n in summary["request_status"].items())
    echo(f"status       {summary['status']} {summary['status_detail']}".rstrip())
    echo(f"requests     {summary['requests']:,}: {counts}")
    for line in left_out_lines(summary["left_out"]):
        echo(f"             {line}")
    if summary["warmup"]:
        echo(f"warm-up      the first {summary['warmup']:,}, left out of preemptions and means")
    echo(f"preemptions  {summary['preemptions']:,}")
    echo(f"steps        {summary['steps']:,}")
    for name, meaning in (("ttft", "first token"), ("e2e", "last token")):
        if summary[f"{name}_mean_ms"] is not None:
            echo(f"{meaning:<11}  {summary[f'{name}_mean_ms']:,.3f} ms on average")
