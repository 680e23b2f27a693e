"""Robust least squares over positive parameters, when residuals come from simulations.

Candidates are simulated in batches: all starting points at once, then the points of a numeric
Jacobian. A simulation is not smooth (durations are whole microseconds, and requests are admitted
or not), so differences are taken over a wide step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

Floats = NDArray[np.float64]

STEPS = (0.01, 0.03, 0.003, 0.01, 0.001)
"""Relative steps of the Jacobian: of the first descents, then of further ones from the best end.

A wide one sees over ripples, which a narrow one follows to the bottom."""

DESCENTS = 4
"""Starting points from which descents go, the best ones."""

MOST_EVALUATIONS = 60


@dataclass(frozen=True)
class Found:
    """Where a search ended.

    Attributes
    ----------
    point : float (k,)
    cost : float
        Mean robust cost of a residual.
    """

    point: Floats
    cost: float


def search(
    residuals: Callable[[Floats], Floats], starts: Floats, most: Floats, scale: float
) -> Found:
    """Minimise the soft-L1 cost of residuals over parameters above 0.

    Parameters
    ----------
    residuals : callable
        From points (n, k) to residuals (n, m).
    starts : float (n, k)
        Where to begin.
    most : float (k,)
        Largest values.
    scale : float
        Residuals much larger than this weigh linearly, not quadratically.
    """
    first = _cost(residuals(starts), scale)
    upper = np.log(most)
    order = np.argsort(first, kind="stable")[:DESCENTS]
    ends = [descend(residuals, np.log(starts[i]), upper, scale, STEPS[0]) for i in order]
    return go_on(residuals, min(ends, key=lambda end: end.cost), most, scale)


def go_on(residuals: Callable[[Floats], Floats], best: Found, most: Floats, scale: float) -> Found:
    """Go further downhill from where a descent ended, over ripples and to the bottom."""
    for step in STEPS[1:]:
        end = descend(residuals, np.log(best.point), np.log(most), scale, step)
        best = min(best, end, key=lambda end: end.cost)
    return best


def descend(
    residuals: Callable[[Floats], Floats],
    start: Floats,
    upper: Floats,
    scale: float,
    step: float,
    evaluations: int = MOST_EVALUATIONS,
) -> Found:
    """Go downhill from one point, in logarithms, by at most so many further ones."""

    def at(x: Floats) -> Floats:
        (row,) = residuals(np.exp(x)[None, :])
        return np.asarray(row)

    def jacobian(x: Floats) -> Floats:
        shifts = step * np.eye(len(x))
        rows = residuals(np.exp(np.concatenate([x + shifts, x - shifts])))
        slopes: Floats = (rows[: len(x)] - rows[len(x) :]).T / (2 * step)
        return slopes

    end = least_squares(
        at,
        np.minimum(start, upper - step),
        jac=jacobian,
        bounds=(np.full(len(start), -np.inf), upper),
        loss="soft_l1",
        f_scale=scale,
        max_nfev=evaluations,
    )
    return Found(np.exp(end.x), float(end.cost / len(end.fun)))


def _cost(residuals: Floats, scale: float) -> Floats:
    """Return the mean cost of each row, as `least_squares` counts it."""
    cost: Floats = scale**2 * (np.sqrt(1 + (residuals / scale) ** 2) - 1).mean(axis=1)
    return cost
