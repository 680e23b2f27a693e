"""Measures along an axis: mean over seeds with its interval."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patheffects import withStroke

from kvsweep.analysis import statistics, variables
from kvsweep.analysis.gib import unit_gib
from kvsweep.analysis.statistics import Floats
from kvsweep.analysis.wording import BY_VALUE, labels_of, number, seeds_counted
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.alone import draw_alone
from kvsweep.plot.labels import fit_beside, name_lines, room_below
from kvsweep.plot.panel import (
    begin_at_zero,
    check_threshold,
    dressed,
    figure_of,
    refuse_empty,
    refuse_panels,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LINES = 12

# A positive measure whose means span more than this factor has a logarithmic axis.
LOG_FACTOR = 200.0

PANEL_HEIGHT = 1.4  # inches inside the axes

NAMED = 0.3  # of the width, that the name of a threshold takes


@checked
def plot_curve(
    ds: xr.Dataset,
    metrics: str | Sequence[str],
    along: str,
    confidence: float = 0.95,
    resamples: int = 2000,
    threshold: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw one panel per measure: its mean over seeds along an axis, one line per combination.

    The band is the pointwise interval of the mean (`statistics.mean_band`).

    Parameters
    ----------
    ds : xr.Dataset
        Results of a sweep; dimension ``seed`` (optional) holds paired repetitions.
    metrics : str or sequence of str
        Measures, or quantiles of them (``ttft_p99_ms``).
    along : str
        A numeric axis.
    confidence : float
        Of the bands, between 0 and 1.
    resamples : int
        Bootstrap resamples of the seeds.
    threshold : float, optional
        Of the first measure: where a line is drawn.
    ax : matplotlib.axes.Axes, optional
        Draw in this panel instead of a figure of its own, of one measure.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        For no measure, an unknown measure or axis, one without a value in any cell, more than
        `MAX_LINES` lines in a panel, or measures with other lines, as of instances, that one key
        would name.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> ds = kvsweep.open_results("results/small.zarr").sel(rate=200.0)
    >>> figure = kvsweep.plot.plot_curve(ds, "ttft_p99_ms", along="gpu_blocks")
    >>> kvsweep.plot.save(figure, "curve.png")
    """
    statistics.check_bootstrap(confidence, resamples)
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if not names:
        raise InputError("metrics: the list is empty; name at least one measure")
    axis = variables.axis(ds, along).sortby(along)
    arrays = in_order([_along(variables.get(ds, name), along) for name in names])
    for name, array in zip(names, arrays, strict=True):
        refuse_empty(name, [array.values])
    refuse_panels(ax, len(names))
    _check_lines(arrays, along)
    with style.drawing():
        told = means_text((each for a in arrays for _, each in split_lines(a, along)), confidence)
        panels = _panels(ds, arrays, along, told) if ax is None else [dressed(ax)]
        limits = [threshold, *[None] * (len(arrays) - 1)]
        ends = [
            _draw(panel, array, along, confidence, resamples, limit)
            for panel, array, limit in zip(panels, arrays, limits, strict=True)
        ]
        gib = unit_gib(ds, along)
        for panel in panels:
            style.number_axis(panel, axis, gib)
        if threshold is not None:
            draw_threshold(panels[0], threshold)
        for panel in style.lowest(panels):
            panel.set_xlabel(style.memory_label(axis, gib) + told)
        name_lines(list(zip(panels, ends, strict=True)), PANEL_HEIGHT, whole=ax is None)
    return figure_of(panels[0])


def _panels(ds: xr.Dataset, arrays: list[xr.DataArray], along: str, told: str) -> list[Axes]:
    """Return a panel for each measure, of a new figure with the dataset's title.

    Below their axis there is room for what is `told` of means.
    """
    labels = [name for name, _ in split_lines(arrays[0], along)]
    below = room_below(labels, style.COLUMN_WIDTH) + style.LINE * told.count("\n")
    figure = style.new_figure(height=0.55 + (PANEL_HEIGHT + 0.35) * len(arrays) + below)
    panels = style.panels(figure, len(arrays), sharex=True)
    style.title(figure, ds)
    return panels


def _along(array: xr.DataArray, along: str) -> xr.DataArray:
    """Return `array` with the axis ascending."""
    if along not in array.dims:
        raise InputError(f"metric: {array.name!r} does not vary along {along!r}")
    return array.sortby(along)


def in_order(arrays: Sequence[xr.DataArray]) -> list[xr.DataArray]:
    """Give measures the order of axes that the first has, so that their lines are in one order."""
    dims = arrays[0].dims
    return [array.transpose(*(dim for dim in dims if dim in array.dims), ...) for array in arrays]


def _check_lines(arrays: Sequence[xr.DataArray], along: str) -> None:
    """Refuse panels of other lines than the first has, unless each line is named at its end."""
    named = [[name for name, _ in split_lines(array, along)] for array in arrays]
    if all(map(fit_beside, named)):
        return
    for array, names in zip(arrays, named, strict=True):
        if names != named[0]:
            raise InputError(
                f"metrics: {array.name!r} has other lines than {arrays[0].name!r}, of which one "
                f"key cannot tell; draw them apart, or select some: {BY_VALUE}"
            )


