"""Columns of text as numbers: many cells at once, and the first bad one by its place.

A million rows take a second this way, and several when each cell is looked at by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.errors import InputError, shown
from kvsweep.limits import MAX_TOKENS

# Possessive (the last +): nothing else could match, and trying takes four times as long.
_INTEGERS = re.compile(r"(?:[0-9]{1,15}+\n)*+")
_INTEGER = re.compile(r"[0-9]{1,15}")
_LONGS = re.compile(r"(?:[0-9]{1,19}+\n)*+")
_NUMBER = re.compile(r"(?:[0-9]{1,19}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?")
_NUMBERS = re.compile(rf"(?:{_NUMBER.pattern}\n)*+")

# What tools write of a request that has no such number, in any case of letters.
_NOTHING = re.compile(r"(?:nan|none|null|n/?a|-1(?:\.0*)?)?", re.IGNORECASE)

# What dates look like with each digit as 0: a million have two or three shapes.
_DIGITS = {ord(digit): "0" for digit in "123456789"}
_SHAPE = re.compile(r"0{4}-00-00[ T]00:00:00(?:\.0{1,9})?")
_UTC = re.compile(r"(?:\+00:00|Z)\n")

_LARGEST = 2**63
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)

Place = Callable[[int], str]
"""From the position of a row to its place in the file, for messages."""


def token_cells(cells: Sequence[str], name: str, place: Place) -> NDArray[np.int64]:
    """Return counts of tokens, 0 included.

    Raises
    ------
    InputError
        At the first cell that is no such count.
    """
    if not _INTEGERS.fullmatch(_joined(cells)):
        # pandas writes so what stood in a column with cells that are empty.
        cells = [cell.strip().removesuffix(".0") for cell in cells]
    if _INTEGERS.fullmatch(_joined(cells)):
        values = np.array(list(map(int, cells)), np.int64)
        if values.max(initial=0) <= MAX_TOKENS:
            return values
    for i, cell in enumerate(cells):
        if not _INTEGER.fullmatch(cell) or int(cell) > MAX_TOKENS:
            raise InputError(
                f"{place(i)}: {name}: expected an integer from 0 to {MAX_TOKENS}, got {shown(cell)}"
            )
    raise AssertionError("no bad cell among bad cells")


def time_cells(cells: Sequence[str], name: str, place: Place) -> NDArray[Any]:
    """Return times as they are written: int64 if all are integers, else float64.

    Raises
    ------
    InputError
        At the first cell that is no number, or is below 0.
    """
    joined = _joined(cells)
    if not _NUMBERS.fullmatch(joined):
        cells = [cell.strip() for cell in cells]
        joined = _joined(cells)
    if _LONGS.fullmatch(joined) and max(values := list(map(int, cells)), default=0) < _LARGEST:
        return np.array(values, np.int64)
    if _NUMBERS.fullmatch(joined):
        times = np.array(list(map(float, cells)), np.float64)
        if times.max(initial=0) < _LARGEST:
            return times
    for i, cell in enumerate(cells):
        if not _NUMBER.fullmatch(cell) or float(cell) >= _LARGEST:
            raise InputError(f"{place(i)}: {name}: expected a time, at least 0, got {shown(cell)}")
    raise AssertionError("no bad cell among bad cells")


def is_nothing(cell: str) -> bool:
    """Return whether a cell is one of a request that has no such number: empty, NaN, -1."""
    return _NOTHING.fullmatch(cell.strip()) is not None


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, at least 0."""
    return _NUMBER.fullmatch(cell.strip()) is not None


def is_date(cell: str) -> bool:
    """Return whether a cell is a time as 2023-11-16 18:17:03.9799600, which no number is."""
    try:
        datetime.fromisoformat(cell.strip())
    except ValueError:
        return False
    return not is_number(cell)


def date_cells(cells: Sequence[str], name: str, place: Place, zoned: bool) -> NDArray[np.int64]:
    """Return dates with times as microseconds since 1970.

    Parameters
    ----------
    zoned : bool
        Whether they have a time zone: all or none.
    """
    plain, zones = _UTC.subn("\n", _joined(cells))
    shapes = set(plain.translate(_DIGITS).split("\n")[:-1])
    if zones == len(cells) * zoned and all(map(_SHAPE.fullmatch, shapes)):
        try:
            return np.array(plain.split("\n")[:-1], "M8[us]").astype(np.int64)
        except ValueError:
            pass  # as a 30th of February; the first one is found below
    found = []
    for i, cell in enumerate(cells):
        try:
            time = datetime.fromisoformat(cell.strip())
        except ValueError:
            message = f"expected a time as 2023-11-16 18:17:03.9799600, got {shown(cell)}"
            raise InputError(f"{place(i)}: {name}: {message}") from None
        if (time.tzinfo is not None) != zoned:
            raise InputError(f"{place(i)}: {name}: times with and without a time zone")
        found.append(since_1970(time))
    return np.array(found, np.int64)


def since_1970(time: datetime) -> int:
    """Return microseconds since 1970, in UTC or where there is no zone."""
    shift = time.utcoffset() or timedelta()
    return (time.replace(tzinfo=None) - _EPOCH - shift) // _MICROSECOND


def is_zoned(cell: str) -> bool:
    """Return whether a date has a time zone."""
    return datetime.fromisoformat(cell.strip()).tzinfo is not None


def _joined(cells: Sequence[str]) -> str:
    text = "\n".join(cells) + "\n"
    # A cell with a line break in it could pass for two: then nothing matches.
    return text if text.count("\n") == len(cells) else "\n"
