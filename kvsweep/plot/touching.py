"""Texts of a figure that touch each other, or are cut off, as those of a small one may be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.text import Text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CORE = (0.96, 0.8)
"""Of the box of a text across and up: what letters fill of it."""


def in_each_other(figure: Figure) -> str:
    """Say which texts of a figure that is laid out have no room, an empty text if all have.

    Parameters
    ----------
    figure : Figure
        Laid out, its engine taken away.
    """
    figure.draw_without_rendering()  # legends have their places then
    boxes = [(text, text.get_window_extent().shrunk(*CORE)) for text in _texts(figure)]
    width, height = figure.bbox.size
    for text, box in boxes:
        if min(box.x0, box.y0) < 0 or box.x1 > width or box.y1 > height:
            return f"{_shown(text)} is cut off"
    for text in _wide(figure):
        return f"{_shown(text)} is wider than its panel"
    for (one, a), (other, b) in combinations(boxes, 2):
        if a.overlaps(b):
            return f"{_shown(one)} touches {_shown(other)}"
    return ""


def _wide(figure: Figure) -> Iterator[Text]:
    """Yield the longest name of each panel whose names reach beyond it."""
    for axes in figure.axes:
        legend = axes.get_legend()
        if legend is None or not axes.axison:
            continue
        if legend.get_window_extent().width > axes.bbox.width:
            yield max(legend.get_texts(), key=lambda text: len(text.get_text()))


def _texts(figure: Figure) -> Iterator[Text]:
    """Yield the texts that are seen."""
    beyond = {id(text) for axes in figure.findobj(Axes) for text in _not_drawn(axes)}
    for text in figure.findobj(Text):
        seen = text.get_visible() and (text.axes is None or text.axes.get_visible())
        if seen and text.get_text().strip() and id(text) not in beyond:
            yield text


def _not_drawn(axes: Axes) -> Iterator[Text]:
    """Yield the labels of ticks that are made and not drawn: beyond the limits, or without axes."""
    for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not (axes.axison and min(limits) <= tick.get_loc() <= max(limits)):
                yield from (tick.label1, tick.label2)


def _shown(text: Text) -> str:
    return repr(" ".join(text.get_text().split()))
