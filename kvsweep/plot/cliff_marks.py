"""What a cliff figure draws: curves, threshold, cliffs with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kvsweep.analysis.cliff_records import Cliff, GroupCliff
from kvsweep.analysis.wording import interval_ends, labels_of, number, outside, seeds_counted
from kvsweep.plot import style
from kvsweep.plot.alone import draw_alone
from kvsweep.plot.extent import room_beside
from kvsweep.plot.labels import elided
from kvsweep.plot.ticks import between

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

MARK = 0.3  # height of a cliff's mark, as a share of its panel

# A curve that climbs beyond this many thresholds is drawn on a symmetric logarithmic scale; sooner
# where no close-up stands beside it.
LOG_THRESHOLDS = 200.0
LOG_ALONE = 30.0

# Beyond so many the decades have no room.
MOST_THRESHOLDS = 1e30


def draw_curves(
    axes: Axes,
    array: xr.DataArray,
    cliff: Cliff,
    groups: list[GroupCliff],
    log_from: float = LOG_ALONE,
) -> None:
    """Draw seeds, bands, means and the threshold of `groups` over the whole axis.

    They are straight between points, as a cliff is found, on a logarithmic axis too.
    """
    alpha = float(np.clip(10.0 / ((cliff.seeds or 1) * len(groups)), 0.04, 0.35))
    x = between(cliff.axis)
    for i, group in enumerate(groups):
        if cliff.seeds:
            seeds = array.sel(group.labels).transpose("seed", cliff.along).values
            lines = [np.column_stack([x, np.interp(x, cliff.axis, values)]) for values in seeds]
            axes.add_collection(
                LineCollection(lines, colors=style.colour(i), linewidths=0.5, alpha=alpha)
            )
    for i, group in enumerate(groups):
        curve = group.curve
        mean, low, high = (
            np.interp(x, cliff.axis, values) for values in (curve.mean, curve.low, curve.high)
        )
        axes.fill_between(x, low, high, color=style.colour(i), alpha=0.25, linewidth=0)
        axes.plot(x, mean, color=style.colour(i), linestyle=style.dash(i))
        draw_alone(axes, cliff.axis, (curve.mean, curve.low, curve.high), style.colour(i))
    axes.axhline(cliff.threshold, color=style.INK, linewidth=0.7, linestyle=(0, (1, 2)))
    axes.grid(axis="y", color=style.GRID, linewidth=0.6)
    _scale(axes, cliff, log_from)
    style.group_thousands(axes, "y")


def _scale(axes: Axes, cliff: Cliff, log_from: float) -> None:
    """Fit the y axis to the means: a few wild seeds must not flatten them."""
    means = np.concatenate([[cliff.threshold], *(g.curve.mean for g in cliff.groups)])
    highs = np.concatenate([means, *(g.curve.high for g in cliff.groups)])
    low, high = float(np.nanmin(means)), float(np.nanmax(highs))
    climb = log_from * cliff.threshold, MOST_THRESHOLDS * cliff.threshold
    if low >= 0.0 and 0.0 < climb[0] < high < climb[1]:
        decade = 10.0 ** np.floor(np.log10(cliff.threshold))
        axes.set_yscale("symlog", linthresh=decade, linscale=0.5)
        axes.set_ylim(-0.4 * decade, 2.0 * high)
        return
    margin = 0.06 * (high - low or room_beside(high))
    axes.set_ylim(low - margin, high + 2.0 * margin)


def flat_end(cliff: Cliff, limits: tuple[float, float]) -> str:
    """Say how the curves go on beyond the limits of the axis; empty if they do not.

    They are flat there (`extent.until_flat`), but for points without a value.
    """
    up = cliff.generous == "high"
    end = float(cliff.axis[-1 if up else 0])
    if limits[0] <= end <= limits[1]:
        return ""
    beyond = (cliff.axis < limits[0]) | (cliff.axis > limits[1])
    missing = np.isnan([group.curve.mean[beyond] for group in cliff.groups])
    there = "no values" if missing.all() else "flat"
    text = f"{there} {'up' if up else 'down'} to {number(end)}"
    if missing.any() and not missing.all():
        text += ", but for cells without a value"
    return f"{text} \N{RIGHTWARDS ARROW}" if up else f"\N{LEFTWARDS ARROW} {text}"


def entries(cliff: Cliff) -> list[tuple[Artist, str]]:
    """Return what the marks in a panel of whole curves mean."""
    ink, all_seeds = style.FAINT_INK, cliff.seeds or 1
    dotted = Line2D([], [], color=style.INK, linewidth=0.7, linestyle=(0, (1, 2)))
    found: list[tuple[Artist, str]] = [(dotted, f"threshold {number(cliff.threshold)}")]
    if all_seeds > 1:
        seeds = seeds_counted((group.seeds for group in cliff.groups), all_seeds)
        level = f"{100 * cliff.confidence:g}% interval"
        edge = "foot" if cliff.past == "above" else "top"
        found += [
            (Line2D([], [], color=ink), f"mean over {seeds}, each of them faint"),
            (
                Patch(color=ink, alpha=0.25, linewidth=0),
                f"{level} of the mean; at the {edge}, of the cliff",
            ),
        ]
    return found


def mark(axes: Axes, group: GroupCliff, colour: str, past: str) -> None:
    """Mark a cliff where no names are, at the foot or at the top: a line, its interval shaded."""
    low, high = (0.0, MARK) if past == "above" else (1.0 - MARK, 1.0)
    interval = group.interval
    if interval is not None and np.isfinite([interval.low, interval.high]).all():
        axes.axvspan(
            interval.low, interval.high, low, high, color=colour, alpha=0.15, linewidth=0, zorder=1
        )
    if np.isfinite(group.mean_curve.value):
        axes.axvline(group.mean_curve.value, low, high, color=colour, linewidth=0.8, zorder=1.5)


def frame_close_up(
    axes: Axes, x_limits: tuple[float, float], y_limits: tuple[float, float]
) -> None:
    """Outline on the whole curves what the close-up below them shows."""
    (x0, x1), (y0, y1) = x_limits, y_limits
    axes.plot(
        [x0, x1, x1, x0, x0], [y0, y0, y1, y1, y0], color=style.FAINT_INK, linewidth=0.6, zorder=1
    )


def draw_rows(axes: Axes, cliff: Cliff, x_limits: tuple[float, float]) -> None:
    """Draw one row per group: its cliff and interval, single seeds as ticks, the numbers above."""
    names = elided(labels_of([group.labels for group in cliff.groups]))
    for i, (group, name) in enumerate(zip(cliff.groups, names, strict=True)):
        y, colour = -float(i), style.colour(i)
        if group.per_seed is not None and cliff.seeds and cliff.seeds > 1:
            ticks = group.per_seed.values
            axes.plot(ticks, np.full(ticks.shape, y), "|", color=colour, alpha=0.3, ms=4, mew=0.6)
        if group.interval is not None:
            ends = np.clip([group.interval.low, group.interval.high], *x_limits)
            axes.plot(ends, [y, y], color=colour, linewidth=2.4, solid_capstyle="butt")
        axes.plot(group.mean_curve.value, y, "o", color=colour, ms=3.5, mec=style.PAPER, mew=0.6)
        axes.annotate(
            row_text(cliff, group, name),
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
    seeds = seeds_counted((group.seeds for group in cliff.groups), cliff.seeds)
    return f"cliff [{level}, {seeds}{few}]; ticks: single seeds"


def passing(cliff: Cliff) -> str:
    """Say what cliffs are: ``where preemption_rate passes 0.05 [95% interval, 20 seeds]``."""
    told = f"where {cliff.metric} passes {number(cliff.threshold)}"
    if not cliff.seeds or cliff.seeds < 2:
        return told
    seeds = seeds_counted((group.seeds for group in cliff.groups), cliff.seeds)
    return f"{told} [{100 * cliff.confidence:g}% interval, {seeds}]"


def row_text(cliff: Cliff, group: GroupCliff, name: str) -> str:
    """Return ``round-robin: 2,143 [2,131, 2,158]``, or where the cliff is if it is not here."""
    name = f"{name}: " if name else ""
    if np.isnan(group.mean_curve.value):
        return f"{name}{outside(cliff, group.mean_curve.outcome)}"
    text = f"{name}{number(group.mean_curve.value)}"
    if group.interval is None:
        return text
    low, high = interval_ends(group.interval)
    return f"{text} [{low}, {high}]"
