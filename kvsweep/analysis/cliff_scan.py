"""One group of curves to its cliff, and pairs of groups to the ratio of their cliffs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from kvsweep.analysis import ranks, statistics
from kvsweep.analysis.cliff_records import (
    MONOTONE_RHO,
    CliffRatio,
    Crossing,
    Curve,
    GroupCliff,
    Labels,
    SeedCliffs,
)
from kvsweep.analysis.crossing import Outcome, Outcomes, beyond, find_crossings, isotonic_curve
from kvsweep.analysis.statistics import Counts, Floats, Interval


@dataclass(frozen=True, eq=False)
class Scan:
    """What every group of a dataset is scanned with."""

    axis: Floats  # (points,), ascending
    order: slice  # ascending -> scan order, the generous end first
    sign: float  # +1 or -1: the measure times this is larger where worse
    threshold: float  # times `sign`
    seeds: int | None  # None where the dataset has no seeds
    counts: Counts | None  # (resamples, seeds), None where there is nothing to resample
    confidence: float

    def crossings(self, curves: Floats) -> tuple[Floats, Outcomes]:
        """Find the crossing of each of `curves` (..., points), given on the ascending axis."""
        worse = self.sign * curves[..., self.order]
        return find_crossings(self.axis[self.order], worse, self.threshold)

    def ranked(self, curves: Floats) -> tuple[Floats, Outcomes]:
        """Find crossings with those beyond the swept range at infinity on their side."""
        position, outcome = self.crossings(curves)
        return beyond(position, outcome, self.axis[self.order]), outcome

    def inside(self, interval: Interval) -> Interval:
        """Put ends that lie beyond the swept range at infinity: where, nothing tells."""
        low = interval.low if interval.low >= self.axis[0] else -np.inf
        high = interval.high if interval.high <= self.axis[-1] else np.inf
        return Interval(low, high, interval.confidence)


@dataclass(frozen=True, eq=False)
class ScannedGroup:
    """A group's cliff with the samples behind it, from which ratios are formed.

    `by_resample` is at infinity where the cliff lies beyond the swept range, NaN where it may lie
    in cells without a value, and empty where there is no interval.
    """

    cliff: GroupCliff
    by_seed: Floats  # (seeds,)
    by_resample: Floats  # (resamples,)


def scan_group(scan: Scan, values: Floats, labels: Labels) -> ScannedGroup:
    """Find the cliff of one group: `values` is (seeds, points) on the ascending axis."""
    means = None if scan.counts is None else statistics.resample_means(values, scan.counts)
    spread = None if means is None else statistics.spread_as_student(values, means)
    curve = Curve(*statistics.band_of(values, spread, scan.confidence))
    by_seed, seed_outcomes = scan.crossings(values)
    by_resample, interval, tally = _bootstrap(scan, values, curve.mean, means, spread)
    seeds = _seeds_of(values)
    rho = np.nan_to_num(ranks.spearman(scan.axis, values))
    cliff = GroupCliff(
        labels=labels,
        mean_curve=_crossing(scan, curve.mean),
        interval=interval,
        resamples=tally,
        per_seed=_seed_cliffs(by_seed, seed_outcomes) if scan.seeds else None,
        isotonic=_crossing(scan, _isotonic(scan, curve.mean, values)),
        spearman=float(ranks.spearman(scan.axis, curve.mean)),
        seeds=seeds,
        monotone_seeds=float(np.sum(np.abs(rho) >= MONOTONE_RHO)) / max(1, seeds),
        missing_cells=int(np.count_nonzero(np.isnan(values))),
        curve=curve,
    )
    return ScannedGroup(cliff, by_seed, by_resample)


def _crossing(scan: Scan, curve: Floats) -> Crossing:
    """Find the crossing of one curve (points,)."""
    position, outcome = scan.crossings(curve)
    return Crossing(float(position), Outcome(outcome.item()))


def _bootstrap(
    scan: Scan, values: Floats, mean: Floats, means: Floats | None, spread: Floats | None
) -> tuple[Floats, Interval | None, dict[Outcome, int]]:
    """Crossings of the mean curves of all resamples, the interval of the cliff, the outcomes.

    `means` are the plain means of the resamples, `spread` the same spread as Student's.

    The interval is the wider of two at each end, which differ where a curve bends: percentiles of
    the crossings of Student's means, and stretched percentiles of those of plain means. Either
    alone fell to 91 % of studies of 3 seeds somewhere, both together held in 94 to 97 %.

    There is none where a point next to the cliff has a value of one seed, or more resamples than
    lie outside of it lack a value there: those that are left rest on few seeds, or the same one.
    """
    seeds = _seeds_of(values)
    if means is None or spread is None or seeds < 2:
        return np.empty(0), None, {}
    by_resample, outcome = scan.ranked(spread)
    plain, _ = scan.ranked(means)
    (estimate,), _ = scan.ranked(mean[None])
    if np.isnan(estimate):
        return by_resample, Interval(np.nan, np.nan, scan.confidence), _tally(outcome)
    lonely = _fewest_near(scan, values, float(estimate)) < 2
    if lonely or not statistics.tells(by_resample, scan.confidence):
        return np.empty(0), None, _tally(outcome)
    followed, stretched = (
        statistics.percentile_interval(sample, scan.confidence) for sample in (by_resample, plain)
    )
    stretched = statistics.widened(stretched, float(estimate), seeds)
    return by_resample, scan.inside(statistics.hull(followed, stretched)), _tally(outcome)


def _seeds_of(values: Floats) -> int:
    """Return how many seeds have a value anywhere."""
    return int(np.count_nonzero(~np.isnan(values).all(axis=1)))


def _fewest_near(scan: Scan, values: Floats, place: float) -> int:
    """Return the fewest seeds with a value at the points next to a place, all seeds outside."""
    if not np.isfinite(place):
        return len(values)
    first = int(np.searchsorted(scan.axis, place, "right")) - 1
    last = int(np.searchsorted(scan.axis, place))
    return int(np.count_nonzero(~np.isnan(values[:, first : last + 1]), axis=0).min())


def _tally(outcome: Outcomes) -> dict[Outcome, int]:
    """Count outcomes, all of them named."""
    counted = Counter(outcome.tolist())
    return {kind: counted[kind] for kind in Outcome}


def _seed_cliffs(values: Floats, outcome: Outcomes) -> SeedCliffs:
    mean, sd, _ = _moments(values)
    return SeedCliffs(values=values, mean=mean, sd=sd, outcomes=_tally(outcome))


def _moments(values: Floats) -> tuple[float, float, int]:
    """Mean, sample standard deviation and number of the finite values; NaN where undefined."""
    finite = values[np.isfinite(values)]
    mean = float(finite.mean()) if finite.size else np.nan
    sd = float(finite.std(ddof=1)) if finite.size > 1 else np.nan
    return mean, sd, finite.size


def _isotonic(scan: Scan, mean: Floats, values: Floats) -> Floats:
    """Fit the mean curve as one that only gets worse along the scan, on the ascending axis."""
    weights = np.count_nonzero(~np.isnan(values), axis=0).astype(np.float64)
    fitted = isotonic_curve(scan.sign * mean[scan.order], weights[scan.order])
    return scan.sign * fitted[scan.order]


def find_ratios(
    scan: Scan, groups: list[ScannedGroup], group_dims: list[str]
) -> tuple[CliffRatio, ...]:
    """Compare every pair of members of the first group axis, the other axes held fixed."""
    if not group_dims:
        return ()
    return tuple(
        _ratio(scan, a, b, group_dims[0])
        for together in _by_other_labels(groups, group_dims[0])
        for a, b in combinations(together, 2)
    )


def _by_other_labels(groups: list[ScannedGroup], first: str) -> Iterator[list[ScannedGroup]]:
    """Collect the groups that differ in their label `first` only."""
    together: dict[tuple[object, ...], list[ScannedGroup]] = {}
    for group in groups:
        others = tuple(v for k, v in group.cliff.labels.items() if k != first)
        together.setdefault(others, []).append(group)
    yield from together.values()


def _ratio(scan: Scan, a: ScannedGroup, b: ScannedGroup, first: str) -> CliffRatio:
    """Ratio of the cliffs of `a` and `b`, seed by seed and resample by resample."""
    with np.errstate(divide="ignore", invalid="ignore"):
        of_seeds = a.by_seed / b.by_seed if scan.seeds else np.empty(0)
        of_means = float(np.float64(a.cliff.mean_curve.value) / b.cliff.mean_curve.value)
    mean, sd, pairs = _moments(of_seeds)
    both = np.isfinite(a.by_resample) & np.isfinite(b.by_resample) if _sampled(a, b) else None
    return CliffRatio(
        labels={k: v for k, v in a.cliff.labels.items() if k != first},
        numerator=a.cliff.labels[first],
        denominator=b.cliff.labels[first],
        of_mean_curves=of_means,
        interval=None if both is None else _ratio_interval(scan, a, b, of_means),
        resamples_lost=0 if both is None else int(np.count_nonzero(~both)),
        resamples_missing=0 if both is None else _missing(a, b),
        mean_of_seeds=mean,
        sd_of_seeds=sd,
        pairs=pairs,
        pairs_lost=of_seeds.size - pairs,
    )


def _missing(a: ScannedGroup, b: ScannedGroup) -> int:
    """Count the resamples in which one of the cliffs may lie where cells have no value."""
    return int(np.count_nonzero(np.isnan(a.by_resample) | np.isnan(b.by_resample)))


def _sampled(a: ScannedGroup, b: ScannedGroup) -> bool:
    return bool(a.by_resample.size and b.by_resample.size)


def _ratio_interval(scan: Scan, a: ScannedGroup, b: ScannedGroup, estimate: float) -> Interval:
    """Percentiles of the ratios of the same resamples.

    Where one cliff lies beyond the swept range the ratio lies beyond that end of the interval;
    where both do it may lie beyond either.
    """
    if not np.isfinite(estimate):
        return Interval(np.nan, np.nan, scan.confidence)
    top, bottom = a.by_resample, b.by_resample
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(np.isinf(bottom), -np.sign(bottom) * np.inf, top / bottom)
    unknown = np.isinf(top) & np.isinf(bottom)
    ratio = np.where(np.isnan(top) | np.isnan(bottom), np.nan, ratio)
    if not statistics.tells(ratio, scan.confidence):
        return Interval(np.nan, np.nan, scan.confidence)
    low, high = (
        statistics.percentile_interval(np.where(unknown, end, ratio), scan.confidence)
        for end in (-np.inf, np.inf)
    )
    return Interval(low.low, high.high, scan.confidence)
