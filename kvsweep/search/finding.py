"""What a search has found, read off its samples, at its end or wherever it was stopped."""

from __future__ import annotations

from math import isfinite, isinf, isnan, nan

from kvsweep.analysis.crossing import Outcome
from kvsweep.search.aims import Aim, Found
from kvsweep.search.samples import Reading, Samples

SEEDS = 16
"""Seeds of a first interval: of fewer, skewed measures are seen too little of."""


def found_of(samples: Samples, aim: Aim, answer: float, stopped: str) -> Found:
    """Return what samples tell.

    Parameters
    ----------
    samples, aim
        Of the search.
    answer : float
        The value that was shown; NaN if the search did not get to that.
    stopped : str
        Why the search ended.
    """
    reading, seeds = _best_reading(samples, aim)
    ends = (samples.space.at(reading.low), samples.space.at(reading.high))
    return Found(
        samples=samples,
        outcome=_outcome(reading),
        crossing=samples.space.at(reading.crossing),
        low=min(ends),
        high=max(ends),
        seeds=seeds,
        t=aim.t(seeds),
        answer=answer if _is_still_shown(samples, aim, answer) else shown(samples, aim, reading),
        stopped=stopped,
        back=_back(samples, reading, seeds),
    )


def _best_reading(samples: Samples, aim: Aim) -> tuple[Reading, int]:
    """Read with the most seeds that tell where the crossing is."""
    counts = {samples.seeds(value) for value in samples.excess}
    reading, seeds = Reading(nan, nan, nan, (nan, nan)), 0
    for seeds in sorted(counts, reverse=True):
        reading = samples.read(seeds, aim.t(seeds))
        if not isinf(reading.crossing):
            break
    return reading, seeds


def shown(samples: Samples, aim: Aim, reading: Reading) -> float:
    """Return the tightest known value before the crossing that is shown within all limits."""
    least = min(SEEDS, aim.max_seeds)
    found = nan
    for value in samples.points(least):
        before = not samples.space.depth(value) > reading.crossing
        if before and samples.is_shown(value, aim.t(samples.seeds(value))):
            found = value
    return found


def _is_still_shown(samples: Samples, aim: Aim, answer: float) -> bool:
    """Whether an answer holds with the seeds that it got since, as where the budget ended first."""
    seeds = samples.seeds(answer)
    return seeds > 0 and samples.is_shown(answer, aim.t(seeds))


def _back(samples: Samples, reading: Reading, seeds: int) -> tuple[float, ...]:
    """Return values where all seeds say the opposite of what a monotone curve would."""
    found = []
    for value in filter(samples.agree, samples.excess):
        depth, past = samples.space.depth(value), samples.is_past(value)
        # Where a seed has no value, fewer seeds within their limits tell nothing of that one.
        known = not isnan(reading.crossing) or samples.seeds(value) >= seeds
        if (past and depth < reading.kept) or (not past and known and depth > reading.high):
            found.append(value)
    return tuple(sorted(found))


def _outcome(reading: Reading) -> Outcome:
    if isnan(reading.crossing):
        return Outcome.MISSING
    if isfinite(reading.crossing):
        return Outcome.CROSSES
    return Outcome.NEVER if reading.crossing > 0 else Outcome.ALREADY
