"""How numbers and combinations of axis values are written, in tables and figures alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from kvsweep.analysis.cliff_records import Cliff
from kvsweep.analysis.crossing import Outcome
from kvsweep.analysis.effect_records import Effect, Effects
from kvsweep.analysis.statistics import Interval
from kvsweep.errors import escaped

T = TypeVar("T")

MISSING = "-"

EXACT = 15
"""Digits of a setting that are all written, where no more make it up: all that a number keeps.

What was calculated, as 100 / 3 or a value between the ends of a range, has more as a rule.
"""

WHOLE = 2.0**63  # from here on no integer of a result is

ROUNDING = 1e-12  # of numbers, that a spread is no more than where they are equal

BY_VALUE = "--at AXIS=VALUE, or .sel() in Python"
"""How a part of some results is chosen."""

ALL = "--json, or to_dict() in Python,"
"""What has all of which a text tells some."""


def number(value: float) -> str:
    """Write `value` with four significant digits, thousands separated, no needless zeros.

    NaN is a dash; whole digits are never rounded away, of numbers that have all of them.
    """
    if np.isnan(value):
        return MISSING
    if abs(value) >= WHOLE and np.isfinite(value):
        return f"{value:.4g}"
    if value == 0 or np.isinf(value):
        return f"{value:g}"
    decimals = max(0, 3 - int(np.floor(np.log10(abs(value)))))
    if decimals > 7:
        return f"{value:.3g}"
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def gib(amount: float) -> str:
    """Write GiB to hundredths, less than one of them to two digits.

    Examples
    --------
    >>> gib(2.544), gib(0.0049), gib(0)
    ('2.54', '0.0049', '0')
    """
    return number(round(amount, 2) if amount >= 0.01 else float(f"{amount:.2g}"))


def signed(value: float) -> str:
    """Write a difference as `number` does, with its sign.

    Examples
    --------
    >>> signed(27.4), signed(-0.25), signed(0.0)
    ('+27.4', '-0.25', '0')
    """
    return f"+{number(value)}" if value > 0 else number(value)


def two_digits(value: float) -> str:
    """Write a number to two digits, a large one to whole ones.

    Examples
    --------
    >>> two_digits(0.0772), two_digits(27.4), two_digits(1234.5)
    ('0.077', '27', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 9.5 else f"{value + 0.0:.2g}"


def counted(count: int, noun: str) -> str:
    """Return ``1 request``, ``12,031 requests``.

    Examples
    --------
    >>> counted(1, "request"), counted(12_031, "request")
    ('1 request', '12,031 requests')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def seeds_counted(known: Iterable[int], seeds: int, noun: str = "seeds") -> str:
    """Return how many seeds each of several things rests on, and of how many if not on all.

    Examples
    --------
    >>> seeds_counted([20, 20], 20), seeds_counted([10], 20), seeds_counted([8, 7, 10], 20)
    ('20 seeds', '10 of 20 seeds', '7 to 10 of 20 seeds')
    """
    counts = sorted(known)
    low, high = counts[0], counts[-1]
    if low == seeds:
        return f"{seeds:,} {noun}"
    return f"{low:,}{'' if low == high else f' to {high:,}'} of {seeds:,} {noun}"


def outside(cliff: Cliff, outcome: Outcome) -> str:
    """Say where a cliff is that is not within the swept range."""
    edge = cliff.edge(outcome)
    if edge is None:
        return "no cliff can be given"
    what = "the cliff lies" if outcome is Outcome.ALREADY else "a cliff, if any, lies"
    return f"{what} {edge[0]} {number(edge[1])}"


def interval_ends(interval: Interval, null: float = 0.0) -> tuple[str, str]:
    """Write both ends to two digits of the half width; an infinite one lies outside the range.

    An end is not told as the `null` that it is not: on which side of that an interval lies says
    whether there is an effect, or a limit is kept.

    Examples
    --------
    >>> interval_ends(Interval(0.3, 41.2, 0.95)), interval_ends(Interval(1.04, 60.0, 0.95), 1.0)
    (('0.3', '41'), ('1.04', '60'))
    """
    half = 0.5 * (interval.high - interval.low)
    rounding = ROUNDING * max(abs(interval.low), abs(interval.high))
    if not np.isfinite(half) or half <= rounding:
        low, high = (
            number(end) if np.isfinite(end) else "outside" for end in (interval.low, interval.high)
        )
        return low, high
    places = decimals(half)
    low, high = (
        _end(null if abs(end - null) <= rounding else end, places, null)
        for end in (interval.low, interval.high)
    )
    return low, high


def _end(end: float, places: int, null: float) -> str:
    """Write an end with so many decimals, or as many more as tell it from `null`."""
    if end != null and round(end, places) == round(null, places):
        places = max(places, -int(np.floor(np.log10(abs(end - null)))))
    return f"{end:,.{places}f}"


def decimals(spread: float) -> int:
    """Return how many decimals show two digits of `spread`."""
    return max(0, 1 - int(np.floor(np.log10(spread)))) if spread > 0.0 else 0


def label(labels: dict[str, Any]) -> str:
    """Name a combination: names stand for themselves, numbers with their axis (``rate 200``).

    Switches are named as a sweep file has them, ``enable_prefix_caching true``.
    """
    return _named({name: (value, level(value)) for name, value in labels.items()})


def _named(written: dict[str, tuple[Any, str]]) -> str:
    """Put a combination together, of values and how they are written."""
    parts = (text if isinstance(value, str) else f"{name} {text}"
             for name, (value, text) in written.items())  # fmt: skip
    return ", ".join(parts)


def labels_of(combinations: Sequence[dict[str, Any]]) -> list[str]:
    """Name combinations as `label` does, with all digits where that names two of them alike.

    Examples
    --------
    >>> labels_of([{"rate": 1000 + n / 3} for n in (0, 1, 2)])
    ['rate 1,000', 'rate 1,000.3333333333334', 'rate 1,001']
    """
    found = [label(each) for each in combinations]
    often = Counter(found)
    return [
        name if often[name] == 1 else _named({key: (v, _whole(v)) for key, v in each.items()})
        for name, each in zip(found, combinations, strict=True)
    ]


def _whole(value: Any) -> str:
    return f"{float(value):,}".removesuffix(".0") if _is_float(value) else level(value)


def _is_float(value: Any) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isfinite(value))


def gathered(
    items: Iterable[T], labels_of_item: Callable[[T], dict[str, Any]]
) -> list[tuple[str, list[T]]]:
    """Collect items that have equal labels, in their order, each time with the name of these.

    Numbers that are written alike need not be equal.
    """
    found: dict[str, tuple[dict[str, Any], list[T]]] = {}
    for item in items:
        labels = labels_of_item(item)
        found.setdefault(repr(labels), (labels, []))[1].append(item)
    names = labels_of([labels for labels, _ in found.values()])
    return [(name, some) for name, (_, some) in zip(names, found.values(), strict=True)]


def level(value: Any) -> str:
    """Write one level of a factor: names as they are, but for what turns text.

    Numbers have all of their digits if somebody chose them, and others those of `number`. An axis
    that ``ds.stack`` has made of several has a value of each.

    Examples
    --------
    >>> level("base"), level(1000.2), level(12345.6789), level(100 / 3), level(True)
    ('base', '1,000.2', '12,345.6789', '33.33', 'true')
    """
    if isinstance(value, tuple | list):
        return ", ".join(map(level, value))
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, Real):
        return _chosen(float(value))
    return escaped(str(value))  # names, and what ``ds.groupby_bins`` or dates make of an axis


def _chosen(value: float) -> str:
    """Write a number with all of its digits, if it has no more than `EXACT`."""
    exact, text = f"{value:.{EXACT}g}", number(value)
    if float(exact) != value or float(text.replace(",", "")) == value:
        return text
    return exact if "e" in exact else f"{value:,.{len(exact.partition('.')[2])}f}"


def effect_name(effect: Effect) -> str:
    """Name an effect by its changes: ``scheduler priority x gpu_blocks 2,000``.

    Where one level stands for all changes, by that: ``both (one x other)``.
    """
    if effect.together is None:
        return " x ".join(f"{change.factor} {level(change.level)}" for change in effect.changes)
    parts = " x ".join(level(change.level) for change in effect.changes)
    return f"{level(effect.together)} ({parts})"


def reference_names(effects: Effects) -> str:
    """Name the levels against which the effects are taken: ``scheduler fcfs, gpu_blocks 2,000``."""
    changes = [change for g in effects.groups for e in g.effects for change in e.changes]
    return ", ".join(dict.fromkeys(f"{c.factor} {level(c.reference)}" for c in changes))


_LEFT_OUT = "which failed, or were of a warm-up or of subagents (docs/traces.md)"


def left_out_lines(count: int) -> list[str]:
    """Say how many requests of a file are not in its list, if there are any."""
    return [f"Without {counted(count, 'request')} of the file, {_LEFT_OUT}."] if count else []


def left_out_text(count: int, of: int) -> str:
    """Say how many requests of a file, of which it has so many, are not in its list."""
    return f"without {count:,} of {counted(of, 'request')}, {_LEFT_OUT}"
