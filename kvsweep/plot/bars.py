"""Bars: a measure by the values of an axis, names or numbers."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis import statistics, variables
from kvsweep.analysis.statistics import Floats
from kvsweep.analysis.wording import BY_VALUE, level, number
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.curve import means_text, split_lines
from kvsweep.plot.labels import BARS, draw_limit, elided, name_lines, room_below
from kvsweep.plot.panel import begin_at_zero, figure_of, one_panel, refuse_empty

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_COLOURS = 7  # as many as there are
MAX_BARS = 42
BAR = 0.17  # inches
LABEL_WIDTH = 34  # characters of a line below the bars, beside names that may be long


@checked
def plot_bars(
    ds: xr.Dataset,
    metric: str,
    over: str,
    confidence: float = 0.95,
    resamples: int = 2000,
    threshold: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a measure as bars, a group for each value of an axis, with intervals and numbers.

    Bars of a group are the combinations of the other axes, by colour.

    Parameters
    ----------
    ds : xr.Dataset
        Results of a sweep; dimension ``seed`` (optional) holds paired repetitions.
    metric : str
        A measure, or a quantile of one (``ttft_p99_ms``).
    over : str
        An axis, of names or numbers, the first value on top.
    confidence : float
        Of the intervals, between 0 and 1.
    resamples : int
        Bootstrap resamples of the seeds.
    threshold : float, optional
        Where a line is drawn.
    ax : matplotlib.axes.Axes, optional
        Draw in this panel instead of a figure of its own.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        For an unknown measure or axis, a measure without a value in any cell, more than
        `MAX_COLOURS` bars in a group, or `MAX_BARS`.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> ds = kvsweep.open_results("results/small.zarr").sel(gpu_blocks=1000)
    >>> figure = kvsweep.plot.plot_bars(ds, "ttft_p99_ms", over="policy")
    >>> kvsweep.plot.save(figure, "bars.png")
    """
    statistics.check_bootstrap(confidence, resamples)
    levels = variables.axis(ds, over, numeric=False).values.tolist()
    array = variables.get(ds, metric)
    if over not in array.dims:
        raise InputError(f"metric: {metric!r} does not vary along {over!r}")
    refuse_empty(metric, [array.values])
    lines = split_lines(array, over)
    count = len(lines) * len(levels)
    if len(lines) > MAX_COLOURS or count > MAX_BARS:
        raise InputError(
            f"bars: {count} bars in groups of {len(lines)} do not fit, at most {MAX_BARS} in "
            f"groups of {MAX_COLOURS}; select some: {BY_VALUE}"
        )
    names = [name for name, _ in lines]
    with style.drawing():
        told = means_text((values for _, values in lines), confidence)
        below = room_below(names, style.COLUMN_WIDTH, beside=False) + style.LINE * told.count("\n")
        panel = one_panel(ax, ds, 1.1 + BAR * (count + len(levels)) + below)
        for i, (_, values) in enumerate(lines):
            counts = statistics.resample_counts(len(values), resamples) if len(values) > 1 else None
            places = np.arange(len(levels), dtype=np.float64) + 0.8 * ((i + 0.5) / len(lines) - 0.5)
            band = statistics.mean_band(values, counts, confidence)
            _draw(panel, places, 0.72 / len(lines), band, style.colour(i))
        _label(panel, array, array[over], told)
        if threshold is not None:
            draw_limit(panel, threshold, f"threshold {number(threshold)}")
        ends = [(name, np.nan) for name in names]
        name_lines([(panel, ends)], 1.6, whole=ax is None, beside=False, bars=True)
    return figure_of(panel)


def _draw(
    panel: Axes, places: Floats, thick: float, band: tuple[Floats, Floats, Floats], colour: str
) -> None:
    """Draw bars with their intervals and numbers."""
    mean, low, high = band
    panel.barh(places, mean, thick, color=colour, alpha=BARS)
    panel.hlines(places, low, high, color=style.INK, linewidth=0.8)
    for place, end, value in zip(places, np.fmax(mean, high), mean, strict=True):
        if np.isfinite(value):
            panel.annotate(
                number(float(f"{value:.3g}")),
                (max(end, 0.0), place),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=6.5,
                color=style.FAINT_INK,
            )


def _label(panel: Axes, array: xr.DataArray, axis: xr.DataArray, told: str) -> None:
    """Name the axes; below the measure stands what is `told` of its means."""
    levels = axis.values.tolist()
    panel.set_yticks(range(len(levels)), elided(list(map(level, levels))))
    if not isinstance(levels[0], str):
        panel.set_ylabel(textwrap.fill(style.axis_label(axis), 24))
    panel.set_ylim(len(levels) - 0.4, -0.6)
    panel.set_xmargin(0.12)  # room for the numbers
    panel.autoscale_view()
    begin_at_zero(panel, "x", [array.values])
    panel.set_xlabel(textwrap.fill(style.axis_label(array), LABEL_WIDTH) + told)
    panel.grid(axis="x", color=style.GRID, linewidth=0.6)
    panel.tick_params(axis="y", length=0)
    style.group_thousands(panel, "x")
