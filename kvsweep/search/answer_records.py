"""What a search hands on: plain records, written out by `kvsweep.search.text`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.warning_records import ResultWarning
from kvsweep.search.flags import Served

Labels = dict[str, Any]

WITHIN, PAST, OPEN, DROPS, NO_VALUE = "within", "past", "open", "drops", "no value"


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
    """A value that was tried; `verdict`: ``within``, ``past``, ``open``, ``drops`` or ``no value``.

    ``drops``: requests that can never fit are missing from measures that are not past a limit.
    """

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
        The value that is handed on, shown to be within all limits; None if none is.
    requests_per_s : float or None
        Of a search for a factor of a trace's rate: the mean rate at the answer.
    margins : tuple of Margin
        At the answer.
    first : str or None
        The measure that passes its limit first when the axis gets tighter.
    first_at : int, float or None
        The nearest value that was tried at which its mean is past the limit.
    seeds, simulations : int
        Seeds at the values near the crossing, and simulations in all.
    stopped : str
        ``tolerance``, ``seeds``, ``budget`` or ``interrupted``: why no more was simulated.
    back : tuple of float
        Values that contradict a curve that only gets worse.
    warnings : tuple of ResultWarning
        What misleads at the answer of a search; a store has warnings of its own.
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
    requests_per_s: float | None
    margins: tuple[Margin, ...]
    first: str | None
    first_at: int | float | None
    seeds: int
    simulations: int
    stopped: str
    back: tuple[float, ...]
    warnings: tuple[ResultWarning, ...]
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
