"""Axes of a grid: lists and ranges of values, and the names of their dimensions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvsweep.config.base import Key
from kvsweep.config.explain import cut, shown
from kvsweep.config.scenario import Scenario
from kvsweep.config.schema import DIGITS, KeyPath, is_table, key_at, types_at
from kvsweep.config.synonyms import meaning
from kvsweep.dimensions import TAKEN
from kvsweep.errors import did_you_mean
from kvsweep.limits import MAX_AXIS_VALUES, MAX_SEED

POLICY = "policy"
SEED = "seed"
SAMPLE = "sample"

RATES = ("workload.rate", "workload.scale")
"""Keys of how many requests come each second."""

_LOADS = frozenset({*RATES, "workload.concurrency"})

# How the keys end of which more is more room, of pools and of prefill and decode too.
_ROOM = ("gpu_blocks", "gpu_tokens", "kv_gib", "instances")

_LARGEST = 2.0**63


class AxisProblem(ValueError):
    """What is wrong with an axis, in words."""


@dataclass(frozen=True)
class Axis:
    """One dimension of a grid.

    Attributes
    ----------
    key : str
        Dotted scenario key, ``policy`` or ``seed``.
    name : str
        Its dimension: the last part of the key; where that is taken, the shortest distinct tail
        with dots as underscores.
    values : tuple
        Distinct values in grid order: numbers, strings or booleans.
    """

    key: str
    name: str
    values: tuple[Any, ...]


def dimension_names(keys: Sequence[str]) -> dict[str, str]:
    """Return the dimension of each axis key."""
    lengths = dict.fromkeys(keys, 1)
    while True:
        names = {key: "_".join(key.split(".")[-n:]) for key, n in lengths.items()}
        taken = Counter(names.values())
        clashing = [
            key
            for key, name in names.items()
            if (taken[name] > 1 or name in TAKEN) and lengths[key] < key.count(".") + 1
        ]
        if not clashing:
            return names
        for key in clashing:
            lengths[key] += 1


def more_is_generous(key: str) -> bool:
    """Whether more of an axis is easier, where no measure tells: of blocks, but not of a load."""
    return key not in _LOADS


def tells_its_end(key: str) -> bool:
    """Whether it is known of an axis which end is easier: of room and of a load.

    Examples
    --------
    >>> tells_its_end("cache.gpu_blocks"), tells_its_end("engine.max_num_seqs")
    (True, False)
    """
    return key in _LOADS or key.endswith(_ROOM)


def about(key: str) -> Key:
    """Return unit and meaning of the values of an axis."""
    if key == POLICY:
        return Key("1", "policy")
    if key == SEED:
        return Key("1", "seed of the request list")
    if key == SAMPLE:
        return Key("1", "point of the design")
    return key_at(Scenario, _path(key))


def axis_values(key: str, spec: Any) -> tuple[Any, ...]:
    """Return the values that `spec` gives to the axis `key`.

    Parameters
    ----------
    key : str
        Dotted scenario key, ``policy`` or ``seed``.
    spec : list or dict
        Values and ranges, in order. A range is ``{start, stop, step}`` (with `stop`, if it is
        reached), ``{start, stop, num, scale}`` (`num` values, ``linear`` or ``log``; rounded where
        the key holds integers) or, for seeds, ``{count}``.

    Raises
    ------
    AxisProblem
        If it is none of these, empty, or has a value twice, if in other words.
    """
    kind = number_kind(key)
    entries = spec if isinstance(spec, list) else [spec]
    values: list[Any] = []
    for entry in entries:
        if len(values) > MAX_AXIS_VALUES:
            raise AxisProblem(f"more than {MAX_AXIS_VALUES} values")
        if isinstance(entry, dict):
            if is_table(Scenario, _path(key)):
                raise AxisProblem(f"holds tables: an axis is one of their keys{_BY_POLICIES}")
            values += _range(entry, kind)
        elif isinstance(spec, list) and isinstance(entry, int | float | str):
            values.append(entry)
        elif isinstance(spec, list):
            raise AxisProblem(f"{_OF_SCALARS}, got {shown(entry)} in it{_BY_POLICIES}")
        else:
            raise AxisProblem(f"expected a list or a range, got {shown(entry)}; {_RANGES}")
    if kind is float:
        values = [float(v) if type(v) is int and abs(v) <= _LARGEST else v for v in values]
    if len(values) > MAX_AXIS_VALUES:
        raise AxisProblem(f"more than {MAX_AXIS_VALUES} values")
    _check_distinct(key, values)
    if key == SEED:
        _check_seeds(values)
    return tuple(values)


def number_kind(key: str) -> type | None:
    """Return the type of number that the key holds, if any."""
    if key == SEED:
        return int
    kinds = set(types_at(Scenario, _path(key))) - {type(None)}
    return kinds.pop() if len(kinds) == 1 else None


def is_known(key: str) -> bool:
    """Whether a scenario has such a key."""
    return bool(types_at(Scenario, _path(key)))


def _path(key: str) -> KeyPath:
    """Split a key; what numbers the entries of a list becomes integers."""
    parts = key.split(".")
    return tuple(int(p) if p.isdecimal() and len(p) <= DIGITS else p for p in parts)


def _check_distinct(key: str, values: list[Any]) -> None:
    if not values:
        raise AxisProblem("no values: an axis needs at least one")
    seen: dict[tuple[bool, Any], Any] = {}
    for value in values:
        # In Python, true equals 1.
        mark = (isinstance(value, bool), meaning(key, value))
        if mark in seen:
            earlier = seen[mark]
            same = f" as {shown(earlier)}, which means the same" if earlier != value else ""
            raise AxisProblem(f"{shown(value)} occurs twice{same}")
        seen[mark] = value


def _check_seeds(values: list[Any]) -> None:
    for value in values:
        if type(value) is not int or value < 0:
            raise AxisProblem(f"a seed is an integer of at least 0, got {shown(value)}")
        if value > MAX_SEED:
            raise AxisProblem(f"a seed is at most {MAX_SEED}, got {shown(value)}")


_OF_SCALARS = "expected a list or a range of numbers, names, true or false"
_BY_POLICIES = "; whole lists and tables vary by [policies]"
_RANGES = (
    "a range is {start, stop, step}, {start, stop, num} with or without scale, {count}, or for "
    "seeds {until}"
)
_FORMS = (
    {"count"},
    {"start", "stop", "step"},
    {"start", "stop", "num"},
    {"start", "stop", "num", "scale"},
)


def _range(entry: dict[str, Any], kind: type | None) -> list[Any]:
    if "until" in entry:
        raise AxisProblem("until is for seeds and stands alone: seed = { until = { ... } }")
    if set(entry) not in _FORMS:
        known = ["count", "until", "start", "stop", "step", "num", "scale"]
        unknown = next((key for key in entry if key not in known), None)
        if unknown is not None:
            hint = did_you_mean(unknown, known) or f"; {_RANGES}"
            raise AxisProblem(f"unknown key {cut(unknown)!r} of a range{hint}")
        raise AxisProblem(_RANGES)
    for key, value in entry.items():
        if key != "scale":
            _check_number(key, value, integer=key in ("count", "num"))
    if "count" in entry:
        return list(range(entry["count"]))
    if "step" in entry:
        return _stepped(entry["start"], entry["stop"], entry["step"])
    return _spaced(entry["start"], entry["stop"], entry["num"], entry.get("scale", "linear"), kind)


def _check_number(key: str, value: Any, *, integer: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int if integer else int | float):
        wanted = "an integer" if integer else "a number"
        raise AxisProblem(f"{key}: expected {wanted}, got {shown(value)}")
    if integer and not 1 <= value <= MAX_AXIS_VALUES:
        raise AxisProblem(f"{key}: must be from 1 to {MAX_AXIS_VALUES}, got {shown(value)}")
    if value != value or abs(value) == math.inf:
        raise AxisProblem(f"{key}: must be a finite number, got {shown(value)}")
    # No key holds a larger number, and these can be multiplied.
    if not -_LARGEST <= value <= _LARGEST:
        raise AxisProblem(f"{key}: must be from {-_LARGEST:g} to {_LARGEST:g}, got {shown(value)}")


def _stepped(start: float, stop: float, step: float) -> list[Any]:
    """Return start, start + step, ... up to and including stop."""
    if step == 0:
        raise AxisProblem("step: must not be 0")
    # The tolerance lets 0.1 to 0.3 by 0.1 reach its end.
    steps = (stop - start) / step + 1e-9
    if steps < 0:
        raise AxisProblem("no values: step leads away from stop")
    if not steps < MAX_AXIS_VALUES:
        raise AxisProblem(f"more than {MAX_AXIS_VALUES} values")
    steps = math.floor(steps)
    return [_tidy(start + i * step) for i in range(steps + 1)]


def _spaced(start: float, stop: float, num: int, scale: Any, kind: type | None) -> list[Any]:
    """Return `num` values from start to stop at equal distances or ratios."""
    if scale not in ("linear", "log"):
        raise AxisProblem(f"scale: expected linear or log, got {shown(scale)}")
    if scale == "log" and min(start, stop) <= 0:
        raise AxisProblem("scale: log needs start and stop above 0")
    if scale == "log" and not math.isfinite(stop / start):
        raise AxisProblem("scale: the ratio of stop and start is too large")
    if num == 1 and start != stop:
        raise AxisProblem("num: 1 value cannot reach from start to stop")
    shares = [i / max(num - 1, 1) for i in range(num)]
    if scale == "linear":
        values = [start + (stop - start) * share for share in shares]
    else:
        values = [start * (stop / start) ** share for share in shares]
    return [round(v) for v in values] if kind is int else [_tidy(v) for v in values]


def _tidy(value: float) -> float:
    """Drop the rounding error of a float: 0.1 + 2 * 0.1 is meant to be 0.3."""
    return value if isinstance(value, int) else float(f"{value:.12g}")
