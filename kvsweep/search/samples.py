"""What a search has simulated, and what it says: means over seeds, and how sure they are.

Every value is an *excess*: how far a measure is past its limit, negative within it. Several
measures, each with its own limit, are looked at together: a point is past if any of them is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isnan, sqrt

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis import student
from kvsweep.search.space import Space

Floats = NDArray[np.float64]

FINE = 64
"""Places between two points at which the ends of an interval are looked for."""


@dataclass(frozen=True)
class Reading:
    """Where a curve passes zero, in scan order (`Space.depth`).

    Attributes
    ----------
    crossing : float
        First place where a mean is above zero; infinite if it lies outside the points, NaN if it
        lies next to a point without a value.
    low, high : float
        Interval: up to `low` all measures are surely within, from `high` on one is surely past.
        Infinite where the points do not tell.
    piece : tuple of float
        The two points around the crossing.
    """

    crossing: float
    low: float
    high: float
    piece: tuple[float, float]

    @property
    def end(self) -> float:
        """Where means stop to be within: next to a point without a value, the point before it."""
        return self.piece[0] if isnan(self.crossing) else self.crossing

    @property
    def kept(self) -> float:
        """Up to where limits are kept: next to a point without a value, the point before it."""
        return min(self.low, self.piece[0]) if isnan(self.crossing) else self.low


@dataclass
class Samples:
    """Excesses by value of the axis; seeds are taken in order, so that those of all are paired.

    Attributes
    ----------
    space : Space
        The axis.
    excess : dict of float to float64 (targets, seeds)
        NaN where a simulation has no value.
    dropping : set of float
        Values at which requests are dropped that can never fit: the excesses are of the others.
    """

    space: Space
    excess: dict[float, Floats] = field(default_factory=dict)
    dropping: set[float] = field(default_factory=set)

    @property
    def simulations(self) -> int:
        """Number of simulations so far."""
        return sum(values.shape[1] for values in self.excess.values())

    def seeds(self, value: float) -> int:
        """Return how many seeds were simulated at a value."""
        return self.excess[value].shape[1] if value in self.excess else 0

    def add(self, value: float, excess: Floats) -> None:
        """Take the excesses of further seeds at a value."""
        known = self.excess.get(value)
        self.excess[value] = excess if known is None else np.concatenate([known, excess], axis=1)

    def means(self, value: float, seeds: int | None = None) -> Floats:
        """Mean excess of each target over the first seeds, (targets,); NaN if one has no value."""
        return np.asarray(self.excess[value][:, :seeds].mean(axis=1), dtype=np.float64)

    def is_past(self, value: float) -> bool:
        """Whether a mean is past its limit, or cannot be told."""
        return not bool((self.means(value) <= 0.0).all())

    def agree(self, value: float) -> bool:
        """Whether all seeds say the same: within all limits, or not."""
        within = (self.excess[value] <= 0.0).all(axis=0)
        return bool(within.all() or not within.any())

    def is_surely_within(self, value: float, seeds: int, t: float) -> bool:
        """Whether all means are within their limits, each as surely as Student's t asks."""
        return bool((self._scores(value, seeds) < -t).all())

    def is_shown(self, value: float, t: float) -> bool:
        """Whether all seeds that there are show a value within all limits, and none drops any."""
        seeds = self.seeds(value)
        return value not in self.dropping and self.is_surely_within(value, seeds, t)

    def is_surely_past(self, value: float, seeds: int, t: float) -> bool:
        """Whether a mean is past its limit as surely, or a seed has no value."""
        scores = self._scores(value, seeds)
        return bool((scores > t).any() or np.isnan(scores).any())

    def _scores(self, value: float, seeds: int) -> Floats:
        return scores(self.excess[value][:, :seeds, None])[:, 0]

    def points(self, seeds: int) -> list[float]:
        """Return the values at which so many seeds were simulated, in scan order."""
        known = [value for value in self.excess if self.seeds(value) >= seeds]
        return sorted(known, key=self.space.depth)

    def read(self, seeds: int, t: float) -> Reading:
        """Read off where the mean curve of so many seeds passes zero, and its interval.

        Between two points the curve of every seed is a straight line. The interval is that of a
        test at every place (E. C. Fieller, Some problems in interval estimation, J. R. Stat. Soc. B
        16(2), 1954): it does not depend on how steep the curve is, nor on its bends.
        """
        points = self.points(seeds)
        depths = np.array([self.space.depth(value) for value in points])
        curves = np.stack([self.excess[value][:, :seeds] for value in points], axis=-1)
        known = ~np.isnan(curves).any(axis=(0, 1))
        end = len(points) if known.all() else int(np.argmin(known))
        if end == 0:
            first = float(depths[0])
            return Reading(np.nan, -np.inf, first, (-np.inf, first))
        place, fine = _fine(depths[:end], curves[..., :end])
        mean, sure = fine.mean(axis=1), scores(fine)
        past = np.asarray(mean.max(axis=0) > 0.0)
        unsure = np.asarray((sure >= -t).any(axis=0)) if t else past
        crossing = _first_past(place, mean, past, 0.0, np.inf)
        low = _first_past(place, sure, unsure, -t, crossing)
        high = _first_past(place, sure, np.asarray((sure > t).any(axis=0)), t, crossing)
        if end < len(points):
            crossing = np.nan if np.isposinf(crossing) else crossing
            high = min(high, float(depths[end]))
        return Reading(crossing, low, high, _piece(depths, end, crossing))


