"""How many labels an axis has room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTER = 0.056
"""Inches of a letter of a label, about."""

APART = 0.06  # inches between labels

MOST = 6

LEFT = 0.65  # of a panel's width, once all labels have their room


class FittingLocator(MaxNLocator):
    """Round numbers on a horizontal axis: as many as do not touch, `MOST` at most.

    Parameters
    ----------
    text : callable (float) -> str
        Writes a label, in one line or more.
    """

    def __init__(self, text: Callable[[float], str]) -> None:
        self.text = text
        super().__init__(MOST, steps=[1, 2, 2.5, 5, 10])

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the places of the labels, some of them beyond the limits."""
        for count in range(MOST, 0, -1):
            self.set_params(nbins=count)
            ticks = super().tick_values(vmin, vmax)
            if self._fits([float(tick) for tick in ticks], abs(vmax - vmin)):
                break
        return ticks

    def _fits(self, ticks: list[float], extent: float) -> bool:
        if len(ticks) < 2 or not extent:
            return True
        axis: Any = self.axis  # of a panel; stubs know of others
        panel = axis.axes
        room = (ticks[1] - ticks[0]) / extent * panel.bbox.width / panel.figure.dpi
        return bool(room >= width_of([self.text(tick) for tick in ticks]))


def width_of(texts: Sequence[str]) -> float:
    """Return the inches from one label to the next that the widest of them needs."""
    return LETTER * max(len(line) for text in texts for line in text.split("\n")) + APART


def thinned(panel: Axes, texts: list[str]) -> list[str]:
    """Return labels that stand at equal distances, without those that would touch others."""
    room = LEFT * panel.bbox.width / panel.figure.dpi
    step = max(1, -int(-len(texts) * width_of(texts) // room))
    return [text if i % step == 0 else "" for i, text in enumerate(texts)]
