"""What a cliff analysis returns: plain records, written out by `kvsweep.report`."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from kvsweep.analysis.crossing import Outcome
from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.statistics import Floats, Interval

# A seed's curve counts as monotone when |Spearman's rho| reaches this.
MONOTONE_RHO = 0.9

Labels = dict[str, Any]


@dataclass(frozen=True)
class Crossing:
    """One cliff: its place on the axis, or why there is none (`value` is then NaN)."""

    value: float
    outcome: Outcome


@dataclass(frozen=True, eq=False)
class SeedCliffs:
    """The cliff of each seed on its own curve, float64 (seeds,), NaN where there is none.

    Seeds ascend.
    """

    values: Floats
    mean: float
    sd: float
    outcomes: dict[Outcome, int]


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean over seeds along the axis (ascending), with its pointwise interval; (points,) each."""

    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class GroupCliff:
    """The cliff of one combination of the remaining axes.

    Attributes
    ----------
    labels
        The combination: ``{"policy": "round-robin"}``.
    mean_curve
        The headline: the crossing of the mean over seeds.
    interval
        Bootstrap over seeds of the headline, widened as few seeds ask (docs/statistics.md); None
        with fewer than two seeds that have values, or too few that have one near the cliff. An end
        beyond the swept range is infinite.
    resamples
        Resamples of the bootstrap by outcome. Those without a crossing count as beyond the end
        they stay at, so a share above the tail makes that end of the interval infinite.
    per_seed
        Crossings of the single seeds; None without seeds.
    isotonic
        Crossing of the monotone least-squares fit of the mean curve.
    spearman
        Rank correlation of the mean curve with the axis.
    seeds
        Seeds with a value in some cell, which all of this rests on; 1 where there are no seeds.
    monotone_seeds
        Share of these seeds whose own correlation reaches `MONOTONE_RHO` in size.
    missing_cells
        Cells of the group without a value.
    """

    labels: Labels
    mean_curve: Crossing
    interval: Interval | None
    resamples: dict[Outcome, int]
    per_seed: SeedCliffs | None = field(repr=False)
    isotonic: Crossing
    spearman: float
    seeds: int
    monotone_seeds: float
    missing_cells: int
    curve: Curve = field(repr=False)


@dataclass(frozen=True)
class CliffRatio:
    """Cliff of `numerator` over cliff of `denominator`, two members of the first group axis.

    Points of a design are no such axis: there are as many pairs as half their square.

    `of_mean_curves` and its interval take the cliffs of the mean curves, both from the same
    resample of seeds; `mean_of_seeds` averages the ratios of single seeds, over the `pairs` seeds
    in which both cross (`pairs_lost` others do not). `resamples_lost` counts the resamples without
    both cliffs: where one lies beyond the swept range so does the ratio, where both do it may lie
    beyond either end of the interval. Of these, `resamples_missing` may have a cliff where cells
    have no value, and are left out.
    """

    labels: Labels
    numerator: Hashable
    denominator: Hashable
    of_mean_curves: float
    interval: Interval | None
    resamples_lost: int
    resamples_missing: int
    mean_of_seeds: float
    sd_of_seeds: float
    pairs: int
    pairs_lost: int


@dataclass(frozen=True, eq=False)
class Cliff:
    """The cliffs of a dataset: one per combination of the axes other than `along` and ``seed``.

    `past` is ``above`` if the measure is bad above the threshold, ``below`` if it is bad below;
    `generous` is the end of the axis, ``high`` or ``low``, from which the scan starts; `missing`
    counts the cells without a value by their status; `seeds_note` warns of too few seeds.
    """

    metric: str
    along: str
    threshold: float
    past: str
    generous: str
    axis: Floats
    seeds: int | None
    seeds_note: str
    confidence: float
    units: str
    along_units: str
    missing: dict[str, int]
    groups: tuple[GroupCliff, ...]
    ratios: tuple[CliffRatio, ...]

    def edge(self, outcome: Outcome) -> tuple[str, float] | None:
        """Return on which side of the swept range a cliff lies, and where that ends.

        ``below`` its first value or ``above`` its last one; None if it is not known to be outside.
        """
        if outcome not in (Outcome.ALREADY, Outcome.NEVER):
            return None
        is_above = (self.generous == "high") == (outcome == Outcome.ALREADY)
        return ("above", float(self.axis[-1])) if is_above else ("below", float(self.axis[0]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values for JSON; what has no value, or lies outside, is None."""
        plain: dict[str, Any] = jsonable(self)
        return plain
