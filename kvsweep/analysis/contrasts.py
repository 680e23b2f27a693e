"""Contrasts of factor levels within seeds, and what their spread over seeds says."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from kvsweep.analysis import statistics
from kvsweep.analysis.effect_records import Estimate, Verdict
from kvsweep.analysis.statistics import Floats, Interval

# A sum of terms that cancel is off zero by a few roundings of the terms; measured: below 1e-15.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Scale:
    """What effects are counted in: `beyond` and `short` name an interaction's two directions."""

    logarithmic: bool
    beyond: Verdict
    short: Verdict


DIFFERENCE = Scale(False, Verdict.SUPER_ADDITIVE, Verdict.SUB_ADDITIVE)
RATIO = Scale(True, Verdict.SUPER_MULTIPLICATIVE, Verdict.SUB_MULTIPLICATIVE)


def estimates(
    values: Floats, chosen: Collection[int], confidence: float, scale: Scale
) -> list[Estimate]:
    """Estimate the effect of every combination of non-reference levels of some factors.

    Parameters
    ----------
    values : float64 (levels of each axis..., seeds)
        Level 0 of each axis is its reference; NaN where a cell has no value.
    chosen : collection of int
        The axes that are the factors of this effect; the others are averaged over.
    confidence : float
        Of the intervals.
    scale : Scale
        `DIFFERENCE` or `RATIO`; values that are not positive have no ratio.

    Returns
    -------
    list of Estimate
        One per combination, the last factor's level changing fastest.
    """
    if scale.logarithmic:
        values = np.log(np.where(values > 0.0, values, np.nan))
    terms = np.maximum(np.abs(values), 1.0 if scale.logarithmic else 0.0)
    bound = ROUNDING * _contrast(terms, chosen, sign=1.0)
    effect = _contrast(values, chosen)
    joint = np.where(np.isnan(effect), np.nan, _joint(values, chosen))
    # What the parts come to: all lower orders, for two factors the sum of the two effects.
    sums = [np.where(np.abs(v) <= bound, 0.0, v) for v in (effect, joint, joint - effect)]
    spans = [statistics.mean_and_t(v, confidence) for v in sums]
    seeds = np.count_nonzero(~np.isnan(effect), axis=1)
    return [
        _estimate([(mean[row], half[row]) for mean, half in spans], len(chosen), confidence, scale,
                  int(seeds[row]), values.shape[-1])
        for row in range(len(effect))
    ]  # fmt: skip


def _contrast(values: Floats, chosen: Collection[int], sign: float = -1.0) -> Floats:
    """Take differences to the reference along the chosen axes, then means: (combinations, seeds).

    Differences come first, so that cells that are equal cancel exactly. With `sign` 1 sums instead.
    """
    for axis in chosen:
        values = np.delete(values, 0, axis) + sign * np.take(values, [0], axis)
    return _averaged(values, chosen)


def _joint(values: Floats, chosen: Collection[int]) -> Floats:
    """All chosen axes moved at once, against all at the reference: (combinations, seeds)."""
    reference, moved = values, values
    for axis in chosen:
        reference = np.take(reference, [0], axis)
        moved = np.delete(moved, 0, axis)
    return _averaged(moved - reference, chosen)


def _averaged(values: Floats, chosen: Collection[int]) -> Floats:
    """Mean over the axes that are not chosen, the chosen ones made one."""
    others = tuple(axis for axis in range(values.ndim - 1) if axis not in chosen)
    means: Floats = values.mean(axis=others)
    return means.reshape(-1, values.shape[-1])


def _estimate(
    spans: list[tuple[float, float]],
    changes: int,
    confidence: float,
    scale: Scale,
    seeds: int,
    of: int,
) -> Estimate:
    """Put one estimate together from mean and half width of its effect, joint effect and parts."""
    (effect, half), (joint, _), _ = spans
    ends = np.array([effect, effect - half, effect + half, joint], dtype=np.float64)
    effect, low, high, joint = (np.exp(ends) if scale.logarithmic else ends).tolist()
    known = bool(np.isfinite(half))
    return Estimate(
        effect=effect,
        interval=Interval(low, high, confidence) if known else None,
        joint=joint,
        verdict=_verdict(spans, changes, scale) if known else None,
        seeds=seeds,
        dropped=of - seeds,
    )


def _verdict(spans: list[tuple[float, float]], changes: int, scale: Scale) -> Verdict:
    """Judge one effect by its interval; an interaction also by the joint effect and the parts."""
    effect, joint, parts = (_direction(*span) for span in spans)
    if effect == 0:
        return Verdict.NOT_SHOWN
    if changes == 1:
        return Verdict.RAISES if effect > 0 else Verdict.LOWERS
    if parts == -effect:
        return Verdict.REVERSED if joint == effect else scale.short
    return scale.beyond if np.sign(spans[1][0]) == effect else scale.short


def _direction(mean: float, half: float) -> int:
    """Return the sign of an effect, 0 if its interval holds zero."""
    return int(np.sign(mean)) if abs(mean) > half else 0
