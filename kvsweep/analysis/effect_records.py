"""What an analysis of effects returns: plain records, written out by `kvsweep.report`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.statistics import Interval


class Verdict(Enum):
    """What an interval says about an effect, or about the joint effect of several changes.

    A single change raises or lowers the measure if its interval excludes no change. Of several
    changes made together, the interaction is what goes beyond the effects of the changes made
    apart. If its interval excludes zero, they are super-additive where the interaction has the
    sign of the joint effect and sub-additive where it has the other. Where the changes apart
    surely move the measure against the interaction, it takes from what they do: they are
    sub-additive whatever the sign of the joint effect, or reversed if together they surely move
    the measure the other way. On the ratio scale the same words end in ``-multiplicative``.
    """

    RAISES = "raises"
    LOWERS = "lowers"
    SUPER_ADDITIVE = "super-additive"
    SUB_ADDITIVE = "sub-additive"
    SUPER_MULTIPLICATIVE = "super-multiplicative"
    SUB_MULTIPLICATIVE = "sub-multiplicative"
    REVERSED = "reversed"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True)
class Change:
    """One factor moved from its reference level to another."""

    factor: str
    level: Any
    reference: Any


@dataclass(frozen=True)
class Estimate:
    """An effect on one scale: in the units of the measure, or as a ratio.

    Attributes
    ----------
    effect
        Of one change: how much it moves the measure. Of several: their interaction, the difference
        of the differences (or ratio of the ratios). Mean over seeds; geometric for ratios.
    interval
        Student's t over seeds; None below two seeds.
    joint
        All changes together against the reference.
    verdict
        None without an interval.
    seeds, dropped
        Seeds that count, and those that do not because one of the cells involved has no value (or,
        for a ratio, one that is not positive).
    """

    effect: float
    interval: Interval | None
    joint: float
    verdict: Verdict | None
    seeds: int
    dropped: int


@dataclass(frozen=True)
class Effect:
    """The effect of one change, or the interaction of several.

    `together` is the level that stands for all changes at once where it is named (`joint_effects`);
    None where the factors are axes of their own.
    """

    changes: tuple[Change, ...]
    together: Any
    difference: Estimate
    ratio: Estimate


@dataclass(frozen=True)
class EffectGroup:
    """The effects on one part of the measure: ``{"slo_class": "critical"}``, nothing if whole."""

    labels: dict[str, Any]
    effects: tuple[Effect, ...]


@dataclass(frozen=True)
class Effects:
    """Effects of factors on a measure.

    `averaged` are the axes that every effect is a mean over besides the other factors; `skipped`
    those that have a single level; `missing` counts the cells without a value by their status;
    `seeds_note` warns of too few seeds.
    """

    metric: str
    units: str
    long_name: str
    factors: tuple[str, ...]
    averaged: tuple[str, ...]
    skipped: tuple[str, ...]
    seeds: int | None
    seeds_note: str
    confidence: float
    missing: dict[str, int]
    groups: tuple[EffectGroup, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values for JSON; what has no value is None."""
        plain: dict[str, Any] = jsonable(self)
        return plain
