"""Options of the command line that change a file: ``--set KEY=VALUE`` and ``--seeds N``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from shlex import quote
from typing import Any

from kvsweep.config.axes import POLICY, SEED, is_known
from kvsweep.config.compose import SECTIONS, parse_override, parts_of, set_at
from kvsweep.config.document import Document
from kvsweep.config.explain import cut, shown
from kvsweep.config.scenario import Scenario
from kvsweep.config.schema import KeyPath, holds_one, leaf_keys
from kvsweep.config.source import Source
from kvsweep.errors import InputError, did_you_mean


def with_overrides(
    source: Source,
    overrides: Iterable[str],
    seeds: int | None,
    sections: Sequence[str] | None = None,
) -> Source:
    """Return the source as if the overrides had been written in it.

    Parameters
    ----------
    source : Source
        A parsed file.
    overrides : iterable of str
        ``KEY=VALUE`` each, no key twice.
    seeds : int or None
        Number of seeds in place of the seed axis.
    sections : sequence of str, optional
        Of a single scenario, those that it may have: it has no axes, nor other tables.

    Raises
    ------
    InputError
        If an override is malformed, names nothing that there is, or undoes another.
    """
    values = deepcopy(source.values)
    labels = dict(source.labels)
    done: list[KeyPath] = []
    for text in overrides:
        key, value = parse_override(text)
        path = _path(key, values) if sections is None else _path_in(key, values, sections)
        if any(earlier[: len(path)] == path for earlier in done):
            raise InputError(f"--set {key}: given twice; the last one would win")
        if len(path) == 1 and value == {}:
            example = "set a key, as in cache.gpu_blocks=2000 or seed=[0,1]"
            raise InputError(f"--set {key}: an empty table sets nothing; {example}")
        if path[0] == "grid" and len(path) == 2 and not isinstance(value, list | dict):
            value = [value]
        if sections is None and isinstance(value, list | dict) and _holds_one(path):
            axis = quote(f"grid.{cut(text)}")
            message = f"expected one value, got {shown(value)}; several are an axis: --set {axis}"
            raise InputError(f"{source.label}: --set {cut(key)}: {message}")
        _set(values, path, value, f"{source.label}: --set {key}")
        labels[path] = f"--set {key}"
        done.append(path)
    if seeds is not None:
        if any(path[:2] == ("grid", SEED) for path in done):
            raise InputError("--seeds: --set seed gives the seeds too")
        _set(values, ("grid", SEED), {"count": seeds}, f"{source.label}: --seeds")
        labels["grid", SEED] = "--seeds"
    return replace(source, values=values, labels=labels)


def suggestion(key: str, sections: Sequence[str] | None = None) -> str:
    """Return the known keys that `key` may stand for, or the sections, as the end of a message.

    Parameters
    ----------
    key : str
        What was given.
    sections : sequence of str, optional
        As for `with_overrides`.
    """
    begun = [f"{section}.{key}" for section in sections or SECTIONS]
    if whole := [name for name in begun if is_known(name)]:  # all of it but its section
        return _meant(whole)
    known = [POLICY, SEED, *leaf_keys(Scenario)]
    if sections is not None:
        known = [name for name in known if name.split(".")[0] in sections]
    # Pools have some keys of the sections again, one level below.
    known.sort(key=lambda name: name.count("."))
    last = key.rpartition(".")[2]
    alike = [name for name in known if name.rpartition(".")[2] == last]
    if alike:
        fewest = alike[0].count(".")
        return _meant([name for name in alike if name.count(".") == fewest][:3])
    tails = {name.rpartition(".")[2]: name for name in reversed(known)}
    close = did_you_mean(key, known)
    if not close and (tail := did_you_mean(last, list(tails))):
        close = f"; did you mean {tails[tail.split(chr(39))[1]]!r}?"
    return close or f"; a key begins with its section: {', '.join(sections or SECTIONS)}"


def _meant(names: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(map(repr, names))}?"


def _set(values: dict[str, Any], path: KeyPath, value: Any, where: str) -> None:
    try:
        set_at(values, path, value)
    except KeyError as error:
        raise InputError(f"{where}: {error.args[0]}") from None


def _holds_one(path: KeyPath) -> bool:
    return path[0] in SECTIONS and holds_one(Scenario, path)


def _path_in(key: str, values: dict[str, Any], sections: Sequence[str]) -> KeyPath:
    """Return the path of a key of a single scenario."""
    section = key.split(".")[0]
    if section not in sections:
        if key == "workload.concurrency":
            hint = "; a trace comes as it was recorded; "
            hint += "in a sweep with workload.trace clients send it"
        elif section in (POLICY, SEED, *Document.model_fields):
            hint = f"; sections here: {', '.join(sections)}"
        else:
            hint = suggestion(key, sections)
        raise InputError(f"--set {cut(key)}: unknown key{hint}")
    return parts_of(key, values)


def _path(key: str, values: dict[str, Any]) -> KeyPath:
    """Return the path of a key of a sweep."""
    parts = _split(key)
    grid = values.get("grid", {})
    whole = ".".join(parts)
    if whole in (POLICY, SEED) or (isinstance(grid, dict) and whole in grid):
        return ("grid", whole)
    if parts[0] == SEED:
        return ("grid", *parts)
    table = parts[0]
    if table not in Document.model_fields:
        raise InputError(f"--set {cut(key)}: unknown key{suggestion(key)}")
    if table in ("grid", "design"):
        return parts_of((table, *_joined(parts[1:])), values)
    if table == "policies":
        # `[policies]` takes a key in one piece or in several, which are what `_flat` looks for.
        keys = ".".join(parts[2:])
        return parts_of((*parts[:2], *(keys.split(".") if keys else ())), values)
    return parts_of(parts, values)


def _split(key: str) -> list[str]:
    """Split a key at its dots, but not those in quotes, as TOML does."""
    if not set(key) & set("\"'"):
        return key.split(".")
    try:
        table: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        if '"' in key:
            example = 'expected one as in grid."workload.rate"'
            raise InputError(f"--set {cut(key)}: unknown key; {example}") from None
        return key.split(".")  # a name with an apostrophe
    if len(table) != 1:  # a comment, or lines
        return key.split(".")
    parts: list[str] = []
    while isinstance(table, dict):
        ((part, table),) = table.items()
        parts.append(part)
    # A section's key that is quoted as a whole is that key.
    return parts if len(parts) > 1 else parts[0].split(".")


def _joined(parts: Sequence[str]) -> Sequence[str]:
    """Return the parts below ``grid`` or ``design`` with the key of an axis, if any, as one.

    Shells take the quotes away that the file needs.
    """
    for n in range(len(parts), 1, -1):
        if is_known(".".join(parts[:n])):
            return (".".join(parts[:n]), *parts[n:])
    return parts
