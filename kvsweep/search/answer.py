"""What a search hands on: the values that were tried, the answer, its margin, the server."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis.crossing import Outcome
from kvsweep.analysis.jsonable import jsonable
from kvsweep.search.flags import Served, served
from kvsweep.search.samples import mean_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsweep.search.problem import Labels, Problem
    from kvsweep.search.records import Found
    from kvsweep.search.targets import Target

WITHIN, PAST, OPEN, NO_VALUE = "within", "past", "open", "no value"


@dataclass(frozen=True)
class Measured:
    """A measure at one value of the axis: mean over the seeds, its interval, the limit.

    `low` and `high` are None where seeds do not tell: there is one, or they are all equal.
    """

    metric: str
    mean: float
    low: float | None
    high: float | None
    limit: float


@dataclass(frozen=True)
class Candidate:
    """A value that was tried; `verdict` is ``within``, ``past``, ``open`` or ``no value``."""

    value: int | float
    seeds: int
    verdict: str
    measures: tuple[Measured, ...]


@dataclass(frozen=True)
class Margin:
    """How far a measure is from its limit at the answer.

    Attributes
    ----------
    metric : str
        The measure.
    mean, limit : float
        Its mean over the seeds, and the limit.
    room : float or None
        Share of the limit that is left; None for a limit of 0.
    """

    metric: str
    mean: float
    limit: float
    room: float | None


@dataclass(frozen=True)
class GroupAnswer:
    """The answer of one combination of the other axes.

    Attributes
    ----------
    labels : dict
        The combination.
    outcome : str
        ``crosses``, ``never`` (no limit is passed in the range), ``already`` (one is everywhere)
        or ``missing`` (where it is passed cells have no value).
    crossing : float or None
        Where the mean over the seeds passes a limit.
    low, high : float or None
        Its interval; None where it lies outside the range, or there is one seed.
    answer : int, float or None
        The tightest value that is shown to be within all limits; None if none is.
    tighter : float or None
        How much tighter than the answer the crossing is, as a share of the answer.
    margins : tuple of Margin
        At the answer.
    first : str or None
        The measure that passes its limit first when the axis gets tighter.
    seeds, simulations : int
        Seeds at the values near the crossing, and simulations in all.
    stopped : str
        ``tolerance``, ``seeds``, ``budget`` or ``interrupted``: why no more was simulated.
    back : tuple of float
        Values that contradict a curve that only gets worse.
    candidates : tuple of Candidate
        All that was tried, in the order of the axis.
    served : Served or None
        The server's flags at the answer.
    """

    labels: Labels
    outcome: str
    crossing: float | None
    low: float | None
    high: float | None
    answer: int | float | None
    tighter: float | None
    margins: tuple[Margin, ...]
    first: str | None
    seeds: int
    simulations: int
    stopped: str
    back: tuple[float, ...]
    candidates: tuple[Candidate, ...]
    served: Served | None


@dataclass(frozen=True)
class SearchAnswer:
    """The answers of a search; docs/sizing.md describes its JSON.

    `goal` is ``crossing`` (a cliff), ``smallest`` or ``highest``; `along` and `units` are the axis
    and its unit, `range` its ends, `generous` the end at which limits are kept.
    """

    sweep: str
    goal: str
    along: str
    units: str
    range: tuple[int | float, int | float]
    generous: str
    targets: tuple[str, ...]
    confidence: float
    simulations: int
    interrupted: bool
    groups: tuple[GroupAnswer, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values for JSON."""
        plain: dict[str, Any] = jsonable(self)
        return plain


def answer_of(
    problem: Problem, goal: str, units: str, found: Sequence[Found], interrupted: bool
) -> SearchAnswer:
    """Put together what was found in each group."""
    pairs = zip(problem.groups, found, strict=False)
    groups = tuple(_group(problem, labels, each) for labels, each in pairs)
    high = found[0].samples.space.generous_high if found else problem.space.generous_high
    return SearchAnswer(
        sweep=str(problem.sweep.path),
        goal=goal,
        along=problem.axis.name,
        units=units,
        range=(problem.typed(problem.space.low), problem.typed(problem.space.high)),
        generous="high" if high else "low",
        targets=tuple(map(str, problem.targets)),
        confidence=problem.aim.confidence,
        simulations=sum(group.simulations for group in groups),
        interrupted=interrupted,
        groups=groups,
    )


def _group(problem: Problem, labels: Labels, found: Found) -> GroupAnswer:
    answer = None if isnan(found.answer) else problem.typed(found.answer)
    values = sorted(found.samples.excess)
    candidates = tuple(_candidate(problem, found, value) for value in values)
    known = next((c for c in candidates if c.value == answer), None)
    has_interval = found.t > 0.0
    return GroupAnswer(
        labels=labels,
        outcome=found.outcome.value,
        crossing=_finite(found.crossing),
        low=_finite(found.low) if has_interval else None,
        high=_finite(found.high) if has_interval else None,
        answer=answer,
        tighter=_tighter(found) if answer is not None else None,
        margins=tuple(_margin(t, m) for t, m in zip(problem.targets, known.measures, strict=True))
        if known
        else (),
        first=_first(problem, found),
        seeds=found.seeds,
        simulations=found.samples.simulations,
        stopped=found.stopped,
        back=found.back,
        candidates=candidates,
        served=None
        if answer is None
        else served(problem.scenario(labels, answer), problem.sweep.base_dir),
    )


def _candidate(problem: Problem, found: Found, value: float) -> Candidate:
    samples, aim = found.samples, problem.aim
    seeds = samples.seeds(value)
    t = aim.t(seeds)
    excess = samples.excess[value]
    if np.isnan(excess).any():
        verdict = NO_VALUE
    elif samples.is_surely_within(value, seeds, t):
        verdict = WITHIN
    else:
        verdict = PAST if samples.is_surely_past(value, seeds, t) else OPEN
    measures = []
    for target, row in zip(problem.targets, excess, strict=True):
        measured = target.value(row)
        low, high = mean_interval(measured, t) or (None, None)
        measures.append(Measured(target.metric, float(measured.mean()), low, high, target.limit))
    return Candidate(problem.typed(value), seeds, verdict, tuple(measures))


def _margin(target: Target, measured: Measured) -> Margin:
    left = -float(target.excess(np.array(measured.mean)))
    room = left / abs(target.limit) if target.limit else None
    return Margin(measured.metric, measured.mean, measured.limit, room)


def _tighter(found: Found) -> float | None:
    if not isfinite(found.crossing) or not found.answer:
        return None
    return abs(found.answer - found.crossing) / abs(found.answer)


def _first(problem: Problem, found: Found) -> str | None:
    """Return the measure that is furthest past its limit at the nearest value past it."""
    if found.outcome is not Outcome.CROSSES:
        return None
    space = found.samples.space
    past = [v for v in found.samples.points(found.seeds) if found.samples.is_past(v)]
    past = [v for v in past if space.depth(v) >= space.depth(found.crossing)]
    known = [v for v in past if not np.isnan(found.samples.means(v)).any()]
    if not known:
        return None
    means = found.samples.means(known[0], found.seeds)
    scale = np.array([abs(target.limit) or 1.0 for target in problem.targets])
    return problem.targets[int(np.argmax(means / scale))].metric


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