def _draw(
    panel: Axes,
    array: xr.DataArray,
    along: str,
    confidence: float,
    resamples: int,
    threshold: float | None,
) -> list[tuple[str, float]]:
    """Draw all lines of one measure; return their names and last values."""
    lines = split_lines(array, along)
    if len(lines) > MAX_LINES:
        raise InputError(
            f"metric: {array.name!r} has {len(lines)} curves along {along!r}, at most {MAX_LINES} "
            f"fit a figure; select some: {BY_VALUE}"
        )
    x = np.asarray(array[along].values, dtype=np.float64)
    ends = []
    for i, (name, values) in enumerate(lines):
        seeds = len(values)
        counts = statistics.resample_counts(seeds, resamples) if seeds > 1 else None
        mean, low, high = statistics.mean_band(values, counts, confidence)
        panel.fill_between(x, low, high, color=style.colour(i), alpha=0.2, linewidth=0)
        panel.plot(x, mean, color=style.colour(i), linestyle=style.dash(i))
        draw_alone(panel, x, (mean, low, high), style.colour(i))
        known = np.flatnonzero(~np.isnan(mean))
        ends.append((name, float(mean[known[-1]]) if known.size else np.nan))
    begin_at_zero(panel, "y", [array.values])
    panel.grid(axis="y", color=style.GRID, linewidth=0.6)
    panel.set_title(style.axis_label(array), loc="left", fontsize=7.5)
    scale_by_means(panel, threshold)
    style.group_thousands(panel, "y")
    panel.margins(x=0.01)
    return ends


def draw_threshold(panel: Axes, threshold: float) -> None:
    """Draw a threshold and name it at the end that the curves are farther away from."""
    check_threshold(threshold)
    panel.get_ylim()  # sets the limits that the transforms below work with
    to_share = panel.transData - panel.transAxes
    height = to_share.transform((panel.get_xlim()[0], threshold))[1]
    lines = [to_share.transform(np.asarray(line.get_xydata())) for line in panel.lines]
    steps = np.linspace(0.0, 1.0, 400)
    x, y = np.concatenate(
        [[np.interp(steps, np.linspace(0.0, 1.0, len(line)), c) for c in line.T] for line in lines],
        axis=1,
    )
    gaps = [
        np.min(np.abs(y[beside & ~np.isnan(y)] - height), initial=np.inf)
        for beside in (x < NAMED, x > 1.0 - NAMED)
    ]
    at_right = bool(gaps[1] > gaps[0])
    panel.axhline(threshold, color=style.INK, linewidth=0.7, linestyle=(0, (1, 2)))
    panel.annotate(
        f"threshold {number(threshold)}",
        (0.995 if at_right else 0.005, threshold),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2.5),
        textcoords="offset points",
        ha="right" if at_right else "left",
        fontsize=6.5,
        color=style.INK,
        path_effects=[withStroke(linewidth=2.0, foreground=style.PAPER)],
    )


def means_text(lines: Iterable[Floats], confidence: float) -> str:
    r"""Say below the label of an axis what is drawn of seeds; nothing of a single one.

    Parameters
    ----------
    lines : iterable of float64 (seeds, points)
        NaN where a seed has no value: a mean is of the others.
    confidence : float
        Of the intervals.

    Examples
    --------
    >>> means_text([np.ones((20, 3)), np.ones((20, 3))], 0.95)
    '\nmean over 20 seeds, 95% interval'
    """
    seeds, counts = 0, []
    for values in lines:
        seeds = max(seeds, len(values))
        counts += np.count_nonzero(~np.isnan(values), axis=0).tolist()
    return counted_means_text(counts, seeds, confidence)


def counted_means_text(
    counts: Sequence[int], seeds: int, confidence: float, noun: str = "seeds"
) -> str:
    """Say so of means of which `counts` of all `seeds` have a value; of none nothing is drawn."""
    drawn = [count for count in counts if count]
    if max(drawn, default=0) < 2:
        return ""
    few = ": few" if statistics.fewest_note(drawn, seeds) else ""
    text = f"mean over {seeds_counted(drawn, seeds, noun)}{few}, {100 * confidence:g}% interval"
    return "\n" + textwrap.fill(text, style.LABEL_CHARACTERS)


def scale_by_means(panel: Axes, threshold: float | None) -> None:
    """Draw means of many orders of magnitude by their logarithm, if their threshold has one.

    Intervals that reach 0 leave the panel at its foot between two points, not beside one.
    """
    if threshold is not None and threshold <= 0.0:
        return
    means = np.concatenate([np.asarray(line.get_ydata(), np.float64) for line in panel.lines])
    known = means[np.isfinite(means)]
    if known.size and 0.0 < known.min() * LOG_FACTOR < known.max():
        panel.set_yscale("log")
        foot = panel.get_ylim()[0] / 10.0
        for band in panel.collections:
            # Markers, and what spans the panel, are in other units: a caller's own panel has some.
            of_data = band.get_transform() is panel.transData
            for path in band.get_paths() if of_data else ():
                across, up = np.asarray(path.vertices).T
                path.vertices = np.column_stack([across, np.maximum(up, foot)])


def split_lines(array: xr.DataArray, along: str) -> list[tuple[str, Floats]]:
    """Split into (label, values (seeds, points)) for every combination of the other dimensions."""
    if "seed" not in array.dims:
        array = array.expand_dims("seed")
    dims = [str(d) for d in array.dims if d not in (along, "seed")]
    values = array.transpose(*dims, "seed", along).values
    names = [np.asarray(array[d].values).tolist() for d in dims]
    flat = values.reshape(-1, *values.shape[-2:])
    labels = labels_of([dict(zip(dims, combo, strict=True)) for combo in product(*names)])
    return list(zip(labels, flat, strict=True))
