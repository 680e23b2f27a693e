"""Names on lines and points instead of a legend."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from kvsweep.plot import style
from kvsweep.plot.medium import current
from kvsweep.plot.panel import check_threshold, figure_of
from kvsweep.plot.ticks import LETTER

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LINE_HEIGHT = 0.125  # of the names, in inches

DRAWN = 0.8  # of the height of a panel on a slide, that is left beside its labels

BARS = 0.85  # opacity

# Longer names, or more of them, stand below the panels: beside lines they would take their room.
LONGEST = 18
MOST = 6

# Letters of a name that has the width of a panel, or what is left of it beside the panel.
NAME = 24


def elided(names: Sequence[str], letters: int = NAME) -> list[str]:
    """Return names of so many letters at most, of longer ones what is in the middle left out.

    What is kept is as much of the beginning as of the end, or else what tells them apart; where
    nothing so short does, they are numbered.
    """
    for head in sorted(range(letters), key=lambda head: abs(head - letters // 2)):
        tail = letters - 1 - head
        short = [
            name
            if len(name) <= letters
            else f"{name[:head]}\N{HORIZONTAL ELLIPSIS}{name[len(name) - tail :]}"
            for name in names
        ]
        if len(set(short)) == len(set(names)):
            return short
    return _numbered(names, letters)


def panel_title(name: str, letters: int) -> str:
    r"""Return what stands above a panel: on two lines, each of so many letters, if one is short.

    Examples
    --------
    >>> panel_title("gpu_blocks 5,000, rate 2", 16)
    'gpu_blocks 5,000,\nrate 2'
    """
    if len(name) <= letters or ", " not in name:
        return elided([name], letters)[0]
    commas = [found.start() for found in re.finditer(", ", name)]
    cut = min(commas, key=lambda at: max(at + 1, len(name) - at - 2))
    return "\n".join(elided([name[: cut + 1], name[cut + 2 :]], letters + 1))


def _numbered(names: Sequence[str], letters: int) -> list[str]:
    """Return the beginnings of names, long ones with their places among all."""
    short = []
    for place, name in enumerate(names, start=1):
        end = f"\N{HORIZONTAL ELLIPSIS}{place}"
        short.append(name if len(name) <= letters else name[: letters - len(end)] + end)
    return short


def room_below(names: Sequence[str], width: float, *, beside: bool = True) -> float:
    """Return the inches that `name_lines` needs below the panels of a figure of `width` inches."""
    if beside and fit_beside(names):
        return 0.0
    names = _in_legend(names, width)
    return 0.1 + LINE_HEIGHT * -(-len(names) // _columns(names, width))


def explain(figure: Figure, entries: Sequence[tuple[Artist, str]], room: Axes | None) -> None:
    """Say what marks mean: in a panel that is left over, or else below all panels."""
    handles, texts = zip(*entries, strict=True)
    looks: dict[str, Any] = {"labelcolor": style.FAINT_INK, "handlelength": 1.8, "fontsize": 6.5}
    if room is not None:
        room.axis("off")
        room.legend(handles, texts, loc="center left", **looks)
        return
    columns = _columns(texts, figure.get_figwidth() + 0.3)
    figure.legend(handles, texts, loc="outside lower left", ncols=columns, **looks)


def draw_limit(panel: Axes, place: float, text: str) -> None:
    """Draw an upright line, named at its foot on the side that has more room."""
    check_threshold(place)
    panel.axvline(place, color=style.INK, linewidth=0.7, linestyle=(0, (1, 2)))
    panel.get_xlim()  # sets the limits that the transforms below work with
    left = bool((panel.transData - panel.transAxes).transform((place, 0.0))[0] > 0.5)
    panel.annotate(
        text,
        (place, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(-2 if left else 2, 0),
        textcoords="offset points",
        ha="right" if left else "left",
        fontsize=6.5,
        color=style.INK,
        path_effects=[withStroke(linewidth=2.0, foreground=style.PAPER)],
    )


def name_lines(
    panels: Sequence[tuple[Axes, list[tuple[str, float]]]],
    panel_height: float,
    *,
    whole: bool,
    beside: bool = True,
    bars: bool = False,
) -> None:
    """Name the lines of panels that have the same ones: at their ends, or below the panels.

    Parameters
    ----------
    panels : sequence of (Axes, list of (str, float))
        Name and last value of each line, in the order of the colours.
    panel_height : float
        Inches, roughly.
    whole : bool
        Whether the panels are all that their figure has; else names that do not fit at the ends
        stand in the panel.
    beside : bool
        Whether they may stand at the ends.
    bars : bool
        Whether the lines are bars.
    """
    names = [name for name, _ in panels[0][1]]
    if beside and all(fit_beside([name for name, _ in ends]) for _, ends in panels):
        for panel, ends in panels:
            label_ends(panel, ends, panel_height)
        return
    marks: list[Artist] = [
        Patch(color=style.colour(i), alpha=BARS)
        if bars
        else Line2D([], [], color=style.colour(i), linestyle=style.dash(i))
        for i in range(len(names))
    ]
    looks: dict[str, Any] = {
        "handlelength": 1.2 if bars else 2.4,
        "columnspacing": 1.2,
        "labelspacing": 0.3,
    }
    if not whole:
        panels[0][0].legend(marks, elided(names), loc="best", **looks)
    elif any(names):
        figure = figure_of(panels[0][0])
        names = _in_legend(names, figure.get_figwidth())
        columns = _columns(names, figure.get_figwidth())
        figure.legend(marks, names, loc="outside lower center", ncols=columns, **looks)


def fit_beside(names: Sequence[str]) -> bool:
    """Whether names of lines may stand at their ends: few, none of them long."""
    return len(names) <= MOST and max(map(len, names), default=0) <= LONGEST


def _in_legend(names: Sequence[str], width: float) -> list[str]:
    """Return names of which each has room with its line in a figure of `width` inches."""
    return elided(names, int((width - 0.6) / LETTER))


def _columns(names: Sequence[str], width: float) -> int:
    """Return how many columns of names with their lines fit below each other."""
    return max(1, min(int(width / (LETTER * max(map(len, names)) + 0.5)), len(names)))


def label_ends(panel: Axes, ends: list[tuple[str, float]], panel_height: float) -> None:
    """Write each line's name right of its end, in its colour, moved apart where they would touch.

    Call it last: it reads the limits of the panel. `panel_height` is in inches, roughly, of a
    column; a slide is higher.
    """
    inches = panel.bbox.height / figure_of(panel).dpi
    panel_height = DRAWN * inches if current().is_slide else min(panel_height, inches)
    panel.get_ylim()  # sets the limits that the transforms below work with
    to_share = panel.transData + panel.transAxes.inverted()
    named = [(i, text, y) for i, (text, y) in enumerate(ends) if text and not np.isnan(y)]
    shares = [float(to_share.transform((1.0, y))[1]) for _, _, y in named]
    places = spread(shares, LINE_HEIGHT / panel_height, 0.0, 1.0)
    for (i, text, _), y in zip(named, places, strict=True):
        panel.annotate(
            text,
            (1.0, y),
            xycoords="axes fraction",
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            color=style.colour(i),
            annotation_clip=False,
        )


def spread(positions: list[float], gap: float, low: float, high: float) -> list[float]:
    """Move labels apart until neighbours are `gap` apart, between `low` and `high`.

    Each keeps its place if it can; the order is kept. Used for labels at the ends of lines.
    """
    # Of equal positions the first goes on top, as in a list read downwards.
    order = sorted(range(len(positions)), key=lambda i: (positions[i], -i))
    placed: list[float] = []
    for i in order:
        placed.append(max(positions[i], placed[-1] + gap if placed else low))
    ceiling = high
    for k in range(len(placed) - 1, -1, -1):
        placed[k] = min(placed[k], ceiling)
        ceiling = placed[k] - gap
    moved = list(positions)
    for i, place in zip(order, placed, strict=True):
        moved[i] = place
    return moved
