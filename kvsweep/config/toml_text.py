"""Values as TOML: an option's, and a whole sweep file's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_PLAIN = re.compile(r"[a-z][a-z0-9./-]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def literal(value: Any) -> str:
    """Write a value on one line.

    Examples
    --------
    >>> literal(True), literal(2.0), literal({"dist": "constant", "value": 3})
    ('true', '2.0', '{ dist = "constant", value = 3 }')
    """
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {literal(inner)}" for key, inner in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, str):
        # A JSON string is a TOML string; beyond ASCII, TOML takes characters as they are. DEL is
        # the one that only JSON lets stand.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)  # repr of numbers: 1e+16 and 2.0 are TOML too


def option(value: Any) -> str:
    """Write the value of an option; names that TOML would not take for something else as such."""
    plain = isinstance(value, str) and _PLAIN.fullmatch(value)
    return value if plain and value not in ("true", "false", "inf", "nan") else literal(value)


def document(tables: Mapping[str, Any]) -> str:
    """Write a file: values first, then a section for each table."""
    lines = [f"{_key(k)} = {literal(v)}" for k, v in tables.items() if not isinstance(v, Mapping)]
    for name, table in tables.items():
        if isinstance(table, Mapping):
            lines += _section((name,), table)
    return "\n".join(lines).strip("\n") + "\n"


def _section(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a section; tables of tables, as policies, become sections too."""
    inner = {key: value for key, value in table.items() if _is_section(path, value)}
    if len(inner) < len(table) or not table:
        yield ""
        yield f"[{'.'.join(map(_key, path))}]"
        yield from (f"{_key(k)} = {literal(v)}" for k, v in table.items() if k not in inner)
    for key, value in inner.items():
        yield from _section((*path, key), value)


def _is_section(path: tuple[str, ...], value: Any) -> bool:
    return path == ("policies",) and isinstance(value, Mapping)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else literal(key)
