"""How the cliff moves along a further axis."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from kvsweep.analysis import variables
from kvsweep.analysis.cliff_records import Cliff, GroupCliff, Labels
from kvsweep.analysis.gib import unit_gib
from kvsweep.analysis.statistics import Floats
from kvsweep.analysis.wording import BY_VALUE, gathered, label
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.cliff_marks import passing
from kvsweep.plot.labels import name_lines, room_below
from kvsweep.plot.panel import check_found_in, figure_of, one_panel, refuse_empty
from kvsweep.plot.ticks import SPAN, is_wide

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LINES = 7  # as many as there are colours
CLOSE = 0.15  # of the distance of two values, that lines are set apart by
ABOVE_KEY = 14.0  # points from the panel to its title, where the key of triangles is between
BESIDE = 36  # letters of a line beside the panel


@checked
def plot_cliff_trend(ds: xr.Dataset, cliff: Cliff, over: str, ax: Axes | None = None) -> Figure:
    """Draw how the cliff moves along a further numeric axis: one line per member, with intervals.

    Lines are set a little apart sideways so that intervals do not hide each other. A cliff outside
    the swept range has no point: a triangle marks the edge of the range it lies beyond.

    Parameters
    ----------
    ds : xr.Dataset
        The dataset that `cliff` was found in.
    cliff : Cliff
    over : str
        A numeric axis among the labels of the groups.
    ax : matplotlib.axes.Axes, optional
        Draw in this panel instead of a figure of its own.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        If `cliff` is of another dataset, `over` is no such axis, no cell has a value, or there are
        more than `MAX_LINES` lines.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> ds = kvsweep.open_results("results/small.zarr")
    >>> figure = kvsweep.plot.plot_cliff_trend(ds, kvsweep.find_cliff(ds), over="rate")
    >>> kvsweep.plot.save(figure, "trend.png")
    """
    check_found_in(ds, cliff)
    variables.axis(ds, over)
    if over not in cliff.groups[0].labels:
        raise InputError(f"cliff figure: {over!r} is not an axis besides {cliff.along!r} and seed")
    refuse_empty(cliff.metric, (group.curve.mean for group in cliff.groups))
    shared = _shared(cliff, over)
    lines = gathered(
        cliff.groups, lambda g: {k: v for k, v in g.labels.items() if k not in (over, *shared)}
    )
    names = [name for name, _ in lines]
    if len(lines) > MAX_LINES:
        raise InputError(
            f"cliff figure: {len(lines)} lines do not fit, at most {MAX_LINES}; select some: "
            f"{BY_VALUE}"
        )
    with style.drawing():
        height = 2.9 + room_below(names, style.COLUMN_WIDTH)
        axes = one_panel(ax, ds, height, f"{cliff.metric} along {cliff.along}")
        ends = []
        wide = is_wide(ds[over].values)
        values = ds[over].values
        step = _aside(np.log(values) if wide else values, len(lines))
        for i, (name, groups) in enumerate(lines):
            groups.sort(key=lambda g: g.labels[over])
            aside = step * (i - 0.5 * (len(lines) - 1))
            x = np.array([group.labels[over] for group in groups], np.float64)
            x = x * np.exp(aside) if wide else x + aside
            ends.append((name, _draw_trend(axes, cliff, groups, x, i)))
        x_gib, y_gib = unit_gib(ds, over), unit_gib(ds, cliff.along)
        axes.set_xlabel(style.memory_label(ds[over], x_gib))
        axes.set_ylabel(style.memory_label(ds[cliff.along], y_gib, BESIDE, "in brackets"))
        axes.grid(axis="y", color=style.GRID, linewidth=0.6)
        style.number_axis(axes, ds[over], x_gib)
        _scale_cliffs(axes, cliff)
        style.group_thousands(axes, "y", y_gib)
        _explain(axes, cliff, label(shared))
        name_lines([(axes, ends)], panel_height=2.0, whole=ax is None)
    return figure_of(axes)


def _shared(cliff: Cliff, over: str) -> Labels:
    """Return what all of several lines have in common, which none of them needs in its name."""
    labels = [group.labels for group in cliff.groups]
    first = {name: value for name, value in labels[0].items() if name != over}
    shared = {k: v for k, v in first.items() if all(each[k] == v for each in labels)}
    return {} if len(shared) == len(first) else shared


def _aside(values: Floats, lines: int) -> float:
    """Return how far lines are set apart: all together much less than two values are."""
    gap = float(np.diff(np.sort(np.asarray(values, np.float64))).min(initial=np.inf))
    return min(0.012 * float(np.ptp(values)), CLOSE * gap / lines)


def _scale_cliffs(axes: Axes, cliff: Cliff) -> None:
    """Draw cliffs by their logarithms, as their axis, where they are that far apart."""
    drawn = np.concatenate([np.asarray(line.get_ydata(), np.float64) for line in axes.lines])
    known = drawn[np.isfinite(drawn)]
    if known.size and is_wide(cliff.axis) and known.max() >= SPAN * known.min():
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())


def _explain(axes: Axes, cliff: Cliff, shared: str) -> None:
    """Say above the panel what its cliffs are, of what they all are, and what triangles are."""
    triangles = any(line.get_marker() in ("v", "^") for line in axes.lines)
    what = f"cliff of {shared}" if shared else "cliff"
    lines = f"{what}: {passing(cliff)}".replace(" [", "\n[").split("\n")
    told = "\n".join(textwrap.fill(line, style.LABEL_CHARACTERS) for line in lines)
    axes.set_title(told, loc="left", fontsize=7.5, pad=ABOVE_KEY if triangles else None)
    if triangles:
        key = Line2D([], [], linestyle="none", marker="^", ms=4, color=style.FAINT_INK)
        axes.legend(
            [key],
            ["beyond the swept range"],
            labelcolor=style.FAINT_INK,
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),  # above the panel, where no line is
            borderaxespad=0.0,
        )


def _draw_trend(axes: Axes, cliff: Cliff, groups: list[GroupCliff], x: Floats, index: int) -> float:
    """Draw one line of cliffs at places `x`; return where the last of them is drawn."""
    y = np.array([group.mean_curve.value for group in groups])
    colour = style.colour(index)
    axes.plot(x, y, color=colour, linestyle=style.dash(index), marker="o", ms=3)
    drawn = y.copy()
    for i, (place, group) in enumerate(zip(x, groups, strict=True)):
        if group.interval is not None:
            ends = np.clip([group.interval.low, group.interval.high], cliff.axis[0], cliff.axis[-1])
            axes.plot([place, place], ends, color=colour, linewidth=1.0, alpha=0.8)
        edge = cliff.edge(group.mean_curve.outcome)
        if edge is not None:
            marker = "v" if edge[0] == "below" else "^"
            axes.plot(place, edge[1], marker, color=colour, ms=4, clip_on=False)
            drawn[i] = edge[1]
    known = drawn[np.isfinite(drawn)]
    return float(known[-1]) if known.size else np.nan
