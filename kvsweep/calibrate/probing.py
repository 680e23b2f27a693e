"""Other parameters that fit a run as well as those found: what cannot be told from slopes.

Residuals jump where a request is admitted a step earlier, so a search may end in one of many
hollows that are about as deep. Each looks as if it told all parameters, and they lie far apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.wording import number
from kvsweep.calibrate.holding import EXACT, LOOSE
from kvsweep.calibrate.searching import Found, descend, go_on

Floats = NDArray[np.float64]

MOVED = 1.0
"""How far, in logarithms, each parameter is moved before the search goes on from there."""

STEP = 0.03
"""Relative step of its Jacobian: the widest one of the search, which sees over ripples."""

EVALUATIONS = 10
"""Points of a descent, at most: whether another end is as good shows early."""

AS_GOOD = 1.5
"""Cost of an end that fits about as well, in those of the one found: residuals 22 % larger."""

ROUNDS = 3
"""How often a search goes on from an end that fits clearly better, at most."""


@dataclass(frozen=True)
class Range:
    """A parameter of which others than the value found fit about as well.

    Attributes
    ----------
    name : str
    low, high : float
        The least and the largest that were met.
    """

    name: str
    low: float
    high: float

    def told(self) -> str:
        """Say it."""
        low, high = (number(float(f"{end:.3g}")) for end in (self.low, self.high))
        return (
            f"{self.name} is hardly told: {low} to {high}, and maybe beyond, fits about as well; "
            "trust it only for loads like this run's"
        )


def settle(
    residuals: Callable[[Floats], Floats], found: Found, most: Floats, scale: float
) -> tuple[Found, list[Found]]:
    """Search again from where each parameter is moved, and go on where that ends clearly better.

    Parameters
    ----------
    residuals, most, scale
        As in the search.
    found : Found
        Where it ended.

    Returns
    -------
    found : Found
        Where none of the others is clearly better.
    ends : list of Found
        Where the others ended.
    """
    met: list[Found] = []
    for _ in range(ROUNDS):
        ends = _ends(residuals, found, most, scale)
        met += ends
        best = min(ends, key=lambda end: end.cost)
        if AS_GOOD * max(best.cost, _exact(scale)) >= found.cost:
            break
        found = go_on(residuals, best, most, scale)
    return found, met


def _ends(
    residuals: Callable[[Floats], Floats], found: Found, most: Floats, scale: float
) -> list[Found]:
    """Return where descents end from where each parameter is moved, down and up."""
    one = np.eye(len(most))
    starts = np.log(found.point) + MOVED * np.concatenate([one, -one])
    return [descend(residuals, start, np.log(most), scale, STEP, EVALUATIONS) for start in starts]


def _exact(scale: float) -> float:
    """Return the cost below which fits are as good as exact."""
    return float((EXACT * scale / 10) ** 2 / 2)


def find_ranges(
    found: Found, ends: Sequence[Found], scale: float, names: tuple[str, ...]
) -> tuple[Range, ...]:
    """Return the parameters of which `ends` of `settle` that fit about as well differ."""
    limit = AS_GOOD * max(found.cost, _exact(scale))
    points = np.array([found.point, *(end.point for end in ends if end.cost <= limit)])
    low, high = points.min(axis=0), points.max(axis=0)
    wide = np.flatnonzero(np.log(high) - np.log(low) > LOOSE)
    return tuple(Range(names[i], float(low[i]), float(high[i])) for i in wide)
