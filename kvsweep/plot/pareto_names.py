"""Names of the members of a Pareto figure, where they cover no point and no interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.patheffects import withStroke

from kvsweep.plot import style
from kvsweep.plot.labels import LINE_HEIGHT, elided
from kvsweep.plot.panel import figure_of
from kvsweep.plot.pareto_key import has_values
from kvsweep.plot.ticks import LETTER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kvsweep.analysis.pareto import FrontGroup, Member

LETTERS = 20  # of a name beside a point
MOST_TIED = 3  # lines of names beside a point

POINTS = 72.0  # of an inch
ASIDE = 4.5 / POINTS  # inches from a point to its name
ROUND = 0.05  # inches that a point takes to each side, with some room
THIN = 0.012  # inches that a line takes to each side
FARTHEST = 4  # lines of text that a name is moved up or down by

# What it costs to cover a square inch: what is beyond the panel, another name, a point, a line,
# the boundary of the front.
OUTSIDE, NAME, POINT, LINE, FRONT = 1e4, 1e3, 1e2, 3e1, 6.0
# To be an inch away, to stand above or below the point, on the side of the nearer edge.
AWAY, ACROSS, OTHER_SIDE = 0.2, 0.02, 0.005


class _Box(NamedTuple):
    """A place in a panel, inches from its lower left corner."""

    left: float
    foot: float
    right: float
    top: float

    def shared(self, other: _Box) -> float:
        """Return the square inches that two places have in common."""
        across = min(self.right, other.right) - max(self.left, other.left)
        up = min(self.top, other.top) - max(self.foot, other.foot)
        return max(0.0, across) * max(0.0, up)


class _Panel(NamedTuple):
    """What a name should not cover: a panel has so many inches, points, lines and a front."""

    width: float
    height: float
    points: list[_Box]
    lines: list[_Box]
    front: list[_Box]


def name_members(axes: Axes, group: FrontGroup) -> None:
    """Write names beside points, tied members together, where least is covered.

    Call it last: it reads the place of the panel and what is drawn in it.
    """
    panel = _panel(axes)
    names = [str(member.name) for member in group.members]
    shown = dict(zip(names, elided(names, LETTERS), strict=True))
    taken: list[_Box] = []
    for index, member in sorted(_named(group), key=lambda each: -each[1].values[1]):
        text = _text(member, shown)
        x, y = _inches(axes, [member.values[:2]])[0]
        place = min(_places(panel, x, y, text), key=lambda box: _cost(panel, taken, box, x, y))
        taken.append(place)
        left = place.left + 0.5 * (place.right - place.left) < x
        axes.annotate(
            text,
            (member.values[0], member.values[1]),
            xytext=(
                POINTS * ((place.right if left else place.left) - x),
                POINTS * (0.5 * (place.foot + place.top) - y),
            ),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=7,
            color=style.colour(index),
            path_effects=[withStroke(linewidth=2.0, foreground=style.PAPER)],
        )


def _named(group: FrontGroup) -> Iterator[tuple[int, Member]]:
    """Yield the members that have a name of their own: of tied ones the first."""
    named: set[object] = set()
    for index, member in enumerate(group.members):
        if member.name not in named and has_values(member):
            named.update((member.name, *member.tied_with))
            yield index, member


def _text(member: Member, shown: Mapping[str, str]) -> str:
    """Name a member and those tied with it, with the share of resamples on the front.

    Of many the first are named and the others counted: their names would leave the panel.
    """
    names = [shown[str(name)] for name in (member.name, *member.tied_with)]
    if (more := len(names) - MOST_TIED) > 0:
        names[MOST_TIED - 1 :] = [f"{more + 1} more"]
    text = " =\n".join(names)
    if member.share_of_resamples is None:
        return text
    return f"{text} ({member.share_of_resamples:.0%})"


def _inches(axes: Axes, places: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Return where places of the data are."""
    return _from_corner(axes, axes.transData.transform(np.asarray(places, np.float64)))


def _from_corner(axes: Axes, pixels: np.typing.NDArray[np.float64]) -> list[tuple[float, float]]:
    corner = np.array([axes.bbox.x0, axes.bbox.y0])
    return [(float(x), float(y)) for x, y in (pixels - corner) / figure_of(axes).dpi]


def _panel(axes: Axes) -> _Panel:
    axes.get_xlim(), axes.get_ylim()  # set the limits that transforms work with
    width, height = np.array(axes.bbox.size) / figure_of(axes).dpi
    found = _Panel(float(width), float(height), [], [], [])
    for line in axes.lines:
        ends = _from_corner(axes, line.get_transform().transform(line.get_xydata()))
        if line.get_marker() not in ("None", None, "", " "):
            found.points.extend(_Box(x - ROUND, y - ROUND, x + ROUND, y + ROUND) for x, y in ends)
        steps = line.get_drawstyle()
        known = found.lines if steps == "default" else found.front
        known.extend(
            _Box(min(a, c) - THIN, min(b, d) - THIN, max(a, c) + THIN, max(b, d) + THIN)
            for (a, b), (c, d) in pairwise(_with_corners(ends, steps))
        )
    return found


def _with_corners(ends: list[tuple[float, float]], style: str) -> list[tuple[float, float]]:
    """Return the ends of a line with the corners of its steps, as that of a front has."""
    if style == "default":
        return ends
    corners = ((a if style == "steps-pre" else c, d if style == "steps-pre" else b)
               for (a, b), (c, d) in pairwise(ends))  # fmt: skip
    return [place for pair in zip(ends, [*corners, ends[-1]], strict=True) for place in pair]


def _places(panel: _Panel, x: float, y: float, text: str) -> Iterator[_Box]:
    """Yield where a text may stand: right and left of a point, above and below, the nearest first.

    What would leave the panel at a side is moved into it.
    """
    lines = text.split("\n")
    width, height = LETTER * max(map(len, lines)), LINE_HEIGHT * len(lines)
    most = panel.width - width - ASIDE
    for step in range(2 * FARTHEST + 1):
        for up in (1, -1):
            middle = y + up * (0.05 * LINE_HEIGHT + 0.5 * height + 0.5 * LINE_HEIGHT * step)
            for left in (x + ASIDE, x - ASIDE - width):
                left = max(min(left, most), ASIDE)
                yield _Box(left, middle - 0.5 * height, left + width, middle + 0.5 * height)


def _cost(panel: _Panel, taken: list[_Box], box: _Box, x: float, y: float) -> float:
    """Return what it costs to have a name of the point (x, y) in a place."""
    inside = box.shared(_Box(0.0, 0.0, panel.width, panel.height - 0.5 * LINE_HEIGHT))
    middle = 0.5 * (box.left + box.right)
    away = max(box.foot - y, y - box.top, 0.0)
    edge = (x > 0.5 * panel.width) != (middle < x)
    covered = (
        (OUTSIDE, (box.right - box.left) * (box.top - box.foot) - inside),
        (NAME, sum(map(box.shared, taken))),
        (POINT, sum(map(box.shared, panel.points))),
        (LINE, sum(map(box.shared, panel.lines))),
        (FRONT, sum(map(box.shared, panel.front))),
        (AWAY, away),
        (ACROSS, float(box.left < x < box.right)),
        (OTHER_SIDE, float(edge)),
    )
    return sum(weight * much for weight, much in covered)
