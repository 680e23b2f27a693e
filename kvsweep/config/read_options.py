"""Options of the command line that say how a trace is read: ``--read KEY=VALUE``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from kvsweep.config.compose import parse_override, set_at
from kvsweep.config.explain import first_problem
from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError, dotted


def parse_reading(options: Iterable[str]) -> Reading | None:
    """Return what ``--read KEY=VALUE`` options ask for, None if there are none.

    Parameters
    ----------
    options : iterable of str
        Keys of `Reading` with their values, as ``format=csv`` or ``columns.arrival=ts``.

    Raises
    ------
    InputError
        If one is malformed, unknown, or given twice.
    """
    values: dict[str, Any] = {}
    done: list[str] = []
    for text in options:
        key, value = parse_override(text, "--read")
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
