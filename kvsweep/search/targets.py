"""What is to be kept: measures of a cell and their limits."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis import variables
from kvsweep.analysis.variables import HIGHER_IS_BETTER
from kvsweep.errors import InputError, clip, did_you_mean
from kvsweep.limits import MAX_LIMIT
from kvsweep.metrics import VARIABLES, out_of_range, quantile_names
from kvsweep.policies import Status
from kvsweep.records import QUANTILES
from kvsweep.search.samples import Floats

_CONDITION = re.compile(r"\s*(?P<name>\w+(?:\.\w+)*)\s*(?P<sign><=|>=|<|>)\s*(?P<limit>\S+)\s*")
_FORM = "expected MEASURE<=LIMIT or MEASURE>=LIMIT, as in ttft_p99_ms<=2000"


@dataclass(frozen=True)
class Target:
    """A measure of a cell that is to stay on one side of a limit, in the mean over the seeds.

    Attributes
    ----------
    metric : str
        A measure without dimensions, or a quantile of one.
    limit : float
        In its units; on the limit is within it.
    at_most : bool
        Whether the measure is to be at most the limit, or at least.
    """

    metric: str
    limit: float
    at_most: bool = True

    @property
    def units(self) -> str:
        """Units of the measure."""
        return VARIABLES[_place(self.metric)[0]].units

    @property
    def levels(self) -> tuple[str, ...]:
        """Service levels of which a scenario needs one for the measure; mostly none."""
        return VARIABLES[_place(self.metric)[0]].levels

    def __str__(self) -> str:
        return f"{self.metric} {'<=' if self.at_most else '>='} {self.limit:,.15g}"

    def values(self, results: Mapping[str, NDArray[Any]]) -> Floats:
        """Return the measure of each cell of a batch, (variants, seeds); NaN without a value."""
        name, quantile = _place(self.metric)
        values = variables.numbers_of(name, results[name])
        if quantile is not None:
            values = values[..., quantile]
        return np.where(results["status"] == Status.OK, values, np.nan)

    def excess(self, values: Floats) -> Floats:
        """Return how far values are past the limit, negative within it."""
        return values - self.limit if self.at_most else self.limit - values

    def value(self, excess: Floats) -> Floats:
        """Return the measure of excesses."""
        return excess + self.limit if self.at_most else self.limit - excess


def measures(rules: Sequence[str]) -> list[str]:
    """Return the measures that cells under these rule books have one value of each."""
    found = []
    for name, variable in VARIABLES.items():
        if variable.dtype == "str" or set(variable.rules).isdisjoint(rules):
            continue
        if not variable.dims:
            found.append(name)
        elif variable.dims == ("quantile",):
            found += quantile_names(name)
    return found


def check_metric(metric: str, rules: Sequence[str], where: str) -> None:
    """Refuse a measure that a cell does not have one value of.

    Raises
    ------
    InputError
        With what it may stand for; `where` names the option.
    """
    known = measures(rules)
    if metric not in known:
        hint = did_you_mean(metric, known) or f"; one of: {', '.join(known)}"
        raise InputError(f"{where}: no measure {clip(metric)!r} of a cell{hint}")


def check_limit(limit: float, where: str, form: str = "") -> None:
    """Refuse a limit that no measure can be compared with.

    Raises
    ------
    InputError
        If it is not finite, or beyond `MAX_LIMIT`, where sums over the seeds lose all digits.
    """
    if not math.isfinite(limit):
        raise InputError(f"{where}: the limit is not a finite number{form}")
    if abs(limit) > MAX_LIMIT:
        raise InputError(f"{where}: the limit must be from {-MAX_LIMIT:g} to {MAX_LIMIT:g}{form}")


def parse_target(text: str, rules: Sequence[str]) -> Target:
    """Read ``MEASURE<=LIMIT`` or ``MEASURE>=LIMIT``; ``<`` and ``>`` mean the same.

    Raises
    ------
    InputError
        If it is not of that form, or there is no such measure.
    """
    where = f"--target {clip(text)}"
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise InputError(f"{where}: {_FORM}")
    try:
        limit = float(match["limit"])
    except ValueError:
        limit = math.nan
    check_limit(limit, where, f"; {_FORM}")
    check_metric(match["name"], rules, where)
    if problem := out_of_range(match["name"], limit):
        raise InputError(f"{where}: {problem}")
    at_most = match["sign"].startswith("<")
    if at_most == (match["name"] in HIGHER_IS_BETTER):
        better, sign = ("higher", ">=") if at_most else ("lower", "<=")
        known = match["name"] in HIGHER_IS_BETTER or match["name"].endswith("_ms")
        if known:
            raise InputError(
                f"{where}: {better} is better of {match['name']}; did you mean {sign}?"
            )
    return Target(match["name"], limit, at_most)


def _place(metric: str) -> tuple[str, int | None]:
    """Return the variable of a measure, and which of its quantiles it is."""
    if metric in VARIABLES:
        return metric, None
    for name, variable in VARIABLES.items():
        if variable.dims == ("quantile",) and metric in (names := quantile_names(name)):
            assert len(names) == len(QUANTILES)
            return name, names.index(metric)
    raise KeyError(metric)
