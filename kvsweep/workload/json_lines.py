"""JSON lines of any keys, as gateways and servers log requests: read as a table of their keys.

A key within an object has the names of both, with a dot: ``usage.prompt_tokens``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError, shown
from kvsweep.parsing import parse_json
from kvsweep.workload.column_roles import find_roles
from kvsweep.workload.csv_columns import Stretch
from kvsweep.workload.long_files import Part
from kvsweep.workload.measured import Rows
from kvsweep.workload.tabular import read_table

_ROWS = 2**16


def read_json_lines(text: str, where: str, read: Reading, part: Part | None = None) -> Rows:
    """Return the requests; of more than a list may have, only `part`.

    Raises
    ------
    InputError
        If a line is no object, the keys are not told, or a value is malformed.
    """
    names: dict[str, None] = {}
    for _, item in _objects(text, where):  # all: clients may be named from some time on
        names |= dict.fromkeys(flat_keys(item))
    roles = find_roles(list(names), read, where)
    return read_table(_stretches(text, where, list(roles.values())), roles, where, read, part=part)


def flat_keys(item: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Yield the names of all values of an object that are no objects with keys."""
    for key, value in item.items():
        if isinstance(value, dict) and value:
            yield from flat_keys(value, f"{before}{key}.")
        else:
            yield before + key


def _objects(text: str, where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of all lines that are not blank, and the numbers of the lines."""
    start, number = 0, 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        line = text[start:end]
        start, number = end, number + 1
        if line.isspace():
            continue
        item = parse_json(line, where, number)
        if not isinstance(item, dict):
            raise InputError(f"{where}:{number}: expected an object, got {shown(item)}")
        yield number, item


def _stretches(text: str, where: str, names: list[str]) -> Iterator[Stretch]:
    """Yield the values of some lines at a time, by column, as text."""
    rows = _objects(text, where)
    while chunk := list(islice(rows, _ROWS)):
        columns = [[_cell(_value(item, name)) for _, item in chunk] for name in names]
        yield [number for number, _ in chunk], columns


def _value(item: Mapping[str, Any], name: str) -> Any:
    """Return what an object has under a name of `flat_keys`; None if it has nothing there.

    Any key on the way may have dots in itself, as OpenTelemetry's `gen_ai.usage.input_tokens`.
    """
    if name in item:
        return item[name]
    end = name.find(".")
    while end >= 0:
        inner = item.get(name[:end])
        if isinstance(inner, dict) and (found := _value(inner, name[end + 1 :])) is not None:
            return found
        end = name.find(".", end + 1)
    return None


def _cell(value: Any) -> str:
    """Return a value as a table would have it."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
