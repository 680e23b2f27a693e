"""The cliff figure: the whole curve, the neighbourhood of the threshold, and where it is passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from kvsweep.analysis import variables
from kvsweep.analysis.cliff_records import Cliff, GroupCliff
from kvsweep.analysis.gib import unit_gib
from kvsweep.analysis.wording import interval_ends, label, number
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.extent import near_threshold, until_flat
from kvsweep.plot.medium import current

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_MEMBERS = 7  # as many as there are colours
MAX_PANELS = 6

MARK = 0.3  # height of a cliff's mark, as a share of its panel

# A curve that climbs beyond this many thresholds is drawn on a symmetric logarithmic scale.
LOG_THRESHOLDS = 200.0


# Of a panel of `_many`: the height of a line of names, and the width that they may take.
LINE = 0.075
KEY_WIDTH = 0.75

# Corner that a cliff leaves empty: (generous end is high, bad is above the threshold).
_CORNERS: dict[
    tuple[bool, bool], Literal["upper right", "upper left", "lower right", "lower left"]
] = {
    (True, True): "upper right",
    (False, True): "upper left",
    (True, False): "lower right",
    (False, False): "lower left",
}


@checked
def plot_cliff(ds: xr.Dataset, cliff: Cliff) -> Figure:
    """Draw the curves and their cliffs: seeds faint, means, interval bands, cliffs with intervals.

    Members of the first remaining axis are told apart by colour and dash. With no other axis left
    the figure has three panels: the whole curve, the neighbourhood of the threshold, and one row
    per member with its cliff, interval and, as ticks, the cliffs of the single seeds. With more
    axes it has one panel of whole curves per combination of their values.

    Parameters
    ----------
    ds : xr.Dataset
        The dataset that `cliff` was found in.
    cliff : Cliff

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        For more than `MAX_MEMBERS` members or `MAX_PANELS` combinations.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> ds = kvsweep.open_results("results/small.zarr").sel(rate=200.0)
    >>> figure = kvsweep.plot.plot_cliff(ds, kvsweep.find_cliff(ds))
    >>> kvsweep.plot.save(figure, "cliff.png")
    """
    panels = _by_panel(cliff)
    members = max(len(groups) for groups in panels.values())
    if members > MAX_MEMBERS or len(panels) > MAX_PANELS:
        raise InputError(
            f"cliff figure: {members} curves in {len(panels)} panels do not fit (at most "
            f"{MAX_MEMBERS} in {MAX_PANELS}); select some with .sel(), or draw the trend"
        )
    with style.style():
        if len(panels) == 1:
            return _one(ds, cliff)
        return _many(ds, cliff, panels)


def _by_panel(cliff: Cliff) -> dict[str, list[GroupCliff]]:
    """Collect the groups that share a panel: equal in all labels but the first."""
    panels: dict[str, list[GroupCliff]] = {}
    for group in cliff.groups:
        panels.setdefault(label(dict(list(group.labels.items())[1:])), []).append(group)
    return panels


def _one(ds: xr.Dataset, cliff: Cliff) -> Figure:
    """Draw whole curves, close-up and cliff rows, one column wide."""
    rows = 0.12 + 0.27 * len(cliff.groups)
    figure = style.new_figure(height=4.1 + rows)
    whole, close, forest = _places(figure, rows)
    style.title(figure, ds, fallback=f"{cliff.metric} along {cliff.along}")
    array = _measure(ds, cliff)
    _draw_curves(whole, array, cliff, list(cliff.groups))
    _draw_curves(close, array, cliff, list(cliff.groups))
    whole.set_xlim(*until_flat(cliff))
    x_limits, y_limits = near_threshold(cliff)
    close.set_xlim(*x_limits)
    close.set_ylim(*y_limits)
    close.set_yscale("linear")
    whole.set_title(style.axis_label(array), loc="left", fontsize=7.5)
    close.set_title("close-up of the frame", loc="left", fontsize=7, color=style.FAINT_INK)
    _threshold_label(close, cliff)
    for i, group in enumerate(cliff.groups):
        place = group.mean_curve.value
        close.plot([place, place], [y_limits[0], cliff.threshold], lw=0.7, color=style.colour(i))
    _draw_rows(forest, cliff, x_limits)
    close.tick_params(labelbottom=False)
    gib = unit_gib(ds, cliff.along)
    for axes in (whole, forest):
        style.number_axis(axes, array[cliff.along], gib)
    for axes in (whole, forest) if current().is_slide else (forest,):
        axes.set_xlabel(style.memory_label(array[cliff.along], gib))
    _frame_close_up(whole, x_limits, y_limits)
    _key(whole, cliff, [label(group.labels) for group in cliff.groups])
    return figure


def _places(figure: Figure, rows: float) -> list[Axes]:
    """Return the panels of `_one`: below each other, on a slide the first beside the others."""
    if not current().is_slide:
        return list(figure.subplots(3, 1, height_ratios=[1.75, 1.55, rows]))
    parts = figure.subplot_mosaic([["a", "b"], ["a", "c"]], height_ratios=[2.2, rows])
    return [parts[name] for name in "abc"]


def _many(ds: xr.Dataset, cliff: Cliff, panels: dict[str, list[GroupCliff]]) -> Figure:
    """Draw one panel of whole curves per combination of the further axes, two columns wide."""
    rows = -(-len(panels) // 2)
    figure = style.new_figure(height=0.5 + 2.2 * rows, width=2.0 * style.COLUMN_WIDTH)
    grid = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False)
    style.title(figure, ds, fallback=f"{cliff.metric} along {cliff.along}")
    array, gib = _measure(ds, cliff), unit_gib(ds, cliff.along)
    for axes, (name, groups) in zip(grid.flat, panels.items(), strict=False):
        _draw_curves(axes, array, cliff, groups)
        axes.set_title(name, loc="left", fontsize=7.5)
        axes.set_xlim(*until_flat(cliff))
        for i, group in enumerate(groups):
            _mark(axes, group, style.colour(i))
        first = [dict(list(group.labels.items())[:1]) for group in groups]
        texts = [row_text(group, only) for group, only in zip(groups, first, strict=True)]
        _key(axes, cliff, texts, fontsize=6.5)
        _make_room(axes, cliff, groups)
        style.number_axis(axes, array[cliff.along], gib)
    if len(panels) % 2:
        grid[-1, 1].set_visible(False)
        grid[-2, 1].tick_params(labelbottom=True)
    figure.supxlabel(style.memory_label(array[cliff.along], gib), fontsize=7.5)
    figure.supylabel(style.axis_label(array), fontsize=7.5)
    return figure


def _measure(ds: xr.Dataset, cliff: Cliff) -> xr.DataArray:
    """Return the measure with the axis ascending, as in `cliff`."""
    return variables.get(ds, cliff.metric).sortby(cliff.along)


def _draw_curves(axes: Axes, array: xr.DataArray, cliff: Cliff, groups: list[GroupCliff]) -> None:
    """Draw seeds, bands, means and the threshold of `groups` over the whole axis."""
    alpha = float(np.clip(10.0 / ((cliff.seeds or 1) * len(groups)), 0.04, 0.35))
    for i, group in enumerate(groups):
        if cliff.seeds:
            seeds = array.sel(group.labels).transpose("seed", cliff.along).values
            lines = [np.column_stack([cliff.axis, values]) for values in seeds]
            axes.add_collection(
                LineCollection(lines, colors=style.colour(i), linewidths=0.5, alpha=alpha)
            )
    for i, group in enumerate(groups):
        curve = group.curve
        axes.fill_between(
            cliff.axis, curve.low, curve.high, color=style.colour(i), alpha=0.25, linewidth=0
        )
        axes.plot(cliff.axis, curve.mean, color=style.colour(i), linestyle=style.dash(i))
    axes.axhline(cliff.threshold, color=style.INK, linewidth=0.7, linestyle=(0, (1, 2)))
    axes.grid(axis="y", color=style.GRID, linewidth=0.6)
    _scale(axes, cliff)
    style.group_thousands(axes, "x")
    style.group_thousands(axes, "y")


def _scale(axes: Axes, cliff: Cliff) -> None:
    """Fit the y axis to the means: a few wild seeds must not flatten them."""
    means = np.concatenate([[cliff.threshold], *(g.curve.mean for g in cliff.groups)])
    highs = np.concatenate([means, *(g.curve.high for g in cliff.groups)])
    low, high = float(np.nanmin(means)), float(np.nanmax(highs))
    if low >= 0.0 and cliff.threshold > 0.0 and high > LOG_THRESHOLDS * cliff.threshold:
        decade = 10.0 ** np.floor(np.log10(cliff.threshold))
        axes.set_yscale("symlog", linthresh=decade, linscale=0.5)
        axes.set_ylim(-0.4 * decade, 2.0 * high)
        return
    margin = 0.06 * (high - low)
    axes.set_ylim(low - margin, high + 2.0 * margin)


def _threshold_label(axes: Axes, cliff: Cliff) -> None:
    """Write the threshold beside its line, at the tight end, on the side the curves have left."""
    right, under = cliff.generous == "low", cliff.past == "above"
    axes.annotate(
        f"threshold {number(cliff.threshold)}",
        (0.995 if right else 0.005, cliff.threshold),
        xycoords=("axes fraction", "data"),
        xytext=(0, -2.5 if under else 2.5),
        textcoords="offset points",
        ha="right" if right else "left",
        va="top" if under else "bottom",
        fontsize=6.5,
        color=style.INK,
    )


def _key(axes: Axes, cliff: Cliff, names: list[str], fontsize: float = 7.0) -> None:
    """Name the curves, in their colours, in the corner that a cliff leaves empty.

    Where the flat end of the sweep is cut off, a last line says how far it goes on.
    """
    entries = [
        (Line2D([], [], color=style.colour(i), linestyle=style.dash(i)), name, style.colour(i))
        for i, name in enumerate(names)
        if name
    ]
    high, above = cliff.generous == "high", cliff.past == "above"
    end = float(cliff.axis[-1 if high else 0])
    shown = axes.get_xlim()
    if not shown[0] <= end <= shown[1]:
        text = f"flat {'up' if high else 'down'} to {number(end)}"
        entries.append((Line2D([], [], linestyle="none"), text, style.FAINT_INK))
    if not entries:
        return
    handles, texts, colours = zip(*entries, strict=True)
    axes.legend(
        handles,
        texts,
        loc=_CORNERS[high, above],
        labelcolor=list(colours),
        handlelength=2.2,
        fontsize=fontsize,
        borderaxespad=0.2,
    )


def _make_room(axes: Axes, cliff: Cliff, groups: list[GroupCliff]) -> None:
    """Put the names above curves that would cross them, if they stand at the top."""
    if axes.get_yscale() != "linear" or cliff.past != "above":
        return
    low, high = axes.get_ylim()
    share = min(LINE * (len(groups) + 1), 0.6)
    left, right = axes.get_xlim()
    place = (cliff.axis - left) / (right - left)
    beside = place > 1.0 - KEY_WIDTH if cliff.generous == "high" else place < KEY_WIDTH
    tops = np.concatenate([group.curve.high[beside] for group in groups])
    if np.nanmax(tops, initial=low) > high - share * (high - low):
        axes.set_ylim(low, low + (high - low) / (1.0 - share))


def _mark(axes: Axes, group: GroupCliff, colour: str) -> None:
    """Mark a cliff at the foot of the curves: a short line, its interval shaded."""
    interval = group.interval
    if interval is not None and np.isfinite([interval.low, interval.high]).all():
        axes.axvspan(
            interval.low, interval.high, ymax=MARK, color=colour, alpha=0.15, linewidth=0, zorder=1
        )
    if np.isfinite(group.mean_curve.value):
        axes.axvline(group.mean_curve.value, ymax=MARK, color=colour, linewidth=0.8, zorder=1.5)


def _frame_close_up(
    axes: Axes, x_limits: tuple[float, float], y_limits: tuple[float, float]
) -> None:
    """Outline on the whole curves what the close-up below them shows."""
    (x0, x1), (y0, y1) = x_limits, y_limits
    axes.plot(
        [x0, x1, x1, x0, x0], [y0, y0, y1, y1, y0], color=style.FAINT_INK, linewidth=0.6, zorder=1
    )


def _draw_rows(axes: Axes, cliff: Cliff, x_limits: tuple[float, float]) -> None:
    """Draw one row per group: its cliff and interval, single seeds as ticks, the numbers above."""
    for i, group in enumerate(cliff.groups):
        y, colour = -float(i), style.colour(i)
        if group.per_seed is not None and cliff.seeds and cliff.seeds > 1:
            ticks = group.per_seed.values
            axes.plot(ticks, np.full(ticks.shape, y), "|", color=colour, alpha=0.3, ms=4, mew=0.6)
        if group.interval is not None:
            ends = np.clip([group.interval.low, group.interval.high], *x_limits)
            axes.plot(ends, [y, y], color=colour, linewidth=2.4, solid_capstyle="butt")
        axes.plot(group.mean_curve.value, y, "o", color=colour, ms=3.5, mec=style.PAPER, mew=0.6)
        axes.annotate(
            row_text(group, group.labels),
            (0.005, y),
            xycoords=("axes fraction", "data"),
            xytext=(0, 4.5),
            textcoords="offset points",
            fontsize=7,
            color=colour,
        )
    axes.set_title(_rows_title(cliff), loc="left", fontsize=7, color=style.FAINT_INK)
    axes.set_xlim(*x_limits)
    axes.set_ylim(-len(cliff.groups) + 0.55, 0.95)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _rows_title(cliff: Cliff) -> str:
    """Say what the rows show."""
    if not cliff.seeds or cliff.seeds < 2:
        return "cliff"
    few = ": few" if cliff.seeds_note else ""
    level = f"{100 * cliff.confidence:g}% interval"
    return f"cliff [{level}, {cliff.seeds} seeds{few}]; ticks: single seeds"


def row_text(group: GroupCliff, labels: dict[str, Any]) -> str:
    """Return ``round-robin: 2,143 [2,131, 2,158]``, or that there is no cliff."""
    name = f"{label(labels)}: " if labels else ""
    if np.isnan(group.mean_curve.value):
        return f"{name}no cliff in the swept range"
    text = f"{name}{number(group.mean_curve.value)}"
    if group.interval is None:
        return text
    low, high = interval_ends(group.interval)
    return f"{text} [{low}, {high}]"
