"""The Pareto figure: two objectives against each other, the front drawn through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis.pareto import Front, FrontGroup, Member, Objective
from kvsweep.analysis.wording import BY_VALUE, label, number
from kvsweep.arguments import checked
from kvsweep.errors import InputError, did_you_mean
from kvsweep.plot import style
from kvsweep.plot.labels import explain, panel_title
from kvsweep.plot.medium import current
from kvsweep.plot.panel import (
    begin_at_zero,
    check_threshold,
    dressed,
    figure_of,
    lay_out,
    refuse_empty,
    refuse_panels,
)
from kvsweep.plot.pareto_key import entries, has_values
from kvsweep.plot.pareto_names import name_members

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PANELS = 6
MAX_ON_SLIDE = 4
COLUMNS = 2

TITLE = 40  # letters above a panel
ABOVE_LEVEL = 12.0  # points from a panel to its title, where the name of a level is between


@checked
def plot_pareto(
    ds: xr.Dataset,
    front: Front,
    levels: Mapping[str, float] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw the members in the plane of the first two objectives, one panel per group.

    Filled points are on the front (of all objectives), hollow ones are dominated; bars are the
    intervals of the means; the percentage is the share of bootstrap resamples on the front. The
    stepped line bounds what the front dominates in this plane, drawn for two objectives only. Who
    has no value is named below.

    Parameters
    ----------
    ds : xr.Dataset
        The dataset that `front` was found in.
    front : Front
        Of `kvsweep.pareto_front`, with two objectives or more.
    levels : mapping of str to float, optional
        What is to be kept of the first two objectives, by measure: a line each, and what does not
        keep it shaded.
    ax : matplotlib.axes.Axes, optional
        Draw in this panel instead of a figure of its own, of one group.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        For a single objective, members of which none has all values, more than `MAX_PANELS`
        groups (`MAX_ON_SLIDE` on a slide), or a level of another measure.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> ds = kvsweep.open_results("results/small.zarr").sel(rate=200.0, gpu_blocks=1000)
    >>> figure = kvsweep.plot.plot_pareto(ds, kvsweep.pareto_front(ds))
    >>> kvsweep.plot.save(figure, "pareto.png")
    """
    if len(front.objectives) < 2:
        raise InputError("pareto figure: two objectives are needed")
    panels = len(front.groups)
    most = MAX_ON_SLIDE if current().is_slide else MAX_PANELS
    if panels > most:
        raise InputError(
            f"pareto figure: {panels} groups do not fit, at most {most}; select some: {BY_VALUE}"
        )
    refuse_panels(ax, panels)
    _check_levels(front, levels or {})
    together = (sum(member.values) for group in front.groups for member in group.members)
    refuse_empty(" and ".join(objective.metric for objective in front.objectives), together)
    with style.drawing():
        grid = _panels(ds, panels) if ax is None else [dressed(ax)]
        for axes, group in zip(grid, front.groups, strict=False):
            _draw(axes, front, group, levels or {})
        if ax is None:
            _label_edges(grid[:panels])
            told = entries(front, bool(levels))
            explain(figure_of(grid[0]), told, grid[-1] if len(grid) > panels else None)
            lay_out(figure_of(grid[0]))
        for axes, group in zip(grid, front.groups, strict=False):
            name_members(axes, group)
    return figure_of(grid[0])


