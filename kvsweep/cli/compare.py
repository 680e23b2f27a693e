"""``kvsweep compare``: two stores, cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvsweep.cli.base import Command, json_option, print_json
from kvsweep.cli.outputs import StorePath, check_new, overwrite_option
from kvsweep.cli.results import read
from kvsweep.cli.terminal import echo
from kvsweep.cli.trace_options import plot_option, save
from kvsweep.errors import InputError

if TYPE_CHECKING:
    from kvsweep.addresses import Where


@click.command(
    cls=Command,
    short_help="Compare two stores, cell by cell.",
    examples=(
        "kvsweep compare results/h8.zarr results/h8-32.zarr",
        "kvsweep compare before.zarr after.zarr --metric ttft_p99_ms --at gpu_blocks=2000",
        "kvsweep compare before.zarr after.zarr --metric ttft_p99_ms --plot difference.png",
        "kvsweep compare results/h8.zarr results/h8.zarr --at-a policy=round-robin --at-b "
        "policy=least-loaded",
    ),
)
@click.argument("a", metavar="A", type=StorePath())
@click.argument("b", metavar="B", type=StorePath())
@click.option("--metric", metavar="M", help="Measure, as ttft_p99_ms [of A's cliff or pareto].")
@click.option("--confidence", type=float, default=0.95, metavar="P", help="Of intervals [0.95].")
@click.option("--at", multiple=True, metavar="AXIS=VALUE", help="Look at this value in both.")
@click.option("--at-a", multiple=True, metavar="AXIS=VALUE", help="Look at this value in A.")
@click.option("--at-b", multiple=True, metavar="AXIS=VALUE", help="Look at this value in B.")
@plot_option
@overwrite_option
@json_option
def compare(
    a: Where,
    b: Where,
    metric: str | None,
    confidence: float,
    at: tuple[str, ...],
    at_a: tuple[str, ...],
    at_b: tuple[str, ...],
    figure: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Compare two stores: the difference of a measure in each cell that both have.

    Differences are B minus A, within seeds where both have the same ones. What differs between the
    sweeps is told first, then what only one of them has. --plot draws the difference along the
    longest axis of numbers.
    """
    from kvsweep.analysis.compare import compare as compared
    from kvsweep.report.comparison import compare_text

    check_new([a, b], {"--plot": figure}, overwrite)
    first, second = read(a, at, at_a, "--at-a"), read(b, at, at_b, "--at-b")
    found = compared(first, second, metric or _asked(first), confidence)
    if as_json:
        print_json(found.to_dict())
    else:
        echo(compare_text(found))
    if figure is not None:
        from kvsweep.plot import plot_comparison

        save(plot_comparison(found), figure, as_json)


def _asked(ds: object) -> str:
    """Return the measure that the sweep of a store is about."""
    from kvsweep.analysis.settings import sweep_of

    sweep = sweep_of(ds)  # type: ignore[arg-type]
    if sweep.get("cliff"):
        return str(sweep["cliff"]["metric"])
    if sweep.get("pareto"):
        return str(sweep["pareto"]["objectives"][0]).partition(":")[0]
    raise InputError("--metric: missing; the sweep of A has neither [cliff] nor [pareto]")
