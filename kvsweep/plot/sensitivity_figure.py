"""The forest of sensitivity indices: what each parameter of a design explains of a measure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvsweep.analysis.sensitivity import Index, IndexGroup, Sensitivity
from kvsweep.analysis.settings import axis_keys, sweep_of
from kvsweep.analysis.wording import BY_VALUE, label
from kvsweep.arguments import checked
from kvsweep.config.axes import dimension_names
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.panel import figure_of, one_panel

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kvsweep.analysis.statistics import Interval

MAX_ROWS = 40
ROW_HEIGHT = 0.26  # inches
APART = 0.16  # of a row, between the two indices of a parameter
CHARACTERS = 80


@checked
def plot_sensitivity(ds: xr.Dataset, indices: Sensitivity, ax: Axes | None = None) -> Figure:
    r"""Draw the indices of every parameter with their intervals, the most influential first.

    Filled points are of total order (with all interactions), hollow ones of first order (the
    parameter alone): a gap between the two is what interactions do.

    Parameters
    ----------
    ds : xr.Dataset
        The dataset that `indices` were found in.
    indices : Sensitivity
        Of `kvsweep.sensitivity_indices`.
    ax : matplotlib.axes.Axes, optional
        Draw in this panel instead of a figure of its own.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        If the measure does not vary, or there are more than `MAX_ROWS` indices.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> from pathlib import Path
    >>> text = Path("small.toml").read_text().split("[policies")[0]
    >>> text += '[design]\nmethod = "saltelli"\nsamples = 4\n'
    >>> text += '"workload.rate" = { from = 40.0, to = 200.0 }'
    >>> _ = Path("design.toml").write_text(text)
    >>> ds = kvsweep.run(kvsweep.load_sweep("design.toml"))
    >>> indices = kvsweep.sensitivity_indices(ds, "ttft_mean_ms")
    >>> kvsweep.plot.save(kvsweep.plot.plot_sensitivity(ds, indices), "sensitivity.png")
    """
    groups = [group for group in indices.groups if any(i.total is not None for i in group.indices)]
    names = dimension_names(axis_keys(sweep_of(ds)))
    rows = [row for group in groups for row in _rows(group, names)]
    if not rows:
        raise InputError(f"effects figure: {indices.metric} does not vary over the design")
    if len(rows) > MAX_ROWS:
        raise InputError(
            f"effects figure: {len(rows):,} rows do not fit, at most {MAX_ROWS}; "
            f"select some: {BY_VALUE}"
        )
    with style.drawing():
        height = 1.2 + ROW_HEIGHT * len(rows)
        axes = one_panel(ax, ds, height, f"What moves {indices.metric}")
        _draw(axes, rows)
        if ax is None:
            _explain(figure_of(axes), indices, groups)
    return figure_of(axes)


def _rows(group: IndexGroup, names: Mapping[str, str]) -> list[tuple[str, Index | None]]:
    """List a group's heading, if it has a name, and its parameters, by names of their keys."""
    heading = [(label(group.labels), None)] if group.labels else []
    ordered = sorted(group.indices, key=lambda index: -(index.total or 0.0))
    return [*heading, *((names[index.key], index) for index in ordered)]


def _draw(axes: Axes, rows: list[tuple[str, Index | None]]) -> None:
    axes.grid(axis="x", color=style.GRID, linewidth=0.6)
    axes.axvline(0.0, color=style.FAINT_INK, linewidth=0.8, zorder=1)
    for place, (_, index) in enumerate(rows):
        if index is not None:
            _point(axes, index.total, index.total_interval, place - APART, filled=True)
            _point(axes, index.first, index.first_interval, place + APART, filled=False)
    axes.set_yticks(range(len(rows)), [text for text, _ in rows])
    for text, (_, index) in zip(axes.get_yticklabels(), rows, strict=True):
        if index is None:
            text.set_fontweight("bold")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.margins(x=0.05)
    style.group_thousands(axes, "x")  # as many whether or not the last one makes the panel narrower
    axes.set_xlabel("share of the variance")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _point(
    axes: Axes, value: float | None, interval: Interval | None, place: float, *, filled: bool
) -> None:
    colour = style.colour(0 if filled else 1)
    if interval is not None:
        axes.plot([interval.low, interval.high], [place, place], color=colour, linewidth=1.2)
    if value is not None:
        face = colour if filled else style.PAPER
        axes.plot(value, place, "o", color=colour, mfc=face, mew=1.0, ms=3.4)


def _explain(figure: Figure, found: Sensitivity, groups: list[IndexGroup]) -> None:
    """Say below what the points are."""
    points = ", ".join(sorted({f"{group.points:,}" for group in groups}))
    told = (
        f"{found.metric}; filled: total order, with all interactions; hollow: first order, the "
        f"parameter alone; bars: {100 * found.confidence:g}% intervals over {points} points of "
        "each sample"
    )
    text = "\n".join(textwrap.wrap(told, CHARACTERS))
    figure.supxlabel(text, x=0.015, ha="left", fontsize=6.5, color=style.FAINT_INK)
