"""Labels of axes within the figure: wrapped where it is narrow, and moved in from its edges."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.text import Text

from kvsweep.plot.style import LABEL_CHARACTERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import LayoutEngine
    from matplotlib.transforms import Bbox

COLOURS = "<colorbar>"  # what matplotlib labels the axes of a colour bar with
EDGE = 0.03  # inches that are left free

FEWEST = 8  # letters of a line

LEAST = 0.2  # inches of a panel each way

ROUNDS = 3  # lines are a guess of their letters, all as wide as those of the longest


class _Label(NamedTuple):
    """A label: its text, what it is placed by shares of, and whether it is written upwards."""

    text: Text
    length: float  # pixels, of its panel or the figure
    is_upright: bool = False
    is_of_panel: bool = True
    is_of_measure: bool = True  # wrapped by `style.with_unit`, not by whoever wrote it
    ends: tuple[float, float] = (0.0, inf)  # pixels, where labels of others or colours begin

    def move(self, pixels: float) -> None:
        """Move it along its lines."""
        x, y = self.text.get_position()
        if self.is_upright:
            self.text.set_y(y + pixels / self.length)
        else:
            self.text.set_x(x + pixels / self.length)


def fit_labels(figure: Figure, engine: LayoutEngine, lay_out: Callable[[], None]) -> None:
    """Keep labels of axes within the figure, which layouts see to only across their lines.

    Parameters
    ----------
    figure : Figure
        Laid out.
    engine : LayoutEngine
        Knows what is left of the figure below its heading.
    lay_out : callable () -> None
        Does it again, for labels of more lines.
    """
    top = _top(engine)
    for _ in range(ROUNDS):
        if not [label for label in _labels(figure) if _wrap(label, figure, top)]:
            break
        lay_out()
    for label in _labels(figure):
        low, high = _reach(label)
        first, last = _room(label, figure, top)
        step = max(0.0, first - low) - max(0.0, high - last)
        if step and high - low <= last - first:
            label.move(step)


def _labels(figure: Figure) -> Iterator[_Label]:
    for axes in figure.axes:
        width, height = axes.bbox.width, axes.bbox.height
        if not axes.axison or not width or not height:
            continue
        above: Any = axes
        first, last = beside = _beside(axes, figure)
        for text in (axes.title, above._left_title, above._right_title):
            if text.get_text():
                is_left = text is above._left_title
                yield _Label(text, width, ends=_titled(axes, figure) if is_left else beside)
        if axes.xaxis.label.get_text():
            last = min(last, _before_colours(axes, figure))
            yield _Label(axes.xaxis.label, width, ends=(first, last))
        if axes.yaxis.label.get_text():
            yield _Label(axes.yaxis.label, height, is_upright=True, ends=_between(axes, figure))
    for label in figure.texts:
        if label.get_text() and label.get_text() == figure.get_supxlabel():
            yield _Label(label, figure.bbox.width, is_of_panel=False, is_of_measure=False)
        elif label.get_text() and label.get_text() == figure.get_supylabel():
            yield _Label(label, figure.bbox.height, is_upright=True, is_of_panel=False)


def _row(axes: Axes, figure: Figure) -> list[Bbox]:
    """Return the places of the panels that stand beside one."""
    box = axes.bbox
    shown = (other for other in figure.axes if other.axison and other.get_label() != COLOURS)
    places = (other.bbox for other in shown if other is not axes)
    return [other for other in places if other.y0 < box.y1 and box.y0 < other.y1]


def _beside(axes: Axes, figure: Figure) -> tuple[float, float]:
    """Return what a label below a panel has of its row, halfway to the panels beside it."""
    box = axes.bbox
    before = max((other.x1 for other in _row(axes, figure) if other.x1 <= box.x0), default=-inf)
    after = min((other.x0 for other in _row(axes, figure) if other.x0 >= box.x1), default=inf)
    return 0.5 * (before + box.x0), 0.5 * (after + box.x1)


def _titled(axes: Axes, figure: Figure) -> tuple[float, float]:
    """Return what a title at the left of a panel has, which goes on to that of the next panel."""
    box, row = axes.bbox, _row(axes, figure)
    after = min((other.x0 for other in row if other.x0 >= box.x1), default=inf)
    return (box.x0 if row else 0.0), after - EDGE * figure.dpi


def _before_colours(axes: Axes, figure: Figure) -> float:
    """Return where colours stand beside the label below a panel, which they would cover."""
    box = axes.xaxis.label.get_window_extent()
    bars = (other.bbox for other in figure.axes if other.get_label() == COLOURS)
    beside = (bar for bar in bars if bar.x0 >= axes.bbox.x1)
    return (
        min((bar.x0 for bar in beside if bar.y0 < box.y1 and box.y0 < bar.y1), default=inf)
        - EDGE * figure.dpi
    )


def _between(axes: Axes, figure: Figure) -> tuple[float, float]:
    """Return what a label beside a panel has of its column, halfway to those below and above."""
    box = axes.bbox
    others = [other.bbox for other in figure.axes if other.axison and other.yaxis.label.get_text()]
    column = [other for other in others if other.x0 < box.x1 and box.x0 < other.x1]
    below = max((other.y1 for other in column if other.y1 <= box.y0), default=-inf)
    above = min((other.y0 for other in column if other.y0 >= box.y1), default=inf)
    return 0.5 * (below + box.y0), 0.5 * (above + box.y1)


def _top(engine: LayoutEngine) -> float:
    """Return the share of the height that is below the heading."""
    options: Any = engine.get()
    _, bottom, _, height = options.get("rect") or (0.0, 0.0, 1.0, 1.0)
    return float(bottom + height)


def _reach(label: _Label) -> tuple[float, float]:
    """Return where a label begins and ends, in pixels."""
    box = label.text.get_window_extent()
    return (box.y0, box.y1) if label.is_upright else (box.x0, box.x1)


def _room(label: _Label, figure: Figure, top: float) -> tuple[float, float]:
    edge = EDGE * figure.dpi
    end = top * figure.bbox.height if label.is_upright else figure.bbox.width
    foot = 0.0
    if label.is_upright and not label.is_of_panel:  # it stands above what is said below all panels
        foot = max((legend.get_window_extent().y1 for legend in figure.legends), default=0.0)
    return max(foot + edge, label.ends[0]), min(end - edge, label.ends[1])


def _wrap(label: _Label, figure: Figure, top: float) -> bool:
    """Give a label that is longer than the figure more lines; return whether it has."""
    low, high = _reach(label)
    first, last = _room(label, figure, top)
    if high - low <= last - first:
        return False
    before = label.text.get_text()
    lines = before.split("\n")
    letters = int(max(map(len, lines)) * max(0.0, last - first) / (high - low))
    if label.is_of_measure:
        lines = _rejoined(lines)
    width = max(FEWEST, letters)
    after = "\n".join(textwrap.fill(line, width, break_on_hyphens=False) for line in lines)
    label.text.set_text(after)
    return after != before


def _rejoined(lines: list[str]) -> list[str]:
    """Return lines as they were before `style.with_unit` wrapped them."""
    made = lines[:1]
    for before, line in pairwise(lines):
        if len(before) + 1 + len(line.split(" ")[0]) > LABEL_CHARACTERS:
            made[-1] += f" {line}"
        else:
            made.append(line)
    return made


def is_too_small(figure: Figure) -> bool:
    """Whether a panel of a figure that is laid out has no room to show anything."""
    panels = (axes for axes in figure.axes if axes.axison and axes.get_label() != COLOURS)
    sides = [side for axes in panels for side in (axes.bbox.width, axes.bbox.height)]
    return min(sides, default=figure.dpi) < LEAST * figure.dpi
