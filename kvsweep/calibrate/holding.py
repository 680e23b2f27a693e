"""Coefficients that a run cannot tell apart: found, and held to what is known of them.

While the batch is full, the context that a step reads hardly changes, and what it costs looks like
what every step costs. Such a pair fits equally well anywhere along a line, and its end points
predict another load badly. A ridge draws the loose coefficient towards a reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEP = 0.1
"""Step of the Jacobian, as a share of a coefficient or of its usual size if that is larger: whole
microseconds hide what a small step of a small coefficient does."""

LOOSE = 0.3
"""Standard error of a coefficient's logarithm beyond which it is not told by the run."""

EXACT = 0.03
"""Least usual residual, as a share of the scale at which residuals are outliers: what happened to
be met to the microsecond is not known that well."""

RIDGE = 0.25
"""How far, in logarithms, a held coefficient may be from its reference at the cost of one residual
of usual size."""


@dataclass(frozen=True)
class Loose:
    """A coefficient that the fitted part does not tell.

    Attributes
    ----------
    name : str
    like : str
        The other parameter that it is told apart from least.
    correlation : float
        Of the two estimates.
    near : float or None
        What it is held to; None where nothing is known of it.
    by : str
        Where that comes from.
    """

    name: str
    like: str
    correlation: float
    near: float | None = None
    by: str = ""

    def told(self, started: bool) -> str:
        """Say it; `started`: the search began at a preset, which then has no such term."""
        text = (
            f"{self.name} is not told apart from {self.like} (correlation {self.correlation:.2f})"
        )
        if self.near is None:
            remedy = "name a preset with --from to hold it"
            lacks = "the preset of --from has no such term"
            return f"{text} and held by nothing: {lacks if started else remedy}"
        return f"{text}: held near {self.near:g}, {self.by}"


@dataclass(frozen=True)
class Reference:
    """What is known of the parameters: float64 (k,), NaN where nothing is; and from where."""

    values: Floats
    source: str


def find_loose(
    residuals: Callable[[Floats], Floats],
    point: Floats,
    typical: Floats,
    scale: float,
    names: tuple[str, ...],
) -> tuple[list[Loose], float]:
    """Find the parameters that the residuals around `point` (k,) do not tell.

    `typical` (k,) are usual sizes of the parameters, `scale` (seconds) the residual of an outlier.

    Returns
    -------
    loose : list of Loose
    usual : float
        Standard deviation of a residual, outliers down-weighted as by the loss of the search.
    """
    steps = STEP * np.maximum(point, typical)
    rows = residuals(np.concatenate([point[None], point + np.diag(steps)]))
    weight = (1.0 + (rows[0] / scale) ** 2) ** -0.25
    slopes = weight * (rows[1:] - rows[0]) * (point / steps)[:, None]
    freedom = max(rows.shape[1] - len(point), 1)
    usual = max(float(np.sqrt(((weight * rows[0]) ** 2).sum() / freedom)), EXACT * scale)
    spread = usual**2 * np.linalg.pinv(slopes @ slopes.T, hermitian=True)
    errors = np.sqrt(np.maximum(np.diag(spread), 1e-300))
    # A parameter that moves nothing has no finite error, which a pseudo-inverse hides.
    errors[np.abs(slopes).max(axis=1) == 0.0] = np.inf
    correlation = np.nan_to_num(spread / np.outer(errors, errors))
    np.fill_diagonal(correlation, 0.0)
    found = []
    for i in np.flatnonzero(errors > LOOSE):
        like = int(np.abs(correlation[i]).argmax())
        found.append(Loose(names[i], names[like], float(correlation[i, like])))
    return found, usual


def with_ridge(
    residuals: Callable[[Floats], Floats], reference: Floats, usual: float
) -> Callable[[Floats], Floats]:
    """Add one residual per finite value of `reference` (k,): its distance, in logarithms."""
    held = np.flatnonzero(np.isfinite(reference))
    near = np.log(reference[held])

    def more(points: Floats) -> Floats:
        distance = (np.log(points[:, held]) - near) * (usual / RIDGE)
        return np.concatenate([residuals(points), distance], axis=1)

    return more
