"""``kvsweep trace``: look at a trace, bend it, write a part of it."""

from __future__ import annotations

from pathlib import Path

import click

from kvsweep.cli.base import Command, Group, json_option, print_json, read_option
from kvsweep.cli.outputs import OutputPath, check_new, overwrite_option
from kvsweep.cli.terminal import echo
from kvsweep.cli.trace_hits import hits
from kvsweep.cli.trace_options import (
    bend_options,
    file_argument,
    look_options,
    positive,
    read_and_find,
    read_requests,
    save,
    seconds,
)
from kvsweep.errors import InputError


@click.group(cls=Group, short_help="Look at a trace, write a part, see what caches find of it.")
def trace() -> None:
    """Look at a trace, write a part of it, and see what caches of all sizes find of it.

    FILE is in any format that a sweep's `workload.trace` takes (docs/traces.md).
    """


@trace.command(
    cls=Command,
    examples=(
        "kvsweep trace info mooncake.jsonl.gz",
        "kvsweep trace info mooncake.jsonl.gz --plot mooncake.png --block-size 512",
        "kvsweep trace info azure.csv --set slice.from_s=600 --set slice.length_s=300 --json",
    ),
)
@look_options
def info(
    file: Path,
    settings: tuple[str, ...],
    seed: int | None,
    read: tuple[str, ...],
    block_size: int,
    figure: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Tell what is in a trace: lengths, rate over time, bursts, reuse, sessions."""
    from kvsweep.traces.info import describe

    check_new([file], {"--plot": figure}, overwrite)
    requests, hits, left_out = read_and_find(file, settings, seed, read, block_size)
    found = describe(requests, hits, left_out)
    if as_json:
        print_json(found)
    else:
        from kvsweep.report.trace import info_text

        echo(info_text(file.name, found))
    if figure is not None:
        from kvsweep.plot.trace_figure import plot_trace

        save(plot_trace(file.name, requests, hits), figure, as_json)


@trace.command(
    cls=Command,
    examples=(
        "kvsweep trace convert azure.csv.gz -o azure.json.gz",
        "kvsweep trace convert mooncake.jsonl -o twice.json.gz --set scale=2 --set loop=3",
    ),
)
@file_argument
@bend_options
@click.option("-o", "--out", type=OutputPath(dir_okay=False), required=True, metavar="FILE.json")
@overwrite_option
@json_option
def convert(
    file: Path,
    settings: tuple[str, ...],
    seed: int | None,
    read: tuple[str, ...],
    out: Path,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write a trace as a kvsweep-trace/1 (JSON), gzipped if the name ends in .gz.

    What is read from it again is the same. Recorded results (`expected`) go along unless --set
    makes the requests others.
    """
    _write_bent(file, settings, seed, read, out, overwrite, as_json)


@trace.command(
    "slice",
    cls=Command,
    examples=(
        "kvsweep trace slice mooncake.jsonl.gz --from 600 --to 900 -o part.json.gz",
        "kvsweep trace slice azure.csv --limit 1000 -o first.json",
    ),
)
@file_argument
@click.option("--from", "begin", type=seconds, metavar="S", help="Begin, seconds [0].")
@click.option("--to", "end", type=seconds, metavar="S", help="End, seconds [that of the trace].")
@click.option("--limit", type=positive, metavar="N", help="Requests at most.")
@read_option
@click.option("-o", "--out", type=OutputPath(dir_okay=False), required=True, metavar="FILE.json")
@overwrite_option
@json_option
def cut(
    file: Path,
    begin: float | None,
    end: float | None,
    limit: int | None,
    read: tuple[str, ...],
    out: Path,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write a part of a trace as a kvsweep-trace/1; its time begins with the part."""
    given = {"slice.from_s": begin, "slice.to_s": end, "limit": limit}
    settings = tuple(f"{key}={value}" for key, value in given.items() if value is not None)
    if not settings:
        raise InputError("--from, --to, --limit: missing; give one of them")
    try:
        _write_bent(file, settings, None, read, out, overwrite, as_json)
    except InputError as error:
        raise InputError(_by_option(str(error))) from None


def _by_option(message: str) -> str:
    """Name the options of `slice` where a message names the keys that they stand for."""
    for option, key in (("--from", "slice.from_s"), ("--to", "slice.to_s"), ("--limit", "limit")):
        message = message.replace(f"--set workload.{key}", option)
    message = message.replace(" is not after from_s, ", " is not after --from, ")
    return message.replace(": workload.slice: no request", ": --from, --to: no request")


def _write_bent(
    file: Path,
    settings: tuple[str, ...],
    seed: int | None,
    read: tuple[str, ...],
    out: Path,
    overwrite: bool,
    as_json: bool,
) -> None:
    from kvsweep.analysis.wording import counted, left_out_lines
    from kvsweep.traces.writing import as_seen_from, write_trace

    if out.name.removesuffix(".gz").rpartition(".")[2] != "json":
        raise InputError(f"--out {out}: a trace is written as .json or .json.gz")
    check_new([file], {"--out": out}, overwrite)
    found = read_requests(file, settings, seed, read)
    scenario = as_seen_from(found.trace.scenario, file.parent, out.parent)
    more = {
        key: value for key, value in (("about", found.trace.about), ("scenario", scenario)) if value
    }
    if found.trace.expected is not None:
        if found.changed:
            echo("expected: left out, as the requests are others", err=True)
        else:
            more["expected"] = found.trace.expected
    write_trace(out, found.requests, more)
    left_out = found.trace.left_out
    if as_json:
        told = {"out": str(out), "requests": len(found.requests), "left_out": left_out}
        print_json(told)
    else:
        head = f"{out}: {counted(len(found.requests), 'request')}"
        echo("\n".join([head, *left_out_lines(left_out)]))


trace.add_command(hits)
