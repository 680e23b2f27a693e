"""What the analysis of a sweep asks for, checked before anything is simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvsweep.config.axes import POLICY, SEED
from kvsweep.errors import did_you_mean
from kvsweep.metrics import VARIABLES, out_of_range, quantile_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kvsweep.config import Scenario, Sweep

# What a sweep must have for measures with a dimension.
_NEEDED = {
    "round": "requests of several rounds (workload.sessions)",
    "slo_class": "requests of SLO classes (slo_class of clients, or of a trace)",
    "request": "the columns of requests (--requests)",
}


def check_levels(
    sweep: Sweep, variants: Sequence[Scenario], extra: Mapping[str, Sequence[Any]]
) -> None:
    """Refuse service levels of a class that no request has."""
    known = [str(name) for name in extra.get("slo_class", ())]
    named = (name for item in variants if item.slo is not None for name in item.slo.classes)
    for name in dict.fromkeys(named):
        if name not in known:
            there = f"there are: {', '.join(known)}" if known else "no request has a class"
            message = f"no request is of this class; {there}{did_you_mean(name, known)}"
            raise sweep.source.error(_place_of_class(sweep, name), message)


def _place_of_class(sweep: Sweep, name: str) -> tuple[str | int, ...]:
    """Return the key that gives a class its levels: an option's, an axis', or the file's."""
    place = ("slo", "classes", name)
    options = (path for path in sweep.source.labels if path[: len(place)] == place)
    prefix = f"{'.'.join(place)}."
    axes = (("grid", axis.key) for axis in sweep.axes if axis.key.startswith(prefix))
    return next(options, None) or next(axes, place)


def check_analysis(sweep: Sweep, extra: Mapping[str, Sequence[Any]], levels: Sequence[str]) -> None:
    """Refuse an analysis of what this sweep will not have before anything is simulated."""
    if sweep.cliff:
        _check_measure(sweep, ("cliff", "metric"), sweep.cliff.metric, extra, levels)
        if problem := out_of_range(sweep.cliff.metric, sweep.cliff.threshold):
            raise sweep.source.error(("cliff", "threshold"), problem)
        _check_scanned(sweep, sweep.cliff.along)
    if sweep.until:
        where = ("grid", SEED, "until", "metric")
        _check_measure(sweep, where, sweep.until.metric, extra, levels)
        _check_single(sweep, where, sweep.until.metric)
    if sweep.pareto:
        asked = [objective.partition(":")[0] for objective in sweep.pareto.objectives]
        for i, metric in enumerate(asked):
            key = ("pareto", "objectives", i)
            _check_measure(sweep, key, metric, extra, levels)
            if metric in asked[:i]:
                raise sweep.source.error(key, f"{metric!r} is an objective twice")
        if POLICY not in (axis.key for axis in sweep.axes):
            raise sweep.source.error(("pareto",), "needs an axis `policy`, whose members it ranks")


def _check_measure(
    sweep: Sweep,
    key: tuple[str | int, ...],
    metric: str,
    extra: Mapping[str, Sequence[Any]],
    levels: Sequence[str],
) -> None:
    """Refuse a measure that there is not, is not a number, or not one of this sweep."""
    named = {name: [name] for name in VARIABLES}
    for name, variable in VARIABLES.items():
        if "quantile" in variable.dims:
            named[name] += quantile_names(name)
    variables = {alias: VARIABLES[name] for name, aliases in named.items() for alias in aliases}
    of_numbers = {name: v for name, v in variables.items() if v.dtype != "str"}
    rules = sweep.rules.split(",")
    known = [name for name, variable in of_numbers.items() if variable.is_in(extra, rules, levels)]
    if metric in known:
        return
    hint = did_you_mean(metric, known) or f"; one of: {', '.join(known)}"
    if metric in of_numbers:
        variable = of_numbers[metric]
        needed = [_NEEDED[dim] for dim in variable.dims if dim not in extra]
        if not variable.has_levels(levels):
            needed = [" or ".join(f"slo.{name}_ms" for name in variable.levels)]
        wanted = needed or [f"cells with engine.rules = {' or '.join(map(repr, variable.rules))}"]
        raise sweep.source.error(key, f"{metric!r} needs {wanted[0]}")
    if metric in variables or metric in ("status", "status_detail"):
        raise sweep.source.error(key, f"{metric!r} holds names, not numbers{hint}")
    raise sweep.source.error(key, f"unknown measure {metric!r}{hint}")


def _check_single(sweep: Sweep, key: tuple[str | int, ...], metric: str) -> None:
    """Refuse a measure of which a cell has several values."""
    dims = VARIABLES[metric].dims if metric in VARIABLES else ()
    if dims == ("quantile",):
        raise sweep.source.error(key, f"one quantile, please: {', '.join(quantile_names(metric))}")
    if dims:
        by = " and ".join(dims)
        raise sweep.source.error(key, f"{metric!r} has several values in a cell, by {by}")


def _check_scanned(sweep: Sweep, along: str) -> None:
    """Refuse to look for a cliff along an axis on which there can be none."""
    values = next(axis.values for axis in sweep.axes if axis.name == along)
    key = ("cliff", "along")
    if not all(type(value) in (int, float) for value in values):
        raise sweep.source.error(
            key, f"{along!r} has values that are no numbers; a cliff is found along numbers"
        )
    if len(values) < 2:
        raise sweep.source.error(
            key, f"{along!r} has one value; a cliff needs at least two (or no [cliff] in the file)"
        )
