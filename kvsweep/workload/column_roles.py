"""Which column of a table holds what: as the sweep says, or by its name; and its unit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations

from kvsweep.config.trace_reading import Columns, Reading
from kvsweep.errors import InputError, clip, did_you_mean, shown
from kvsweep.workload.measured import PER_SECOND

LENGTHS = {"prompt": "prompt_tokens", "output": "output_tokens"}
"""Roles of counts of tokens, and the columns that hold them unless others are named."""

TIMES = ("arrival", "first_token", "last_token", "ttft", "latency")
ON_CLOCK = ("arrival", "first_token", "last_token")
"""Those of `TIMES` that are on one clock of any origin; the others count from the arrival."""

NAMES = ("client", "slo_class")
REQUIRED = ("arrival", "prompt", "output")

_SPELLED = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms", "msec", "msecs", "millis", "millisec", "millisecond", "milliseconds"),
    "us": ("us", "\u00b5s", "\u03bcs", "usec", "usecs", "micros", "microsecond", "microseconds"),
    "ns": ("ns", "nsec", "nsecs", "nanos", "nanosecond", "nanoseconds"),
    # Refused; `min` is a least, but in brackets.
    "": ("mins", "minute", "minutes", "hr", "hrs", "hour", "hours", "day", "days"),
}
_UNITS = {word: unit for unit, words in _SPELLED.items() for word in words}
_WORDS = "|".join(sorted(_UNITS, key=len, reverse=True))
_IN_BRACKETS = rf"{_WORDS}|min|m|h|d"
_UNIT_AT_END = re.compile(
    rf"(?:[_\-., ]({_WORDS})|[(\[]\s*({_IN_BRACKETS})\s*[)\]])\s*$", re.IGNORECASE
)
# As in latencyMs; a single S may be of a plural in capitals.
_CAPITALS = "|".join(word.capitalize() for word in sorted(_UNITS, key=len) if len(word) > 1)
_UNIT_IN_CAMEL_CASE = re.compile(rf"[a-z0-9]({_CAPITALS})\s*$")


def find_roles(header: Sequence[str], read: Reading, where: str) -> dict[str, str]:
    """Return the column of each role that the file has: as `read` says, or by its name.

    Raises
    ------
    InputError
        If a column is missing, two could be meant, or one is named that is not there.
    """
    given = read.columns or Columns()
    found: dict[str, str] = {}
    for role in (*TIMES, *LENGTHS, *NAMES):
        name = getattr(given, role)
        if name is None:
            name = _by_name(header, role, where)
        elif not name:
            continue
        elif name not in header and (name := name.strip()) not in header:
            hint = did_you_mean(name, list(header)) or f"; the file has {clip(', '.join(header))}"
            raise InputError(f"{where}: read.columns.{role}: no column {shown(name)}{hint}")
        if name is not None:
            found[role] = name
    for role in REQUIRED:
        if role not in found:
            raise InputError(
                f"{where}: no column {LENGTHS.get(role, role)}: read.columns.{role} = 'NAME' says "
                f"which it is; the file has {clip(', '.join(header))}"
            )
    for pair in (("first_token", "ttft"), ("last_token", "latency")):
        if all(role in found for role in pair):
            found.pop(_other_of(pair, given, found, where))
    numbers = {role: name for role, name in found.items() if role not in NAMES}
    for role, other in combinations(numbers, 2):
        if numbers[role] == numbers[other]:
            raise InputError(
                f"{where}: read.columns.{role} and {other}: {shown(found[role])} cannot be both"
            )
    return found


def without(role: str) -> str:
    """Return what messages add about a column that need not be read."""
    return "" if role in REQUIRED else f"; read.columns.{role} = '' reads no such column"


def _by_name(header: Sequence[str], role: str, where: str) -> str | None:
    names = [LENGTHS.get(role, role)]
    if role in TIMES:
        names += [f"{role}_{unit}" for unit in PER_SECOND]
    alike = [name for name in names if name in header]
    if len(alike) > 1:
        raise InputError(
            f"{where}: columns {' and '.join(alike)}: read.columns.{role} = 'NAME' says which one"
        )
    return alike[0] if alike else None


def _other_of(pair: tuple[str, str], given: Columns, found: dict[str, str], where: str) -> str:
    """Return which of two roles that say the same is not to be used."""
    named = [role for role in pair if getattr(given, role) is not None]
    if len(named) != 1:
        names = " and ".join(found[role] for role in pair)
        raise InputError(
            f"{where}: columns {names} say the same: give one of "
            f"read.columns.{pair[0]} and read.columns.{pair[1]}"
        )
    return pair[1] if named[0] == pair[0] else pair[0]


def units_of(
    columns: Mapping[str, str], read: Reading, where: str, usual: str | None = None
) -> dict[str, str]:
    """Return the units of columns of numbers: as each name ends, or else as `read` says.

    Parameters
    ----------
    columns : dict of str to str
        Names by role.
    usual : str or None
        Unit where neither tells one, of a format that has it.

    Raises
    ------
    InputError
        If nothing tells the unit of one; or `read` says one, and all names tell theirs, or none of
        the columns holds numbers.
    """
    if read.time_unit and not columns:
        raise InputError(
            f"{where}: read.time_unit: {shown(read.time_unit)} has no effect: no column of times "
            "holds numbers, dates tell theirs; leave it out"
        )
    at_end = {role: _unit_at_end(name) for role, name in columns.items()}
    told = {role: unit for role, unit in at_end.items() if unit is not None}
    if (role := next((role for role, unit in told.items() if not unit), None)) is not None:
        raise InputError(
            f"{where}: column {shown(columns[role])}: ends in a unit that is not read; write it in "
            f"seconds, as {role}_s{without(role)}"
        )
    for role, name in columns.items():
        if role in told:
            continue
        unit = read.time_unit or usual
        if unit is None:
            raise InputError(
                f"{where}: column {shown(name)}: unit unknown: read.time_unit = 's', 'ms', 'us' or "
                f"'ns' says it{without(role)}"
            )
        told[role] = unit
    others = [role for role, unit in told.items() if unit != read.time_unit]
    if read.time_unit and others and None not in at_end.values():
        raise InputError(
            f"{where}: read.time_unit: {shown(read.time_unit)} has no effect: all names end in a "
            f"unit, {shown(columns[others[0]])} in {told[others[0]]}; leave it out, or rename the "
            "column if its name is wrong"
        )
    return told


def _unit_at_end(name: str) -> str | None:
    """Return the unit that a name ends in, of `PER_SECOND` or empty; None: in none."""
    found = _UNIT_AT_END.search(name) or _UNIT_IN_CAMEL_CASE.search(name)
    if found is None:
        return None
    return _UNITS.get(next(filter(None, found.groups())).lower(), "")
