"""The tables of a sweep file other than the scenario's."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from kvsweep.config.base import Name, Real, Section

Table = dict[str, Any]


def _objective(text: str) -> str:
    if not re.fullmatch(r"[^:\s]+:(min|max)", text):
        raise ValueError(f"{text!r} is not of the form 'measure:min' or 'measure:max'")
    return text


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
