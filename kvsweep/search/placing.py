"""Which values a search looks at next, near a crossing that it has read off."""

from __future__ import annotations

from math import inf, isfinite, isnan

import numpy as np

from kvsweep.search.samples import Reading, Samples
from kvsweep.search.space import Space

CHORD = 1.5
"""Between two points a curve is taken to be straight over so many widths of the interval."""

AROUND = 1.6
"""Arms of the interval that is expected, so far from the crossing more seeds are taken.

The crossing moves with further seeds by a third of an arm or so; and the chord is to be short.
"""


def lacking(samples: Samples, reading: Reading, seeds: int, turn: int) -> float | None:
    """Return a value that is to be looked at too; None if the interval lies between the points.

    Parameters
    ----------
    samples, reading, seeds
        What is known of so many seeds.
    turn : int
        How many values were added before: straight lines tell where to look, and every second time
        a piece is halved, as they may tell badly.
    """
    space, points = samples.space, samples.points(seeds)
    generous, tight = space.ends
    tooth = _tooth(samples, reading, seeds)
    if tooth is not None:
        return tooth
    if reading.low == -inf and points[0] != generous:
        return _outside(samples, points[0], points[-1], generous)
    if reading.high == inf and points[-1] != tight:
        return _outside(samples, points[-1], points[0], tight)
    if isnan(reading.crossing):
        return _halved(space, *reading.piece)
    width = reading.high - reading.low
    for place in (reading.crossing, reading.low, reading.high):
        if not isfinite(place):
            continue
        a, b = _piece(samples, points, place)
        if b - a > max(CHORD * width, 1.001 * space.step(space.at(b))):
            value = space.nearest(space.at(place))
            return _halved(space, a, b) if turn % 2 or value in points else value
    return None


def _tooth(samples: Samples, reading: Reading, seeds: int) -> float | None:
    """Return a value further out than the crossing at which all of its few seeds are past.

    A curve may have teeth; wanted is the first crossing from the generous end.
    """
    for value in samples.points(1):
        if samples.space.depth(value) >= reading.low:
            break
        if samples.seeds(value) < seeds and samples.is_past(value) and samples.agree(value):
            return value
    return None


def around(samples: Samples, reading: Reading, shrinks: float) -> list[float] | None:
    """Return two values for more seeds, around the interval; None if it has no place or no end.

    Parameters
    ----------
    shrinks : float
        By which factor the interval is expected to shrink.
    """
    space, middle = samples.space, reading.crossing
    if not (isfinite(middle) and isfinite(reading.high - reading.low)):
        return None
    ends = [space.depth(end) for end in space.ends]
    places = [middle + AROUND * shrinks * (end - middle) for end in (reading.low, reading.high)]
    return [space.nearest(space.at(min(max(place, ends[0]), ends[1]))) for place in places]


def _outside(samples: Samples, value: float, other: float, end: float) -> float:
    """Return a value further out: the next that is known, or as far again, whichever is nearer."""
    space = samples.space
    here, there, last = (space.depth(v) for v in (value, other, end))
    inside = sorted((here, last))
    known = [v for v in samples.excess if v != value and inside[0] <= space.depth(v) <= inside[1]]
    reach = space.nearest(space.at(min(max(2.0 * here - there, inside[0]), inside[1])))
    further = [v for v in (*known, reach) if v != value]
    return min(further, key=lambda v: abs(v - value), default=end)


def _halved(space: Space, a: float, b: float) -> float | None:
    """Return the value in the middle of two places, None if there is none."""
    if not (isfinite(a) and isfinite(b)):
        return None
    return space.between(space.at(a), space.at(b))


def _piece(samples: Samples, points: list[float], place: float) -> tuple[float, float]:
    """Return the places of the points on both sides."""
    depths = [samples.space.depth(value) for value in points]
    right = min(max(int(np.searchsorted(depths, place)), 1), len(depths) - 1)
    return depths[right - 1], depths[right]
