"""Reading: a sweep from its TOML file, a scenario from a trace."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kvsweep.arguments import checked
from kvsweep.config.axes import (
    POLICY,
    SAMPLE,
    SEED,
    Axis,
    AxisProblem,
    axis_values,
    dimension_names,
    is_known,
)
from kvsweep.config.cluster_section import Cluster
from kvsweep.config.compose import SECTIONS, build, check_alone
from kvsweep.config.design import OPTIONS, Design, DesignProblem, read_design
from kvsweep.config.document import Document
from kvsweep.config.explain import first_problem, shown
from kvsweep.config.overrides import suggestion, with_overrides
from kvsweep.config.scenario import Scenario
from kvsweep.config.source import Source, read_source
from kvsweep.config.sweep import Sweep
from kvsweep.config.until import Until, UntilProblem, read_until
from kvsweep.config.written import Idle, check_effects, check_options
from kvsweep.errors import InputError, did_you_mean
from kvsweep.policies import Routing


@contextmanager
def said_in_one_line(where: str) -> Iterator[None]:
    """Turn what no check foresaw, nesting and sizes beyond Python's, into one line."""
    try:
        yield
    except RecursionError:
        raise InputError(f"{where}: nested too deeply") from None
    except MemoryError:
        raise InputError(f"{where}: more than fits into the memory of this machine") from None


@checked
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

    Returns
    -------
    Sweep
        Read and checked; for `kvsweep.run`.

    Raises
    ------
    InputError
        If the file cannot be read, or anything in it is wrong: one line with file, line and key.

    Examples
    --------
    >>> import kvsweep
    >>> sweep = kvsweep.load_sweep("small.toml", ["cache.block_size=32"], seeds=2)
    >>> {axis.name: len(axis.values) for axis in sweep.axes}
    {'policy': 4, 'rate': 2, 'gpu_blocks': 7, 'seed': 2}
    """
    with said_in_one_line(str(path)):
        return _checked(read_source(Path(path)), Path(path), overrides, seeds)


def changed(sweep: Sweep, overrides: Sequence[str], seeds: int | None = None) -> Sweep:
    """Return a sweep with further overrides; its file is not read again.

    Parameters, errors
        As of `load_sweep`.
    """
    with said_in_one_line(str(sweep.path)):
        path = sweep.base_dir / sweep.path.name
        return _checked(sweep.source, path, overrides, seeds, sweep.policies)


def _checked(
    given: Source,
    path: Path,
    overrides: Sequence[str],
    seeds: int | None,
    policies: Collection[str] = (),
) -> Sweep:
    """Return the sweep in a source with overrides, all of it checked.

    `policies` are those of a sweep that was checked before, run or not.
    """
    source = with_overrides(given, overrides, seeds)
    sweep = _parse(source, path)
    sweep.check()
    _check_cliff(sweep)
    _check_policies_run(sweep, given, policies)
    try:
        check_effects(sweep)
    except Idle as problem:
        # What the file alone would be right to write an option may make idle.
        if problem.outside or source == given:
            raise source.error(problem.origin, str(problem)) from None
        _checked(given, path, (), None, policies)
    return sweep


def _parse(source: Source, path: Path) -> Sweep:
    """Return the sweep in a parsed file; of its scenarios nothing is checked but the base alone."""
    try:
        document = Document.model_validate(source.values)
    except ValidationError as error:
        raise source.error(*first_problem(error, Document, source.values)) from None
    policies = {name: _flat(source, name, table) for name, table in document.policies.items()}
    until = _until(source, document.grid.get(SEED))
    axes = _axes(source, document.grid, policies, until)
    design = _design(source, document.design, document.grid, policies)
    if design:
        axes = (Axis(SAMPLE, SAMPLE, tuple(range(design.size))), *axes)
    sweep = Sweep(
        path=path,
        title=document.title or Path(path).stem,
        question=document.question,
        text=source.text,
        base={key: source.values[key] for key in SECTIONS if key in source.values},
        policies=policies,
        axes=axes,
        cliff=document.cliff,
        pareto=document.pareto,
        source=source,
        design=design,
        until=until,
        size=document.size,
    )
    check_alone(source, sweep.base, sweep.base_dir)
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
        ``KEY=VALUE`` each, as for `load_sweep`. In the mapping a key may be without effect:
        recorders write all that the recorded system had set.

    Raises
    ------
    InputError
        If it is not valid, or an override has no effect.
    """
    given = Source(where, "", dict(mapping), {}, {(key,): f"scenario.{key}" for key in mapping})
    known = [section for section in SECTIONS if section not in ("workload", "model", "slo")]
    source = with_overrides(given, overrides, None, known)
    for key in source.values:
        if key not in known:
            message = f"unknown key; a trace's scenario has: {', '.join(known)}"
            raise source.error((key,), message + did_you_mean(key, known))
    with said_in_one_line(where):
        scenario = build(source, source.values, (), Path(where).parent)
        check_options(scenario, source)
    return scenario


