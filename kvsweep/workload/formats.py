"""Which format a trace has, by its first line; near misses are told what they lack."""

from __future__ import annotations

import csv
import json
import re
from typing import Any, NoReturn

from kvsweep.errors import InputError, clip
from kvsweep.parsing import parse_json
from kvsweep.workload import azure, mooncake
from kvsweep.workload.native import FORMAT

NATIVE, MOONCAKE, AZURE = "native", "mooncake", "azure"

_FIRST_LINE = re.compile(r"\S[^\n]*")
_BURSTGPT = "Request tokens"
# Of Mooncake's keys. Fewer, and hash_ids not among them, may be any log.
_ENOUGH = 2


def recognise(text: str, where: str) -> tuple[str, Any]:
    """Return the format of a trace: `NATIVE`, with its parsed document, `MOONCAKE` or `AZURE`.

    Raises
    ------
    InputError
        If it is none of them, or JSON that is malformed.
    """
    found = _FIRST_LINE.search(text)
    if found is None:
        raise InputError(f"{where}: not a trace: it is empty")
    first = found[0].rstrip()
    if not first.startswith("{"):
        return _recognise_table(first, where)
    if _FIRST_LINE.search(text, found.end()) is None:
        document = parse_json(text, where)
        return (MOONCAKE if _is_mooncake(document) else NATIVE), document
    line = _object_in(first)
    if _is_mooncake(line):
        return MOONCAKE, None
    if line is not None and "format" not in line:
        keys = clip(", ".join(line))
        _refuse(where, f"its lines are JSON objects of other keys than Mooncake's: {keys}")
    return NATIVE, parse_json(text, where)


def _recognise_table(first: str, where: str) -> tuple[str, Any]:
    try:
        header = next(csv.reader([first]))
    except csv.Error:
        header = first.split(",")
    if any(name in header for name in azure.HEADER):
        return AZURE, None
    if _BURSTGPT in header:
        _refuse(where, "BurstGPT's CSV is not read yet")
    if len(header) > 1 and not first.startswith("["):
        columns = f"{', '.join(azure.HEADER)}; its first line is {clip(first)}"
        _refuse(where, f"a CSV trace needs the columns {columns}")
    _refuse(where, None)


def _refuse(where: str, reason: str | None) -> NoReturn:
    expected = f"expected {FORMAT} (JSON), Mooncake's JSON lines or Azure's CSV"
    raise InputError(f"{where}: not a trace: {f'{reason}; ' if reason else ''}{expected}")


def _object_in(line: str) -> dict[str, Any] | None:
    """Return the object that is all of `line`, if it is one; the reader will be strict."""
    if not line.endswith("}"):
        return None
    try:
        found = json.loads(line, parse_int=str)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_mooncake(found: Any) -> bool:
    """Whether this looks like one of Mooncake's lines, perhaps one that lacks a key."""
    if not isinstance(found, dict) or "format" in found:
        return False
    return "hash_ids" in found or sum(key in found for key in mooncake.KEYS) >= _ENOUGH
