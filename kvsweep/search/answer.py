"""From what was found to what is handed on: what was tried, the answer, its margin, the server."""

from __future__ import annotations

from math import isfinite, isnan
from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis.crossing import Outcome
from kvsweep.search.answer_records import (
    DROPS,
    NO_VALUE,
    OPEN,
    PAST,
    WITHIN,
    Candidate,
    GroupAnswer,
    Margin,
    Measured,
    SearchAnswer,
)
from kvsweep.search.flags import served
from kvsweep.search.samples import mean_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsweep.search.aims import Found
    from kvsweep.search.problem import Labels, Problem
    from kvsweep.search.targets import Target


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
    first, first_at = _first(problem, found)
    has_interval = found.t > 0.0
    return GroupAnswer(
        labels=labels,
        outcome=found.outcome.value,
        crossing=_finite(found.crossing),
        low=_finite(found.low) if has_interval else None,
        high=_finite(found.high) if has_interval else None,
        answer=answer,
        requests_per_s=_requests_per_s(problem, labels, answer),
        margins=tuple(_margin(t, m) for t, m in zip(problem.targets, known.measures, strict=True))
        if known
        else (),
        first=first,
        first_at=first_at,
        seeds=found.seeds,
        simulations=found.samples.simulations,
        stopped=found.stopped,
        back=found.back,
        warnings=found.warnings,
        candidates=candidates,
        served=None
        if answer is None
        else served(problem.scenario(labels, answer), problem.sweep.base_dir),
    )


def _requests_per_s(problem: Problem, labels: Labels, answer: float | None) -> float | None:
    """Return the mean rate of a trace at the answer."""
    if answer is None or problem.axis.key != "workload.scale":
        return None
    requests = problem.trace(labels, answer)
    assert requests is not None  # `workload.scale` is of a trace
    arrivals = requests.arrival_us
    span = float(arrivals[-1] - arrivals[0]) / 1e6
    return (len(arrivals) - 1) / span if span > 0.0 else None


def _candidate(problem: Problem, found: Found, value: float) -> Candidate:
    samples, aim = found.samples, problem.aim
    seeds = samples.seeds(value)
    t = aim.t(seeds)
    excess = samples.excess[value]
    if np.isnan(excess).any():
        verdict = NO_VALUE
    elif samples.is_surely_past(value, seeds, t):
        verdict = PAST
    elif value in samples.dropping:
        verdict = DROPS
    else:
        verdict = WITHIN if samples.is_shown(value, t) else OPEN
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


def _first(problem: Problem, found: Found) -> tuple[str | None, int | float | None]:
    """Return the measure that is furthest past its limit at the nearest value past it, and that."""
    if found.outcome is not Outcome.CROSSES:
        return None, None
    samples = found.samples
    past = [v for v in samples.points(found.seeds) if samples.is_past(v)]
    past = [v for v in past if samples.space.depth(v) >= samples.space.depth(found.crossing)]
    known = [v for v in past if not np.isnan(samples.means(v)).any()]
    if not known:
        return None, None
    means = samples.means(known[0], found.seeds)
    scale = np.array([abs(target.limit) or 1.0 for target in problem.targets])
    return problem.targets[int(np.argmax(means / scale))].metric, problem.typed(known[0])


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