def _flat(source: Source, name: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return a policy's overrides by dotted key; quoted dotted keys and sections may be mixed."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        section = key.split(".")[0]
        if key in (POLICY, SEED):
            raise source.error(("policies", name, key), "is an axis of [grid]")
        if section not in SECTIONS or (key == section and not isinstance(value, dict)):
            message = f"expected a key of a section: {', '.join(SECTIONS)}"
            raise source.error(("policies", name, key), message + suggestion(key))
        inside = {f"{section}.{inner}": v for inner, v in value.items()} if key == section else {}
        for written, inner in (inside or {key: value}).items():
            # Options come last: what they set takes the place of what the file has.
            nested = ("policies", name, *written.split("."))
            if written in flat and nested not in source.labels:
                raise source.error(("policies", name, key), f"sets {written!r} a second time")
            flat[written] = inner
    return flat


def _until(source: Source, spec: Any) -> Until | None:
    """Return how narrow an interval seeds are added for, None if they are given."""
    if not isinstance(spec, dict) or "until" not in spec:
        return None
    try:
        return read_until(spec)
    except UntilProblem as problem:
        raise source.error(("grid", SEED, *problem.path), str(problem)) from None


def _axes(
    source: Source,
    grid: dict[str, Any],
    policies: dict[str, dict[str, Any]],
    until: Until | None,
) -> tuple[Axis, ...]:
    names = dimension_names(list(grid))
    axes = []
    for key, spec in grid.items():
        _check_axis_key(source, key, spec)
        if key == SEED and until:
            axes.append(Axis(key, names[key], tuple(range(until.least))))
            continue
        try:
            values = axis_values(key, spec)
        except AxisProblem as problem:
            raise source.error(("grid", key), str(problem)) from None
        axes.append(Axis(key, names[key], values))
        if key == POLICY:
            _check_policies(source, values, policies, grid)
    return tuple(axes)


def _design(
    source: Source,
    table: dict[str, Any],
    grid: dict[str, Any],
    policies: dict[str, dict[str, Any]],
) -> Design | None:
    """Return the design that a file asks for, None if it has none."""
    if not table:
        return None
    for key, spec in table.items():
        if key in OPTIONS:
            continue
        hint = did_you_mean(key, list(OPTIONS))
        if not hint and "." not in key and not isinstance(spec, dict | list):  # no range: an option
            hint = f"; allowed: {', '.join(OPTIONS)}, and keys of a scenario with their ranges"
        if hint:
            raise source.error(("design", key), f"unknown key{hint}")
        _check_axis_key(source, key, spec, "design")
        if key in (POLICY, SEED):
            raise source.error(("design", key), "is an axis of [grid]")
        if not is_known(key):
            raise source.error(("design", key), f"unknown key{suggestion(key)}")
        for other, name in (*((k, "grid") for k in grid), *_keys_of_policies(policies)):
            if f"{other}.".startswith(f"{key}.") or f"{key}.".startswith(f"{other}."):
                raise source.error(("design", key), f"{name} sets this key too")
    try:
        return read_design(table)
    except DesignProblem as problem:
        place = ("design", problem.key) if problem.key else ("design",)
        raise source.error(place, str(problem)) from None


def _keys_of_policies(policies: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, table in policies.items():
        yield from ((key, f"policy {name!r}") for key in table)


def _check_axis_key(source: Source, key: str, spec: Any, table: str = "grid") -> None:
    section = key.split(".")[0]
    if key in (POLICY, SEED):
        return
    if key in SECTIONS and isinstance(spec, dict):
        message = f'write a dotted key in quotes, as in "{_whole(key, spec)}"'
        raise source.error((table, key), message)
    if section not in SECTIONS or key == section:
        raise source.error((table, key), f"unknown key{suggestion(key)}")


def _whole(key: str, table: dict[str, Any]) -> str:
    """Return the key of an axis of which TOML has made tables, as it stands without quotes."""
    part, inner = next(iter(table.items()), ("key", None))
    key = f"{key}.{part}"
    is_range = not isinstance(inner, dict) or "start" in inner or "from" in inner
    return key if is_range or not inner else _whole(key, inner)


def _check_policies(
    source: Source,
    names: tuple[Any, ...],
    policies: dict[str, dict[str, Any]],
    grid: dict[str, Any],
) -> None:
    """Check that each name is a policy or a routing that sets no key which is also an axis."""
    for name in policies:
        if not name.strip() or "\0" in name:  # stores cut names where NUL ends them
            told = "has a NUL in its name" if name.strip() else "has no name that could be read"
            raise source.error(("policies", name), f"{told}; choose another")
    routings = _routings_of_rules(source, policies, grid)
    known = [*policies, *(label for label in routings if label not in policies)]
    for name in names:
        if name not in policies and name not in Routing.labels():
            message = f"unknown policy {shown(name)}; allowed: {', '.join(known)}"
            raise source.error(("grid", POLICY), message + did_you_mean(name, known))
        _check_named_routing(source, name, policies, grid)
        for key in policies.get(name, {"cluster.routing": name}):
            for axis in grid:
                if f"{axis}.".startswith(f"{key}."):
                    raise source.error(("grid", axis), f"policy {name!r} sets this key too")


def _check_named_routing(
    source: Source, name: str, policies: dict[str, dict[str, Any]], grid: dict[str, Any]
) -> None:
    """Refuse a bundle with the name of a routing that leaves the routing another one.

    The name alone, without a bundle, would set it.
    """
    if name not in policies or name not in Routing.labels():
        return
    cluster, default = source.values.get("cluster"), Cluster.model_fields["routing"].default
    base = cluster.get("routing", default) if isinstance(cluster, dict) else default
    varied = [*policies[name], *grid, *source.values.get("design", ())]
    if name != base and "cluster.routing" not in varied:
        message = (
            f"has the name of a routing, but the routing is {shown(base)}: add "
            f"cluster.routing = {name!r}, or choose another name"
        )
        raise source.error(("policies", name), message)


def _routings_of_rules(
    source: Source, policies: dict[str, dict[str, Any]], grid: dict[str, Any]
) -> list[str]:
    """Return the routings of the rule books that the sweep's base, policies or axes name."""
    engine = source.values.get("engine")
    base = engine.get("rules", "vllm") if isinstance(engine, dict) else "vllm"
    rules = [base, *(policy.get("engine.rules") for policy in policies.values())]
    axis = grid.get("engine.rules")
    rules += axis if isinstance(axis, list) else []
    return [item.label for item in Routing if any(name in rules for name in item.rules)]


def _check_policies_run(sweep: Sweep, given: Source, policies: Collection[str]) -> None:
    """Refuse policies that are not run, unless options have narrowed the axis, now or before."""
    grid = given.values.get("grid")
    named = grid.get(POLICY) if isinstance(grid, dict) else None
    once = [*policies, *(named if isinstance(named, list) else [])]
    run = sweep.policies_run
    labels = sweep.source.labels.items()
    new = [place for place, label in labels if given.labels.get(place) != label]
    for name in sweep.policies:
        path = ("policies", name)
        changed = any(place[:2] == path or place == path[:1] for place in new)
        if name not in run and (changed or name not in once):
            where = next((p for p in sweep.source.labels if p[:2] == path), path)
            message = f"has no effect: grid.policy does not name {name!r}"
            raise sweep.source.error(where, message)


def _check_cliff(sweep: Sweep) -> None:
    if sweep.pareto and POLICY not in [axis.key for axis in sweep.axes]:
        message = "has no effect: needs an axis 'policy', whose values it trades off"
        raise sweep.source.error(("pareto",), message)
    if sweep.cliff is None:
        return
    known = [axis.name for axis in sweep.axes if axis.key not in (POLICY, SEED, SAMPLE)]
    along = sweep.cliff.along
    if sweep.design and along in {key.rpartition(".")[2] for key in sweep.design.ranges}:
        message = f"{along!r} is drawn by [design]; a cliff is scanned along an axis of [grid]"
        raise sweep.source.error(("cliff", "along"), message)
    if along not in known:
        message = f"{along!r} is no axis to scan; allowed: {', '.join(known) or 'none'}"
        raise sweep.source.error(("cliff", "along"), message + did_you_mean(along, known))
