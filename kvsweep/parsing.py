"""JSON, TOML and CSV, strictly: what their parsers would drop, change or raise is an `InputError`.

All functions name the file in their messages, `where`, and the line or key if there is one.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import islice
from threading import Lock
from typing import Any

from kvsweep.errors import InputError, clip, dotted, shown
from kvsweep.limits import MAX_DEPTH

Key = tuple[str | int, ...]

_AT_ONCE = 2**10  # rows of a CSV file
_LONGEST_FIELD = 2**31 - 1  # what `csv` takes everywhere; files are shorter or refused
_limit_lock = Lock()

_TOO_DEEP = f"more than {MAX_DEPTH} levels of nesting"
# Longer ones take long, so Python refuses them.
_TOO_LONG = f"an integer of more than {sys.get_int_max_str_digits():,} digits"

# The parser's time grows with the square of the parts of a dotted key.
_MOST_PARTS = 1000
_KEY_ENDS = re.compile(r"[=,\n\[\]{}#]+")


def parse_json(text: str, where: str, line: int | None = None) -> Any:
    """Return the value of a JSON text.

    Parameters
    ----------
    text : str
        The text.
    where : str
        The file.
    line : int or None
        The line of the file that `text` is, if it is not the whole file.

    Raises
    ------
    InputError
        If it is malformed, an object has a key twice, or a number is none of JSON (NaN, Infinity),
        too large, or of too many digits.
    """
    at = where if line is None else f"{where}:{line}"
    try:
        try:
            return _STRICT.decode(text)
        except json.JSONDecodeError:
            raise
        except ValueError:
            path, fault = _first_fault(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}:{line or error.lineno}: truncated or malformed JSON: "
            f"{error.msg.removesuffix(' at')} at column {error.colno}"
        ) from None
    except RecursionError:
        raise InputError(f"{at}: {_TOO_DEEP}") from None
    raise InputError(": ".join(filter(None, (at, dotted(path), fault))))


class _Fault:
    """Stands in a document for a value that is refused."""

    def __init__(self, message: str) -> None:
        self.message = message


def _first_fault(text: str) -> tuple[Key, str]:
    """Return where the first value is that `_STRICT` refuses, and why."""
    for path, value in _walk(_MARKING.decode(text)):
        if isinstance(value, _Fault):
            return path, value.message
    raise AssertionError("refused without a fault")


def _walk(document: Any) -> Iterator[tuple[Key, Any]]:
    """Yield all values with their paths, in order, whatever the depth."""
    stack: list[tuple[Key, Any]] = [((), document)]
    while stack:
        path, value = stack.pop()
        yield path, value
        if isinstance(value, dict):
            stack += [((*path, key), inner) for key, inner in reversed(value.items())]
        elif isinstance(value, list):
            stack += [((*path, i), value[i]) for i in reversed(range(len(value)))]


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key occurs twice")
    return table


def _marked_table(pairs: list[tuple[str, Any]]) -> Any:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            return _Fault(f"duplicate key {shown(key)}")
        table[key] = value
    return table


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("too large")
    return value


def _marked_float(text: str) -> Any:
    value = float(text)
    return _Fault(f"{clip(text)} is too large a number") if math.isinf(value) else value


def _marked_integer(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return _Fault(_TOO_LONG)


def _constant(name: str) -> Any:
    raise ValueError(name)


def _marked_constant(name: str) -> Any:
    return _Fault(f"{name} is no number of JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=_table, parse_float=_finite, parse_constant=_constant)
_MARKING = json.JSONDecoder(
    object_pairs_hook=_marked_table,
    parse_float=_marked_float,
    parse_int=_marked_integer,
    parse_constant=_marked_constant,
)


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return the values of a TOML text.

    Raises
    ------
    InputError
        If it is no TOML; `first_excess` finds what else is refused.
    """
    _check_keys(text, where)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason, _, place = str(error).rpartition(" (at ")
        line = place.removeprefix("line ").split(",")[0]
        at = f"{where}:{line}" if line.isdigit() else where
        raise InputError(f"{at}: not TOML: {reason or error}") from None
    except RecursionError:
        raise InputError(f"{where}: {_TOO_DEEP}") from None
    except ValueError:  # of int()
        raise InputError(f"{where}: {_TOO_LONG}") from None


def _check_keys(text: str, where: str) -> None:
    for piece in _KEY_ENDS.split(text):
        if piece.count(".") > _MOST_PARTS:
            parts = [part for part in piece.split(".") if part.strip()]
            if len(parts) > _MOST_PARTS:
                raise InputError(
                    f"{where}: a key of more than {_MOST_PARTS:,} parts: {shown(piece.strip())}"
                )


def first_excess(document: Any) -> tuple[Key, str] | None:
    """Return the key of a value that no setting can have, and why; None if there is none.

    That is nesting beyond `MAX_DEPTH`, which recursion would not survive everywhere, and integers
    beyond TOML's 64 bits, whose conversion fails.
    """
    for path, value in _walk(document):
        if len(path) > MAX_DEPTH:
            return path[:2], _TOO_DEEP
        if type(value) is int and not -(2**63) <= value < 2**63:
            return path, f"an integer must have at most 64 bits, got {shown(value)}"
    return None


def parse_csv(text: str, where: str) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the header of a CSV text, and an iterator over its rows with their lines.

    Every row has as many fields as the header; blank lines are left out, and blanks around names.

    Raises
    ------
    InputError
        If the header names a column twice. The iterator: if a row is malformed, or has more or
        fewer fields.
    """
    rows = _rows(text, where)
    line, header = next(rows, (1, []))
    header = [name.strip() for name in header]
    seen: set[str] = set()
    for name in header:
        if name in seen:
            raise InputError(f"{where}:{line}: duplicate column {shown(name)}")
        seen.add(name)
    return header, _even(rows, len(header), where)


def csv_rows(text: str, where: str, width: int, before: int) -> Iterator[tuple[int, list[str]]]:
    """Return an iterator over rows of `width` fields with their lines, as `parse_csv` does.

    Parameters
    ----------
    before : int
        Lines of the file before `text`.
    """
    return _even(_rows(text, where, before), width, where)


def _rows(text: str, where: str, before: int = 0) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text), strict=True)
    rows, problem = _some_rows(reader, 1)
    while rows or problem:
        for line, row in rows:
            if len(row) > 1 or "".join(row).strip():
                yield before + line, row
        if problem:
            line = before + reader.line_num
            raise InputError(f"{where}:{line}: malformed CSV: {problem}")
        rows, problem = _some_rows(reader, _AT_ONCE)


def _some_rows(reader: Any, most: int) -> tuple[list[tuple[int, list[str]]], csv.Error | None]:
    """Return the next rows with their lines, and what is wrong with the one behind them.

    How long a field may be, as the text of a prompt, is a setting of the whole process: it is
    another only while rows are read, by one thread at a time.
    """
    rows: list[tuple[int, list[str]]] = []
    with _limit_lock:
        usual = csv.field_size_limit(_LONGEST_FIELD)
        try:
            for row in islice(reader, most):
                rows.append((reader.line_num, row))
        except csv.Error as problem:
            return rows, problem
        finally:
            csv.field_size_limit(usual)
    return rows, None


def _even(
    rows: Iterator[tuple[int, list[str]]], width: int, where: str
) -> Iterator[tuple[int, list[str]]]:
    for line, row in rows:
        if len(row) != width:
            raise InputError(
                f"{where}:{line}: {len(row)} fields, expected {width} as in the header"
            )
        yield line, row
