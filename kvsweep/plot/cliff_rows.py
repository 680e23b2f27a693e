"""Cliffs of more combinations than curves have room: a row each, with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis import variables
from kvsweep.analysis.cliff_records import Cliff, GroupCliff
from kvsweep.analysis.gib import unit_gib
from kvsweep.analysis.wording import BY_VALUE, interval_ends, labels_of, number
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.cliff_marks import passing
from kvsweep.plot.labels import elided
from kvsweep.plot.panel import check_found_in, figure_of, one_panel, refuse_empty
from kvsweep.plot.trend import plot_cliff_trend

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_ROWS = 60

ROW_HEIGHT = 0.17  # inches

LETTERS = 44  # of a row's name

INSET = 0.04  # of the width, beside the ends of the axis


def plot_many_cliffs(ds: xr.Dataset, cliff: Cliff) -> Figure:
    """Draw how the cliff moves along the longest further axis of numbers, or else a row for each.

    Raises
    ------
    InputError
        If there are more than `MAX_ROWS`.
    """
    over = [
        key for key in cliff.groups[0].labels if ds[key].dtype.kind in "iuf" and ds.sizes[key] > 1
    ]
    if over:
        try:
            return plot_cliff_trend(ds, cliff, max(over, key=lambda key: ds.sizes[key]))
        except InputError:  # of too many lines
            pass
    return _rows(ds, cliff)


def _rows(ds: xr.Dataset, cliff: Cliff) -> Figure:
    check_found_in(ds, cliff)
    refuse_empty(cliff.metric, (group.curve.mean for group in cliff.groups))
    count = len(cliff.groups)
    if count > MAX_ROWS:
        raise InputError(
            f"cliff figure: {count:,} cliffs do not fit, at most {MAX_ROWS}; "
            f"select some: {BY_VALUE}"
        )
    with style.drawing():
        height = 0.9 + ROW_HEIGHT * count
        fallback = f"{cliff.metric} along {cliff.along}"
        axes = one_panel(None, ds, height, fallback, 2.0 * style.COLUMN_WIDTH)
        _frame(axes, ds, cliff)
        for place, group in enumerate(cliff.groups):
            _draw(axes, cliff, group, place)
        names = elided(labels_of([group.labels for group in cliff.groups]), LETTERS)
        axes.set_yticks(range(count), names)
        axes.set_ylim(count - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    return figure_of(axes)


def _frame(axes: Axes, ds: xr.Dataset, cliff: Cliff) -> None:
    """Give the panel the whole axis, and say what stands there."""
    axis = variables.get(ds, cliff.metric)[cliff.along]
    gib = unit_gib(ds, cliff.along)
    low, high = float(cliff.axis[0]), float(cliff.axis[-1])
    axes.set_xlim(low, high)
    style.number_axis(axes, axis, gib)
    if axes.get_xscale() == "log":
        room = (high / low) ** INSET
        axes.set_xlim(low / room, high * room)
    else:
        room = INSET * (high - low)
        axes.set_xlim(low - room, high + room)
    axes.grid(axis="x", color=style.GRID, linewidth=0.6)
    axes.set_xlabel(style.memory_label(axis, gib))
    told = passing(cliff)
    if any(cliff.edge(group.mean_curve.outcome) for group in cliff.groups):
        told += "; triangles: beyond the swept range"
    axes.set_title(told, loc="left", fontsize=7.5)


def _draw(axes: Axes, cliff: Cliff, group: GroupCliff, place: int) -> None:
    """Draw a row: a point and its interval, or at which end of the axis the cliff is beyond."""
    colour = style.colour(0)
    value = group.mean_curve.value
    text = number(value) if np.isfinite(value) else ""
    if (interval := group.interval) is not None:
        ends = np.clip([interval.low, interval.high], cliff.axis[0], cliff.axis[-1])
        axes.plot(ends, [place, place], color=colour, linewidth=1.2)
        if text:
            text += " [{}, {}]".format(*interval_ends(interval))
    if edge := cliff.edge(group.mean_curve.outcome):
        axes.plot(edge[1], place, "<" if edge[0] == "below" else ">", color=colour, ms=4)
    axes.plot(value, place, "o", color=colour, ms=3.4)
    axes.annotate(
        text,
        (1.0, place),
        xycoords=("axes fraction", "data"),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=6.5,
        color=style.FAINT_INK,
    )
