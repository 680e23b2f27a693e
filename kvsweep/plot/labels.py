"""Names on lines and points instead of a legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsweep.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Of the names, in inches.
LINE_HEIGHT = 0.125


def label_ends(panel: Axes, ends: list[tuple[str, float]], panel_height: float) -> None:
    """Write each line's name right of its end, in its colour, moved apart where they would touch.

    Call it last: it reads the limits of the panel. `panel_height` is in inches, roughly.
    """
    low, high = panel.get_ylim()
    named = [(i, text, y) for i, (text, y) in enumerate(ends) if text and not np.isnan(y)]
    gap = (high - low) * LINE_HEIGHT / panel_height
    places = spread([y for _, _, y in named], gap, low, high)
    for (i, text, _), y in zip(named, places, strict=True):
        panel.annotate(
            text,
            (1.0, y),
            xycoords=("axes fraction", "data"),
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
