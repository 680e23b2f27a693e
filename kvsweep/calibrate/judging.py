"""Is a fit good enough to be used? What is wrong with it, in words."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kvsweep.calibrate.comparison import ALL, FITTED, HELD_OUT, ComparedRow

MEAN_LIMIT = 0.05
"""Relative error of a mean beyond which a fit is bad: a fair one is off by 1 %."""

REQUEST_LIMIT = 0.1
"""The same for the median request."""

PREFIX_LIMIT = 0.1
"""The same for medians of trials, of which the published ones scatter by 6 %."""


def problems_of_rows(rows: Iterable[ComparedRow], parts: tuple[str, ...]) -> list[str]:
    """Name the means of some parts that are too far off."""
    return [
        f"{row.metric} mean, {row.part}, {_off(row)}"
        for row in rows
        if row.part in parts and row.statistic == "mean" and not abs(row.error) <= MEAN_LIMIT
    ]


def _off(row: ComparedRow) -> str:
    """Say by how much; of tokens that came all at once there is no share."""
    if row.real:
        return f"is off by {100 * row.error:+.1f} %"
    return "is 0 as measured: last tokens came with the first, as without streaming"


def judge_served(
    part: list[ComparedRow], whole: list[ComparedRow], request_error: float
) -> tuple[str, ...]:
    """Return what makes a fit bad, nothing if it is good.

    Parameters
    ----------
    part, whole : list of ComparedRow
        Of the fit to the first part, which predicts the rest, and of that to all.
    request_error : float
        Median over all requests of the relative error of the time to the last token, fit to all.
    """
    problems = problems_of_rows(part, (FITTED, HELD_OUT))
    problems += [f"{text} (fit to all)" for text in problems_of_rows(whole, (ALL,))]
    if not request_error <= REQUEST_LIMIT:
        problems.append(f"the median request is off by {100 * request_error:.1f} % (fit to all)")
    return tuple(problems)


def judge_prefix(misses: list[float], errors: list[float]) -> tuple[str, ...]:
    """Return what makes a fit to trials bad: errors of fitted and of predicted medians."""
    problems = []
    if not max(misses) <= PREFIX_LIMIT:
        problems.append(f"a fitted median is off by {100 * max(misses):.1f} %")
    if not np.isnan(errors).all() and not np.mean(errors) <= PREFIX_LIMIT:
        problems.append(f"predicted medians are off by {100 * np.mean(errors):.1f} % on average")
    return tuple(problems)


def marked(fit: str, problems: tuple[str, ...]) -> str:
    """Write a preset's ``fit``: a bad one says so first."""
    return f"BAD FIT ({'; '.join(problems)}): {fit}" if problems else fit
