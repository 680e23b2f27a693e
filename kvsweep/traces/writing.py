"""A request list written as a kvsweep-trace/1, a line for each request."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError
from kvsweep.files import written
from kvsweep.limits import MAX_INPUT_BYTES
from kvsweep.workload.native import FORMAT, trace_entries
from kvsweep.workload.requests import Requests

_FAST = 6  # of gzip; the largest level takes four times as long for 2 % less


def write_trace(path: Path, requests: Requests, more: Mapping[str, Any]) -> None:
    """Write a trace, gzipped if its name ends so.

    Parameters
    ----------
    path : Path
        The file; one that is there is replaced.
    requests : Requests
        The list.
    more : dict
        Other parts of the trace: about, scenario, expected.

    Raises
    ------
    InputError
        If it cannot be written, or would be larger than what is read again.
    """
    with written(path, binary=True) as file:
        packed = path.suffix == ".gz"
        # No time or name in it: equal traces are equal files.
        out = gzip.GzipFile("", "wb", _FAST, file, mtime=0) if packed else file
        size = 0
        for line in _lines(requests, more):
            data = line.encode()
            size += len(data)
            if size > MAX_INPUT_BYTES:
                raise InputError(f"{path}: would have more than {MAX_INPUT_BYTES:,} bytes")
            out.write(data)
        if packed:
            out.close()


def as_seen_from(value: Any, folder: Path, other: Path) -> Any:
    """Return a scenario whose presets are the same files in a trace of another folder.

    Parameters
    ----------
    value : object
        A scenario as a trace of `folder` has it, or a part of one.
    folder, other : Path
        Where the trace is from, and where it goes to.
    """
    old, new = os.path.realpath(folder), os.path.realpath(other)
    if isinstance(value, list):
        return [as_seen_from(part, folder, other) for part in value]
    if not isinstance(value, dict) or old == new:
        return value
    found = {key: as_seen_from(part, folder, other) for key, part in value.items()}
    name = found.get("model")
    if isinstance(name, str) and name.endswith(".toml") and not os.path.isabs(name):
        found["model"] = Path(os.path.relpath(os.path.join(old, name), new)).as_posix()
    return found


def _lines(requests: Requests, more: Mapping[str, Any]) -> Iterator[str]:
    yield f'{{"format": {json.dumps(FORMAT)},\n'
    for key, value in more.items():
        yield f"{json.dumps(key)}: {json.dumps(value)},\n"
    yield '"requests": [\n'
    last = len(requests) - 1
    for i, entry in enumerate(trace_entries(requests)):
        yield json.dumps(entry, separators=(",", ":")) + (",\n" if i < last else "\n")
    yield "]}\n"
