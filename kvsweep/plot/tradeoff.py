"""One measure against another as the load, or another axis, moves both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis import statistics, variables
from kvsweep.analysis.statistics import Floats
from kvsweep.analysis.wording import BY_VALUE, level
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.curve import (
    MAX_LINES,
    draw_threshold,
    in_order,
    means_text,
    scale_by_means,
    split_lines,
)
from kvsweep.plot.labels import name_lines, room_below
from kvsweep.plot.medium import current
from kvsweep.plot.panel import begin_at_zero, figure_of, one_panel, refuse_empty

if TYPE_CHECKING:
    from collections.abc import Sequence

    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 2.7  # inches


@checked
def plot_tradeoff(
    ds: xr.Dataset,
    x: str,
    y: str,
    along: str,
    confidence: float = 0.95,
    resamples: int = 2000,
    threshold: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw one measure against another, a point for each value of an axis: latency and throughput.

    One line for each combination of the other axes, open at its first value; points are means over
    the seeds that have both, bars their intervals.

    Parameters
    ----------
    ds : xr.Dataset
        Results of a sweep; dimension ``seed`` (optional) holds paired repetitions.
    x, y : str
        Measures, or quantiles of them: ``throughput_rps`` and ``ttft_p99_ms``.
    along : str
        A numeric axis, whose values are joined in their order: ``rate``.
    confidence : float
        Of the intervals, between 0 and 1.
    resamples : int
        Bootstrap resamples of the seeds.
    threshold : float, optional
        Of `y`: where a line is drawn.
    ax : matplotlib.axes.Axes, optional
        Draw in this panel instead of a figure of its own.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        For an unknown measure or axis, a measure without a value in any cell, two that no cell
        has both, or more than `MAX_LINES` lines.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> ds = kvsweep.open_results("results/small.zarr").sel(gpu_blocks=1000)
    >>> figure = kvsweep.plot.plot_tradeoff(ds, "throughput_rps", "ttft_p99_ms", along="rate")
    >>> kvsweep.plot.save(figure, "tradeoff.png")
    """
    statistics.check_bootstrap(confidence, resamples)
    axis = variables.axis(ds, along).sortby(along)
    arrays = in_order([variables.get(ds, name) for name in (x, y)])
    for name, array in zip((x, y), arrays, strict=True):
        if along not in array.dims:
            raise InputError(f"metric: {name!r} does not vary along {along!r}")
        refuse_empty(name, [array.values])
    pairs = [split_lines(array.sortby(along), along) for array in arrays]
    names = [name for name, _ in pairs[0]]
    if len(names) > MAX_LINES or names != [name for name, _ in pairs[1]]:
        raise InputError(
            f"tradeoff: {x} and {y} have {len(names)} and {len(pairs[1])} lines, at most "
            f"{MAX_LINES} of each fit, of the same axes; select some: {BY_VALUE}"
        )
    lines = [_paired(across, up) for (_, across), (_, up) in zip(*pairs, strict=True)]
    drawn = _drawn([across for across, _ in lines])
    if not drawn.size:
        raise InputError(f"tradeoff: no cell has both {x} and {y}")
    with style.drawing():
        told = means_text((across for across, _ in lines), confidence)
        below = room_below(names, style.COLUMN_WIDTH, beside=False) + style.LINE * told.count("\n")
        panel = one_panel(ax, ds, HEIGHT + below)
        for i, (across, up) in enumerate(lines):
            _draw(panel, across, up, i, int(drawn[0]), confidence, resamples)
        begin_at_zero(panel, "x", [arrays[0].values])
        begin_at_zero(panel, "y", [arrays[1].values])
        scale_by_means(panel, threshold)
        _label(panel, arrays[0], arrays[1], axis[drawn], told)
        if threshold is not None:
            draw_threshold(panel, threshold)
        ends = [(name, np.nan) for name in names]
        name_lines([(panel, ends)], 1.6, whole=ax is None, beside=False)
    return figure_of(panel)


def _paired(across: Floats, up: Floats) -> tuple[Floats, Floats]:
    """Return two measures of those cells that have both: a point is of the same seeds."""
    both = ~(np.isnan(across) | np.isnan(up))
    return np.where(both, across, np.nan), np.where(both, up, np.nan)


def _drawn(lines: Sequence[Floats]) -> NDArray[np.intp]:
    """Return the places of points of which any of the lines (seeds, points) has a value."""
    return np.flatnonzero(np.any([~np.isnan(values).all(axis=0) for values in lines], axis=0))


def _draw(
    panel: Axes,
    across: Floats,
    up: Floats,
    index: int,
    first: int,
    confidence: float,
    resamples: int,
) -> None:
    """Draw one line, the point at `first` open: both measures are (seeds, points)."""
    counts = statistics.resample_counts(len(up), resamples) if len(up) > 1 else None
    (x, x_low, x_high), (y, y_low, y_high) = (
        statistics.mean_band(values, counts, confidence) for values in (across, up)
    )
    colour = style.colour(index)
    panel.plot(x, y, color=colour, linestyle=style.dash(index), marker="o", ms=3)
    begin = slice(first, first + 1)
    paper = current().theme.paper
    panel.plot(x[begin], y[begin], color=colour, marker="o", ms=3, markerfacecolor=paper)
    bars: dict[str, Any] = {"color": colour, "alpha": 0.6, "linewidth": 1.0}
    panel.hlines(y, x_low, x_high, **bars)
    panel.vlines(x, y_low, y_high, **bars)


def _label(panel: Axes, x: xr.DataArray, y: xr.DataArray, axis: xr.DataArray, told: str) -> None:
    """Name both measures, what the points are of, and what is `told` of their means."""
    low, high = level(float(axis.values[0])), level(float(axis.values[-1]))
    which = f"{low} (open) to {high}" if axis.size > 1 else low
    points = f"{'points' if axis.size > 1 else 'point'}: {style.axis_label(axis)} {which}"
    panel.set_xlabel(f"{style.axis_label(x)}\n{points}{told}")
    panel.set_title(style.axis_label(y), loc="left", fontsize=7.5)
    panel.grid(color=style.GRID, linewidth=0.6)
    style.group_thousands(panel, "x")
    style.group_thousands(panel, "y")
