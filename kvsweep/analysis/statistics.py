"""Resampling over seeds, percentile intervals, rank correlation: vectorised over curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvsweep.errors import InputError

Floats = NDArray[np.float64]

# Fixed, so that the same results always give the same interval.
BOOTSTRAP_SEED = 20_260_101


@dataclass(frozen=True)
class Interval:
    """A confidence interval; an infinite end lies somewhere beyond the swept range."""

    low: float
    high: float
    confidence: float


def check_confidence(confidence: float) -> None:
    """Raise InputError unless 0 < `confidence` < 1."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence: {confidence!r} is not between 0 and 1 (0.95 is usual)")


def check_bootstrap(confidence: float, resamples: int) -> None:
    """Raise InputError unless 0 < `confidence` < 1 and `resamples` >= 1."""
    check_confidence(confidence)
    if resamples < 1:
        raise InputError(f"resamples: {resamples!r} is not a positive count (2000 is usual)")


def resample_counts(seeds: int, resamples: int) -> Floats:
    """Draw bootstrap resamples of `seeds` seeds, each as how often every seed was drawn.

    The draw depends on nothing but the two numbers, so every group and every measure sees the same
    resamples: what is compared between groups is paired.

    Returns
    -------
    float64 (resamples, seeds)
        Rows sum to `seeds`.
    """
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    draws = rng.multinomial(seeds, np.full(seeds, 1.0 / seeds), size=resamples)
    return draws.astype(np.float64)


def resample_means(values: Floats, counts: Floats) -> Floats:
    """Mean over seeds of each resample; missing values are left out of the mean they belong to.

    Parameters
    ----------
    values : float64 (..., seeds, points)
        NaN where there is no value.
    counts : float64 (resamples, seeds)
        From `resample_counts`; a row of ones gives the plain mean.

    Returns
    -------
    float64 (..., resamples, points)
        NaN where a resample has no value at all.
    """
    present = ~np.isnan(values)
    total = counts @ np.where(present, values, 0.0)
    drawn = counts @ present.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / drawn, dtype=np.float64)


def percentile_interval(samples: Floats, confidence: float) -> Interval:
    """Percentile bootstrap interval of `samples`, NaN left out, infinities kept in their order.

    The ends are order statistics: nothing is interpolated, so an infinite sample (a resample whose
    cliff lies beyond the swept range) counts by its rank only. B. Efron and R. J. Tibshirani, An
    Introduction to the Bootstrap (1993), section 13.3.
    """
    kept = np.sort(samples[~np.isnan(samples)])
    if kept.size == 0:
        return Interval(np.nan, np.nan, confidence)
    tail = _tail(kept.size, confidence)
    return Interval(float(kept[tail]), float(kept[-1 - tail]), confidence)


def mean_band(
    values: Floats, counts: Floats | None, confidence: float
) -> tuple[Floats, Floats, Floats]:
    """Mean over seeds at every point and its pointwise percentile interval.

    Parameters
    ----------
    values : float64 (seeds, points)
    counts : float64 (resamples, seeds) or None
        Without resamples the band is NaN.

    Returns
    -------
    mean, low, high : float64 (points,)
    """
    mean = seed_mean(values)
    if counts is None:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    samples = np.sort(resample_means(values, counts), axis=0)
    kept = np.count_nonzero(~np.isnan(samples), axis=0)
    tail = np.array([_tail(int(n), confidence) for n in kept])
    points = np.arange(values.shape[1])
    return mean, samples[tail, points], samples[np.maximum(kept - 1 - tail, 0), points]


def mean_and_t(values: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Mean over seeds and half width of its Student t interval, NaN left out.

    For means of few paired differences: a percentile bootstrap of three seeds can be no wider than
    the three values.

    Parameters
    ----------
    values : float64 (rows, seeds)

    Returns
    -------
    mean, half : float64 (rows,)
        NaN where a row has no value, the half width also where it has one only.
    """
    from scipy.special import stdtrit

    count = np.count_nonzero(~np.isnan(values), axis=1).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(values, axis=1) / count
        square = np.nansum((values - mean[:, None]) ** 2, axis=1)
        quantile = stdtrit(count - 1.0, 0.5 + 0.5 * confidence)
        half = quantile * np.sqrt(square / (count - 1.0) / count)
    return mean, np.where(count > 1.0, half, np.nan)


def seed_mean(values: Floats) -> Floats:
    """Mean over the seeds that have a value: (seeds, points) -> (points,), NaN where none has."""
    mean: Floats = resample_means(values, np.ones((1, values.shape[0])))[0]
    return mean


def spearman(x: Floats, y: Floats) -> Floats:
    """Spearman rank correlation of `x` (points,) with each curve of `y` (..., points).

    Ties share their average rank; points without a value are left out of both sides. NaN where a
    curve is constant or has fewer than two values.
    """
    paired = np.where(np.isnan(y), np.nan, x)
    ranks = [_ranks(side) for side in (paired, y)]
    count = np.maximum(np.count_nonzero(~np.isnan(y), axis=-1, keepdims=True), 1)
    a, b = (np.nan_to_num(r - np.nansum(r, axis=-1, keepdims=True) / count) for r in ranks)
    with np.errstate(invalid="ignore"):
        rho = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return np.asarray(rho, dtype=np.float64)


def _ranks(values: Floats) -> Floats:
    """Rank along the last axis, from 1; ties share their average, NaN where there is no value.

    As `scipy.stats.rankdata`, the import of which was a tenth of the time of a small sweep (0.3 s).
    """
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    place = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    edge = np.full((*values.shape[:-1], 1), True)
    changes = ordered[..., 1:] != ordered[..., :-1]
    first = np.where(np.concatenate([edge, changes], axis=-1), place, 0)
    last = np.where(np.concatenate([changes, edge], axis=-1), place, values.shape[-1])
    first = np.maximum.accumulate(first, axis=-1)
    last = np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, 1.0 + 0.5 * (first + last), axis=-1)
    return np.where(np.isnan(values), np.nan, ranks)


def _tail(size: int, confidence: float) -> int:
    """Return how many of `size` ordered samples lie outside each end of the interval."""
    return int(np.floor((1.0 - confidence) / 2.0 * size))
