"""The forest of effects: one row per effect, its interval, and the line of no effect."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from kvsweep.analysis import variables
from kvsweep.analysis.contrasts import DIFFERENCE, RATIO, Scale
from kvsweep.analysis.effect_records import Effect, Effects, Estimate, Verdict
from kvsweep.analysis.effects import refuse_none
from kvsweep.analysis.statistics import Floats
from kvsweep.analysis.wording import BY_VALUE, effect_name, label, reference_names, seeds_counted
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.labels import elided
from kvsweep.plot.panel import figure_of, lay_out, refuse_empty

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

MAX_ROWS = 40

WIDE = 100.0  # of a range of ratios: from here on only powers of ten have room

ROW_HEIGHT = 0.16  # inches
LETTERS = 60  # of a row's name
CHARACTERS = 125  # of a line below the panels

LETTER = 0.05  # inches of a verdict, about
AWAY = 0.08  # inches from an interval to its verdict, and from there to the edge
MOST_TAKEN = 0.7  # of the width of a panel, by verdicts on one side
ROUNDS = 60  # each gives verdicts their share of what the one before has made wider

NARROW = 8.0  # ends of an axis of ratios apart by less have few powers of ten, twos and fives


@dataclass(frozen=True)
class _Row:
    """One line of the figure: a heading, or an effect with the place of its label."""

    text: str
    effect: Effect | None = None


class _Verdict(NamedTuple):
    """A verdict to be written: its row, the ends of its interval, and what it says."""

    place: int
    low: float
    high: float
    text: str


@checked
def plot_effects(ds: xr.Dataset, effects: Effects) -> Figure:
    """Draw every effect with its interval: differences on the left, ratios on the right.

    Filled points are shown (their interval excludes no effect), hollow ones are not; interactions
    that are super- or sub-additive are named. Ratios are left out where no effect has one.

    Parameters
    ----------
    ds : xr.Dataset
        The dataset that `effects` was found in.
    effects : Effects
        Of `kvsweep.factorial_effects` or `kvsweep.joint_effects`.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        For more than `MAX_ROWS` effects, or if none has a value.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> ds = kvsweep.open_results("results/small.zarr")
    >>> effects = kvsweep.factorial_effects(ds, "ttft_mean_ms", ["policy", "rate"])
    >>> kvsweep.plot.save(kvsweep.plot.plot_effects(ds, effects), "effects.png")
    """
    rows = _rows(effects)
    count = sum(row.effect is not None for row in rows)
    if count > MAX_ROWS:
        raise InputError(
            f"effects figure: {count:,} effects do not fit, at most {MAX_ROWS}; name --factors or "
            f"--order 1 (factors= or order=1 in Python), or select some: {BY_VALUE}"
        )
    drawn = [row.effect for row in rows if row.effect is not None]
    refuse_empty(effects.metric, [variables.get(ds, effects.metric).values])
    refuse_none(ds, effects)
    if np.isnan([effect.difference.effect for effect in drawn]).all():
        raise InputError(
            f"effects figure: no effect on {effects.metric} has a value, as each takes cells that "
            f"have none; select others: {BY_VALUE}"
        )
    scales = [DIFFERENCE]
    if any(np.isfinite(effect.ratio.effect) for effect in drawn):
        scales.append(RATIO)
    with style.drawing():
        figure = style.new_figure(
            height=1.1 + ROW_HEIGHT * len(rows), width=2.0 * style.COLUMN_WIDTH
        )
        panels = figure.subplots(1, len(scales), sharey=True, squeeze=False)[0]
        style.title(figure, ds, fallback=f"Effects on {effects.metric}")
        for axes, scale in zip(panels, scales, strict=True):
            _draw(axes, effects, rows, scale)
        _name_rows(panels[0], rows)
        _explain(figure, effects)
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.set(w_pad=0.08)  # type: ignore[call-arg]  # names reach to the left edge
        lay_out(figure)
        for axes, scale in zip(panels, scales, strict=True):
            _name_verdicts(axes, _verdicts(rows, scale))
            if scale.logarithmic:
                _tick_ratios(axes)
    return figure


def _rows(effects: Effects) -> list[_Row]:
    """List headings and effects from top to bottom."""
    rows = []
    for group in effects.groups:
        name = f", {label(group.labels)}" if group.labels else ""
        for title, several in (("single changes", False), ("interactions", True)):
            found = [e for e in group.effects if (len(e.changes) > 1) == several]
            if found:
                rows.append(_Row(title + name))
                rows += [_Row(effect_name(effect), effect) for effect in found]
    return rows


def _estimates(rows: list[_Row], scale: Scale) -> list[tuple[int, Effect, Estimate]]:
    """List the effects with their rows and what they are on a scale."""
    return [
        (place, row.effect, row.effect.ratio if scale.logarithmic else row.effect.difference)
        for place, row in enumerate(rows)
        if row.effect is not None
    ]


def _verdicts(rows: list[_Row], scale: Scale) -> list[_Verdict]:
    """List the interactions that are shown."""
    return [
        _Verdict(place, found.interval.low, found.interval.high, found.verdict.value)
        for place, effect, found in _estimates(rows, scale)
        if len(effect.changes) > 1 and found.verdict and found.interval and _is_shown(found)
    ]


def _draw(axes: Axes, effects: Effects, rows: list[_Row], scale: Scale) -> None:
    """Draw one panel: the estimates on one scale."""
    axes.grid(axis="x", color=style.GRID, linewidth=0.6)
    axes.axvline(1.0 if scale.logarithmic else 0.0, color=style.FAINT_INK, linewidth=0.8, zorder=1)
    for place, effect, found in _estimates(rows, scale):
        _draw_estimate(axes, found, place, style.colour(int(len(effect.changes) > 1)))
    if scale.logarithmic:
        axes.set_xscale("log")
    axes.margins(x=0.08)
    if scale.logarithmic:
        _tick_ratios(axes)
    else:
        style.group_thousands(axes, "x")
    name = "ratio" if scale.logarithmic else style.with_unit("difference", effects.units)
    axes.set_xlabel(name)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _tick_ratios(axes: Axes) -> None:
    """Write round numbers as ticks of a logarithmic x axis, however narrow it is."""
    low, high = axes.get_xlim()
    narrow = high / low < NARROW
    ticks = (
        MaxNLocator(6, steps=[1, 2, 5, 10])
        if narrow
        else LogLocator(subs=(1.0, 2.0, 5.0) if high / low < WIDE else (1.0,), numticks=7)
    )
    axes.xaxis.set_major_locator(ticks)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(style.number_ticks())
    axes.set_xlim(low, high)


def _draw_estimate(axes: Axes, found: Estimate, place: int, colour: str) -> None:
    """Draw a point and its interval."""
    if found.interval is not None:
        ends = [found.interval.low, found.interval.high]
        axes.plot(ends, [place, place], color=colour, linewidth=1.2)
    face = colour if _is_shown(found) else style.PAPER
    axes.plot(found.effect, place, "o", color=colour, mfc=face, mew=1.0, ms=3.4)


def _is_shown(found: Estimate) -> bool:
    return found.verdict not in (None, Verdict.NOT_SHOWN)


def _name_verdicts(axes: Axes, named: list[_Verdict]) -> None:
    """Write the verdicts on interactions beside their intervals, within the panel.

    Each is on the side that has more room, or all are on one if the axis is then shorter. Call it
    when the panel has its place.
    """
    if not named:
        return
    scale = axes.xaxis.get_transform()
    limits = scale.transform(np.array(axes.get_xlim()))
    ends = scale.transform(np.array([[n.low, n.high] for n in named]).ravel()).reshape(-1, 2)
    width = axes.bbox.width / figure_of(axes).dpi
    shares = np.array([(LETTER * len(each.text) + AWAY) / width for each in named])
    roomy = ends[:, 0] - limits[0] > limits[1] - ends[:, 1]
    sides = [roomy, np.ones_like(roomy), np.zeros_like(roomy)]
    wide, left = min(
        ((_widened(limits, ends, shares, side), side) for side in sides),
        key=lambda tried: float(np.ptp(tried[0])),
    )
    axes.set_xlim(*scale.inverted().transform(wide))
    for each, at_left in zip(named, left.tolist(), strict=True):
        axes.annotate(
            each.text,
            (each.low if at_left else each.high, each.place),
            xytext=(-4 if at_left else 4, 0),
            textcoords="offset points",
            ha="right" if at_left else "left",
            va="center",
            fontsize=6.5,
            color=style.INK,
            path_effects=[withStroke(linewidth=2.0, foreground=style.PAPER)],
        )


def _widened(limits: Floats, ends: Floats, shares: Floats, left: NDArray[np.bool_]) -> Floats:
    """Return limits between which texts beside intervals have room.

    Parameters
    ----------
    limits : float64 (2,)
        What there is at least.
    ends : float64 (texts, 2)
        Of the intervals.
    shares : float64 (texts,)
        What texts take of the width; of long ones, as much as leaves room for intervals.
    left : bool (texts,)
        Which of them stand left of their intervals.
    """
    low, high = limits
    taken = np.minimum(shares, MOST_TAKEN)
    for _ in range(ROUNDS):
        span = high - low
        low = np.min(ends[left, 0] - taken[left] * span, initial=low)
        high = np.max(ends[~left, 1] + taken[~left] * span, initial=high)
    return np.array([low, high])


def _name_rows(axes: Axes, rows: list[_Row]) -> None:
    """Write the names left of the panel."""
    axes.set_yticks(range(len(rows)), elided([row.text for row in rows], LETTERS))
    for text, row in zip(axes.get_yticklabels(), rows, strict=True):
        if row.effect is None:
            text.set_fontweight("bold")
    axes.set_ylim(len(rows) - 0.4, -0.6)


def _explain(figure: Figure, effects: Effects) -> None:
    """Say below the panels what the effects are against and what the points mean."""
    lines = [f"{effects.long_name}, against {reference_names(effects)}"]
    if effects.averaged:
        lines[0] += f"; means over {', '.join(effects.averaged)}"
    if effects.seeds is not None and effects.seeds > 1:
        found = (effect.difference.seeds for group in effects.groups for effect in group.effects)
        seeds = seeds_counted(found, effects.seeds, "paired seeds")
        lines.append(
            f"bars: {100 * effects.confidence:g}% intervals, {seeds}; hollow: no effect shown"
        )
    text = "\n".join(line for full in lines for line in textwrap.wrap(full, CHARACTERS))
    figure.supxlabel(text, x=0.015, ha="left", fontsize=6.5, color=style.FAINT_INK)
