"""``[design]``: cells at points drawn from ranges, beside the grid, along one axis ``sample``.

Points fill the space more evenly than random ones: Sobol's sequence, scrambled (A. B. Owen, 1998),
or a Latin hypercube; or Saltelli's design of two Sobol samples and their crossings, which gives
sensitivity indices (A. Saltelli et al., Computer Physics Communications 181, 2010).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kvsweep.config.axes import number_kind
from kvsweep.config.explain import shown
from kvsweep.errors import did_you_mean
from kvsweep.limits import MAX_AXIS_VALUES, MAX_SEED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SALTELLI = "saltelli"
METHODS = ("sobol", "latin-hypercube", SALTELLI)
OPTIONS = ("method", "samples", "seed")
_RANGE = ("from", "to", "log")


class DesignProblem(ValueError):
    """What is wrong with a design, and at which of its keys."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Design:
    """Points of a design.

    Attributes
    ----------
    method : str
        One of `METHODS`.
    samples : int
        Points; of Saltelli's design those of one of its two samples.
    seed : int
        Of the draw of the points; the request lists have seeds of their own.
    ranges : dict
        By dotted key, a list of values or ``{from, to, log}``.
    """

    method: str
    samples: int
    seed: int
    ranges: dict[str, Any]

    @property
    def size(self) -> int:
        """Number of points, all in all."""
        return self.samples * (len(self.ranges) + 2 if self.method == SALTELLI else 1)

    @cached_property
    def points(self) -> list[tuple[Any, ...]]:
        """The value of each key at each point."""
        shares = _shares(self.method, self.samples, len(self.ranges), self.seed)
        columns = [
            [_value(spec, float(share), number_kind(key)) for share in column]
            for (key, spec), column in zip(self.ranges.items(), shares.T, strict=True)
        ]
        return list(zip(*columns, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return what the points follow from."""
        return {
            "method": self.method,
            "samples": self.samples,
            "seed": self.seed,
            "ranges": self.ranges,
        }


def read_design(table: Mapping[str, Any]) -> Design:
    """Return the design that a table ``[design]`` asks for.

    Raises
    ------
    DesignProblem
        If it is no good; whether its keys are those of a scenario is not looked at.
    """
    ranges = {key: spec for key, spec in table.items() if key not in OPTIONS}
    method = table.get("method", "sobol")
    if method not in METHODS:
        hint = did_you_mean(method, list(METHODS))
        raise DesignProblem("method", f"unknown method {shown(method)}; allowed: "
                            f"{', '.join(METHODS)}{hint}")  # fmt: skip
    samples = _whole(table, "samples", None, 1, MAX_AXIS_VALUES)
    seed = _whole(table, "seed", 0, 0, MAX_SEED)
    if not ranges:
        raise DesignProblem("", 'no ranges: give one, as "workload.rate" = { from = 10, to = 40 }')
    if method != "latin-hypercube" and samples & (samples - 1):
        near = 1 << (samples.bit_length() - 1)
        raise DesignProblem(
            "samples", f"{samples} is no power of 2, as {method} needs: {near} or {2 * near}"
        )
    for key, spec in ranges.items():
        _check_range(key, spec)
    design = Design(method, samples, seed, {key: _full(spec) for key, spec in ranges.items()})
    if design.size > MAX_AXIS_VALUES:
        raise DesignProblem(
            "samples", f"{design.size:,} points, at most {MAX_AXIS_VALUES:,} are possible"
        )
    return design


def _whole(table: Mapping[str, Any], key: str, usual: int | None, least: int, most: int) -> int:
    value = table.get(key, usual)
    if value is None:
        raise DesignProblem(key, "missing; the number of points")
    if type(value) is not int or not least <= value <= most:
        raise DesignProblem(key, f"expected an integer from {least} to {most}, got {shown(value)}")
    return value


def _check_range(key: str, spec: Any) -> None:
    if isinstance(spec, list):
        if not spec or not all(isinstance(value, str | int | float) for value in spec):
            raise DesignProblem(key, "expected numbers, names or switches in a list, at least one")
        return
    if not isinstance(spec, dict):
        raise DesignProblem(key, f"expected {{ from, to }} or a list, got {shown(spec)}")
    for name in spec:
        if name not in _RANGE:
            allowed = ", ".join(_RANGE)
            raise DesignProblem(
                key, f"unknown key {name!r}; allowed: {allowed}{did_you_mean(name, list(_RANGE))}"
            )
    low: Any = spec.get("from")
    high: Any = spec.get("to")
    log: Any = spec.get("log", False)
    for name, value in (("from", low), ("to", high)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or abs(value) > 2.0**63:
            raise DesignProblem(key, f"{name}: expected a number, got {shown(value)}")
    if not low < high:
        raise DesignProblem(key, f"from: {shown(low)} is not below to, {shown(high)}")
    if not isinstance(log, bool):
        raise DesignProblem(key, f"log: expected true or false, got {shown(log)}")
    if log and low <= 0:
        raise DesignProblem(key, "log: needs from above 0")
    if number_kind(key) not in (int, float):
        raise DesignProblem(key, "holds no number: give a list of values instead of a range")
    if number_kind(key) is int and not (type(low) is int and type(high) is int):
        raise DesignProblem(key, "holds integers: from and to must be such")


def _full(spec: Any) -> Any:
    return spec if isinstance(spec, list) else {"log": False, **spec}


def _shares(method: str, samples: int, keys: int, seed: int) -> NDArray[np.float64]:
    """Return points of the unit cube, (points, keys)."""
    import numpy as np
    from scipy.stats import qmc

    rng = np.random.default_rng(seed)
    if method == "latin-hypercube":
        drawn: NDArray[np.float64] = qmc.LatinHypercube(keys, rng=rng).random(samples)
        return drawn
    if method != SALTELLI:
        return np.asarray(qmc.Sobol(keys, rng=rng).random(samples))
    both = qmc.Sobol(2 * keys, rng=rng).random(samples)
    first, second = both[:, :keys], both[:, keys:]
    crossed = np.repeat(first[None], keys, axis=0)
    for key in range(keys):
        crossed[key, :, key] = second[:, key]
    return np.concatenate([first, second, *crossed])


def _value(spec: Any, share: float, kind: type | None) -> Any:
    """Return the value of a key at a share, 0 to 1, of its range; integers are all as likely."""
    if isinstance(spec, list):
        return spec[min(int(share * len(spec)), len(spec) - 1)]
    low, high = spec["from"], spec["to"]
    if kind is int:
        low, high = low - 0.5 if not spec["log"] else low, high + 0.5 if not spec["log"] else high
    value = low * (high / low) ** share if spec["log"] else low + (high - low) * share
    if kind is int:
        return min(max(round(value), spec["from"]), spec["to"])
    return float(f"{value:.12g}")
