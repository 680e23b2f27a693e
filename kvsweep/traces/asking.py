"""A trace as a command is given it: a file, and how its requests are bent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from kvsweep.config.bending import OF_TRACE
from kvsweep.config.compose import build
from kvsweep.config.overrides import with_overrides
from kvsweep.config.read_options import parse_reading, refuse_reading
from kvsweep.config.source import Source
from kvsweep.config.workload import DEFAULT_ENTROPY
from kvsweep.config.written import check_options
from kvsweep.errors import InputError, did_you_mean
from kvsweep.workload.bending import bend
from kvsweep.workload.long_files import part_of
from kvsweep.workload.requests import Requests
from kvsweep.workload.traces import Trace, load_trace

SECTION = "workload."
ALLOWED = sorted(OF_TRACE)
"""Keys of a workload that say what becomes of a trace."""


@dataclass(frozen=True)
class Bent:
    """A trace, and its requests as they were asked for.

    Attributes
    ----------
    trace : Trace
        As the file has it.
    requests : Requests
        Bent.
    changed : bool
        Whether they are others than those of the file.
    """

    trace: Trace
    requests: Requests
    changed: bool


def read_bent(
    path: Path, settings: Sequence[str], seed: int | None = None, read: Sequence[str] = ()
) -> Bent:
    """Read a trace and bend it.

    Parameters
    ----------
    path : Path
        The file.
    settings : sequence of str
        ``KEY=VALUE`` each, keys of ``[workload]`` with or without its name: ``scale=2``.
    seed : int or None
        Of what `repeat` draws; None: 0.
    read : sequence of str
        How to read the file, ``KEY=VALUE`` each.

    Raises
    ------
    InputError
        If the trace cannot be read, or a setting is no good or has no effect.
    """
    refuse_reading(settings)
    reading = parse_reading(read)
    # A name of bytes that are no UTF-8 is none that a sweep could have.
    name = (path.name or str(path)).encode(errors="replace").decode()
    own: dict[str, Any] = {"trace": name}
    if reading is not None:
        own["read"] = reading.model_dump(mode="json", exclude_unset=True)
    given = Source(str(path), "", {"workload": own}, {})
    source = with_overrides(given, map(_with_section, settings), None, ("workload",))
    scenario = build(source, source.values, (), path.parent)
    workload = scenario.workload
    assert workload is not None  # it has a trace
    if seed is not None and workload.repeat == 1:
        raise InputError("--seed: has no effect without --set repeat=N of more than 1")
    try:
        trace = load_trace(path, reading, part_of(workload, reading))
    except InputError as error:
        ours = str(error).startswith("workload.")  # others have the file already
        raise InputError(f"{path}: {error}" if ours else str(error)) from None
    check_options(scenario, source)
    try:
        requests = bend(trace.requests, workload, seed or 0, DEFAULT_ENTROPY, path.name)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return Bent(trace, requests, trace.cut or not _same(trace.requests, requests))


def _same(a: Requests, b: Requests) -> bool:
    """Return whether two lists have the same requests."""
    return a is b or all(
        _equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(Requests)
    )


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):  # of names, or of two arrays
        return len(a) == len(b) and all(map(np.array_equal, a, b))
    return np.array_equal(a, b)


def _with_section(setting: str) -> str:
    """Return a setting with the name of the section, if it is one of a trace."""
    if "=" not in setting:
        raise InputError(f"--set {setting[:60]}: expected KEY=VALUE, as in scale=2")
    key = setting.partition("=")[0].strip().removeprefix(SECTION)
    first = key.split(".")[0]
    if first not in ALLOWED:
        hint = did_you_mean(first, ALLOWED) or f"; allowed: {', '.join(ALLOWED)}"
        raise InputError(f"--set {key[:60]}: no key of a trace{hint}")
    return f"{SECTION}{setting.strip().removeprefix(SECTION)}"
