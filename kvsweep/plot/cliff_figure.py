"""The cliff figure: the whole curve, the neighbourhood of the threshold, and where it is passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kvsweep.analysis import variables
from kvsweep.analysis.cliff_records import Cliff, GroupCliff
from kvsweep.analysis.gib import unit_gib
from kvsweep.analysis.wording import BY_VALUE, gathered, labels_of
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.cliff_marks import (
    LOG_THRESHOLDS,
    draw_curves,
    draw_rows,
    entries,
    flat_end,
    frame_close_up,
    mark,
    row_text,
)
from kvsweep.plot.cliff_names import KEY_LINE, key, make_room, threshold_label
from kvsweep.plot.extent import near_threshold, until_flat
from kvsweep.plot.labels import elided, explain, panel_title
from kvsweep.plot.medium import current
from kvsweep.plot.panel import (
    check_found_in,
    check_threshold,
    dressed,
    figure_of,
    lay_out,
    refuse_empty,
    refuse_panels,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_MEMBERS = 7  # as many as there are colours
MAX_PANELS = 6
TITLE = 48  # letters above a panel
MEMORY_LINES = 0.43  # inches, of the GiB below two axes and below their name


@checked
def plot_cliff(ds: xr.Dataset, cliff: Cliff, ax: Axes | None = None) -> Figure:
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
        Of `kvsweep.find_cliff`.
    ax : matplotlib.axes.Axes, optional
        Draw the whole curves in this panel instead of a figure of its own.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        For a cliff of another dataset, a measure without a value in any cell, more than
        `MAX_MEMBERS` members or `MAX_PANELS` combinations.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> ds = kvsweep.open_results("results/small.zarr").sel(rate=200.0)
    >>> figure = kvsweep.plot.plot_cliff(ds, kvsweep.find_cliff(ds))
    >>> kvsweep.plot.save(figure, "cliff.png")
    """
    check_found_in(ds, cliff)
    panels = _by_panel(cliff)
    members = max(len(groups) for _, groups in panels)
    if members > MAX_MEMBERS or len(panels) > MAX_PANELS:
        raise InputError(
            f"cliff figure: {members} curves in {len(panels)} panels do not fit (at most "
            f"{MAX_MEMBERS} in {MAX_PANELS}); select some: {BY_VALUE}; or draw the trend"
        )
    check_threshold(cliff.threshold)
    refuse_empty(cliff.metric, (group.curve.mean for group in cliff.groups))
    refuse_panels(ax, len(panels))
    with style.drawing():
        if ax is not None:
            texts = _panel(dressed(ax), ds, cliff, list(cliff.groups))
            ax.set_xlabel(_x_label(ds, cliff, ax))
            ax.set_title(style.axis_label(_measure(ds, cliff)), loc="left", fontsize=7.5)
            make_room(ax, cliff, list(cliff.groups), texts)
            return figure_of(ax)
        return _one(ds, cliff) if len(panels) == 1 else _many(ds, cliff, panels)


def _by_panel(cliff: Cliff) -> list[tuple[str, list[GroupCliff]]]:
    """Collect the groups that share a panel: equal in all labels but the first."""
    return gathered(cliff.groups, lambda group: dict(list(group.labels.items())[1:]))


