"""``kvsweep plot``: a figure of a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsweep.cli.base import Command, Several, json_option, print_json
from kvsweep.cli.outputs import FIGURES, OutputPath, check_new, file_beside, overwrite_option
from kvsweep.cli.plot_kinds import KINDS, PREFIX, draw
from kvsweep.cli.results import (
    at_option,
    cliff_options,
    effects_options,
    objectives_option,
    store_argument,
)
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError

if TYPE_CHECKING:
    from kvsweep.addresses import Where

STYLES = ("column", "slide")  # of `kvsweep.plot.look`, which is not loaded for the help


@click.command(
    cls=Command,
    examples=(
        "kvsweep plot results/h8.zarr",
        "kvsweep plot results/h8.zarr cliff --threshold 0.01 -o cliff.pdf",
        "kvsweep plot results/h8.zarr curve --metric ttft_p99_ms --along gpu_blocks",
        "kvsweep plot results/h8.zarr heatmap --metric preemption_rate --along gpu_blocks "
        "--over policy",
        "kvsweep plot results/h8-steady.zarr trend --over rate",
        "kvsweep plot results/h8.zarr cliff --style slide --dark -o slide.png",
        "kvsweep plot results/h8.zarr bars --metric ttft_p99_ms --over policy --at gpu_blocks=2000",
        "kvsweep plot results/h8-steady.zarr tradeoff --metric ttft_p99_ms --along rate --at "
        "gpu_blocks=1600",
        "kvsweep plot results/h8-each.zarr cdf --metric ttft_ms --at gpu_blocks=2000",
        "kvsweep plot results/h8-each.zarr attainment --goodput ttft:2000 tpot:50 --at "
        "gpu_blocks=2000",
        "kvsweep plot results/h8.zarr pareto --at gpu_blocks=2000 --level ttft_p99_ms=2000",
        "kvsweep plot results/joint-kv-factors.zarr effects --metric ttft_p99_ms",
        "kvsweep plot results/prefix-tiny.zarr prefix",
    ),
)
@store_argument
@click.argument("kind", type=click.Choice((*KINDS, PREFIX)), default="cliff", metavar="[KIND]")
@click.option(
    "-o",
    "--out",
    type=OutputPath(dir_okay=False),
    metavar="FILE",
    help="File to write, .png, .svg or .pdf [<STORE>-<KIND>.png].",
)
@click.option(
    "--style",
    type=click.Choice(STYLES),
    default="column",
    help="For a column of a paper or a slide [column].",
)
@click.option("--dark", is_flag=True, help="On dark ground.")
@click.option("--size", metavar="WxH", help="Inches, as 7x4 [as the kind needs].")
@click.option("--title", metavar="TEXT", help="Heading instead of the sweep's; '' is none.")
@click.option("--over", metavar="AXIS", help="Axis of bars, second axis of a heatmap or trend.")
@click.option("--against", metavar="M", help="Across, of a tradeoff [throughput_rps].")
@click.option(
    "--goodput",
    cls=Several,
    multiple=True,
    metavar="NAME:MS ...",
    help="Levels of an attainment, of ttft, tpot, e2el [the sweep's].",
)
@click.option("--level", multiple=True, metavar="M=X", help="To be kept, a line in a pareto.")
@at_option
@objectives_option
@effects_options
@cliff_options
@overwrite_option
@json_option
def plot(
    store: Where,
    kind: str,
    out: Path | None,
    style: str,
    dark: bool,
    size: str | None,
    title: str | None,
    overwrite: bool,
    at: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Draw a figure of a store.

    KIND: cliff (curves and where they cross), trend (the cliff along a second axis, --over), curve
    (measures along an axis, with commas between), heatmap (a measure over two axes), bars (a
    measure by the values of --over), tradeoff (latency over throughput, a point for each value of
    --along), cdf (which share of the requests is served within a time, of a store with
    --requests), attainment (which share keeps its service levels, were they multiplied; such a
    store too), pareto (the front of policies), effects (of the axes on a measure, alone and
    together; of a [design] the sensitivity to its parameters), prefix (a store of `kvsweep measure
    prefix`).
    """
    from kvsweep.plot import look, save
    from kvsweep.plot.saving import is_own

    target = out or file_beside(store, f"{kind}.png")
    if out is not None or target.parent.is_dir():  # without a folder there is no store either
        # Of those whose name was not given, the last one drawn is replaced.
        check_new([store], {"--out": target}, overwrite or (out is None and is_own(target)))
    if target.suffix.lower() not in FIGURES:
        raise InputError(f"--out {target}: figures are written as .png, .svg or .pdf")
    with look(style, dark, None if size is None else _inches(size), title):
        figure = draw(store, kind, at, options)
    save(figure, target)
    if as_json:
        print_json({"store": str(store), "kind": kind, "figure": str(target)})
    else:
        echo(target)


def _inches(text: str) -> tuple[float, float]:
    try:
        width, height = map(float, text.lower().split("x"))
    except ValueError:
        raise InputError(f"--size {text}: expected WIDTHxHEIGHT in inches, as 7x4") from None
    return width, height