def _panels(ds: xr.Dataset, count: int) -> list[Axes]:
    """Return the panels of a new figure, of which the last may be left over."""
    columns = min(count, COLUMNS)
    rows = -(-count // columns)
    width = style.COLUMN_WIDTH if columns == 1 else 2.0 * style.COLUMN_WIDTH
    figure = style.new_figure(height=0.7 + 2.5 * rows, width=width)
    grid = figure.subplots(rows, columns, squeeze=False)
    style.title(figure, ds, fallback="Pareto front")
    return list(grid.flat)


def _label_edges(panels: list[Axes]) -> None:
    """Leave the names of the objectives to panels at the left and at the foot."""
    columns = min(len(panels), COLUMNS)
    for i, axes in enumerate(panels):
        if i % columns:
            axes.set_ylabel("")
        if i + columns < len(panels):
            axes.set_xlabel("")


def _check_levels(front: Front, levels: Mapping[str, float]) -> None:
    drawn = [objective.metric for objective in front.objectives[:2]]
    for name, level in levels.items():
        if name not in drawn:
            hint = did_you_mean(name, drawn) or f"; one of: {', '.join(drawn)}"
            raise InputError(f"levels: {name!r} is not drawn{hint}")
        check_threshold(level, f"levels: {name}")


def _draw(axes: Axes, front: Front, group: FrontGroup, levels: Mapping[str, float]) -> None:
    """Draw one group."""
    axes.grid(color=style.GRID, linewidth=0.6)
    axes.margins(0.14)
    drawn = [member for member in group.members if has_values(member)]
    # Nobody hides a member of the front. The first of tied members lies on top: the label of all is
    # in its colour.
    order = sorted(enumerate(group.members), key=lambda each: (each[1].on_front, -each[0]))
    for i, member in order:
        if member in drawn:
            _draw_member(axes, member, style.colour(i))
    begin_at_zero(axes, "x", [member.values[0] for member in drawn])
    begin_at_zero(axes, "y", [member.values[1] for member in drawn])
    for vertical, objective in enumerate(front.objectives[:2]):
        if objective.metric in levels:
            _draw_level(axes, objective, levels[objective.metric], vertical=bool(vertical))
    if len(front.objectives) == 2:
        _draw_front(axes, front, drawn)
    axes.set_xlabel(_objective_label(front.objectives[0], 48))
    axes.set_ylabel(_objective_label(front.objectives[1], 30))
    style.group_thousands(axes, "x")
    style.group_thousands(axes, "y")
    name = label(group.labels)
    if name:
        above = ABOVE_LEVEL if front.objectives[0].metric in levels else None
        axes.set_title(panel_title(name, TITLE), loc="left", fontsize=7.5, pad=above)


def _draw_level(axes: Axes, objective: Objective, level: float, *, vertical: bool) -> None:
    """Draw a level of the y axis, if `vertical`, or of the x axis; shade what does not keep it."""
    line, span = (axes.axhline, axes.axhspan) if vertical else (axes.axvline, axes.axvspan)
    get, put = (axes.get_ylim, axes.set_ylim) if vertical else (axes.get_xlim, axes.set_xlim)
    line(level, color=style.INK, linewidth=0.7, linestyle=(0, (1, 2)), zorder=1)
    low, high = get()
    room = 0.08 * (max(high, level) - min(low, level))
    low, high = min(low, level - room), max(high, level + room)
    ends = (level, high) if objective.goal == "min" else (low, level)
    span(*ends, color=style.GRID, alpha=0.6, linewidth=0, zorder=0)
    put(low, high)
    axes.annotate(  # beyond the edge, where no member's name is
        f"level {number(level)}",
        (1.0, level) if vertical else (level, 1.0),
        xycoords=("axes fraction", "data") if vertical else ("data", "axes fraction"),
        xytext=(2, 0) if vertical else (0, 2),
        textcoords="offset points",
        ha="left" if vertical else "center",
        va="center" if vertical else "bottom",
        rotation=270 if vertical else 0,
        fontsize=6.5,
        color=style.INK,
    )


def _objective_label(objective: Objective, letters: int) -> str:
    """Name, unit and direction of an objective."""
    better = {"min": "less", "max": "more"}[objective.goal]
    return f"{style.with_unit(objective.long_name, objective.units, letters)}\n{better} is better"


def _draw_member(axes: Axes, member: Member, colour: str) -> None:
    """Draw a member's mean and intervals."""
    x, y = member.values[:2]
    for vertical, interval in enumerate(member.intervals[:2]):
        if interval is not None:
            ends = [interval.low, interval.high]
            places = ([x, x], ends) if vertical else (ends, [y, y])
            axes.plot(*places, color=colour, linewidth=1.0, alpha=0.6)
    face = colour if member.on_front else style.PAPER
    axes.plot(x, y, "o", color=colour, mfc=face, mec=colour, mew=1.1, ms=5, zorder=3)


def _draw_front(axes: Axes, front: Front, members: list[Member]) -> None:
    """Draw the boundary of the dominated region as steps, out to the edges of the panel."""
    points = sorted(member.values for member in members if member.on_front)
    if not points:
        return
    (x_low, x_high), (y_low, y_high) = axes.get_xlim(), axes.get_ylim()
    to_left = front.objectives[0].goal == "max"
    worst_y = y_high if front.objectives[1].goal == "min" else y_low
    xs, ys = np.array(points, dtype=np.float64)[:, :2].T
    if to_left:
        xs, ys = np.r_[x_low, xs, xs[-1]], np.r_[ys[0], ys, worst_y]
    else:
        xs, ys = np.r_[xs[0], xs, x_high], np.r_[worst_y, ys, ys[-1]]
    axes.step(
        xs, ys, where="pre" if to_left else "post", color=style.FAINT_INK, linewidth=0.8, zorder=1
    )
    axes.set_xlim(x_low, x_high)
    axes.set_ylim(y_low, y_high)
