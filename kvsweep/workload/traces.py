"""Recorded request lists: kvsweep-trace/1, Mooncake's JSON lines, Azure's CSV; plain or gzipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvsweep.config.reading import Reading
from kvsweep.errors import InputError, dotted, shown
from kvsweep.limits import MAX_INPUT_BYTES
from kvsweep.parsing import first_excess
from kvsweep.reading import read_text
from kvsweep.workload.azure import read_azure
from kvsweep.workload.formats import AZURE, MOONCAKE, recognise
from kvsweep.workload.mooncake import read_mooncake
from kvsweep.workload.native import FORMAT, read_native, to_trace_dict
from kvsweep.workload.requests import Requests

__all__ = ["FORMAT", "Trace", "load_trace", "to_trace_dict"]


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


def load_trace(source: str | Path | Mapping[str, Any], read: Reading | None = None) -> Trace:
    """Read a trace; its content tells the format, or `read`.

    Parameters
    ----------
    source : path or dict
        A file, or the content of a kvsweep-trace/1.
    read : Reading or None
        How to read a file; None: by its content alone.

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
    text = read_text(Path(source), MAX_INPUT_BYTES, packed=True)
    try:
        return _parse(text, where)
    except MemoryError:
        raise InputError(f"{where}: does not fit into memory") from None


def _parse(text: str, where: str) -> Trace:
    kind, document = recognise(text, where)
    if kind == AZURE:
        return Trace(read_azure(text, where), where=where)
    if kind == MOONCAKE:
        return Trace(read_mooncake(text, where), where=where)
    return _native(document, where)


def _native(document: Mapping[str, Any], where: str) -> Trace:
    requests = read_native(document, where)
    scenario = document.get("scenario", {})
    if not isinstance(scenario, dict):
        raise InputError(f"{where}: scenario: expected an object, got {shown(scenario)}")
    for key in ("scenario", "about"):
        excess = first_excess(document.get(key))
        if excess:
            raise InputError(f"{where}: {dotted((key, *excess[0]))}: {excess[1]}")
    return Trace(
        requests=requests,
        scenario=scenario,
        expected=document.get("expected"),
        about=document.get("about"),
        where=where,
    )
