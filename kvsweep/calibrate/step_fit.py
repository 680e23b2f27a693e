"""Fitting step times that were measured part by part, with intervals, and predicting.

Models are fitted to the medians of the batches to fit to, by relative errors, and judged on the
others. Intervals are bootstrap percentiles: batches are drawn again, and the trials of each, so
that they tell how the coefficients depend on what was laid out as well as on the clock's scatter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvsweep.calibrate.robust import Floats
from kvsweep.calibrate.step_models import (
    SOLVERS,
    Solver,
    StepTimes,
    in_units,
    names_of,
    note_of,
    predict,
    terms_of,
)

DRAWS = 200
"""Draws of the bootstrap."""

INTERVAL = (2.5, 97.5)
"""Percentiles of an interval of 95 %."""


@dataclass(frozen=True)
class StepFit:
    """A model of step times.

    Attributes
    ----------
    kind : str
        ``linear``, ``roofline`` or ``two-sums``.
    beta, memory : tuple of float
        As of `Latency`, with the numbers of `Latency.window` behind them, if there is one; `memory`
        is empty of a linear one, and of a mixture of experts has one more, the first of
        `Latency.experts`.
    values, low, high : tuple of float
        What was fitted (`names`), and the ends of its intervals.
    errors : array
        Predicted over measured time - 1, of the batches held out.
    note : str
        What the measurement does not tell of it, if anything.
    """

    kind: str
    beta: tuple[float, ...]
    memory: tuple[float, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    errors: Floats
    note: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Of what was fitted."""
        return names_of(self.kind, self.beta, self.memory)

    @property
    def error(self) -> float:
        """Median size of the errors."""
        return float(np.median(np.abs(self.errors)))


def fit_steps(times: StepTimes, kind: str, draws: int = DRAWS) -> StepFit:
    """Fit one model, with intervals, and predict what was held out."""
    solve = SOLVERS[kind]
    rows = np.flatnonzero(~times.held_out)
    values = solve(times, rows, times.medians[rows], None)
    drawn = _bootstrap(times, solve, rows, values, draws)
    low, high = np.percentile(drawn, INTERVAL, axis=0)
    beta, memory = terms_of(times, kind, values)
    held = times.held_out
    predicted = predict(beta, memory, times.sums[held])
    point, *ends = (in_units(kind, terms) for terms in (values, low, high))
    return StepFit(
        kind,
        tuple(beta.tolist()),
        tuple(memory.tolist()),
        values=tuple(point.tolist()),
        low=tuple(np.minimum(*ends).tolist()),  # of rates, the ends change places
        high=tuple(np.maximum(*ends).tolist()),
        errors=predicted / times.medians[held] - 1,
        note=note_of(beta, memory, times.sums[rows]),
    )


def _bootstrap(
    times: StepTimes, solve: Solver, rows: NDArray[np.intp], near: Floats, draws: int
) -> Floats:
    rng = np.random.default_rng(0)
    trials = times.trials[:, rows]
    found = []
    for _ in range(draws):
        picked = rng.integers(trials.shape[2], size=trials.shape)
        medians = np.median(np.take_along_axis(trials, picked, axis=2), axis=2).sum(axis=0)
        batches = rng.integers(len(rows), size=len(rows))
        found.append(solve(times, rows[batches], medians[batches], near))
    return np.array(found)
