"""What a variable of a result dataset is, and the dimensions that it may have beyond the grid's."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvsweep.policies import BOTH
from kvsweep.records import NONE, QUANTILES

NO_COUNT = int(NONE)
"""The value of an integer variable where there is no number; the kernel's records have it too."""


_SHARES = re.compile(r"attainment|_hit_rate|_fraction|_share|_acceptance|^fairness_")


def beyond_a_share(name: str, limit: float) -> str:
    """Return what is wrong with a limit above 1 of a measure that is a share; nothing of others.

    Examples
    --------
    >>> beyond_a_share("slo_attainment", 99.0)
    'slo_attainment is a share, from 0 to 1: did you mean 0.99?'
    >>> beyond_a_share("preemption_rate", 99.0)
    ''
    """
    if limit <= 1.0 or not _SHARES.search(name):
        return ""
    hint = f": did you mean {limit / 100:g}?" if limit <= 100.0 else ""
    return f"{name} is a share, from 0 to 1{hint}"


def coordinates(
    *, instances: int, rounds: int, slo_classes: tuple[str, ...], requests: int
) -> dict[str, tuple[Any, ...]]:
    """Return the values along each of `DIMENSIONS`; without values there are none of its variables.

    Parameters
    ----------
    instances, rounds, requests : int
        Most instances of a cell, rounds of a session, and requests of a list; 0 if the variables
        with that dimension are not wanted.
    slo_classes : tuple of str
        Classes of the requests, in order.
    """
    return {
        "quantile": QUANTILES,
        "instance": tuple(range(instances)),
        "round": tuple(range(rounds)),
        "slo_class": slo_classes,
        "request": tuple(range(requests)),
    }


@dataclass(frozen=True)
class Variable:
    """A variable of a result dataset.

    Attributes
    ----------
    name : str
        Its name in the store.
    dims : tuple of str
        Dimensions beyond those of the grid, of `DIMENSIONS`.
    dtype : str
        NumPy dtype: ``int64``, ``float64`` or ``str``.
    units : str
        Unit; ``1`` for pure numbers and names.
    long_name : str
        One-line meaning.
    rules : tuple of str
        Rule books whose cells have it; in a cell under others it is `missing`, and a sweep without
        a cell under these does not have it.
    levels : tuple of str
        Service levels, of `LEVELS`, one of which a sweep must give to have it; none: no such need.
    """

    name: str
    dims: tuple[str, ...]
    dtype: str
    units: str
    long_name: str
    rules: tuple[str, ...] = BOTH
    levels: tuple[str, ...] = ()

    def is_in(self, dims: Iterable[str], rules: Iterable[str], levels: Iterable[str]) -> bool:
        """Return whether a sweep with these dimensions, rule books and levels has the variable."""
        known = self.has_levels(levels) and not set(self.rules).isdisjoint(rules)
        return known and set(self.dims) <= set(dims)

    def has_levels(self, levels: Iterable[str]) -> bool:
        """Return whether these service levels, of `LEVELS`, suffice for the variable."""
        return not self.levels or not set(self.levels).isdisjoint(levels)

    @property
    def missing(self) -> float | int | str:
        """The value where there is none: NaN, -1 for integers, nothing for names."""
        if self.dtype == "str":
            return ""
        return np.nan if np.dtype(self.dtype).kind == "f" else NO_COUNT


def quantile_name(variable: str, quantile: float) -> str:
    """Return the name of one quantile: ``ttft_p99_ms`` for (``ttft_ms``, 0.99)."""
    stem, underscore, unit = variable.rpartition("_")
    percent = f"p{100.0 * quantile:g}"
    return f"{stem}_{percent}_{unit}" if underscore else f"{variable}_{percent}"


def quantile_names(variable: str) -> list[str]:
    """Return the names of all quantiles of `variable`: ``ttft_p50_ms``, ... of ``ttft_ms``."""
    return [quantile_name(variable, quantile) for quantile in QUANTILES]
