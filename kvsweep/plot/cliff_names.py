"""Names in a cliff figure, where no curve is: of the threshold, and of the curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from kvsweep.analysis.cliff_records import Cliff, GroupCliff
from kvsweep.analysis.wording import number
from kvsweep.plot import style
from kvsweep.plot.panel import figure_of
from kvsweep.plot.ticks import LETTER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEY_LINE = 0.14  # inches of a line of names
KEY_LEFT = 0.45  # inches left of a name, with its line
MOST_WIDE, MOST_HIGH = 0.75, 0.65  # of a panel, that all of them take

LINE = 0.075  # of a close-up's height, of the name of the threshold

NAMED = 0.3  # of the width of a panel, that the name of a threshold takes
_PLACES = {"left": 0.005, "center": 0.5, "right": 0.995}

# Corner that a cliff leaves empty: (generous end is high, bad is above the threshold).
_CORNERS: dict[
    tuple[bool, bool], Literal["upper right", "upper left", "lower right", "lower left"]
] = {
    (True, True): "upper right",
    (False, True): "upper left",
    (True, False): "lower right",
    (False, False): "lower left",
}


def threshold_label(axes: Axes, cliff: Cliff) -> None:
    """Write the threshold beside its line: at the tight end, or elsewhere if curves are there.

    It stands on the side of the line that the curves have left at that end, if they have; where
    all ends are taken, in the middle.
    """
    tight, generous = ("right", "left") if cliff.generous == "low" else ("left", "right")
    under = cliff.past == "above"
    spots = (
        (tight, under),
        (generous, not under),
        (tight, not under),
        (generous, under),
        ("center", not under),
        ("center", under),
    )
    free = [spot for spot in spots if not _is_crossed(axes, cliff, *spot)]
    where, below = [*free, spots[0]][0]
    axes.annotate(
        f"threshold {number(cliff.threshold)}",
        (_PLACES[where], cliff.threshold),
        xycoords=("axes fraction", "data"),
        xytext=(0, -2.5 if below else 2.5),
        textcoords="offset points",
        ha=where,
        va="top" if below else "bottom",
        fontsize=6.5,
        color=style.INK,
        path_effects=[withStroke(linewidth=2.0, foreground=style.PAPER)],
    )


def _is_crossed(axes: Axes, cliff: Cliff, where: str, below: bool) -> bool:
    """Whether a mean runs where the name of the threshold would stand."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    start = {"left": 0.0, "center": 0.5 * (1.0 - NAMED), "right": 1.0 - NAMED}[where]
    x = left + (right - left) * (start + NAMED * np.linspace(0.0, 1.0))
    height = LINE * (high - low)
    foot = cliff.threshold - height if below else cliff.threshold
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


def make_room(
    axes: Axes,
    cliff: Cliff,
    groups: list[GroupCliff],
    names: list[str],
    frame: tuple[tuple[float, float], tuple[float, float]] | None = None,
) -> None:
    """Move curves, bands and the threshold away from names that they would cross.

    So is the `frame` of a close-up, given as its limits in x and y. Call it last: it reads the
    place of the panel.
    """
    scale = axes.yaxis.get_transform()
    low, high = scale.transform(axes.get_ylim())
    inches = np.array(axes.bbox.size) / figure_of(axes).dpi
    width = min((LETTER * max(map(len, names)) + KEY_LEFT) / inches[0], MOST_WIDE)
    share = min(KEY_LINE * (len(groups) + 0.7) / inches[1], MOST_HIGH)
    across = axes.xaxis.get_transform()
    left, right = across.transform(axes.get_xlim())
    at_right = cliff.generous == "high"
    edge = right - width * (right - left) if at_right else left + width * (right - left)
    edge = float(across.inverted().transform([edge])[0])
    beside = cliff.axis > edge if at_right else cliff.axis < edge
    curves = [c for g in groups for c in (g.curve.mean, g.curve.low, g.curve.high)]
    near = [np.append(c[beside], np.interp(edge, cliff.axis, c)) for c in curves]
    if frame is not None and (frame[0][1] > edge if at_right else frame[0][0] < edge):
        near.append(np.array(frame[1]))
    drawn = scale.transform(np.concatenate([[cliff.threshold], *near]))
    if cliff.past == "above":
        high = max(high, (np.nanmax(drawn) - share * low) / (1.0 - share))
    else:
        low = min(low, (np.nanmin(drawn) - share * high) / (1.0 - share))
    axes.set_ylim(*scale.inverted().transform([low, high]))
