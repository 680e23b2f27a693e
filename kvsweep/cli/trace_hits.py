"""``kvsweep trace hits``: what caches of all sizes find of a trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kvsweep.cli.base import Command, Listed, print_json
from kvsweep.cli.outputs import OutputPath, check_new
from kvsweep.cli.terminal import echo
from kvsweep.cli.trace_options import (
    look_options,
    positive,
    read_and_find,
    save,
)
from kvsweep.errors import InputError


@click.command(
    cls=Command,
    examples=(
        "kvsweep trace hits mooncake.jsonl.gz",
        "kvsweep trace hits mooncake.jsonl.gz --model llama-3.1-8b --plot hits.png",
        "kvsweep trace hits chat.json --blocks 1000,2000,4000 -o hits.csv",
        "kvsweep trace hits chat.json --points 100 --json",
    ),
)
@click.option("--points", type=click.IntRange(2, 10_000), help="Numbers of blocks shown [12].")
@click.option("--blocks", cls=Listed, metavar="N,...", help="These numbers of blocks instead.")
@click.option("--model", metavar="NAME|FILE", help="GiB of this model beside blocks.")
@click.option("--tp", type=positive, metavar="N", help="Its tensor parallel GPUs [1].")
@click.option("--dtype", metavar="D", help="Of its keys and values [auto].")
@click.option(
    "-o", "--out", type=OutputPath(dir_okay=False), metavar="FILE.csv|.nc", help="Write a table."
)
@look_options
def hits(
    file: Path,
    settings: tuple[str, ...],
    seed: int | None,
    read: tuple[str, ...],
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
    from kvsweep.traces.capacities import columns, memory_of, summary
    from kvsweep.traces.tables import check_table, numbers_of, write_table

    check_new([file], {"--out": out, "--plot": figure}, overwrite)
    check_table(out)
    if blocks is not None and points is not None:
        raise InputError("--points: has no effect with --blocks")
    wanted = numbers_of(blocks)
    memory = _memory(block_size, served, memory_of)
    requests, found, left_out = read_and_find(file, settings, seed, read, block_size)
    table = columns(found, wanted or found.points(points or 12), memory)
    total = summary(found, memory, requests) | {"left_out": left_out}
    if as_json:
        print_json(total | {"capacities": table})
    else:
        from kvsweep.report.trace import hits_text

        echo(hits_text(file.name, table, total))
    if out is not None:
        write_table(out, table, total)
        echo(out, err=as_json)
    if figure is not None:
        from kvsweep.plot.trace_figure import POINTS, plot_hits

        drawn = table if wanted or points else columns(found, found.points(POINTS), memory)
        save(plot_hits(file.name, drawn, total["ceiling"], block_size), figure, as_json)


def _memory(block_size: int, served: dict[str, Any], memory_of: Callable[..., Any]) -> Any:
    model = served.pop("model")
    if model is not None:
        return memory_of(model, block_size, **served)
    for key, value in served.items():
        if value is not None:
            raise InputError(f"--{key}: has no effect without --model")
    return None
