"""The tables of a sweep file other than the scenario's."""

import re
from typing import Annotated, Any

from pydantic import Field

from kvsweep.config.base import Check, Key, Name, Real, Section

Table = dict[str, Any]

_OBJECTIVE = r"^[^:\s]+:(min|max)$"


def _objective(text: str) -> str:
    if not re.fullmatch(_OBJECTIVE, text):
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

    metric: Annotated[Name, Key("1", "result variable, as ttft_p99_ms")]
    along: Annotated[Name, Key("1", "dimension that is scanned, as gpu_blocks")]
    threshold: Annotated[Real, Key("1", "largest value of the metric on the safe side")]


class Pareto(Section):
    """Which policies are not beaten on all objectives.

    Attributes
    ----------
    objectives : tuple of str
        ``measure:min`` or ``measure:max`` each.
    """

    objectives: Annotated[
        tuple[Annotated[str, Check(_objective, lambda: {"pattern": _OBJECTIVE})], ...],
        Field(min_length=1),
        Key("1", "measures and their goals, as ttft_p99_ms:min"),
    ]


class Document(Section):
    """A sweep file before its scenario is composed."""

    title: Annotated[str, Key("1", "headline of summaries and figures")] = ""
    question: Annotated[str, Key("1", "what the sweep is to answer")] = ""
    workload: Annotated[Table, Key("1", "who sends what, when")] = Field(default={})
    cluster: Annotated[Table, Key("1", "instances, and what stands in front of them")] = Field(
        default={}
    )
    engine: Annotated[Table, Key("1", "how an instance schedules")] = Field(default={})
    cache: Annotated[Table, Key("1", "the KV cache of each instance")] = Field(default={})
    latency: Annotated[Table, Key("1", "how long steps take")] = Field(default={})
    model: Annotated[Table, Key("1", "what is served, on which GPU")] = Field(default={})
    slo: Annotated[Table, Key("1", "service levels: how long a request may take")] = Field(
        default={}
    )
    policies: Annotated[dict[str, Table], Key("1", "bundles of keys, by name")] = Field(default={})
    grid: Annotated[Table, Key("1", "the axes: what varies, by dotted key")] = Field(default={})
    design: Annotated[Table, Key("1", "points drawn from ranges, by dotted key")] = Field(
        default={}
    )
    cliff: Annotated[AskedCliff | None, Key("1", "where a metric crosses a threshold")] = None
    pareto: Annotated[Pareto | None, Key("1", "what policies are traded off by")] = None
