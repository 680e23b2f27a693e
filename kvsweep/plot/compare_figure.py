"""Two stores: the difference of a measure along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from kvsweep.analysis.compare_records import Comparison, Difference
from kvsweep.analysis.wording import BY_VALUE, gathered
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.alone import draw_alone
from kvsweep.plot.curve import counted_means_text
from kvsweep.plot.labels import name_lines, room_below
from kvsweep.plot.panel import figure_of, one_panel, refuse_empty

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LINES = 7  # as many as there are colours


@checked
def plot_comparison(comparison: Comparison, ax: Axes | None = None) -> Figure:
    """Draw the difference of a measure between two stores along their longest numeric axis.

    Parameters
    ----------
    comparison : Comparison
        Of `kvsweep.compare`.
    ax : matplotlib.axes.Axes, optional
        Draw in this panel instead of a figure of its own.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        Without such an axis of two values or more, without a difference, or with more than
        `MAX_LINES` lines.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> ds = kvsweep.open_results("results/small.zarr").sel(rate=200.0)
    >>> a, b = ds.sel(policy="base"), ds.sel(policy="both")
    >>> figure = kvsweep.plot.plot_comparison(kvsweep.compare(a, b, "ttft_p99_ms"))
    >>> kvsweep.plot.save(figure, "difference.png")
    """
    found = comparison
    along = _along(found)
    refuse_empty(f"{found.metric} in both stores", (item.difference for item in found.differences))
    lines = gathered(found.differences, lambda d: {k: v for k, v in d.labels.items() if k != along})
    if len(lines) > MAX_LINES:
        raise InputError(
            f"comparison figure: {len(lines)} lines do not fit, at most {MAX_LINES}; select some: "
            f"{BY_VALUE}"
        )
    with style.drawing():
        told = _told(found)
        below = room_below(
            [name for name, _ in lines], style.COLUMN_WIDTH
        ) + style.LINE * told.count("\n")
        panel = one_panel(ax, xr.Dataset(), 2.6 + below, f"{found.metric}: B minus A")
        ends = [(name, _draw(panel, items, along, i)) for i, (name, items) in enumerate(lines)]
        panel.axhline(0.0, color=style.INK, linewidth=0.7)
        axis, gib = _axis(found, along), found.axes[along].gib
        style.number_axis(panel, axis, gib)
        panel.set_xlabel(style.memory_label(axis, gib) + told)
        panel.set_title(style.with_unit(found.long_name, found.units), loc="left", fontsize=7.5)
        panel.grid(axis="y", color=style.GRID, linewidth=0.6)
        style.group_thousands(panel, "y")
        name_lines([(panel, ends)], 1.6, whole=ax is None)
    return figure_of(panel)


def _along(found: Comparison) -> str:
    values: dict[str, set[float]] = {}
    for item in found.differences:
        for key, value in item.labels.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                values.setdefault(key, set()).add(value)
    axes = [key for key, known in values.items() if len(known) > 1]
    if not axes:
        raise InputError("comparison figure: the stores share no axis of several numbers")
    return max(axes, key=lambda key: len(values[key]))


def _axis(found: Comparison, along: str) -> xr.DataArray:
    """Return the values of an axis with its name and unit, as a dataset has them."""
    values = sorted({item.labels[along] for item in found.differences})
    about = found.axes[along]
    attributes = {"long_name": about.long_name, "units": about.units}
    return xr.DataArray(values, dims=along, name=along, attrs=attributes)


def _told(found: Comparison) -> str:
    """Say below the label of the axis of how many seeds the differences are."""
    counts = [item.seeds for item in found.differences]
    seeds = max(item.seeds + item.dropped for item in found.differences)
    noun = "paired seeds" if found.paired else "seeds"
    return counted_means_text(counts, seeds, found.confidence, noun)


def _draw(panel: Axes, items: list[Difference], along: str, index: int) -> float:
    """Draw one line with its intervals; return its last value."""
    items = sorted(items, key=lambda item: item.labels[along])
    x = np.array([item.labels[along] for item in items], np.float64)
    y = np.array([item.difference for item in items])
    low, high = np.array([_ends(item) for item in items]).T
    colour = style.colour(index)
    panel.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    panel.plot(x, y, color=colour, linestyle=style.dash(index))
    draw_alone(panel, x, (y, low, high), colour)
    finite = y[np.isfinite(y)]
    return float(finite[-1]) if finite.size else np.nan


def _ends(item: Difference) -> tuple[float, float]:
    """Return the ends of an interval, NaN if there is none."""
    found = item.interval
    return (np.nan, np.nan) if found is None else (found.low, found.high)