def _one(ds: xr.Dataset, cliff: Cliff) -> Figure:
    """Draw whole curves, close-up and cliff rows, one column wide."""
    rows = 0.12 + 0.27 * len(cliff.groups)
    more = KEY_LINE * max(0, len(cliff.groups) - 3)  # than three names have room
    gib = unit_gib(ds, cliff.along)
    memory = 0.0 if gib is None else MEMORY_LINES
    figure = style.new_figure(height=4.1 + more + rows + memory)
    whole, close, forest = _places(figure, [1.75 + more, 1.55, rows])
    style.title(figure, ds, fallback=f"{cliff.metric} along {cliff.along}")
    array = _measure(ds, cliff)
    for axes in (whole, close):
        draw_curves(axes, array, cliff, list(cliff.groups), LOG_THRESHOLDS)
    whole.set_xlim(*until_flat(cliff))
    x_limits, y_limits = near_threshold(cliff)
    close.set_xlim(*x_limits)
    close.set_yscale("linear")
    close.set_ylim(*y_limits)
    style.group_thousands(close, "y")
    whole.set_title(style.axis_label(array), loc="left", fontsize=7.5)
    close.set_title("close-up of the frame", loc="left", fontsize=7, color=style.FAINT_INK)
    threshold_label(close, cliff)
    for i, group in enumerate(cliff.groups):
        place = group.mean_curve.value
        close.plot([place, place], [y_limits[0], cliff.threshold], lw=0.7, color=style.colour(i))
    draw_rows(forest, cliff, x_limits)
    for axes in (whole, close, forest):
        style.number_axis(axes, array[cliff.along], gib)
    close.tick_params(labelbottom=False)
    forest.set_xlabel(style.memory_label(array[cliff.along], gib))
    if current().is_slide:
        whole.set_xlabel(_x_label(ds, cliff, whole))
    elif flat := flat_end(cliff, whole.get_xlim()):
        side: Literal["left", "right"] = "right" if cliff.generous == "high" else "left"
        whole.set_xlabel(flat, loc=side, fontsize=6.5, color=style.FAINT_INK)
    frame_close_up(whole, x_limits, y_limits)
    if any(names := elided(labels_of([group.labels for group in cliff.groups]))):
        key(whole, cliff, names)
        lay_out(figure)
        make_room(whole, cliff, list(cliff.groups), names, (x_limits, y_limits))
    return figure


def _places(figure: Figure, heights: list[float]) -> list[Axes]:
    """Return the panels of `_one`: below each other, on a slide the first beside the others."""
    if not current().is_slide:
        return list(figure.subplots(3, 1, height_ratios=heights))
    parts = figure.subplot_mosaic([["a", "b"], ["a", "c"]], height_ratios=[2.2, heights[-1]])
    return [parts[name] for name in "abc"]


def _many(ds: xr.Dataset, cliff: Cliff, panels: list[tuple[str, list[GroupCliff]]]) -> Figure:
    """Draw one panel of whole curves per combination of the further axes, two columns wide."""
    rows = -(-len(panels) // 2)
    figure = style.new_figure(height=0.5 + 2.2 * rows, width=2.0 * style.COLUMN_WIDTH)
    grid = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False)
    style.title(figure, ds, fallback=f"{cliff.metric} along {cliff.along}")
    texts = []
    for axes, (name, groups) in zip(grid.flat, panels, strict=False):
        texts.append(_panel(axes, ds, cliff, groups))
        axes.set_title(panel_title(name, TITLE), loc="left", fontsize=7.5)
    room = grid[-1, 1] if len(panels) % 2 else None
    below = _x_label(ds, cliff, grid[0, 0])
    if room is None:
        for axes in grid[-1]:
            axes.set_xlabel(below)
    else:
        grid[-2, 1].tick_params(labelbottom=True)
        figure.supxlabel(below, fontsize=7.5)
    figure.supylabel(style.axis_label(_measure(ds, cliff)), fontsize=7.5)
    explain(figure, entries(cliff), room)
    lay_out(figure)
    for axes, (_, groups), names in zip(grid.flat, panels, texts, strict=False):
        make_room(axes, cliff, groups, names)
    return figure


def _panel(axes: Axes, ds: xr.Dataset, cliff: Cliff, groups: list[GroupCliff]) -> list[str]:
    """Draw the whole curves of groups that differ in their first label; return their names."""
    array = _measure(ds, cliff)
    draw_curves(axes, array, cliff, groups)
    axes.set_xlim(*until_flat(cliff))
    for i, group in enumerate(groups):
        mark(axes, group, style.colour(i), cliff.past)
    names = elided(labels_of([dict(list(group.labels.items())[:1]) for group in groups]))
    texts = [row_text(cliff, group, name) for group, name in zip(groups, names, strict=True)]
    style.number_axis(axes, array[cliff.along], unit_gib(ds, cliff.along))
    key(axes, cliff, texts, fontsize=6.5)
    return texts


def _x_label(ds: xr.Dataset, cliff: Cliff, axes: Axes) -> str:
    """Return the label of the axis; in a line below, how far the curves go on."""
    label = style.memory_label(_measure(ds, cliff)[cliff.along], unit_gib(ds, cliff.along))
    return "\n".join(filter(None, (label, flat_end(cliff, axes.get_xlim()))))


def _measure(ds: xr.Dataset, cliff: Cliff) -> xr.DataArray:
    """Return the measure with the axis ascending, as in `cliff`."""
    return variables.get(ds, cliff.metric).sortby(cliff.along)
