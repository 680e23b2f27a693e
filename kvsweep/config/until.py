"""``seed = { until = ... }``: as many seeds as make the interval of a measure narrow enough."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from kvsweep.config.base import Key, KeyProblem, Name, Positive, Section
from kvsweep.config.explain import first_problem, shown
from kvsweep.limits import MAX_AXIS_VALUES

GROWTH = 1.5
"""How many times as many seeds each look has as the one before.

Few looks: each further one is a chance to stop by luck. docs/statistics.md has how often the
intervals held; with seeds doubled that was the same, at up to a third more simulations.
"""

Seeds = Annotated[int, Field(strict=True, ge=3, le=MAX_AXIS_VALUES)]


class Until(Section):
    """When there are seeds enough.

    Attributes
    ----------
    metric : str
        A measure of which a cell has one value.
    relative : float or None
        Half width of the interval of the mean over seeds, as a share of that mean.
    absolute : float or None
        Half width in the units of the measure; with both, either is enough.
    confidence : float
        Of the interval, by Student's t.
    least, most : int
        Seeds at the first look, and at the last.
    """

    metric: Annotated[Name, Key("1", "measure of which a cell has one value")]
    relative: Annotated[
        Positive | None, Key("1", "half width of the interval, as a share of the mean")
    ] = None
    absolute: Annotated[
        Positive | None, Key("1", "half width of the interval, in the unit of the measure")
    ] = None
    confidence: Annotated[
        float, Field(strict=True, gt=0.0, lt=1.0), Key("1", "confidence of the interval")
    ] = 0.95
    least: Annotated[Seeds, Key("1", "seeds at the first look")] = 20
    most: Annotated[Seeds, Key("1", "seeds at the last look")] = 1000

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.relative is None and self.absolute is None:
            raise KeyProblem((), "needs relative = SHARE or absolute = VALUE: how narrow")
        if self.least > self.most:
            raise KeyProblem(("least",), f"{self.least:,} is more than most, {self.most:,}")
        return self

    def __str__(self) -> str:
        """Say what is asked for: ``e2e_p99_ms to ± 2 % (95 % confidence)``."""
        goals = [] if self.relative is None else [f"{100 * self.relative:.3g} %"]
        goals += [] if self.absolute is None else [f"{self.absolute:g}"]
        sure = f"{100 * self.confidence:.4g} % confidence"
        return f"{self.metric} to ± {' or '.join(goals)} ({sure})"

    def next(self, seeds: int) -> int:
        """Return the seeds of the look after one with so many."""
        return min(self.most, ceil(GROWTH * seeds))


class UntilProblem(ValueError):
    """What is wrong with it, and at which key below ``seed``."""

    def __init__(self, path: tuple[str | int, ...], message: str) -> None:
        super().__init__(message)
        self.path = path


def read_until(spec: Mapping[str, Any]) -> Until:
    """Return what a table with a key ``until`` asks for.

    Raises
    ------
    UntilProblem
        If it is no good.
    """
    others = [key for key in spec if key != "until"]
    if others:
        raise UntilProblem((others[0],), "not beside until, which has least and most")
    if not isinstance(spec["until"], dict):
        example = '{ metric = "e2e_p99_ms", relative = 0.02 }'
        message = f"expected a table, as {example}, got {shown(spec['until'])}"
        raise UntilProblem(("until",), message)
    try:
        return Until.model_validate(spec["until"])
    except ValidationError as error:
        path, message = first_problem(error, Until, spec["until"])
        raise UntilProblem(("until", *path), message) from None
