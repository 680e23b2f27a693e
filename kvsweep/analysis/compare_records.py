"""What a comparison of two stores returns: plain records, written out by `kvsweep.report`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvsweep.analysis.effect_records import Verdict
from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.statistics import Interval


@dataclass(frozen=True)
class Differing:
    """A key that has another value in the other store; None where it is not there."""

    key: str
    a: Any
    b: Any


@dataclass(frozen=True)
class Unmatched:
    """Values of an axis that only one of the stores has, which are left out."""

    axis: str
    only_a: tuple[Any, ...]
    only_b: tuple[Any, ...]


@dataclass(frozen=True)
class Difference:
    """A measure of one cell in both stores.

    Attributes
    ----------
    labels : dict
        Value of each axis that both have.
    mean_a, mean_b : float
        Means over the seeds that count.
    difference : float
        ``mean_b - mean_a``, in the units of the measure.
    interval : Interval or None
        Of the difference, Student's t over the seeds: of differences within seeds if paired, else
        Welch's. None below two seeds.
    relative : float or None
        The difference over `mean_a`; None where that is not above 0.
    verdict : Verdict or None
        Whether B raises or lowers the measure; None without an interval.
    seeds, dropped : int
        Seeds that count, and those that do not because a cell has no value; of the store with the
        fewer that count where the stores are not paired.
    """

    labels: dict[str, Any]
    mean_a: float
    mean_b: float
    difference: float
    interval: Interval | None
    relative: float | None
    verdict: Verdict | None
    seeds: int
    dropped: int


@dataclass(frozen=True)
class ComparedAxis:
    """An axis that both stores have.

    Attributes
    ----------
    long_name, units : str
        Of its values.
    gib : float or None
        Memory of a unit on each GPU, where it is known and the same in both.
    """

    long_name: str
    units: str
    gib: float | None


@dataclass(frozen=True)
class Comparison:
    """Two stores compared on one measure, cell by cell.

    Attributes
    ----------
    paired : bool
        Whether differences are taken within seeds: both stores have seeds in common, drawn from the
        same random streams.
    same_requests : bool
        Whether equal seeds also are equal request lists, as the workloads are equal.
    differing : tuple of Differing
        Keys of the scenarios, and makers, that are not the same: what the difference is due to.
    unmatched : tuple of Unmatched
        What only one store has.
    seeds_note : str
        Warns of too few seeds.
    axes : dict of str to ComparedAxis
        What the labels of the differences are values of.
    several : tuple of str
        ``A``, ``B`` or both: what has values that its sweep has not, as of several stores that were
        put together. Its settings are those of the first.
    """

    a: str
    b: str
    metric: str
    units: str
    long_name: str
    confidence: float
    paired: bool
    same_requests: bool
    seeds_note: str
    differing: tuple[Differing, ...]
    unmatched: tuple[Unmatched, ...]
    differences: tuple[Difference, ...]
    axes: dict[str, ComparedAxis]
    several: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values for JSON; what has no value is None."""
        plain: dict[str, Any] = jsonable(self)
        return plain
