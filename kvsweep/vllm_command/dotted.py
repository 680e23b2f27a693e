"""Options in parts, as ``--speculative-config.method eagle3``, which make a table in the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kvsweep.errors import InputError, clip
from kvsweep.vllm_command.options import Option, find_option
from kvsweep.vllm_command.suffixes import with_suffix

_DEEPEST = 100  # parts of a name

Parts = dict[str, dict[str, Any]]
"""Tables, by the names of their options as they are written."""


def add_part(parts: Parts, name: str, value: str | None, where: str) -> None:
    """Note a value whose name has dots: a part of a table, by the name of the whole.

    Parameters
    ----------
    parts : dict of str to dict
        The tables so far, by their names as they are written.
    name : str
        The name with dots.
    value : str or None
        What follows it.
    where : str
        What it is a part of, for messages.

    Raises
    ------
    InputError
        If the option takes no table, nothing follows, or it is nested too deeply.
    """
    head, *path = name.split(".")
    option, _ = find_option(head, where)
    if option.form in ("switch", "list") or value is None:
        raise InputError(f"{where}: {clip(name)}: {option.name} has no parts")
    last = path[-1]
    inner: Any = value.split(",") if last.endswith("+") else _part(value)
    for part in (last.removesuffix("+"), *reversed(path[:-1])):
        inner = {part: inner}
    try:
        if len(path) > _DEEPEST:  # which Pythons can follow further than others
            raise RecursionError
        _update(parts.setdefault(head.replace("_", "-"), {}), inner)
    except RecursionError:
        raise InputError(f"{where}: {option.name}: nested too deeply") from None


def _part(value: str) -> Any:
    """Return a part as vLLM reads it: JSON, a number with a suffix, or a text."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        number = with_suffix(value)
        return value if number is None else number


def _update(table: dict[str, Any], more: dict[str, Any]) -> None:
    """Put values into a table, as vLLM does: tables into tables, and lists behind lists."""
    for key, value in more.items():
        there = table.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            _update(there, value)
        elif isinstance(value, list) and isinstance(there, list):
            there += value
        else:
            table[key] = value


def tables_of(parts: Mapping[str, dict[str, Any]], where: str) -> Iterator[tuple[Option, Any]]:
    """Yield each table with its option, in vLLM's order: the last of an option holds."""
    for name, table in parts.items():
        yield find_option(name, where)[0], table
