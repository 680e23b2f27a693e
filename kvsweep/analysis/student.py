"""Student's t for the bootstrap of few seeds: its quantiles, and resamples spread as it says."""

from __future__ import annotations

from functools import lru_cache
from math import cos, nan, pi, sin, sqrt, tan
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Fixed, so that the same results always give the same interval.
SCALE_SEED = 20_260_102


@lru_cache(maxsize=64)
def scales(seeds: int, resamples: int) -> Floats:
    """Factor of each resample's distance from the mean, (resamples,): sqrt(seeds / chi2).

    That is sqrt(seeds / (seeds - 1)) for the spread of the bootstrap, times the ratio of a t
    variable to the normal one that it is made of.
    """
    if seeds < 2:
        return np.ones(resamples)
    rng = np.random.default_rng(SCALE_SEED)
    return np.sqrt(seeds / rng.chisquare(seeds - 1, resamples))


def widening(seeds: int, confidence: float) -> float:
    """Return by how much an arm of a percentile interval of at least two seeds is too short."""
    normal = NormalDist().inv_cdf(0.5 + 0.5 * confidence)
    if normal == 0.0:  # below half of the last bit of 0.5 there is no width to be widened
        return 1.0
    return quantile(seeds - 1, confidence) / normal * sqrt(seeds / (seeds - 1))


@lru_cache(maxsize=256)
def quantile(degrees: int, confidence: float) -> float:
    """Return the t that holds `confidence` of Student's distribution between -t and t.

    NaN below one degree of freedom. By bisection of the finite series of M. Abramowitz and I. A.
    Stegun, Handbook of Mathematical Functions (1964), 26.7.3 and 26.7.4; `scipy.special.stdtrit`
    gives the same, but takes 0.2 s to import.
    """
    if degrees < 1:
        return nan
    odd = degrees % 2
    steps = np.arange(1, (degrees - odd) // 2)
    ratios = (2 * steps - 1 + odd) / (2 * steps + odd)
    terms = np.cumprod(np.concatenate([[1.0], ratios]))
    low, high = 0.0, 0.5 * pi
    for _ in range(60):  # angles whose tangent is t / sqrt(degrees)
        angle = 0.5 * (low + high)
        series = sin(angle) * float(terms @ cos(angle) ** (2.0 * np.arange(terms.size)))
        if odd:
            rest = series * cos(angle) if degrees > 1 else 0.0
            series = (angle + rest) * 2.0 / pi
        low, high = (angle, high) if series < confidence else (low, angle)
    return sqrt(degrees) * tan(low)
