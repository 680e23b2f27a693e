"""Shares of requests: within a time, and within multiples of their service levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import PercentFormatter

from kvsweep.analysis import statistics
from kvsweep.analysis.request_times import scales, times
from kvsweep.analysis.seed_order import by_seed
from kvsweep.analysis.statistics import Floats
from kvsweep.analysis.wording import BY_VALUE, number
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.curve import MAX_LINES, means_text, split_lines
from kvsweep.plot.labels import draw_limit, name_lines, room_below
from kvsweep.plot.panel import check_threshold, figure_of, one_panel
from kvsweep.plot.ticks import SweptLocator
from kvsweep.plot.trace_figure import log_ticks

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 2.6  # inches

POINTS = 400  # of a curve

# Times that span more than this factor have a logarithmic axis.
LOG_FACTOR = 30.0

ROOM = 1.05  # beside a threshold at an end of a logarithmic axis, a factor

# Of the service levels: a tenth to ten times as much, the levels themselves in the middle.
SCALES = np.geomspace(0.1, 10.0, 201)


@checked
def plot_cdf(
    ds: xr.Dataset,
    metric: str,
    confidence: float = 0.95,
    resamples: int = 2000,
    threshold: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw which share of the requests has its first token, say, within a time.

    One line for each combination of the axes, the mean over seeds with its pointwise interval.
    Requests that never got so far count, so that their line ends below 100 %.

    Parameters
    ----------
    ds : xr.Dataset
        Results of a sweep that kept its requests (``keep_requests=True``), or a part of them.
    metric : str
        ``ttft_ms``, ``tpot_ms`` or ``e2e_ms``.
    confidence : float
        Of the bands, between 0 and 1.
    resamples : int
        Bootstrap resamples of the seeds.
    threshold : float, optional
        Milliseconds at which a line is drawn.
    ax : matplotlib.axes.Axes, optional
        Draw in this panel instead of a figure of its own.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        For another time, results without requests, or more than `MAX_LINES` lines.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> sweep = kvsweep.load_sweep("small.toml", seeds=2)
    >>> ds = kvsweep.run(sweep, out="results/each.zarr", keep_requests=True)
    >>> one = ds.sel(rate=200.0, gpu_blocks=600)
    >>> figure = kvsweep.plot.plot_cdf(one, "ttft_ms", threshold=500)
    >>> kvsweep.plot.save(figure, "cdf.png")
    """
    statistics.check_bootstrap(confidence, resamples)
    check_threshold(threshold or 0.0)
    found = times(ds, metric)
    known = found.values[np.isfinite(found.values)]
    if not known.size:
        raise InputError(f"metric: no request has a {metric}")
    x = np.unique(np.quantile(known, np.linspace(0.0, 1.0, POINTS)))
    with style.drawing():
        panel, told = _drawn(ds, found, x, confidence, resamples, ax)
        low = max(float(np.quantile(known, 0.01)), 1e-9)
        if x[-1] > LOG_FACTOR * low:
            panel.set_xscale("log")
            panel.set_xlim(left=low)
            if threshold is not None and threshold > 0.0:  # also of times that there are none of
                low, high = panel.get_xlim()
                panel.set_xlim(min(low, threshold / ROOM), max(high, threshold * ROOM))
            log_ticks(panel.xaxis)
            panel.xaxis.set_major_locator(SweptLocator(x, None))  # as many as do not touch
        else:
            style.group_thousands(panel, "x")
        panel.set_xlabel(style.axis_label(found) + told)
        if threshold is not None:
            draw_limit(panel, threshold, f"threshold {number(threshold)}")
    return figure_of(panel)


@checked
def plot_attainment(
    ds: xr.Dataset,
    levels: Mapping[str, float] | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    ax: Axes | None = None,
) -> Figure:
    """Draw which share of the requests keeps its service levels, were all of these multiplied.

    At 1 it is ``slo_attainment``: left of it levels are stricter, right of it looser. One line for
    each combination of the axes, the mean over seeds with its pointwise interval.

    Parameters
    ----------
    ds : xr.Dataset
        Results of a sweep that kept its requests (``keep_requests=True``), or a part of them.
    levels : mapping of str to float, optional
        Milliseconds, by ``ttft_ms``, ``tpot_ms`` and ``e2e_ms`` [the sweep's ``[slo]``].
    confidence : float
        Of the bands, between 0 and 1.
    resamples : int
        Bootstrap resamples of the seeds.
    ax : matplotlib.axes.Axes, optional
        Draw in this panel instead of a figure of its own.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        Without levels or requests, or for more than `MAX_LINES` lines.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> sweep = kvsweep.load_sweep("small.toml", seeds=2)
    >>> ds = kvsweep.run(sweep, out="results/each.zarr", keep_requests=True)
    >>> one = ds.sel(rate=200.0, gpu_blocks=600)
    >>> figure = kvsweep.plot.plot_attainment(one, {"ttft_ms": 500, "tpot_ms": 50})
    >>> kvsweep.plot.save(figure, "attainment.png")
    """
    statistics.check_bootstrap(confidence, resamples)
    found, kept = scales(ds, levels)
    with style.drawing():
        panel, told = _drawn(ds, found, SCALES, confidence, resamples, ax)
        panel.set_xscale("log")
        panel.set_xlim(SCALES[0], SCALES[-1])
        log_ticks(panel.xaxis, each=True)
        panel.set_xlabel(f"{style.axis_label(found)}\n1: {kept}{told}")
        draw_limit(panel, 1.0, "")
    return figure_of(panel)


def _drawn(
    ds: xr.Dataset,
    found: xr.DataArray,
    x: Floats,
    confidence: float,
    resamples: int,
    ax: Axes | None,
) -> tuple[Axes, str]:
    """Return a panel with a line for each combination, and what to tell of their means.

    Lines are the share of requests up to each `x`.
    """
    lines = split_lines(by_seed(found), "request")
    if len(lines) > MAX_LINES:
        raise InputError(
            f"metric: {found.name!r} has {len(lines)} curves, at most {MAX_LINES} fit a figure; "
            f"select some: {BY_VALUE}"
        )
    names = [name for name, _ in lines]
    # A seed counts if any of its requests has a time: its share is of those that have.
    longest = (np.fmax.reduce(values, axis=1, keepdims=True) for _, values in lines)
    told = means_text(longest, confidence)
    below = room_below(names, style.COLUMN_WIDTH, beside=False) + style.LINE * told.count("\n")
    panel = one_panel(ax, ds, HEIGHT + below)
    for i, (_, values) in enumerate(lines):
        shares = np.array([_shares(seed, x) for seed in values])
        counts = statistics.resample_counts(len(shares), resamples) if len(shares) > 1 else None
        mean, low, high = statistics.mean_band(shares, counts, confidence)
        panel.fill_between(x, low, high, color=style.colour(i), alpha=0.2, linewidth=0)
        panel.plot(x, mean, color=style.colour(i), linestyle=style.dash(i))
    panel.set_title("share of requests within", loc="left", fontsize=7.5)
    panel.set_ylim(0.0, 1.02)
    panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    panel.grid(axis="y", color=style.GRID, linewidth=0.6)
    panel.margins(x=0.01)
    name_lines([(panel, [(name, np.nan) for name in names])], 1.6, whole=ax is None, beside=False)
    return panel, told


def _shares(values: Floats, x: Floats) -> Floats:
    """Return the share of the values that are at most `x`, of those that there are."""
    known = np.sort(values[~np.isnan(values)])
    if not known.size:
        return np.full(x.shape, np.nan)
    return np.searchsorted(known, x, side="right") / known.size
