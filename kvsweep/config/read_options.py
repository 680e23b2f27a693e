"""Options of the command line that say how a trace is read: ``--read KEY=VALUE``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from kvsweep.config.compose import parse_override, set_at
from kvsweep.config.explain import first_problem
from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError, clip, dotted

_SECTIONS = ("workload.", "read.")
_COLUMNS = "columns."


def parse_reading(options: Iterable[str]) -> Reading | None:
    """Return what ``--read KEY=VALUE`` options ask for, None if there are none.

    Parameters
    ----------
    options : iterable of str
        Keys of `Reading` with their values, as ``format=csv`` or ``columns.arrival=ts``; as
        messages and sweeps have them, ``read.format=csv``, too.

    Raises
    ------
    InputError
        If one is malformed, unknown, or given twice.
    """
    values: dict[str, Any] = {}
    done: list[str] = []
    for text in options:
        key, value = parse_override(text, "--read")
        key = _inner(key)
        if key.startswith(_COLUMNS) and not isinstance(value, str):
            value = text.partition("=")[2].strip()  # a column may be named 1 or true
        if any(f"{key}.".startswith(f"{other}.") for other in done):
            raise InputError(f"--read {key}: given twice; the last one would win")
        try:
            set_at(values, tuple(key.split(".")), value)
        except KeyError as error:
            raise InputError(f"--read {key}: {error.args[0]}") from None
        done.append(key)
    if not values:
        return None
    try:
        return Reading.model_validate(values)
    except ValidationError as error:
        path, message = first_problem(error, Reading, values)
        raise InputError(f"--read {dotted(path)}: {message}") from None


def refuse_reading(settings: Iterable[str]) -> None:
    """Refuse a ``--set`` of what says how a trace is read, where ``--read`` does.

    Raises
    ------
    InputError
        Naming the option that is meant.
    """
    for text in settings:
        key, _, value = text.partition("=")
        inner = _inner(key.strip())
        if inner == "read":
            raise InputError(
                f"--set {clip(key.strip())}: says how the trace is read: give its keys as --read "
                "KEY=VALUE"
            )
        if key.strip().removeprefix(_SECTIONS[0]) == f"{_SECTIONS[1]}{inner}":
            raise InputError(
                f"--set {clip(key.strip())}: says how the trace is read: give it as --read "
                f"{clip(inner)}={clip(value.strip())}"
            )


def _inner(key: str) -> str:
    """Return a key without the names of its sections."""
    for section in _SECTIONS:
        key = key.removeprefix(section)
    return key