def scores(excess: Floats) -> Floats:
    """Return how surely means over seeds differ from zero, to be compared with Student's t.

    The mean over its standard error, corrected for the skewness of the seeds (P. Hall, On the
    removal of skewness by transformation, J. R. Stat. Soc. B 54(1), 1992): of skewed seeds whose
    mean is at a limit plain t had 8 in 100 surely within it instead of 2.5, this has 5 of 16 seeds
    and 3.6 of 32. Infinite where all seeds are equal, as is one.

    Parameters
    ----------
    excess : float64 (targets, seeds, places)

    Returns
    -------
    float64 (targets, places)
    """
    seeds = excess.shape[1]
    mean = excess.mean(axis=1)
    away = excess - mean[:, None]
    spread = np.sqrt((away**2).sum(axis=1) / max(1, seeds - 1))
    equal = spread <= 1e-12 * np.abs(mean)
    safe = np.where(equal | np.isnan(spread), 1.0, spread)
    ratio = mean / safe
    skew = (away**3).mean(axis=1) / safe**3
    bent = ratio + skew * ratio**2 / 3.0 + skew**2 * ratio**3 / 27.0 + skew / (6.0 * seeds)
    certain = np.where(np.isnan(mean), np.nan, np.where(mean > 0.0, np.inf, -np.inf))
    found: Floats = np.where(equal | np.isnan(mean), certain, np.sqrt(seeds) * bent)
    return found


def mean_interval(values: Floats, t: float) -> tuple[float, float] | None:
    """Return the interval of the mean of some seeds that agrees with `scores`.

    Parameters
    ----------
    values : float64 (seeds,)
    t : float
        Student's t; 0, as of one seed, has no interval.

    Returns
    -------
    tuple of float or None
        None where all seeds are equal or one has no value.
    """
    seeds, mean = len(values), float(values.mean())
    away = values - mean
    spread = sqrt(float((away**2).sum()) / max(1, seeds - 1))
    if not t or not spread > 1e-12 * abs(mean):
        return None
    skew = float((away**3).mean()) / spread**3
    low, high = (mean - spread * _bent_back(skew, seeds, sign * t) for sign in (1.0, -1.0))
    return low, high


def _bent_back(skew: float, seeds: int, score: float) -> float:
    """Return the ratio of mean and standard deviation that has a score: the inverse of `scores`."""
    plain = score / sqrt(seeds)
    if abs(skew) < 1e-6:
        return plain
    return float(3.0 / skew * (np.cbrt(1.0 + skew * (plain - skew / (6.0 * seeds))) - 1.0))


def t_of(seeds: int, confidence: float) -> float:
    """Return Student's t for an interval of so many seeds; 0, no interval, for one."""
    return student.quantile(seeds - 1, confidence) if seeds > 1 else 0.0


def _fine(depths: Floats, curves: Floats) -> tuple[Floats, Floats]:
    """Return places on and between points, (places,), and there the curves, (..., places)."""
    share = np.linspace(0.0, 1.0, FINE, endpoint=False)

    def joined(points: Floats) -> Floats:
        inner = points[..., :-1, None] * (1.0 - share) + points[..., 1:, None] * share
        flat = inner.reshape(*points.shape[:-1], -1)
        return np.concatenate([flat, points[..., -1:]], axis=-1)

    return joined(depths), joined(curves)


def _first_past(
    place: Floats, levels: Floats, past: NDArray[np.bool_], limit: float, crossing: float
) -> float:
    """Return the first place that is past, between it and the one before by a straight line.

    `levels` (targets, places) pass `limit` there. Where equal seeds leave no line, it is the
    crossing of the mean.
    """
    if not past.any():
        return float("inf")
    at = int(np.argmax(past))
    if at == 0:
        return float("-inf")
    before, after = levels[:, at - 1].max() - limit, levels[:, at].max() - limit
    if not np.isfinite([before, after]).all():
        return float(min(max(crossing, place[at - 1]), place[at]))
    share = -before / (after - before)
    return float(place[at - 1] + share * (place[at] - place[at - 1]))


def _piece(depths: Floats, end: int, crossing: float) -> tuple[float, float]:
    """Return the points around a crossing; around the first without a value if it is NaN."""
    if np.isnan(crossing):
        return float(depths[end - 1]) if end else float("-inf"), float(depths[end])
    if np.isinf(crossing):
        return crossing, crossing
    right = int(np.searchsorted(depths, crossing))
    right = min(max(right, 1), len(depths) - 1)
    return float(depths[right - 1]), float(depths[right])
