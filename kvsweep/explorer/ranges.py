"""Ranges of sliders: about a value, within what the schema allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from pydantic.fields import FieldInfo

from kvsweep.config.scenario import Scenario
from kvsweep.config.schema import KeyPath, fields_at

FOLD = 8
"""A slider goes from an 8th of the value that a file has to 8 times that."""

# Where a slider that begins at 0 ends, by the unit of its key: a large value of what people set.
FROM_ZERO = {
    "block": 20_000,
    "token": 8192,
    "token/s": 20_000,
    "request": 1000,
    "us": 100_000,
    "ms": 10_000,
    "s": 60,
    "GB/s": 400,
    "GiB": 80,
    "request/s": 1000,
    "byte": 1e6,
    "token/us": 100,
}


@dataclass(frozen=True)
class Range:
    """Ends of a slider.

    Attributes
    ----------
    low, high : float
        In the unit of the key.
    logarithmic : bool
        Whether equal steps of the slider are equal ratios.
    """

    low: float
    high: float
    logarithmic: bool


def slider_range(path: KeyPath, value: Any, unit: str, axis: tuple[Any, ...] = ()) -> Range:
    """Return the range of the slider of a number.

    Parameters
    ----------
    path : tuple of str or int
        The key.
    value : int, float or None
        What it is at first; None: not set.
    unit : str
        Of the key.
    axis : tuple
        Values of an axis of the sweep, whose ends it then has.
    """
    least, most = limits(path)
    if axis:
        low, high = float(min(axis)), float(max(axis))
        return Range(low, high, low > 0.0 and high / low > 2 * FOLD)
    if most is not None and least is not None and most <= 1.0:  # a share
        return Range(least, most, False)
    if not value:
        high = FROM_ZERO.get(unit, 10.0)
        return Range(least or 0.0, high if most is None else min(high, most), False)
    low, high = value / FOLD, value * FOLD
    low = low if least is None else max(low, least)
    high = high if most is None else min(high, most)
    return Range(_round(low, up=False, least=least), _round(high, up=True, most=most), low > 0.0)


def limits(path: KeyPath) -> tuple[float | None, float | None]:
    """Return the smallest and the largest number that the schema allows for a key, None: none."""
    found = [bound for info in fields_at(Scenario, path) for bound in _bounds(info)]
    lows = [value for low, value in found if low]
    highs = [value for low, value in found if not low]
    return max(lows, default=None), min(highs, default=None)


def _bounds(info: FieldInfo) -> list[tuple[bool, float]]:
    """Return (is a lower bound, value) of all that a field's annotation says of a number."""
    found: list[tuple[bool, float]] = []
    for item in [*info.metadata, *_inner(info.annotation)]:
        for name, low in (("ge", True), ("gt", True), ("le", False), ("lt", False)):
            bound = getattr(item, name, None)
            if isinstance(bound, int | float):
                found.append((low, float(bound)))
    return found


def _inner(annotation: Any) -> list[Any]:
    """Return what an annotation carries inside a union: ``Annotated[int, ...] | None``."""
    if get_origin(annotation) is Annotated:
        kind, *rest = get_args(annotation)
        inside = [m for item in rest if isinstance(item, FieldInfo) for m in item.metadata]
        return [*rest, *inside, *_inner(kind)]
    return [item for argument in get_args(annotation) for item in _inner(argument)]


def _round(
    value: float, *, up: bool, least: float | None = None, most: float | None = None
) -> float:
    """Round an end of a slider outwards to two digits, within the limits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    value = (math.ceil if up else math.floor)(round(value / step, 9)) * step
    value = float(f"{value:.12g}")
    if least is not None:
        value = max(value, least)
    return value if most is None else min(value, most)
