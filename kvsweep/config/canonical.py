"""What defines the results of a sweep, in plain types: equal sweeps have equal dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kvsweep.config.axes import POLICY
from kvsweep.config.pools import has_roles
from kvsweep.config.served_model import STAGES

if TYPE_CHECKING:
    from kvsweep.config.sweep import Sweep

SCENARIOS = "scenarios"
"""Of policies whose scenario does not follow from that of the first one: what they have instead."""


def canonical(sweep: Sweep) -> dict[str, Any]:
    """Return what defines the results of a sweep.

    Parameters
    ----------
    sweep : Sweep

    Returns
    -------
    dict
        ``scenario`` is the grid's first one, with all defaults filled in and without the keys that
        are axes, or whose values are those of an axis; tokens of the cache stand for its blocks. As
        its policy may hide what the base says, `SCENARIOS` has, for each other policy, the keys in
        which it differs (None: that it has not), but for those that it sets, except by tables;
        without any it is left out.
    """
    scenario = _scenario(sweep, sweep.first_point)
    scenarios = dict(_others(sweep, dict(leaves(scenario))))
    return {
        "title": sweep.title,
        "question": sweep.question,
        "grid": {axis.key: list(axis.values) for axis in sweep.axes},
        **({"design": sweep.design.to_dict()} if sweep.design else {}),
        "policies": sweep.policies,
        "scenario": scenario,
        **({SCENARIOS: scenarios} if scenarios else {}),
        "cliff": sweep.cliff.model_dump() if sweep.cliff else None,
        "pareto": sweep.pareto.model_dump(mode="json") if sweep.pareto else None,
        "entropy": sweep.entropy,
        **({"until": sweep.until.model_dump()} if sweep.until else {}),
        **({"size": sweep.size.model_dump(mode="json")} if sweep.size else {}),
    }


def leaves(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables by their dotted keys."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*path, key))
        else:
            yield ".".join((*path, key)), value


def _others(sweep: Sweep, first: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield in what other policies differ from the first, but for what they set themselves."""
    point = sweep.first_point
    run = sweep.policies_run
    for name in map(str, run[1:]):
        found = dict(leaves(_scenario(sweep, point | {POLICY: name})))
        own = [o.key for o in sweep.policy(name) if not isinstance(o.value, dict | list)]
        differing = {
            key: found.get(key)
            for key in dict.fromkeys([*first, *found])
            if found.get(key) != first.get(key) and key not in own
        }
        if differing:
            yield name, differing


def _scenario(sweep: Sweep, point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario at a point in plain types, without what stands for something else."""
    built = sweep.scenario(point)
    scenario = built.model_dump(mode="json")
    for section in ("model", "slo"):
        if scenario[section] is None:
            del scenario[section]
    if scenario["cache"]["gpu_tokens"] is not None:
        del scenario["cache"]["gpu_blocks"]
    if scenario["cluster"]["pools"] or has_roles(built.cluster):
        del scenario["cluster"]["instances"]
    drawn = tuple(sweep.design.ranges) if sweep.design else ()
    varied = [*(axis.key for axis in sweep.axes), *drawn]
    if built.model is not None and not set(STAGES).isdisjoint(varied):
        varied += STAGES  # the other follows
    for key in varied:
        _forget(scenario, key.split("."))
    return scenario


def _forget(table: Any, path: list[str]) -> None:
    """Remove a dotted key from nested tables and lists, if it is there."""
    for part in path[:-1]:
        table = table[int(part)] if isinstance(table, list) else table.get(part, {})
    if isinstance(table, dict):
        table.pop(path[-1], None)
