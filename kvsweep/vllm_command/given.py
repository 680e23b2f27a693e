"""Options as values of a program have them, as the words of a command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kvsweep.errors import InputError, clip, did_you_mean, escaped, shown
from kvsweep.vllm_command.options import RELEASE, Option, options

_NONE = ("--config", "--headless", "--grpc", "--api-server-count")
"""Options of the command alone, which arguments of the engine have not."""


def as_given(option: Option, on: bool, value: Any) -> list[str]:
    """Return the words by which a command gives a value.

    Parameters
    ----------
    option : Option
        The option.
    on : bool
        Whether its name says that a switch is on.
    value : object
        What it has.

    Examples
    --------
    >>> as_given(options()["--max-num-seqs"], True, 64)
    ['--max-num-seqs=64']
    """
    if option.form == "switch":
        name = option.name.removeprefix("--")
        return [f"--{name}" if bool(value) == on else f"--no-{name}"]
    if isinstance(value, list | tuple | set):
        return [option.name, *map(str, value)] if value else []
    return [f"{option.name}={as_text(value)}"]


def as_text(value: Any) -> str:
    """Return a value as a word of a command; a table as JSON."""
    if not isinstance(value, dict):
        return str(value)
    return json.dumps(value, default=str, skipkeys=True)


def of_arguments(given: Mapping[Any, Any], where: str) -> Iterator[str]:
    """Yield the words for arguments of vLLM's engine, as ``max_num_seqs=64``.

    Parameters
    ----------
    given : mapping
        Values by names with underscores, which are not cut short; None: as without.
    where : str
        What they are called in messages.

    Raises
    ------
    InputError
        If vLLM has no such argument, or a switch is neither on nor off.
    """
    known = {name[2:].replace("-", "_"): name for name in options() if name not in _NONE}
    for key, value in given.items():
        if key not in known:
            hint = did_you_mean(key, list(known))
            told = f"no argument of vLLM {RELEASE}{hint}; correct it, or leave it out"
            raise InputError(f"{where}: {clip(escaped(str(key)))}: {told}")
        option = options()[known[key]]
        if value is None:
            continue
        if option.form == "switch" and not isinstance(value, bool):
            raise InputError(f"{where}: {key}: {shown(value)}: expected true or false")
        yield from as_given(option, True, value)
