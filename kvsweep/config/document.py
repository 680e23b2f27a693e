"""The tables of a sweep file other than the scenario's."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field

from kvsweep.config.base import Check, Count, Key, Name, Positive, Real, Section

Table = dict[str, Any]

_OBJECTIVE = r"^[^:\s]+:(min|max)$"


def _objective(text: str) -> str:
    if not re.fullmatch(_OBJECTIVE, text):
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

    find: Annotated[
        Literal["blocks", "instances", "rate"] | None,
        Key("1", "smallest number of blocks or instances, or highest rate"),
    ] = None
    targets: Annotated[
        tuple[Name, ...], Key("1", "limits of measures, as ttft_p99_ms<=2000; none: those of [slo]")
    ] = ()
    attainment: Annotated[
        Annotated[float, Field(strict=True, gt=0.0, le=1.0)] | None,
        Key("1", "share of the requests that keep the service levels"),
    ] = None
    between: Annotated[
        Annotated[tuple[Positive, ...], Check(_ends, lambda: {"minItems": 2, "maxItems": 2})]
        | None,
        Key("1", "range that is searched, in the units of the axis"),
    ] = None
    confidence: Annotated[
        Annotated[float, Field(strict=True, gt=0.5, lt=1.0)] | None,
        Key("1", "confidence of the answer"),
    ] = None
    tolerance: Annotated[
        Annotated[float, Field(strict=True, gt=0.0, lt=1.0)] | None,
        Key("1", "how near the answer is to be to the crossing, relative to it"),
    ] = None
    max_seeds: Annotated[
        Annotated[Count, Field(le=100_000)] | None, Key("1", "most seeds of a value")
    ] = None
    budget: Annotated[Count | None, Key("1", "most simulations of a group")] = None


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
    size: Annotated[AskedSize | None, Key("1", "what `kvsweep size` is to find")] = None
