"""``kvsweep report``: stores as a page of HTML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvsweep.cli.base import Command, json_option, print_json
from kvsweep.cli.outputs import (
    OutputPath,
    StorePath,
    check_new,
    file_beside,
    overwrite_option,
)
from kvsweep.cli.results import at_option, read
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError
from kvsweep.files import written

if TYPE_CHECKING:
    from kvsweep.addresses import Where


@click.command(
    cls=Command,
    short_help="Write a report of stores as one page of HTML.",
    examples=(
        "kvsweep report results/h8.zarr",
        "kvsweep report results/h8.zarr results/h8-steady.zarr -o report.html",
        "kvsweep report results/h8.zarr results/h8-32.zarr --compare -o compared.html",
        "kvsweep report results/h8-steady.zarr --at rate=40 --overwrite",
    ),
)
@click.argument("stores", metavar="STORE...", nargs=-1, type=StorePath())
@click.option(
    "-o",
    "--out",
    type=OutputPath(dir_okay=False),
    metavar="FILE.html",
    help="File to write [<STORE>-report.html].",
)
@click.option("--compare", "compared", is_flag=True, help="Tell how the second store differs.")
@click.option("--metric", metavar="M", help="Measure to compare [that of the sweep's cliff].")
@at_option
@click.option("--at-a", multiple=True, metavar="AXIS=VALUE", help="With --compare: in the first.")
@click.option("--at-b", multiple=True, metavar="AXIS=VALUE", help="With --compare: in the second.")
@overwrite_option
@json_option
def report(
    stores: tuple[Where, ...],
    out: Path | None,
    compared: bool,
    metric: str | None,
    at: tuple[str, ...],
    at_a: tuple[str, ...],
    at_b: tuple[str, ...],
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write a report of stores: one page of HTML that needs neither server nor network.

    Question, answer with interval, warnings, figures, tables, effects, and where it all comes from,
    with the sweep's file. With --compare, of two stores, what differs and what follows from it.
    """
    if not stores:
        raise InputError("report: missing a store, as results/h8.zarr")
    if compared and len(stores) != 2:
        raise InputError(f"--compare: needs two stores, got {len(stores)}")
    for option, value in (("--metric", metric), ("--at-a", at_a), ("--at-b", at_b)):
        if value and not compared:
            raise InputError(f"{option}: has no effect without --compare")
    target = out or file_beside(stores[0], "report.html")
    if target.suffix.lower() != ".html":
        raise InputError(f"--out {target}: is written as .html")
    if out is not None or target.parent.is_dir():  # without a folder there is no store either
        check_new(stores, {"--out": target}, overwrite)
    from kvsweep.webpage import report_page

    own = ((at_a, "--at-a"), (at_b, "--at-b")) if compared else [((), "")] * len(stores)
    chosen = [(store, read(store, at, *each)) for store, each in zip(stores, own, strict=True)]
    page = report_page(chosen, compared=compared, metric=metric)
    with written(target) as file:
        file.write(page)
    if as_json:
        print_json({"stores": [str(store) for store in stores], "report": str(target)})
    else:
        echo(target)
