"""What a cliff figure draws: curves, threshold, cliffs with intervals, names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from kvsweep.analysis.cliff_records import Cliff, GroupCliff
from kvsweep.analysis.wording import interval_ends, label, number, outside
from kvsweep.plot import style
from kvsweep.plot.alone import draw_alone
from kvsweep.plot.extent import room_beside
from kvsweep.plot.labels import elided
from kvsweep.plot.panel import figure_of
from kvsweep.plot.ticks import LETTER, between

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

KEY_LINE = 0.14  # inches of a line of names
KEY_LEFT = 0.45  # inches left of a name, with its line
MOST_WIDE, MOST_HIGH = 0.75, 0.65  # of a panel, that all of them take
DRAWN = 0.9  # of its size, that is left once its labels have their room

LINE = 0.075  # of a close-up's height, of the name of the threshold

NAMED = 0.3  # of the width of a panel, that the name of a threshold takes

# Corner that a cliff leaves empty: (generous end is high, bad is above the threshold).
_CORNERS: dict[
    tuple[bool, bool], Literal["upper right", "upper left", "lower right", "lower left"]
] = {
    (True, True): "upper right",
    (False, True): "upper left",
    (True, False): "lower right",
    (False, False): "lower left",
}


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


def threshold_label(axes: Axes, cliff: Cliff) -> None:
    """Write the threshold beside its line: at the tight end, or elsewhere if curves are there.

    It stands on the side of the line that the curves have left at that end, if they have.
    """
    tight_right, tight_under = cliff.generous == "low", cliff.past == "above"
    ends = (
        (tight_right, tight_under),
        (not tight_right, not tight_under),
        (tight_right, not tight_under),
        (not tight_right, tight_under),
    )
    free = [end for end in ends if not _is_crossed(axes, cliff, *end)]
    right, under = [*free, ends[0]][0]
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
        path_effects=[withStroke(linewidth=2.0, foreground=style.PAPER)],
    )


def _is_crossed(axes: Axes, cliff: Cliff, right: bool, under: bool) -> bool:
    """Whether a mean runs where the name of the threshold would stand."""
    (left, end), (low, high) = axes.get_xlim(), axes.get_ylim()
    x = (
        np.linspace(end - NAMED * (end - left), end)
        if right
        else np.linspace(left, left + NAMED * (end - left))
    )
    height = LINE * (high - low)
    foot = cliff.threshold - height if under else cliff.threshold
    means = np.array([np.interp(x, cliff.axis, group.curve.mean) for group in cliff.groups])
    return bool(((means > foot) & (means < foot + height)).any())


def key(axes: Axes, cliff: Cliff, names: list[str], fontsize: float = 7.0) -> None:
    """Name the curves, in their colours, in the corner that a cliff leaves empty."""
    entries = [
        (Line2D([], [], color=style.colour(i), linestyle=style.dash(i)), name, style.colour(i))
        for i, name in enumerate(names)
        if name
    ]
    if not entries:
        return
    handles, texts, colours = zip(*entries, strict=True)
    high, above = cliff.generous == "high", cliff.past == "above"
    axes.legend(
        handles,
        texts,
        loc=_CORNERS[high, above],
        labelcolor=list(colours),
        handlelength=2.2,
        fontsize=fontsize,
        borderaxespad=0.2,
    )


def make_room(axes: Axes, cliff: Cliff, groups: list[GroupCliff], names: list[str]) -> None:
    """Move curves, bands and the threshold away from names that they would cross."""
    scale = axes.yaxis.get_transform()
    low, high = scale.transform(axes.get_ylim())
    inches = DRAWN * np.array(axes.bbox.size) / figure_of(axes).dpi
    width = min((LETTER * max(map(len, names)) + KEY_LEFT) / inches[0], MOST_WIDE)
    share = min(KEY_LINE * (len(groups) + 0.5) / inches[1], MOST_HIGH)
    across = axes.xaxis.get_transform()
    left, right = across.transform(axes.get_xlim())
    place = (across.transform(cliff.axis) - left) / (right - left)
    beside = place > 1.0 - width if cliff.generous == "high" else place < width
    curves = [c[beside] for g in groups for c in (g.curve.mean, g.curve.low, g.curve.high)]
    drawn = scale.transform(np.concatenate([[cliff.threshold], *curves]))
    room = (high - low) / (1.0 - share)
    if cliff.past == "above" and np.nanmax(drawn) > high - share * (high - low):
        axes.set_ylim(*scale.inverted().transform([low, low + room]))
    elif cliff.past == "below" and np.nanmin(drawn) < low + share * (high - low):
        axes.set_ylim(*scale.inverted().transform([high - room, high]))


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
    ink, seeds = style.FAINT_INK, cliff.seeds or 1
    dotted = Line2D([], [], color=style.INK, linewidth=0.7, linestyle=(0, (1, 2)))
    found: list[tuple[Artist, str]] = [(dotted, f"threshold {number(cliff.threshold)}")]
    if seeds > 1:
        level = f"{100 * cliff.confidence:g}% interval"
        edge = "foot" if cliff.past == "above" else "top"
        found += [
            (Line2D([], [], color=ink), f"mean over {seeds} seeds, each of them faint"),
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
    names = elided([label(group.labels) for group in cliff.groups])
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
    return f"cliff [{level}, {cliff.seeds} seeds{few}]; ticks: single seeds"


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
