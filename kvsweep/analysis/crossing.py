"""Where a curve first passes a threshold: the definition of a cliff, on bare arrays."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.statistics import Floats


class Outcome(StrEnum):
    """What became of the search for a crossing."""

    CROSSES = "crosses"
    NEVER = "never"  # good as far as the sweep goes: the cliff, if any, lies beyond
    ALREADY = "already"  # past the threshold from the generous end on: the cliff lies beyond it
    MISSING = "missing"  # it lies, or may lie, where cells have no result


Outcomes = NDArray[np.object_]


def find_crossings(axis: Floats, curves: Floats, threshold: float) -> tuple[Floats, Outcomes]:
    """Find the first pair (value <= `threshold`, next value > `threshold`) of each curve.

    The position is linear in the axis between the two, the definition of the published studies.
    A pair with missing cells in between is no crossing: it brackets the place but does not give it.

    Parameters
    ----------
    axis : float64 (points,)
        In scan order: the generous end first. Ascending or descending.
    curves : float64 (..., points)
        Larger is worse. NaN where there is no value.
    threshold : float

    Returns
    -------
    position : float64 (...)
        NaN where there is no crossing.
    outcome : Outcome (...)
        Why not.
    """
    below, above = curves <= threshold, curves > threshold
    left = _last_known_before(below | above)
    good_before = np.take_along_axis(below, np.maximum(left, 0), axis=-1) & (left >= 0)
    enters = above & good_before
    right = np.argmax(enters, axis=-1, keepdims=True)
    start = np.take_along_axis(left, right, axis=-1)
    crosses = enters.any(axis=-1) & (start == right - 1)[..., 0]

    start = np.maximum(start, 0)
    y0, y1 = (np.take_along_axis(curves, i, axis=-1)[..., 0] for i in (start, right))
    x0, x1 = axis[start[..., 0]], axis[right[..., 0]]
    with np.errstate(invalid="ignore", divide="ignore"):
        position = x0 + (threshold - y0) / (y1 - y0) * (x1 - x0)
    return np.where(crosses, position, np.nan), _outcomes(below, above, enters, crosses)


def _last_known_before(known: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Index of the last known point strictly before each point, -1 where there is none."""
    index = np.where(known, np.arange(known.shape[-1]), -1)
    latest = np.maximum.accumulate(index, axis=-1)
    first = np.full_like(latest[..., :1], -1)
    return np.concatenate([first, latest[..., :-1]], axis=-1)


def _outcomes(
    below: NDArray[np.bool_],
    above: NDArray[np.bool_],
    enters: NDArray[np.bool_],
    crosses: NDArray[np.bool_],
) -> Outcomes:
    """Name what was found; without a crossing, an unknown end of the scan means `MISSING`.

    Who begins past the threshold is past it already, also if the tight end is within: there most
    requests may be dropped, and those that are left are fast.
    """
    known = below | above
    begin = np.argmax(known, axis=-1, keepdims=True)
    already = np.take_along_axis(above, begin, axis=-1)[..., 0]
    within = below.any(axis=-1) | ~already
    open_end = (already & ~known[..., 0]) | (within & ~known[..., -1])
    outcome = np.full(np.shape(crosses), Outcome.NEVER, dtype=object)
    outcome[already] = Outcome.ALREADY
    outcome[enters.any(axis=-1) | open_end] = Outcome.MISSING
    outcome[crosses] = Outcome.CROSSES
    return outcome


def beyond(position: Floats, outcome: Outcomes, axis: Floats) -> Floats:
    """Put crossings outside the swept range at infinity on their side, for ranking.

    `axis` is in scan order; `MISSING` stays NaN.
    """
    tight = np.copysign(np.inf, axis[-1] - axis[0])
    outside = np.where(outcome == Outcome.NEVER, tight, position)
    return np.where(outcome == Outcome.ALREADY, -tight, outside)


def isotonic_curve(curve: Floats, weights: Floats) -> Floats:
    """Least-squares fit of `curve` that never improves along the scan, NaN where it has no value.

    Parameters
    ----------
    curve, weights : float64 (points,)
        The mean curve and how many seeds stand behind each point.
    """
    fitted = np.full_like(curve, np.nan)
    known = ~np.isnan(curve)
    if known.any():
        fitted[known] = _pooled(curve[known].tolist(), weights[known].tolist())
    return fitted


def _pooled(values: list[float], weights: list[float]) -> Floats:
    """Pool adjacent violators: what falls behind its forerunner shares a weighted mean with it.

    `scipy.optimize.isotonic_regression` does the same; with it scipy has to be imported for
    nothing else (0.1 s of a small sweep).
    """
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for mean, weight in zip(values, weights, strict=True):
        total, size = mean * weight, 1
        while pools and pools[-1][0] >= mean:
            before, further, members = pools.pop()
            total, weight, size = total + before * further, weight + further, size + members
            mean = total / weight
        pools.append((mean, weight, size))
    means, _, sizes = zip(*pools, strict=True)
    return np.repeat(means, sizes)
