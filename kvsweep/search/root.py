"""The search for where a limit is passed: it asks for simulations and is sent their excesses.

First a few values over the whole range, with few seeds; then halving while all seeds agree on which
side a value is; where they do not, more seeds at the few values around, until the interval is
narrow. That is retrospective approximation (H. Chen and B. W. Schmeiser, Stochastic root finding
via retrospective approximation, IIE Transactions 33(3), 2001): roots of the mean of a few paired
seeds, which tell where to look with more of them. docs/statistics.md says how often it held.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from itertools import pairwise
from math import ceil, inf, isfinite, isinf, isnan, nan, sqrt

import numpy as np

from kvsweep.analysis import ranks
from kvsweep.search.aims import Aim, Ask, Enough, Found, Given
from kvsweep.search.finding import SEEDS, found_of
from kvsweep.search.placing import around, lacking
from kvsweep.search.samples import Reading, Samples
from kvsweep.search.space import Space

Steps = Generator[Ask, Given, None]

FIRST_SEEDS = 3
"""Seeds while it is looked where to look."""

CLEAR = 0.8
"""Rank correlation from which one seed tells the generous end.

With small pools a curve may turn (one request at a time is never preempted), and then does not.
"""

MOST_POINTS = 60
"""Values that are looked at with one number of seeds; halving takes some 30 for any range."""


class Search:
    """A search in one space.

    Parameters
    ----------
    space : Space
        Where.
    aim : Aim
        How far.
    oriented : bool
        Whether the generous end of `space` is known; else it is the one towards which the measure
        gets better, as in the analysis of a grid.
    unclear : float
        Rank correlation of the measure with the axis below which the end of `space` stays.
    """

    def __init__(
        self, space: Space, aim: Aim, *, oriented: bool = True, unclear: float = 0.0
    ) -> None:
        self.aim = aim
        self.samples = Samples(space)
        self._oriented = oriented
        self._unclear = unclear
        self._answer = nan

    @property
    def space(self) -> Space:
        """The axis, turned the right way round once that is known."""
        return self.samples.space

    def run(self) -> Generator[Ask, Given, Found]:
        """Yield what is to be simulated, be sent what came out, return what was found."""
        try:
            yield from self._search()
            stopped = "tolerance"
        except Enough as reason:
            stopped = str(reason)
        return found_of(self.samples, self.aim, self._answer, stopped)

    def _search(self) -> Steps:
        first = min(FIRST_SEEDS, self.aim.max_seeds)
        ladder = self.space.ladder()
        yield from self._ensure(ladder, 1)
        if not self._oriented:
            if abs(self._slope(ladder)) < CLEAR:
                yield from self._ensure(ladder, first)
            self._orient(ladder)
            ladder = self.space.ladder()
        bracket = yield from self._sure_bracket(ladder, first)
        if bracket is None:
            bracket = yield from self._look_at_end(ladder)
        if bracket is not None:
            points = yield from self._halve(*bracket, first)
            yield from self._refine(points)

    def _ensure(self, values: Iterable[float], seeds: int) -> Steps:
        """Have at least so many seeds of each value."""
        known = {value: self.samples.seeds(value) for value in values}
        wanted = {value: (have, seeds) for value, have in known.items() if have < seeds}
        cost = sum(seeds - have for have, _ in wanted.values())
        if self.samples.simulations + cost > self.aim.budget:
            raise Enough("budget")
        if wanted:
            given = yield wanted
            for value, excess in given.items():
                self.samples.add(value, excess)

    def _slope(self, ladder: tuple[float, ...]) -> float:
        """Return the rank correlation of measure and axis; what has no value is worst."""
        means = np.array([self.samples.means(value).max() for value in ladder])
        rho = float(ranks.spearman(np.array(ladder), np.where(np.isnan(means), np.inf, means)))
        return 0.0 if isnan(rho) else rho

    def _orient(self, ladder: tuple[float, ...]) -> None:
        """Find the end towards which the measure gets better; if that is unclear it stays."""
        rho = self._slope(ladder)
        if rho and abs(rho) >= self._unclear:
            self.samples.space = replace(self.space, generous_high=rho < 0.0)

    def _bracket(self, ladder: tuple[float, ...]) -> tuple[float, float] | None:
        """Return the first neighbours of which one is within the limits, the next past them."""
        for good, bad in pairwise(ladder):
            if self.samples.is_past(bad) and not self.samples.is_past(good):
                return good, bad
        return None

    def _sure_bracket(
        self, ladder: tuple[float, ...], seeds: int
    ) -> Generator[Ask, Given, tuple[float, float] | None]:
        """Return the first such neighbours of which so many seeds say so."""
        while (found := self._bracket(ladder)) is not None:
            if min(map(self.samples.seeds, found)) >= seeds:
                break
            yield from self._ensure(found, seeds)
        return found

    def _look_at_end(
        self, ladder: tuple[float, ...]
    ) -> Generator[Ask, Given, tuple[float, float] | None]:
        """Make sure that nothing is passed in the range; return neighbours if it is after all."""
        already = self.samples.is_past(ladder[0])
        end = ladder[0] if already else ladder[-1]
        for seeds in self._stages():
            yield from self._ensure([end], seeds)
            bracket = self._bracket(ladder)
            if bracket is not None:
                return bracket
            t = self.aim.t(seeds)
            if already and self.samples.is_surely_past(end, seeds, t):
                return None
            if not already and self.samples.is_surely_within(end, seeds, t):
                self._answer = end
                return None
        raise Enough("seeds")

    def _stages(self) -> Iterable[int]:
        """Yield growing numbers of seeds up to the most."""
        seeds = SEEDS
        while seeds < self.aim.max_seeds:
            yield seeds
            seeds *= 2
        yield self.aim.max_seeds

    def _halve(self, good: float, bad: float, seeds: int) -> Generator[Ask, Given, list[float]]:
        """Halve while the seeds agree; return two values around the interval that is to be."""
        while (middle := self.space.between(good, bad)) is not None:
            yield from self._ensure([middle], seeds)
            if not self.samples.agree(middle):
                outer = self.space.between(good, middle)
                if outer is not None:
                    yield from self._ensure([outer], seeds)
                    if self.samples.is_past(outer):  # a tooth of the curve is further out
                        bad = outer
                        continue
                return (yield from self._expected(seeds)) or [good, middle, bad]
            if self.samples.is_past(middle):
                bad = middle
            else:
                good = middle
        return [good, bad]

    def _expected(self, seeds: int) -> Generator[Ask, Given, list[float] | None]:
        """Return two values around the interval of `SEEDS` seeds, as the first ones foretell it."""
        more = min(SEEDS, self.aim.max_seeds)
        t = self.aim.t(more) * sqrt(seeds / more)
        middle = self.samples.read(seeds, t).crossing
        if isfinite(middle):
            yield from self._ensure([self.space.nearest(self.space.at(middle))], seeds)
        return around(self.samples, self.samples.read(seeds, t), 1.0)

    def _refine(self, points: list[float]) -> Steps:
        """Add seeds at the values around the crossing until the interval is narrow enough."""
        seeds = min(SEEDS, self.aim.max_seeds)
        while True:
            yield from self._ensure(points, seeds)
            reading = yield from self._settle(seeds)
            if self.aim.shown:
                yield from self._show(reading, seeds)
                reading = self._read(seeds)
            narrow = self._is_narrow(reading, seeds)
            if narrow or seeds >= self.aim.max_seeds:
                if self.aim.shown:
                    yield from self._show(reading, seeds)
                if narrow:
                    return
                raise Enough("seeds")
            more = self._more_seeds(reading, seeds)
            points = around(self.samples, reading, sqrt(seeds / more)) or points
            seeds = more

    def _read(self, seeds: int) -> Reading:
        return self.samples.read(seeds, self.aim.t(seeds))

    def _settle(self, seeds: int) -> Generator[Ask, Given, Reading]:
        """Look at further values until the interval lies between, and straight lines are short."""
        for turn in range(MOST_POINTS):
            value = lacking(self.samples, self._read(seeds), seeds, turn)
            if value is None:
                break
            yield from self._ensure([value], seeds)
        return self._read(seeds)

    def _is_narrow(self, reading: Reading, seeds: int) -> bool:
        """Whether the interval, or the way from the crossing to the answer, is short enough."""
        if isnan(reading.crossing) and not (self.aim.shown and isfinite(reading.piece[0])):
            return True  # next to values without a result, whose neighbours are known
        if isinf(reading.crossing):
            return reading.low == reading.high == reading.crossing
        if not self.aim.shown:
            return 0.5 * (reading.high - reading.low) <= self._goal(reading)
        if isnan(self._answer):
            return False
        inner = self.space.next_inward(self._answer)
        if self._is_surely_past(inner, seeds):
            return True
        return abs(self.space.depth(self._answer) - reading.end) <= self._goal(reading)

    def _is_surely_past(self, value: float, seeds: int) -> bool:
        known = self.samples.seeds(value) >= seeds
        return known and self.samples.is_surely_past(value, seeds, self.aim.t(seeds))

    def _goal(self, reading: Reading) -> float:
        place = self.space.at(reading.end)
        return self.aim.tolerance * (abs(place) or self.space.step(place))

    def _more_seeds(self, reading: Reading, seeds: int) -> int:
        """Return how many seeds should make the interval narrow, half as many more at least."""
        half = 0.5 * (reading.high - reading.low)
        wanted = 4 * seeds
        if isfinite(half):
            wanted = ceil(min(16.0, 1.1 * (half / self._goal(reading)) ** 2) * seeds)
        return min(self.aim.max_seeds, max(ceil(1.5 * seeds), wanted))

    def _show(self, reading: Reading, seeds: int) -> Steps:
        """Find the first value outward from the interval that its own simulations show within.

        Of tighter ones that were looked at before none is taken: the tightest of several that are
        shown is past a limit more often than the confidence says.
        """
        t = self.aim.t(seeds)
        self._answer = nan
        if reading.low == -inf:
            return
        kept = reading.kept
        value = self.space.ends[1] if kept == inf else self.space.outward(self.space.at(kept))
        for _ in range(MOST_POINTS):
            yield from self._ensure([value], seeds)
            if self.samples.is_surely_within(value, seeds, t):
                self._answer = value
                return
            if value == self.space.ends[0]:
                return
            away = abs(self.space.depth(value) - reading.end)
            value = self.space.next_outward(value, 0.5 * away if isfinite(away) else 0.0)
