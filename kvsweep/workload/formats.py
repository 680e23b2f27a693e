"""Which format a trace has, by its first line or its whole; near misses are told what they lack."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError, clip, shown
from kvsweep.parsing import parse_json
from kvsweep.workload import azure, bench_results, burstgpt, column_roles, mooncake, weka
from kvsweep.workload.json_lines import flat_keys
from kvsweep.workload.native import FORMAT

_FIRST_LINE = re.compile(r"\S[^\n]*")
# Of Mooncake's keys, or of the lists of a result. Fewer may be any log.
_ENOUGH = 2

_BENCH = ("request_throughput", "total_input_tokens", *bench_results.KEYS)
_TIMED = ("start_time", "end_time", "info")

# Of which a line alone is no JSON document, but a line.
_BY_LINES = frozenset(("mooncake", "qwen-bailian", "weka", "aiperf"))

# One of them is enough to be told what else a trace of this project lacks.
_OF_NATIVE = frozenset(("format", "requests", "scenario"))

_AS_CSV = "; written as CSV or JSON lines, columns of any names are read (read.columns)"
_NAMED = "; written as it is, it is read if read.columns.arrival, prompt and output name its keys"

_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}

USED = {
    "kvsweep": (),
    "mooncake": ("block_size", "partial_block", "time_unit", "failed"),
    "qwen-bailian": ("block_size", "partial_block", "time_unit", "failed"),
    "weka": (
        "failed", "lanes", "sessions_per_s", "subagents", "subagent_ids", "subagent_times",
        "think_cap_s", "think_unknown_s",
    ),
    "azure": ("failed",),
    "burstgpt": ("failed", "arrivals", "shared_prefix"),
    "vllm-bench": ("failed", "arrivals", "shared_prefix", "run"),
    "aiperf": ("failed", "arrivals", "shared_prefix"),
    "inference-perf": ("failed", "arrivals", "shared_prefix"),
    "csv": ("columns", "time_unit", "failed", "arrivals", "shared_prefix"),
    "parquet": ("columns", "time_unit", "failed", "arrivals", "shared_prefix"),
    "jsonl": ("columns", "time_unit", "failed", "arrivals", "shared_prefix"),
}  # fmt: skip
"""Keys of `Reading` that each format reads, besides `format`."""


def check_used(kind: str, read: Reading, where: str) -> None:
    """Refuse what is asked of a format that has no such thing.

    Raises
    ------
    InputError
        If a key that the format does not read has another value than by default.
    """
    default = Reading()
    for key in Reading.model_fields:
        if key in ("format", *USED[kind]) or getattr(read, key) == getattr(default, key):
            continue
        allowed = ", ".join(USED[kind]) or "none"
        hint = "; read.format = 'jsonl' reads lines of any keys"
        raise InputError(
            f"{where}: read.{key}: not for the format {kind!r}; allowed: {allowed}"
            f"{hint if key == 'columns' and kind in _BY_LINES else ''}"
        )
    if read.arrivals == "even" and kind != "vllm-bench":
        raise InputError(
            f"{where}: read.arrivals: 'even' is for 'vllm-bench', which tells its rate"
        )


def recognise(text: str, where: str, read: Reading) -> tuple[str, Any]:
    """Return the format of a text and its parsed document, if it is a single JSON value.

    Raises
    ------
    InputError
        If it is none of them, could be several, or is JSON that is malformed.
    """
    found = _FIRST_LINE.search(text)
    if found is None:
        raise InputError(f"{where}: not a trace: it is empty")
    first = found[0].rstrip()
    line = text.count("\n", 0, found.start()) + 1
    asked = read.format
    if asked in ("azure", "burstgpt", "csv"):
        if first.startswith(("{", "[{", "[[")) or first == "[":
            raise InputError(f"{where}:{line}: read.format: {asked!r} is CSV, and this is JSON")
        _check_commas(text, first, f"{where}:{line}")
        return asked, None
    if asked == "vllm-bench" and not first.startswith(("{", "[")):
        raise InputError(f"{where}:{line}: read.format: {asked!r} is JSON, got {shown(first)}")
    document, item = _json_of(text, first, found.end(), where, line)
    if asked is not None:
        return asked, _as_asked(asked, document, text, where)
    if item is None:
        return _table(text, first, read, where, line), None
    kinds = _kinds(item)
    if len(kinds) > 1:
        raise InputError(
            f"{where}: could be {' or '.join(kinds)}: read.format says which, as {kinds[0]!r}"
        )
    if kinds:
        return kinds[0], document
    if isinstance(item, list):
        refuse(where, f"it is a list of something else{_AS_CSV}" if item else "it is an empty list")
    own = item.get("format") == FORMAT  # others have a key of that name, too
    if not own and (document is None or "\n" not in text.strip()):
        keys = list(flat_keys(item))
        if read.columns is not None or _is_named(keys):
            return "jsonl", None
        if document is None:
            told = f"other keys than Mooncake's: {clip(', '.join(keys))}{_NAMED}"
            refuse(where, f"its lines are JSON objects of {told}")
    if item and _OF_NATIVE.isdisjoint(item):
        refuse(where, f"it is a JSON object of other keys: {clip(', '.join(item))}{_AS_CSV}")
    return "kvsweep", parse_json(text, where) if document is None else document


def _as_asked(asked: str, document: Any, text: str, where: str) -> Any:
    """Return the document of a format that was given, which is a list or an object in some."""
    if asked not in ("inference-perf", "kvsweep"):
        return document
    found = parse_json(text, where) if document is None else document
    wanted, words = (
        (list, "a list of requests") if asked == "inference-perf" else (dict, "an object")
    )
    if not isinstance(found, wanted):
        raise InputError(f"{where}: expected {words}, got {shown(found)}")
    return found


def _json_of(text: str, first: str, end: int, where: str, line: int) -> tuple[Any, Any]:
    """Return the document, None if there are several; and it, or else the first, if JSON at all."""
    if not first.startswith(("{", "[")):
        return None, None
    alone = _FIRST_LINE.search(text, end) is None
    if not alone:
        item = _object_in(first)
        if item is not None:
            return None, item
    if first.startswith("[") and not re.match(r"\[\s*(\{|\]|\[|$)", first):
        return None, None  # a section of settings, or a broken table
    try:
        document = parse_json(text, where)
    except InputError:
        if alone and not _BY_LINES.isdisjoint(_kinds(_object_in(first))):
            parse_json(text, where, line)
        raise
    return document, document


def _kinds(item: Any) -> list[str]:
    """Return the formats that an object, the first of a file, looks like."""
    if isinstance(item, list):
        objects = [entry for entry in item[:1] if isinstance(entry, dict)]
        timed = any(sum(key in entry for key in _TIMED) >= _ENOUGH for entry in objects)
        return ["inference-perf"] if timed else []
    if not isinstance(item, dict) or item.get("format") == FORMAT:
        return []
    looks: dict[str, Callable[[dict[str, Any]], bool]] = {
        "weka": lambda found: "requests" in found and all(key in found for key in weka.KEYS[:2]),
        "aiperf": lambda found: "metadata" in found and "metrics" in found,
        "vllm-bench": lambda found: sum(key in found for key in _BENCH) >= _ENOUGH,
        "mooncake": _is_mooncake,
    }
    kinds = [kind for kind, looks_so in looks.items() if looks_so(item)]
    if "mooncake" in kinds and any(key in item for key in mooncake.QWEN_KEYS):
        kinds[kinds.index("mooncake")] = "qwen-bailian"
    return kinds


def _is_mooncake(found: dict[str, Any]) -> bool:
    """Whether this looks like one of Mooncake's lines, perhaps one that lacks a key."""
    return "hash_ids" in found or sum(key in found for key in mooncake.KEYS) >= _ENOUGH


