"""``kvsweep trace``: look at a trace, bend it, and see what caches of all sizes find of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsweep.cli.base import Command, Group, check_outputs, json_option, print_json
from kvsweep.cli.outputs import OutputPath
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError
from kvsweep.files import is_special

if TYPE_CHECKING:
    from matplotlib.figure import Figure

positive = click.IntRange(min=1)
seconds = click.FloatRange(min=0)
file_argument = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace files that are there.")
plot_option = click.option(
    "--plot",
    "figure",
    type=OutputPath(dir_okay=False),
    metavar="FILE.png",
    help="Draw a figure, .png, .svg or .pdf.",
)
size_option = click.option(
    "--block-size", type=positive, default=16, show_default=True, help="Tokens of a block."
)


def bend_options(command: Any) -> Any:
    """Add the options that say what becomes of the trace's requests first."""
    for option in (
        click.option("--seed", type=click.IntRange(min=0), default=0, help="Of what repeat draws."),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="Bend it: a key of [workload], as scale=2 or slice.from_s=600.",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=Group)
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
@file_argument
@bend_options
@size_option
@plot_option
@overwrite_option
@json_option
def info(
    file: Path,
    settings: tuple[str, ...],
    seed: int,
    block_size: int,
    figure: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Tell what is in a trace: lengths, rate over time, bursts, reuse, sessions."""
    from kvsweep.traces.asking import read_bent
    from kvsweep.traces.hits import find_hits
    from kvsweep.traces.info import describe

    _check_new([file], {"--plot": figure}, overwrite)
    requests = read_bent(file, settings, seed).requests
    hits = _of_file(file, lambda: find_hits(requests, block_size))
    found = describe(requests, hits)
    if as_json:
        print_json(found)
    else:
        from kvsweep.report.trace import info_text

        echo(info_text(file.name, found))
    if figure is not None:
        from kvsweep.plot.trace_figure import plot_trace

        _save(plot_trace(file.name, requests, hits), figure, as_json)


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
def convert(file: Path, settings: tuple[str, ...], seed: int, out: Path, overwrite: bool) -> None:
    """Write a trace as a kvsweep-trace/1 (JSON), gzipped if the name ends in .gz.

    What is read from it again is the same. Recorded results (`expected`) go along unless the
    requests are bent.
    """
    _write_bent(file, settings, seed, out, overwrite)


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
@click.option("-o", "--out", type=OutputPath(dir_okay=False), required=True, metavar="FILE.json")
@overwrite_option
def cut(
    file: Path,
    begin: float | None,
    end: float | None,
    limit: int | None,
    out: Path,
    overwrite: bool,
) -> None:
    """Write a part of a trace as a kvsweep-trace/1; its time begins with the part."""
    given = {"slice.from_s": begin, "slice.to_s": end, "limit": limit}
    settings = tuple(f"{key}={value}" for key, value in given.items() if value is not None)
    if not settings:
        raise InputError("--from, --to, --limit: missing; give one of them")
    _write_bent(file, settings, 0, out, overwrite)


@trace.command(
    cls=Command,
    examples=(
        "kvsweep trace hits mooncake.jsonl.gz",
        "kvsweep trace hits mooncake.jsonl.gz --model llama-3.1-8b --plot hits.png",
        "kvsweep trace hits chat.json --blocks 1000,2000,4000 -o hits.csv",
        "kvsweep trace hits chat.json --points 100 --json",
    ),
)
@file_argument
@bend_options
@size_option
@click.option("--points", type=click.IntRange(2, 10_000), help="Numbers of blocks shown [12].")
@click.option("--blocks", metavar="N,...", help="These numbers of blocks instead.")
@click.option("--model", metavar="NAME|FILE", help="GiB of this model beside blocks.")
@click.option("--tp", type=positive, metavar="N", help="Its tensor parallel GPUs [1].")
@click.option("--dtype", metavar="D", help="Of its keys and values [auto].")
@click.option(
    "-o", "--out", type=OutputPath(dir_okay=False), metavar="FILE.csv|.nc", help="Write a table."
)
@plot_option
@overwrite_option
@json_option
def hits(
    file: Path,
    settings: tuple[str, ...],
    seed: int,
    block_size: int,
    points: int | None,
    blocks: str | None,
    out: Path | None,
    figure: Path | None,
    overwrite: bool,
    as_json: bool,
    **served: Any,
) -> None:
    """Tell the prefix hit rate of a cache of any number of blocks, and the best there can be.

    As one instance of vLLM has it that evicts by least recent use, with one request at a time;
    beside it what no policy of eviction exceeds (Belady's optimum).
    """
    from kvsweep.traces.asking import read_bent
    from kvsweep.traces.capacities import columns, memory_of, summary
    from kvsweep.traces.hits import find_hits
    from kvsweep.traces.tables import check_table, numbers_of, write_table

    _check_new([file], {"--out": out, "--plot": figure}, overwrite)
    check_table(out)
    if blocks is not None and points is not None:
        raise InputError("--points: has no effect with --blocks")
    wanted = numbers_of(blocks)
    memory = _memory(block_size, served, memory_of)
    requests = read_bent(file, settings, seed).requests
    found = _of_file(file, lambda: find_hits(requests, block_size))
    table = columns(found, wanted or found.points(points or 12), memory)
    total = summary(found, memory)
    if as_json:
        print_json(total | {"capacities": table})
    else:
        from kvsweep.report.trace import hits_text

        echo(hits_text(file.name, table, total))
    if out is not None:
        write_table(out, table, total)
    if figure is not None:
        from kvsweep.plot.trace_figure import POINTS, plot_hits

        drawn = table if wanted or points else columns(found, found.points(POINTS), memory)
        _save(plot_hits(file.name, drawn, total["ceiling"], block_size), figure, as_json)


def _memory(block_size: int, served: dict[str, Any], memory_of: Callable[..., Any]) -> Any:
    model = served.pop("model")
    if model is not None:
        return memory_of(model, block_size, **served)
    for key, value in served.items():
        if value is not None:
            raise InputError(f"--{key}: has no effect without --model")
    return None


def _write_bent(
    file: Path, settings: tuple[str, ...], seed: int, out: Path, overwrite: bool
) -> None:
    from kvsweep.traces.asking import read_bent
    from kvsweep.traces.writing import write_trace

    if out.name.removesuffix(".gz").rpartition(".")[2] != "json":
        raise InputError(f"--out {out}: a trace is written as .json or .json.gz")
    _check_new([file], {"--out": out}, overwrite)
    found = read_bent(file, settings, seed)
    more = {
        key: value
        for key, value in (("about", found.trace.about), ("scenario", found.trace.scenario))
        if value
    }
    if found.trace.expected is not None:
        if found.changed:
            echo("expected: left out, as the requests are others", err=True)
        else:
            more["expected"] = found.trace.expected
    write_trace(out, found.requests, more)
    echo(f"{out}: {len(found.requests):,} requests")


def _check_new(inputs: list[Path], outputs: dict[str, Path | None], overwrite: bool) -> None:
    """Refuse to replace inputs, and other files unless that was asked for."""
    check_outputs(inputs, outputs)
    for option, path in outputs.items():
        if path is not None and path.exists() and not overwrite and not is_special(path):
            raise InputError(f"{option} {path}: is there already; --overwrite replaces it")


def _of_file(file: Path, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _save(figure: Figure, path: Path, as_json: bool) -> None:
    from kvsweep.plot import save

    save(figure, path)
    echo(path, err=as_json)
