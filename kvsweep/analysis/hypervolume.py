"""Dominance and dominated volume of a set of points, every coordinate to be small."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.statistics import Floats

# Slicing costs members ** (objectives - 1).
MAX_OBJECTIVES = 4

# How far beyond the worst value the reference point lies, in ranges. At the worst value itself the
# ends of a front would dominate nothing.
REFERENCE_MARGIN = 0.1


def dominates(points: Floats) -> NDArray[np.bool_]:
    """Whether row i dominates row j: nowhere larger, somewhere smaller; never with NaN.

    Parameters
    ----------
    points : float64 (members, objectives)

    Returns
    -------
    bool (members, members)
    """
    a, b = points[:, None, :], points[None, :, :]
    beats: NDArray[np.bool_] = np.all(a <= b, axis=-1) & np.any(a < b, axis=-1)
    return beats


def rounded(means: Floats) -> Floats:
    """Round to 12 digits: means of other seeds' values that are equal may differ beyond."""
    found = np.frompyfunc(lambda mean: float(f"{mean:.12g}"), 1, 1)(means)
    return np.asarray(found, np.float64)


def front_share(points: Floats) -> Floats:
    """How often each member is on the front, over repetitions in which the members are compared.

    Parameters
    ----------
    points : float64 (members, repetitions, objectives)
        NaN where a member has no value: that repetition does not count for it, and it beats nobody
        there.

    Returns
    -------
    float64 (members,)
        NaN of a member that never has a value.
    """
    alive = ~np.any(np.isnan(points), axis=-1)
    share = np.empty(len(points))
    for i, own in enumerate(points):
        beats = np.all(points <= own, axis=-1) & np.any(points < own, axis=-1)
        beaten = np.any(beats, axis=0)
        share[i] = np.mean(~beaten[alive[i]]) if alive[i].any() else np.nan
    return share


def hypervolume(points: Floats, reference: Floats) -> float:
    """Volume dominated by `points` and bounded by `reference`, by slicing along the last axis.

    L. While et al., A faster algorithm for calculating hypervolume, IEEE Trans. Evol. Comput.
    10(1), 2006, section III (HSO).

    Parameters
    ----------
    points : float64 (members, objectives)
        Finite. Points not better than `reference` everywhere add nothing.
    reference : float64 (objectives,)
    """
    points = points[(points < reference).all(axis=-1)]
    if len(points) == 0:
        return 0.0
    if points.shape[1] == 1:
        return float(reference[0] - points.min())
    points = points[np.argsort(points[:, -1], kind="stable")]
    ends = np.append(points[1:, -1], reference[-1])
    slices = ends - points[:, -1]
    return sum(
        float(depth) * hypervolume(points[: i + 1, :-1], reference[:-1])
        for i, depth in enumerate(slices)
        if depth > 0.0
    )


def normalised_hypervolume(points: Floats) -> tuple[float | None, Floats]:
    """Share of the box from the best value of each objective to the reference that is dominated.

    Returns
    -------
    share : float or None
        None beyond `MAX_OBJECTIVES`, or where no member has values.
    reference : float64 (objectives,)
        Worst value of each objective plus `REFERENCE_MARGIN` ranges.
    """
    known = points[~np.isnan(points).any(axis=-1)]
    if len(known) == 0:
        return None, np.full(points.shape[1], np.nan)
    best, worst = known.min(axis=0), known.max(axis=0)
    extent = (1.0 + REFERENCE_MARGIN) * (worst - best)
    # An objective in which all are equal takes no part: every point is at its best value.
    unit = (known - best) / np.where(extent > 0.0, extent, 1.0)
    share = None
    if points.shape[1] <= MAX_OBJECTIVES:
        share = hypervolume(unit, np.ones(points.shape[1]))
    return share, best + extent
