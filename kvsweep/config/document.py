"""The tables of a sweep file other than the scenario's."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from kvsweep.config.base import Count, Name, Positive, Real, Section

Table = dict[str, Any]


def _objective(text: str) -> str:
    if not re.fullmatch(r"[^:\s]+:(min|max)", text):
        raise ValueError(f"{text!r} is not of the form 'measure:min' or 'measure:max'")
    return text


def _ends(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) != 2 or not values[0] < values[1]:
        raise ValueError("expected two numbers, as in [1, 64]: the least and the most")
    return values


class AskedCliff(Section):
    """Where a metric crosses a threshold.

    Attributes
    ----------
    metric : str
        A result variable.
    along : str
        The dimension that is scanned, from its generous end.
    threshold : float
        The largest value still on the safe side.
    """

    metric: Name
    along: Name
    threshold: Real


class Pareto(Section):
    """Which policies are not beaten on all objectives.

    Attributes
    ----------
    objectives : tuple of str
        ``measure:min`` or ``measure:max`` each.
    """

    objectives: Annotated[
        tuple[Annotated[str, AfterValidator(_objective)], ...], Field(min_length=1)
    ]


class AskedSize(Section):
    """What `kvsweep size` is to find; its options say the same, and come first.

    Attributes
    ----------
    find : str or None
        ``blocks``, ``instances`` or ``rate``.
    targets : tuple of str
        ``MEASURE<=LIMIT`` or ``MEASURE>=LIMIT`` each; none: the sweep's service levels.
    attainment : float or None
        Share of the requests that are to keep the service levels.
    between : tuple of float or None
        Range that is searched, in the units of the axis.
    confidence : float or None
        Of the answer.
    tolerance : float or None
        How near the answer is to be to the crossing, relative to it.
    max_seeds, budget : int or None
        Most seeds of a value, and most simulations of a group.
    """

    find: Literal["blocks", "instances", "rate"] | None = None
    targets: tuple[Name, ...] = ()
    attainment: Annotated[float, Field(strict=True, gt=0.0, le=1.0)] | None = None
    between: Annotated[tuple[Positive, ...], AfterValidator(_ends)] | None = None
    confidence: Annotated[float, Field(strict=True, gt=0.5, lt=1.0)] | None = None
    tolerance: Annotated[float, Field(strict=True, gt=0.0, lt=1.0)] | None = None
    max_seeds: Annotated[Count, Field(le=100_000)] | None = None
    budget: Count | None = None


class Document(Section):
    """A sweep file before its scenario is composed."""

    title: str = ""
    question: str = ""
    workload: Table = Field(default={})
    cluster: Table = Field(default={})
    engine: Table = Field(default={})
    cache: Table = Field(default={})
    latency: Table = Field(default={})
    model: Table = Field(default={})
    slo: Table = Field(default={})
    policies: dict[str, Table] = Field(default={})
    grid: Table = Field(default={})
    design: Table = Field(default={})
    cliff: AskedCliff | None = None
    pareto: Pareto | None = None
    size: AskedSize | None = None