def _table(text: str, first: str, read: Reading, where: str, line: int) -> str:
    """Return the format of a table by its header."""
    _check_commas(text, first, f"{where}:{line}")
    try:
        header = [name.strip() for name in next(csv.reader([first]))]
    except csv.Error:
        header = first.split(",")
    if read.columns is not None:
        return "csv"
    kinds = [
        kind
        for kind, names in (("azure", azure.HEADER), ("burstgpt", burstgpt.HEADER[1:]))
        if any(name in header for name in names)
    ]
    if not kinds and _is_named(header):
        kinds.append("csv")
    if len(kinds) > 1:
        raise InputError(
            f"{where}: its columns could be those of {' or '.join(kinds)}: read.format says which, "
            f"as {kinds[0]!r}"
        )
    if kinds:
        return kinds[0]
    if first.startswith("#"):
        refuse(
            f"{where}:{line}",
            f"a CSV trace begins with the names of its columns, not with a comment, {shown(first)}",
        )
    if len(header) > 1 and not first.startswith("["):
        columns = f"{', '.join(azure.HEADER)}; its first line is {clip(first)}"
        refuse(
            where,
            f"a CSV trace needs the columns {columns}; others are named by read.columns.arrival, "
            "prompt and output",
        )
    refuse(where, None)


def _check_commas(text: str, first: str, at: str) -> None:
    """Refuse a table that has something else between its columns, or between its lines."""
    if "\r" in first and "\n" not in text.rstrip():
        raise InputError(
            f"{at}: not a trace: its lines end in carriage returns (CR) alone; `tr '\\r' '\\n'` "
            "makes it one"
        )
    for separator, words in _SEPARATORS.items():
        if first.count(separator) >= _ENOUGH and "," not in first and not first.startswith("["):
            raise InputError(
                f"{at}: not a trace: {words} between the names of its columns, {shown(first)}; a "
                "CSV trace has commas"
            )


def _is_named(header: list[str]) -> bool:
    """Return whether columns have names that tell what they are."""
    lengths = [name for name in column_roles.LENGTHS.values() if name in header]
    return len(lengths) == len(column_roles.LENGTHS)


def refuse(where: str, reason: str | None) -> NoReturn:
    """Say what a trace may be."""
    expected = (
        f"expected {FORMAT} (JSON), Mooncake's JSON lines, Azure's CSV or another format of "
        "docs/traces.md"
    )
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
