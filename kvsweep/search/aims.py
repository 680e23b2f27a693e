"""What a search is asked, what it asks for, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass

from kvsweep.analysis.crossing import Outcome
from kvsweep.analysis.warning_records import ResultWarning
from kvsweep.search.samples import Floats, Samples, t_of

Ask = dict[float, tuple[int, int]]
"""Values to simulate, each with seeds by number: from the first to before the second."""

Given = dict[float, Floats]
"""Excesses of what was asked for, (targets, seeds) each."""


class Enough(Exception):
    """The search is to end with what it knows: why."""


@dataclass(frozen=True)
class Aim:
    """When a search is done.

    Attributes
    ----------
    confidence : float
        Of the interval, or of the answer.
    shown : bool
        Whether an answer is wanted that is shown to be within all limits with that confidence,
        instead of an interval on both sides.
    tolerance : float
        Half width of the interval, relative to the crossing, that is narrow enough.
    max_seeds, budget : int
        Most seeds of a value, and most simulations in all.
    """

    confidence: float = 0.95
    shown: bool = False
    tolerance: float = 0.01
    max_seeds: int = 128
    budget: int = 2000

    def t(self, seeds: int) -> float:
        """Return how many standard errors make a mean of so many seeds sure."""
        return t_of(seeds, 2.0 * self.confidence - 1.0 if self.shown else self.confidence)


@dataclass(frozen=True)
class Found:
    """What a search has found.

    Attributes
    ----------
    samples : Samples
        All that was simulated.
    outcome : Outcome
        Whether a limit is passed in the range.
    crossing, low, high : float
        Where, and the ends of the interval, in the units of the axis; infinite outside the range,
        NaN where it is not known.
    seeds : int
        Of each value near the crossing.
    t : float
        Student's t of the interval.
    answer : float
        The value to be handed on, within all limits (see `Aim.shown`); NaN if there is none.
    stopped : str
        Why the search ended: ``tolerance``, ``seeds``, ``budget``, ``interrupted``.
    back : tuple of float
        Values that contradict a curve that only gets worse: past further out, or within further in.
    warnings : tuple of ResultWarning
        What misleads at the answer.
    """

    samples: Samples
    outcome: Outcome
    crossing: float
    low: float
    high: float
    seeds: int
    t: float
    answer: float
    stopped: str
    back: tuple[float, ...]
    warnings: tuple[ResultWarning, ...] = ()
