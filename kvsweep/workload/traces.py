"""Recorded request lists: kvsweep-trace/1, Mooncake's JSON lines, Azure's CSV; plain or gzipped."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError
from kvsweep.workload.azure import HEADER, read_azure
from kvsweep.workload.mooncake import read_mooncake
from kvsweep.workload.native import FORMAT, read_native, to_trace_dict
from kvsweep.workload.requests import Requests

__all__ = ["FORMAT", "Trace", "load_trace", "to_trace_dict"]

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Trace:
    """A request list, and what its file says about it.

    Attributes
    ----------
    requests : Requests
        In arrival order.
    scenario : dict
        The file's scenario, not yet checked (`kvsweep.config.parse_scenario` does that).
    expected : object
        What a recorded run gave, or None.
    about : object
        Where the trace comes from, or None.
    where : str
        The file's name, for messages.
    """

    requests: Requests
    scenario: dict[str, Any] = field(default_factory=dict)
    expected: Any = None
    about: Any = None
    where: str = "trace"


def load_trace(source: str | Path | Mapping[str, Any]) -> Trace:
    """Read a trace; its content tells the format.

    Parameters
    ----------
    source : path or dict
        A file, or the content of a kvsweep-trace/1.

    Returns
    -------
    Trace
        Mooncake's and Azure's traces have no scenario; their requests are sorted by arrival.

    Raises
    ------
    InputError
        If it cannot be read, is truncated, or something in it is malformed: one line that names
        the file and the request or line.
    """
    if isinstance(source, Mapping):
        return _native(source, "trace")
    where = str(source)
    text = _read(Path(source), where)
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith(HEADER[0]):
        return Trace(read_azure(start, where), where=where)
    if not start.startswith("{"):
        raise InputError(
            f"{where}: not a trace: expected {FORMAT} (JSON), Mooncake's JSON lines or Azure's CSV"
        )
    if _is_mooncake(start):
        return Trace(read_mooncake(text, where), where=where)
    try:
        document = json.loads(start)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}:{error.lineno}: truncated or malformed JSON: {error.msg} at column "
            f"{error.colno}"
        ) from None
    return _native(document, where)


def _native(document: Mapping[str, Any], where: str) -> Trace:
    scenario = document.get("scenario", {})
    if not isinstance(scenario, dict):
        raise InputError(f"{where}: scenario: expected an object, got {scenario!r:.40}")
    return Trace(
        requests=read_native(document, where),
        scenario=scenario,
        expected=document.get("expected"),
        about=document.get("about"),
        where=where,
    )


def _read(path: Path, where: str) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw.startswith(_GZIP) else raw).decode("utf-8")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{where}: truncated or damaged gzip file") from None
    except OSError as error:
        raise InputError(f"{where}: cannot read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{where}: not a text file in UTF-8") from None


def _is_mooncake(text: str) -> bool:
    """Whether the first line is an object of its own with Mooncake's keys."""
    try:
        first = json.loads(text.split("\n", 1)[0])
    except json.JSONDecodeError:
        return False
    return isinstance(first, dict) and "hash_ids" in first and "format" not in first
