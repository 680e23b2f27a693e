"""The axis of a search: its ends, its steps, and which end is the generous one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, log10, sqrt

WIDE = 8.0
"""From this ratio of its ends on an axis is halved by ratio, below by difference."""

DIGITS = 3
"""Significant digits to which values are searched that are no whole numbers."""

RUNGS = 5


@dataclass(frozen=True)
class Space:
    """Where to search.

    Attributes
    ----------
    low, high : float
        Ends of the range, in the units of the axis.
    integer : bool
        Whether its values are whole numbers, which are then found to one.
    generous_high : bool
        Whether the high end is the one at which limits are kept, as that of blocks is; of a rate
        it is the low one.
    """

    low: float
    high: float
    integer: bool
    generous_high: bool = True

    @property
    def ends(self) -> tuple[float, float]:
        """The generous end and the tight one."""
        return (self.high, self.low) if self.generous_high else (self.low, self.high)

    def depth(self, value: float) -> float:
        """Return the place of a value in scan order: larger is tighter."""
        return -value if self.generous_high else value

    def at(self, depth: float) -> float:
        """Return the value at a place in scan order."""
        return -depth if self.generous_high else depth

    def step(self, value: float) -> float:
        """Return the distance of neighbours at a value."""
        if self.integer or value == 0.0:
            return 1.0
        return float(10.0 ** (floor(log10(abs(value))) - DIGITS + 1))

    def ladder(self) -> tuple[float, ...]:
        """Return values over the whole range, from the generous end, that are looked at first."""
        first, last = self.ends
        if first == last:
            return (first,)
        inner = [self._part(i / (RUNGS - 1)) for i in range(1, RUNGS - 1)]
        if not self.generous_high:
            inner.reverse()
        rungs = [first, *(self.nearest(value) for value in reversed(inner)), last]
        return tuple(dict.fromkeys(rungs))

    def between(self, a: float, b: float) -> float | None:
        """Return a value in the middle of two, None if they are neighbours."""
        low, high = sorted((a, b))
        middle = sqrt(low * high) if low > 0.0 and high > WIDE * low else 0.5 * (low + high)
        value = self.nearest(middle)
        return value if low < value < high else None

    def nearest(self, value: float) -> float:
        """Return the value of the axis that is nearest."""
        return self._snapped(value, round)

    def outward(self, value: float) -> float:
        """Return the value of the axis that is nearest on the generous side, or there already."""
        return self._snapped(value, ceil if self.generous_high else floor)

    def next_outward(self, value: float, by: float = 0.0) -> float:
        """Return a value more generous by a step, or by a distance if that is more."""
        distance = max(by, self.step(value))
        return self.outward(value + distance if self.generous_high else value - distance)

    def next_inward(self, value: float) -> float:
        """Return the value one step tighter."""
        step = self.step(value)
        return self.nearest(value - step if self.generous_high else value + step)

    def _part(self, share: float) -> float:
        if self.low > 0.0 and self.high > WIDE * self.low:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + share * (self.high - self.low)

    def _snapped(self, value: float, rounding: Callable[[float], int]) -> float:
        step = self.step(value)
        # Of 2.0000000001 steps nothing is left over.
        count = rounding(round(value / step, 9))
        found = float(round(count * step, max(0, -floor(log10(step)))))
        return min(max(found, self.low), self.high)
