"""A scenario composed of layers: the file's sections, overrides, a policy, a point of the grid."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kvsweep.config.base import KeyProblem
from kvsweep.config.explain import cut, describe, first_problem, locate
from kvsweep.config.scenario import Scenario, validate
from kvsweep.config.schema import DIGITS, KeyPath, dotted, holds_one, is_list, is_table
from kvsweep.config.source import Source, table_of
from kvsweep.errors import InputError

SECTIONS = tuple(Scenario.model_fields)

_DEEPEST = 8
"""Dots in a key, at most: of a client's sessions below a policy there are six."""


@dataclass(frozen=True)
class Override:
    """One scenario key set by a policy or by an axis.

    Attributes
    ----------
    key : str
        Dotted key.
    value : object
        Its value.
    origin : tuple of str or int
        The key in the file that set it: what messages name.
    """

    key: str
    value: Any
    origin: KeyPath


def build(
    source: Source, base: Mapping[str, Any], overrides: Iterable[Override], folder: Path
) -> Scenario:
    """Return the scenario of `base` with `overrides` applied in order.

    Parameters
    ----------
    source : Source
        The file, for the lines of messages; `base` is at its top.
    base : dict
        Sections of a scenario.
    overrides : iterable of Override
        What is set on top.
    folder : Path
        Where file names in the scenario start from.

    Raises
    ------
    InputError
        If it is not valid; the message names the key to blame.
    """
    data = deepcopy(dict(base))
    applied: dict[KeyPath, Override] = {}
    for override in overrides:
        path = parts_of(override.key, data)
        try:
            set_at(data, path, override.value)
        except KeyError as error:
            raise source.error(override.origin, str(error.args[0])) from None
        applied[path] = override
    try:
        return validate(data, folder)
    except ValidationError as error:
        path, message = first_problem(error, Scenario, data)
        table = table_of(path, message)
        for set_path, override in reversed(applied.items()):
            if path[: len(set_path)] == set_path:
                raise source.error(override.origin + path[len(set_path) :], message) from None
            # A table that the file lacks has nothing but what was set of it.
            if table and table not in source.lines and set_path[: len(table)] == table:
                raise source.error(override.origin, f"{dotted(path)}: {message}") from None
        raise source.error(path, message) from None


def check_alone(source: Source, base: Mapping[str, Any], folder: Path) -> None:
    """Check each key of the base by itself; what it lacks a policy or an axis may supply.

    Raises
    ------
    InputError
        If a value is wrong whatever the rest is, though every policy may set it again.
    """
    try:
        validate(dict(base), folder)
    except ValidationError as error:
        alone = [p for p in error.errors(include_url=False) if _stands_alone(p, base)]
        if alone:
            path, message = describe(alone, Scenario, base)
            raise source.error(path, message + _axis_hint(path, base)) from None


def _axis_hint(path: KeyPath, base: Mapping[str, Any]) -> str:
    """Return where several values of a key belong that holds one, as the end of a message."""
    value: Any = base
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if not isinstance(value, list | dict) or not holds_one(Scenario, path):
        return ""
    return f'; several are an axis of [grid]: "{".".join(map(str, path))}" = ...'


def _stands_alone(problem: ErrorDetails, base: Any) -> bool:
    """Return whether a problem is that of one key: of a value, not of a table or of what lacks."""
    if problem["type"] in ("missing", "union_tag_not_found"):
        return False
    path, _ = locate(problem["loc"], base, missing=False)
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, KeyProblem) and path == ("latency",):
        return cause.path == ("model",)
    value: Any = base
    for part in path:
        value = value[part]
    return problem["type"] != "value_error" or not (
        isinstance(value, dict) and is_table(Scenario, path)
    )


def set_at(data: dict[str, Any], path: KeyPath, value: Any) -> None:
    """Set one key of nested tables, making tables on the way.

    Raises
    ------
    KeyError
        If something on the way is no table, or a list is too short.
    """
    table: Any = data
    for i, part in enumerate(path):
        if isinstance(table, dict):
            if part not in table and _numbers_entries(path[: i + 2]):
                raise KeyError(f"{dotted(path[: i + 1])} has no {path[i + 1]!r}")
            inner = table.setdefault(part, {})
        elif isinstance(table, list) and isinstance(part, int) and part < len(table):
            inner = table[part]
        else:
            raise KeyError(f"{dotted(path[:i])} has no {part!r}")
        if i == len(path) - 1:
            table[part] = value
        table = inner


def _numbers_entries(path: KeyPath) -> bool:
    """Return whether the last part is the number of an entry of a list."""
    return len(path) > 1 and str(path[-1]).isdecimal() and is_list(Scenario, path[:-1])


# Of lists and tables, by their brackets, one that a shell leaves as it is between single quotes.
_QUOTED = {"[]": '["a", "b"]', "{}": '{ name = "a" }'}

# Numbers as NumPy shows them: np.int64(8), or without commas.
_OF_NUMPY = re.compile(r"\b(?:np\.\w+|array)\(|\d\.?\s+-?\d")


def parse_override(text: str, option: str = "--set") -> tuple[str, Any]:
    """Split ``KEY=VALUE`` of an option; a value that is not TOML is a string.

    Raises
    ------
    InputError
        If there is no key or no ``=``, or the value is not to be read: a list or table that is not
        TOML among others, as shells make it of one that stands in no quotes.
    """
    example = "cache.gpu_blocks=2000" if option == "--set" else "format=csv"
    key, equals, value = text.partition("=")
    key = key.strip()
    if not key or not equals:
        raise InputError(f"{option} {cut(text)}: expected KEY=VALUE, as in {example}")
    if key.count(".") > _DEEPEST or "" in key.split("."):
        raise InputError(f"{option} {cut(key)}: unknown key; expected one as in {example}")
    try:
        read = _toml_value(value.strip())
    except RecursionError:
        raise InputError(f"{option} {cut(key)}: the value is nested too deeply") from None
    except ValueError:
        raise InputError(f"{option} {cut(key)}: a number of thousands of digits") from None
    quoted = _QUOTED.get(value.strip()[:1] + value.strip()[-1:])
    if quoted and read == value.strip():
        remedy = f"the shell may have taken its quotes away: '{cut(key)}={quoted}' keeps them"
        if _OF_NUMPY.search(value):
            remedy = "numbers are listed as in [8, 16], as .tolist() of NumPy's gives them"
        raise InputError(f"{option} {cut(key)}: {cut(value)} is not TOML; {remedy}")
    return key, read


def parts_of(key: str | Iterable[str], table: Any = None) -> KeyPath:
    """Split a dotted key, if it is not yet; parts that index a list of `table` become integers."""
    path: list[str | int] = []
    for part in key.split(".") if isinstance(key, str) else key:
        counts = isinstance(table, list) and part.isdecimal() and len(part) <= DIGITS
        step: str | int = int(part) if counts else part
        path.append(step)
        try:
            table = table[step]
        except (KeyError, IndexError, TypeError):
            table = None
    return tuple(path)


def _toml_value(text: str) -> Any:
    try:
        values = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return values["value"] if len(values) == 1 else text
