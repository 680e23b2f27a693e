"""Points of a curve that no line shows, as their neighbours have no value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.statistics import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def alone(values: Floats) -> NDArray[np.bool_]:
    """Return which values have no neighbour that is a number.

    Examples
    --------
    >>> import numpy as np
    >>> alone(np.array([1.0, np.nan, 2.0, 3.0])).tolist()
    [True, False, False, False]
    """
    known = np.pad(~np.isnan(values), 1)
    found: NDArray[np.bool_] = known[1:-1] & ~known[:-2] & ~known[2:]
    return found


def draw_alone(panel: Axes, x: Floats, band: tuple[Floats, Floats, Floats], colour: str) -> None:
    """Draw the points of a curve that stand alone, each with its interval.

    Parameters
    ----------
    panel : Axes
    x : float64 (points,)
    band : tuple of float64 (points,)
        Mean, and the ends of its interval.
    colour : str
    """
    places = alone(band[0])
    if places.any():
        mean, low, high = (values[places] for values in band)
        panel.vlines(x[places], low, high, color=colour, alpha=0.6, linewidth=1.0)
        panel.plot(x[places], mean, color=colour, linestyle="none", marker="o", ms=3)
