"""The Pareto figure: two objectives against each other, the front drawn through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patheffects import withStroke

from kvsweep.analysis.pareto import Front, FrontGroup, Member, Objective
from kvsweep.analysis.wording import label
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.labels import LINE_HEIGHT, spread

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PANELS = 6

PANEL_HEIGHT = 1.9  # inches inside the axes


@checked
def plot_pareto(ds: xr.Dataset, front: Front) -> Figure:
    """Draw the members in the plane of the first two objectives, one panel per group.

    Filled points are on the front (of all objectives), hollow ones are dominated; bars are the
    intervals of the means; the percentage is the share of bootstrap resamples on the front. The
    stepped line bounds what the front dominates in this plane, drawn for two objectives only.

    Parameters
    ----------
    ds : xr.Dataset
        The dataset that `front` was found in.
    front : Front
        Of `kvsweep.pareto_front`, with two objectives or more.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        For a single objective, or more than `MAX_PANELS` groups.

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
    if panels > MAX_PANELS:
        raise InputError(
            f"pareto figure: {panels} groups do not fit, at most {MAX_PANELS}; select some with "
            ".sel()"
        )
    columns = min(panels, 3)
    rows = -(-panels // columns)
    width = style.COLUMN_WIDTH if columns == 1 else 2.0 * style.COLUMN_WIDTH
    with style.style():
        figure = style.new_figure(height=0.5 + 2.5 * rows, width=width)
        grid = figure.subplots(rows, columns, squeeze=False)
        style.title(figure, ds, fallback="Pareto front")
        for axes, group in zip(grid.flat, front.groups, strict=False):
            _draw(axes, front, group)
        for axes in grid.flat[panels:]:
            axes.set_visible(False)
    return figure


def _draw(axes: Axes, front: Front, group: FrontGroup) -> None:
    """Draw one group."""
    axes.grid(color=style.GRID, linewidth=0.6)
    axes.margins(0.14)
    drawn = [m for m in group.members if not np.isnan(m.values).any()]
    # The first of tied members lies on top: the label of all is in its colour.
    for i, member in reversed(list(enumerate(group.members))):
        if member in drawn:
            _draw_member(axes, member, style.colour(i))
    _name_members(axes, group)
    if len(front.objectives) == 2:
        _draw_front(axes, front, drawn)
    axes.set_xlabel(_objective_label(front.objectives[0]))
    axes.set_ylabel(_objective_label(front.objectives[1]))
    style.group_thousands(axes, "x")
    style.group_thousands(axes, "y")
    name = label(group.labels)
    if name:
        axes.set_title(name, loc="left", fontsize=7.5)


def _objective_label(objective: Objective) -> str:
    """Name, unit and direction of an objective."""
    better = {"min": "less", "max": "more"}[objective.goal]
    return f"{style.with_unit(objective.long_name, objective.units)}\n{better} is better"


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


def _name_members(axes: Axes, group: FrontGroup) -> None:
    """Write names beside points, tied members together, on the side that faces the middle."""
    (low, high), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    named: set[object] = set()
    labelled: dict[bool, list[tuple[int, Member]]] = {True: [], False: []}
    for i, member in enumerate(group.members):
        if member.name not in named and not np.isnan(member.values).any():
            named.update((member.name, *member.tied_with))
            labelled[member.values[0] > 0.5 * (low + high)].append((i, member))
    gap = (top - bottom) * LINE_HEIGHT / PANEL_HEIGHT
    for left, side in labelled.items():
        lift = 0.55 * gap
        heights = [member.values[1] + lift for _, member in side]
        for (i, member), y in zip(side, spread(heights, gap, bottom, top), strict=True):
            axes.annotate(
                _member_text(member),
                (member.values[0], y),
                xytext=(-4.5 if left else 4.5, 0),
                textcoords="offset points",
                ha="right" if left else "left",
                va="bottom" if member.tied_with else "center",
                fontsize=7,
                color=style.colour(i),
                path_effects=[withStroke(linewidth=2.0, foreground=style.PAPER)],
            )


def _member_text(member: Member) -> str:
    """Name a member and those tied with it, with the share of resamples on the front."""
    text = " =\n".join(str(name) for name in (member.name, *member.tied_with))
    if member.share_of_resamples is None:
        return text
    return f"{text} ({member.share_of_resamples:.0%})"


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
