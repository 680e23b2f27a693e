"""Reading: a sweep from its TOML file, a scenario from a trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kvsweep.config.axes import (
    POLICY,
    SEED,
    Axis,
    AxisProblem,
    axis_values,
    dimension_names,
)
from kvsweep.config.compose import SECTIONS, build, parse_override, parts_of, set_at
from kvsweep.config.document import Document
from kvsweep.config.explain import first_problem, shown
from kvsweep.config.scenario import Scenario
from kvsweep.config.schema import leaf_keys
from kvsweep.config.source import Source, read_source
from kvsweep.config.sweep import Sweep
from kvsweep.errors import InputError, did_you_mean
from kvsweep.policies import Routing


def load_sweep(path: str | Path, overrides: Sequence[str] = (), seeds: int | None = None) -> Sweep:
    """Read and check a sweep file.

    Every value of every axis is checked in a scenario of the grid; combinations are checked by
    `Sweep.scenario`.

    Parameters
    ----------
    path : str or Path
        A TOML file.
    overrides : sequence of str
        ``KEY=VALUE`` with a dotted key of the file. VALUE is TOML, or else a string. A key that is
        an axis becomes an axis of this single value, or of these values if VALUE is a list or a
        range. A policy that sets the same key keeps the last word.
    seeds : int or None
        Replace the seed axis by seeds 0 to `seeds` - 1.

    Raises
    ------
    InputError
        If the file cannot be read, or anything in it is wrong: one line with file, line and key.
    """
    source = _with_overrides(read_source(Path(path)), overrides, seeds)
    try:
        document = Document.model_validate(source.values)
    except ValidationError as error:
        raise source.error(*first_problem(error, Document, source.values)) from None
    policies = {name: _flat(source, name, table) for name, table in document.policies.items()}
    axes = _axes(source, document.grid, policies)
    sweep = Sweep(
        path=Path(path),
        title=document.title or Path(path).stem,
        question=document.question,
        text=source.text,
        base={key: source.values[key] for key in SECTIONS if key in source.values},
        policies=policies,
        axes=axes,
        cliff=document.cliff,
        pareto=document.pareto,
        source=source,
    )
    sweep.check()
    _check_cliff(sweep)
    return sweep


def parse_scenario(
    mapping: Mapping[str, Any], where: str, overrides: Sequence[str] = ()
) -> Scenario:
    """Return the scenario of a trace, absent keys at their defaults.

    Parameters
    ----------
    mapping : dict
        Tables ``cluster``, ``engine``, ``cache``, ``latency``.
    where : str
        The file, for messages; a preset's path is relative to its folder.
    overrides : sequence of str
        ``KEY=VALUE`` each, as for `load_sweep`.

    Raises
    ------
    InputError
        If it is not valid.
    """
    given = Source(where, "", dict(mapping), {}, {(key,): f"scenario.{key}" for key in mapping})
    source = _with_overrides(given, overrides, None)
    known = [section for section in SECTIONS if section != "workload"]
    for key in source.values:
        if key not in known:
            message = f"unknown key; a trace's scenario has: {', '.join(known)}"
            raise source.error((key,), message + did_you_mean(key, known))
    return build(source, source.values, (), Path(where).parent)


def _with_overrides(source: Source, overrides: Iterable[str], seeds: int | None) -> Source:
    """Return the source as if the overrides had been written in it."""
    values = deepcopy(source.values)
    labels = dict(source.labels)
    for text in overrides:
        key, value = parse_override(text)
        path = _override_path(key, values)
        if path[0] == "grid" and not isinstance(value, list | dict):
            value = [value]
        try:
            set_at(values, path, value)
        except KeyError as error:
            raise InputError(f"--set {key}: {error.args[0]}") from None
        labels[path] = f"--set {key}"
    if seeds is not None:
        set_at(values, ("grid", SEED), {"count": seeds})
        labels["grid", SEED] = "--seeds"
    return replace(source, values=values, labels=labels)


def _override_path(key: str, values: dict[str, Any]) -> tuple[str | int, ...]:
    grid = values.get("grid", {})
    if key in (POLICY, SEED) or (isinstance(grid, dict) and key in grid):
        return ("grid", key)
    if key.split(".")[0] not in Document.model_fields:
        known = [POLICY, SEED, *leaf_keys(Scenario)]
        raise InputError(f"--set {key}: unknown key{did_you_mean(key, known)}")
    return parts_of(key, values)


def _flat(source: Source, name: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return a policy's overrides by dotted key; quoted dotted keys and sections may be mixed."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        section = key.split(".")[0]
        if section not in SECTIONS or (key == section and not isinstance(value, dict)):
            message = f"expected a key of a section: {', '.join(SECTIONS)}"
            raise source.error(("policies", name, key), message)
        if key == section:
            flat |= {f"{section}.{inner}": v for inner, v in value.items()}
        else:
            flat[key] = value
    return flat


def _axes(
    source: Source, grid: dict[str, Any], policies: dict[str, dict[str, Any]]
) -> tuple[Axis, ...]:
    names = dimension_names(list(grid))
    axes = []
    for key, spec in grid.items():
        _check_axis_key(source, key, spec)
        try:
            values = axis_values(key, spec)
        except AxisProblem as problem:
            raise source.error(("grid", key), str(problem)) from None
        axes.append(Axis(key, names[key], values))
        if key == POLICY:
            _check_policies(source, values, policies, list(grid))
    return tuple(axes)


def _check_axis_key(source: Source, key: str, spec: Any) -> None:
    section = key.split(".")[0]
    if key in (POLICY, SEED):
        return
    if key in SECTIONS and isinstance(spec, dict):
        message = f'write a dotted key in quotes, as in "{key}.{next(iter(spec), "key")}"'
        raise source.error(("grid", key), message)
    if section not in SECTIONS or key == section:
        known = [POLICY, SEED, *leaf_keys(Scenario)]
        raise source.error(("grid", key), f"unknown key{did_you_mean(key, known)}")


def _check_policies(
    source: Source,
    names: tuple[Any, ...],
    policies: dict[str, dict[str, Any]],
    axis_keys: list[str],
) -> None:
    """Check that each name is a policy or a routing that sets no key which is also an axis."""
    known = [*policies, *(label for label in Routing.labels() if label not in policies)]
    for name in names:
        if name not in known:
            message = f"unknown policy {shown(name)}; allowed: {', '.join(known)}"
            raise source.error(("grid", POLICY), message + did_you_mean(str(name), known))
        for key in policies.get(name, {"cluster.routing": name}):
            for axis in axis_keys:
                if f"{axis}.".startswith(f"{key}."):
                    raise source.error(("grid", axis), f"policy {name!r} sets this key too")


def _check_cliff(sweep: Sweep) -> None:
    if sweep.cliff is None:
        return
    known = [axis.name for axis in sweep.axes if axis.key not in (POLICY, SEED)]
    along = sweep.cliff.along
    if along not in known:
        message = f"{along!r} is no axis to scan; allowed: {', '.join(known) or 'none'}"
        raise sweep.source.error(("cliff", "along"), message + did_you_mean(along, known))
