"""Traces (``kvsweep-trace/1``) in and out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError, shown
from kvsweep.files import written
from kvsweep.limits import MAX_INPUT_BYTES
from kvsweep.parsing import parse_json
from kvsweep.reading import read_text

FORMAT = "kvsweep-trace/1"

Document = dict[str, Any]


def load(path: Path) -> Document:
    """Return a trace, plain or gzipped.

    Raises
    ------
    InputError
        If it cannot be read or is no trace; `scenario.read_scenario` checks what is in it.
    """
    document = parse_json(read_text(path, MAX_INPUT_BYTES, packed=True), str(path))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else document
        raise InputError(f"{path}: format: expected {FORMAT!r}, got {shown(found)}")
    return document


def load_recording(path: Path) -> Document:
    """Return the ``expected`` of a trace.

    Raises
    ------
    InputError
        If it is no trace or nothing has been recorded in it.
    """
    return recording_of(load(path), str(path))


def recording_of(document: Document, where: str) -> Document:
    """Return the ``expected`` of a trace that has been read from `where`."""
    expected = document.get("expected")
    if expected is None:
        raise InputError(
            f"{where}: expected: missing: nothing has been recorded; use the command record"
        )
    if not isinstance(expected, dict) or not ({"steps", "engines"} & expected.keys()):
        raise InputError(f"{where}: expected: an object with steps or engines, as record writes it")
    return expected


def save(path: Path, document: Document) -> None:
    """Write a trace, gzipped if its name ends in ``.gz``: the same bytes for the same trace.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    data = json.dumps(document, separators=(",", ":")).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    with written(path, binary=True) as file:
        file.write(data)
