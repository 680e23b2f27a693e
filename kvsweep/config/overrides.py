"""Options of the command line that change a file: ``--set KEY=VALUE`` and ``--seeds N``."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from kvsweep.config.axes import POLICY, SEED
from kvsweep.config.compose import SECTIONS, parse_override, parts_of, set_at
from kvsweep.config.document import Document
from kvsweep.config.explain import cut
from kvsweep.config.scenario import Scenario
from kvsweep.config.schema import KeyPath, leaf_keys
from kvsweep.config.source import Source
from kvsweep.errors import InputError, did_you_mean


def with_overrides(source: Source, overrides: Iterable[str], seeds: int | None) -> Source:
    """Return the source as if the overrides had been written in it.

    Parameters
    ----------
    source : Source
        A parsed file.
    overrides : iterable of str
        ``KEY=VALUE`` each, no key twice.
    seeds : int or None
        Number of seeds in place of the seed axis.

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
        path = _path(key, values)
        if any(earlier[: len(path)] == path for earlier in done):
            raise InputError(f"--set {key}: given twice; the last one would win")
        if len(path) == 1 and value == {}:
            example = "set a key, as in cache.gpu_blocks=2000 or seed=[0,1]"
            raise InputError(f"--set {key}: an empty table sets nothing; {example}")
        if path[0] == "grid" and len(path) == 2 and not isinstance(value, list | dict):
            value = [value]
        _set(values, path, value, f"{source.label}: --set {key}")
        labels[path] = f"--set {key}"
        done.append(path)
    if seeds is not None:
        if any(path[:2] == ("grid", SEED) for path in done):
            raise InputError("--seeds: --set seed gives the seeds too")
        _set(values, ("grid", SEED), {"count": seeds}, f"{source.label}: --seeds")
        labels["grid", SEED] = "--seeds"
    return replace(source, values=values, labels=labels)


def suggestion(key: str) -> str:
    """Return the known keys that `key` may stand for, or the sections, as the end of a message."""
    known = [POLICY, SEED, *leaf_keys(Scenario)]
    last = key.rpartition(".")[2]
    alike = [name for name in known if name.rpartition(".")[2] == last]
    if alike:
        # Pools have some keys of the sections again, one level below.
        fewest = min(name.count(".") for name in alike)
        alike = [name for name in alike if name.count(".") == fewest][:3]
        return f"; did you mean {' or '.join(map(repr, alike))}?"
    tails = {name.rpartition(".")[2]: name for name in reversed(known)}
    close = did_you_mean(key, known)
    if not close and (tail := did_you_mean(last, list(tails))):
        close = f"; did you mean {tails[tail.split(chr(39))[1]]!r}?"
    return close or f"; a key begins with its section: {', '.join(SECTIONS)}"


def _set(values: dict[str, Any], path: KeyPath, value: Any, where: str) -> None:
    try:
        set_at(values, path, value)
    except KeyError as error:
        raise InputError(f"{where}: {error.args[0]}") from None


def _path(key: str, values: dict[str, Any]) -> KeyPath:
    grid = values.get("grid", {})
    if key in (POLICY, SEED) or (isinstance(grid, dict) and key in grid):
        return ("grid", key)
    if key.startswith(f"{SEED}."):
        return ("grid", *key.split("."))
    if key.split(".")[0] not in Document.model_fields:
        raise InputError(f"--set {cut(key)}: unknown key{suggestion(key)}")
    return parts_of(key, values)
