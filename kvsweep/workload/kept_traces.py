"""Traces that were read not long ago: plans and tasks of one process ask for the same ones."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import fields
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from kvsweep.config.trace_reading import Reading
from kvsweep.workload.long_files import Part
from kvsweep.workload.requests import Requests
from kvsweep.workload.traces import load_trace

MOST_KEPT = 8
"""Traces that are remembered; of a sweep over ``{seed}`` each task takes a few."""

MOST_BYTES = 2**30
"""Memory of all of them together; a trace of a million requests has some 0.2 GB."""

_SETTLED_NS = 2 * 10**9
"""Age from which a file's time tells a later change; some file systems count in seconds."""

_known: OrderedDict[Any, tuple[Requests, int]] = OrderedDict()
_lock = Lock()


def requests_of_file(path: Path, read: Reading | None = None, part: Part | None = None) -> Requests:
    """Return the requests of a trace, read again only if the file has changed.

    Parameters
    ----------
    path : Path
        The file.
    read : Reading or None
        How to read it.
    part : Part or None
        What is enough of it, if it has more requests than a list may have.

    Raises
    ------
    InputError
        As `load_trace`.
    """
    return _known_or_read(path, read, part)[0]


def left_out_of_file(path: Path, read: Reading | None = None, part: Part | None = None) -> int:
    """Return how many requests of a trace are not in its list, as `Trace.left_out`.

    Raises
    ------
    InputError
        As `load_trace`.
    """
    return _known_or_read(path, read, part)[1]


def _known_or_read(path: Path, read: Reading | None, part: Part | None) -> tuple[Requests, int]:
    """Return the requests of a trace, and how many of its file are left out."""
    with _lock:  # others that want the same one wait for it
        about = identity(path)
        for key in ((about, read, None), (about, read, part)):
            if about is not None and key in _known:
                _known.move_to_end(key)
                return _known[key]
        trace = load_trace(path, read, part)
        found = trace.requests, trace.left_out
        if about is not None and about == identity(path):
            _keep((about, read, part if trace.cut else None), found)
        return found


def _keep(key: Any, found: tuple[Requests, int]) -> None:
    _known[key] = found
    while len(_known) > 1 and (
        len(_known) > MOST_KEPT or sum(_bytes(kept) for kept, _ in _known.values()) > MOST_BYTES
    ):
        _known.popitem(last=False)
    if _bytes(found[0]) > MOST_BYTES:
        del _known[key]


def identity(path: Path) -> tuple[str, int, int, int] | None:
    """Return what tells the content of a file from others; None if nothing does for sure."""
    try:
        about = path.stat()
    except (OSError, ValueError):
        return None  # whoever opens it will complain
    if time.time_ns() - about.st_mtime_ns < _SETTLED_NS:
        return None
    return str(path.absolute()), about.st_ino, about.st_size, about.st_mtime_ns


def _bytes(requests: Requests) -> int:
    columns = (getattr(requests, field.name) for field in fields(Requests))
    own = sum(column.nbytes for column in columns if isinstance(column, np.ndarray))
    return own + sum(column.nbytes for column in requests.accepted or ())
