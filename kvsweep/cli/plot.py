"""``kvsweep plot``: a figure of a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsweep.cli.base import Command, check_outputs, json_option, print_json
from kvsweep.cli.measure import open_prefix
from kvsweep.cli.outputs import OutputPath, file_beside
from kvsweep.cli.results import (
    at_option,
    cliff_options,
    effects_options,
    objectives_option,
    read,
    store_argument,
)
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from kvsweep.addresses import Where

STYLES = ("column", "slide")  # of `kvsweep.plot.look`, which is not loaded for the help
KINDS = ("cliff", "trend", "curve", "heatmap", "pareto", "effects", "prefix")


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
        "kvsweep plot results/h8.zarr pareto --at gpu_blocks=2000",
        "kvsweep plot results/joint-kv-factors.zarr effects --metric ttft_p99_ms",
        "kvsweep plot results/prefix-tiny.zarr prefix",
    ),
)
@store_argument
@click.argument("kind", type=click.Choice(KINDS), default="cliff")
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
@click.option("--over", metavar="AXIS", help="Second axis of a heatmap or trend.")
@at_option
@objectives_option
@effects_options
@cliff_options
@json_option
def plot(
    store: Where,
    kind: str,
    out: Path | None,
    style: str,
    dark: bool,
    at: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Draw a figure of a store.

    KIND: cliff (curves and where they cross), trend (the cliff along a second axis, --over), curve
    (one measure along an axis), heatmap (a measure over two axes), pareto (the front of policies),
    effects (of the axes on a measure, alone and together; of a [design] the sensitivity to
    its parameters), prefix (a store of `kvsweep measure
    prefix`).
    """
    from kvsweep.plot import look, save
    from kvsweep.plot.style import is_own

    target = out or file_beside(store, f"{kind}.png")
    check_outputs([store], {"--out": target})
    if out is None and target.exists() and not is_own(target):
        raise InputError(
            f"{target}: was not drawn by kvsweep and is not replaced; -o FILE names another"
        )
    with look(style, dark):
        figure = _draw_prefix(store) if kind == "prefix" else _draw(read(store, at), kind, options)
    save(figure, target)
    if as_json:
        print_json({"store": str(store), "kind": kind, "figure": str(target)})
    else:
        echo(target)


def _draw_prefix(store: Where) -> Figure:
    from kvsweep.analysis.prefix_cost import prefix_cost
    from kvsweep.plot import plot_prefix

    ds = open_prefix(store)
    return plot_prefix(ds, prefix_cost(ds))


def _draw(ds: xr.Dataset, kind: str, options: dict[str, Any]) -> Figure:
    from kvsweep import plot as figures
    from kvsweep.analysis.effect_records import Effects
    from kvsweep.analysis.questions import cliff_of, effects_of, front_of

    over, objectives = options.pop("over"), options.pop("objectives")
    factorial = {key: options.pop(key) for key in ("factors", "order", "joint")}
    if kind == "pareto":
        return figures.plot_pareto(ds, front_of(ds, objectives))
    if kind == "effects":
        factorial["confidence"] = options["confidence"]
        effects = effects_of(ds, _needed(options, "metric"), factorial)
        if not isinstance(effects, Effects):
            return figures.plot_sensitivity(ds, effects)
        return figures.plot_effects(ds, effects)
    if kind == "curve":
        metric, along = _needed(options, "metric"), _needed(options, "along")
        return figures.plot_curve(ds, metric, along, threshold=options["threshold"])
    if kind == "heatmap":
        metric, along = _needed(options, "metric"), _needed(options, "along")
        second = _needed({"over": over}, "over")
        return figures.plot_heatmap(ds, metric, along, second, options["threshold"])
    found = cliff_of(ds, options)
    if kind == "trend":
        return figures.plot_cliff_trend(ds, found, _needed({"over": over}, "over"))
    return figures.plot_cliff(ds, found)


def _needed(options: dict[str, Any], key: str) -> str:
    value: str | None = options[key]
    if value is None:
        raise InputError(f"--{key}: missing; this kind of figure needs it")
    return value
