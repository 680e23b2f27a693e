"""The settings of the cells of a dataset: of its policies, its points and chosen axis values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any

from kvsweep.config.axes import POLICY, SAMPLE, SEED, dimension_names
from kvsweep.config.canonical import SCENARIOS, leaves
from kvsweep.dimensions import DIMENSIONS
from kvsweep.errors import InputError
from kvsweep.policies import Routing
from kvsweep.store import FOLDERS, scenarios_of

if TYPE_CHECKING:
    import xarray as xr

_TRACE = "workload.trace"
_TABLES = ("grid", "policies", "scenario", SCENARIOS, "design")
_ASKED = ("cliff", "pareto")
"""Of a sweep: what is a table, and what is one or null."""


def sweep_of(ds: xr.Dataset) -> dict[str, Any]:
    """Return the sweep of a store; empty of a dataset that was not opened from one.

    Raises
    ------
    InputError
        If the attribute is another's.
    """
    sweep: dict[str, Any] = attribute(ds, "sweep", {})
    if not _is_sweep(sweep):
        raise no_attribute_of_a_store("sweep")
    return sweep


def _is_sweep(found: dict[str, Any]) -> bool:
    """Whether what an attribute holds is laid out as `kvsweep.config.canonical` does."""
    tables = [found.get(key, {}) for key in _TABLES]
    asked = [found.get(key) for key in _ASKED]
    if not all(isinstance(table, dict) for table in (*tables, *filter(_is_some, asked))):
        return False
    grid, policies, scenario, others, design = tables
    within = [*policies.values(), *others.values(), *filter(_is_some, scenario.values())]
    return (
        all(isinstance(values, list) for values in grid.values())
        and all(isinstance(table, dict) for table in within)
        and isinstance(design.get("ranges", {} if "method" not in design else None), dict)
    )


def _is_some(value: Any) -> bool:
    return value is not None


def no_attribute_of_a_store(name: str) -> InputError:
    """Say that an attribute holds what no store has there."""
    return InputError(
        f"ds: its attribute {name!r} is not that of a store: give it back, "
        ".assign_attrs(store.attrs)"
    )


def attribute(ds: xr.Dataset, name: str, otherwise: Any) -> Any:
    """Return what an attribute of a store holds as JSON, `otherwise` where there is none.

    Raises
    ------
    InputError
        If it is no JSON, or of another kind than `otherwise`.
    """
    try:
        found = json.loads(ds.attrs[name]) if name in ds.attrs else otherwise
    except (TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, type(otherwise)):
        raise no_attribute_of_a_store(name)
    return found


def policies_of(ds: xr.Dataset) -> list[str | None]:
    """Return the policies that cells may have: one if it was chosen, None of a sweep without."""
    if POLICY in ds.coords:
        return [str(name) for name in ds[POLICY].values.reshape(-1)]
    return list(sweep_of(ds).get("grid", {}).get(POLICY, ())) or [None]


def settings(ds: xr.Dataset, policy: str | None, common: Set[str] = frozenset()) -> dict[str, Any]:
    """Return every key of a policy's scenario, and of points and axis values that were chosen.

    Parameters
    ----------
    ds : xr.Dataset
    policy : str or None
        One of `policies_of`.
    common : set of str, optional
        Dimensions whose values are left out.
    """
    sweep = sweep_of(ds)
    found = _of_policy(ds, sweep, policy)
    if "entropy" in sweep:
        found["entropy"] = sweep["entropy"]
    for key in axis_keys(sweep):
        name = _name(ds, key)
        if name is None or ds[name].size != 1 or common & set(map(str, ds[name].dims)):
            continue
        found[key] = ds[name].values.reshape(-1).tolist()[0]
    if policy is not None and found.get(_TRACE):  # whose name may have that of the policy in it
        found[_TRACE] = found[_TRACE].replace("{policy}", policy)
    return found


def axis_keys(sweep: dict[str, Any]) -> list[str]:
    """Return the keys of a sweep's axes, and of the ranges of its design."""
    return [*sweep.get("grid", {}), *(sweep.get("design") or {}).get("ranges", {})]


def foreign_axes(ds: xr.Dataset) -> set[str]:
    """Return the axes of which `ds` has values that its sweep has not, chosen ones too.

    As of several stores that ``xr.concat`` has put together: attributes are those of the first.
    """
    sweep = sweep_of(ds)
    grid = sweep.get("grid", {})
    tails = {tail for key in axis_keys(sweep) for tail in _tails(key)}
    chosen = {str(name) for name, value in ds.coords.items() if not value.dims}
    found = ({*map(str, ds.dims)} | chosen) - {"status", SAMPLE, SEED, *DIMENSIONS} - tails
    for key, name in dimension_names(list(grid)).items():
        values = grid[key]
        if name in ds.coords and isinstance(values, list):
            there = set(ds[name].values.reshape(-1).tolist())
            found |= set() if there <= set(values) else {name}
    return found


def varied(ds: xr.Dataset) -> Iterator[str]:
    """Yield the keys of axes and ranges of which cells have several values, or nobody knows one."""
    for key in axis_keys(sweep_of(ds)):
        name = _name(ds, key)
        if name is None or ds[name].size != 1:
            yield key


def values_of(ds: xr.Dataset, key: str) -> xr.DataArray | list[Any]:
    """Return the values of a key of all cells: along its axis, or one of each of `policies_of`."""
    name = _name(ds, key) if key in axis_keys(sweep_of(ds)) else None
    if name is not None:
        return ds[name]
    return [settings(ds, policy).get(key) for policy in policies_of(ds)]


def _of_policy(ds: xr.Dataset, sweep: dict[str, Any], policy: str | None) -> dict[str, Any]:
    """Return the scenario of a policy by dotted key, without axes: that of the first, changed."""
    found = dict(leaves(sweep.get("scenario", {})))
    others = scenarios_of(ds.attrs, FOLDERS) if {"base", "toml"} <= ds.attrs.keys() else None
    own = _own(sweep, policy)
    tables = {key: value for key, value in own.items() if isinstance(value, dict)}
    plain = {key: value for key, value in own.items() if key not in tables}
    if others is None:
        return found | dict(leaves(tables)) | plain
    # Lists are in the others as they are simulated, and not as they were written.
    plain = {key: value for key, value in plain.items() if not isinstance(value, list)}
    return found | others.get(str(policy), {}) | plain


def _own(sweep: dict[str, Any], policy: str | None) -> dict[str, Any]:
    """Return what a policy sets: a bundle of the file, or the routing of that name."""
    bundles: dict[str, dict[str, Any]] = sweep.get("policies", {})
    is_routing = policy not in bundles and any(policy == each.label for each in Routing)
    return {"cluster.routing": policy} if is_routing else bundles.get(str(policy), {})


def _name(ds: xr.Dataset, key: str) -> str | None:
    """Return the coordinate that has the values of a key, if there is one."""
    return next((name for name in _tails(key) if name in ds.coords), None)


def _tails(key: str) -> Iterator[str]:
    """Yield the names that the dimension of an axis may have, the shortest first."""
    parts = key.split(".")
    for n in range(1, len(parts) + 1):
        yield "_".join(parts[-n:])
