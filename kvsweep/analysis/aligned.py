"""What two stores have in common, and what not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

from kvsweep.analysis.compare_records import Differing, Unmatched
from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.wording import level
from kvsweep.config.axes import POLICY
from kvsweep.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

SEED = "seed"
# What made the numbers, besides the sweep.
_MAKERS = ("source_hash", "numba", "numpy")
_SHOWN = 3


def sweep_of(ds: xr.Dataset) -> dict[str, Any]:
    """Return the sweep of a store; empty of a dataset that was not opened from one."""
    sweep: dict[str, Any] = json.loads(ds.attrs.get("sweep", "{}"))
    return sweep


def aligned(
    first: xr.DataArray, second: xr.DataArray
) -> tuple[xr.DataArray, xr.DataArray, list[Unmatched]]:
    """Reduce two arrays to the axes and values that both have, in the order of the first.

    Seeds stay as they are. An axis of one value that only one array has is dropped.

    Raises
    ------
    InputError
        If an axis of several values is in one only, or no value is in both.
    """
    first, second = _without_others(first, second, "A"), _without_others(second, first, "B")
    unmatched = []
    for dim in map(str, first.dims):
        here, there = ([*map(_key, x[dim].values.tolist())] for x in (first, second))
        only_a = tuple(v for v in here if v not in there)
        only_b = tuple(v for v in there if v not in here)
        if only_a or only_b:
            unmatched.append(Unmatched(dim, _plain(only_a), _plain(only_b)))
        if dim == SEED:
            continue
        common = [v for v in here if v in there]
        if not common:
            raise InputError(
                f"{dim}: no value is in both stores: {_some(here)} in A, {_some(there)} in B"
            )
        first = first.isel({dim: [here.index(v) for v in common]})
        second = second.isel({dim: [there.index(v) for v in common]})
    return first, second.transpose(*first.dims), unmatched


def _without_others(array: xr.DataArray, other: xr.DataArray, name: str) -> xr.DataArray:
    """Drop the axes of one value that the other store has not."""
    for dim in map(str, array.dims):
        if dim in other.dims or dim == SEED:
            continue
        if array.sizes[dim] > 1:
            lacking = "B" if name == "A" else "A"
            values = [_key(v) for v in array[dim].values.tolist()]
            raise InputError(
                f"{dim}: {len(values)} values in {name} ({_some(values)}) and no such axis in "
                f"{lacking}: choose one, --at-{name.lower()} {dim}=VALUE"
            )
        array = array.isel({dim: 0})
    return array


def differing(a: xr.Dataset, b: xr.Dataset) -> Iterator[Differing]:
    """Yield what is not the same in two stores: makers, keys of the sweeps, chosen axis values."""
    for key in _MAKERS:
        if a.attrs.get(key) != b.attrs.get(key):
            yield Differing(key, a.attrs.get(key), b.attrs.get(key))
    common = set(map(str, a.dims)) & set(map(str, b.dims))
    first, second = _settings(a, common), _settings(b, common)
    for key in dict.fromkeys([*first, *second]):
        if first.get(key) != second.get(key):
            yield Differing(key, jsonable(first.get(key)), jsonable(second.get(key)))


def changes_requests(key: str) -> bool:
    """Whether a key of `differing` says what is requested, by itself or in a policy."""
    return key.startswith("workload") or (key.startswith("policies.") and ".workload" in key)


def _settings(ds: xr.Dataset, common: Set[str]) -> dict[str, Any]:
    """Return every key of the scenario, of chosen policies, points and axis values too.

    Axes in `common` are compared value by value: they make no difference.
    """
    sweep = sweep_of(ds)
    policies = sweep.get("policies", {})
    found = dict(_leaves(sweep.get("scenario", {})))
    found |= dict(_leaves(policies, ("policies",)))
    if "entropy" in sweep:
        found["entropy"] = sweep["entropy"]
    keys = [*sweep.get("grid", {}), *(sweep.get("design") or {}).get("ranges", {})]
    for key in keys:
        name = next((n for n in _tails(key) if n in ds.coords), None)
        if name is None or ds[name].size != 1 or common & set(map(str, ds[name].dims)):
            continue
        found[key] = ds[name].values.reshape(-1).tolist()[0]
        if key == POLICY:
            found |= dict(_leaves(policies.get(found[key], {})))
    return found


def _tails(key: str) -> Iterator[str]:
    """Yield the names that the dimension of an axis may have, the shortest first."""
    parts = key.split(".")
    for n in range(1, len(parts) + 1):
        yield "_".join(parts[-n:])


def _leaves(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        else:
            yield ".".join((*path, key)), value


def _key(value: Any) -> Any:
    """Return an axis value to compare: 1,000 and 1,000.0 are the same, true and 1 too, in text."""
    return float(value) if isinstance(value, int) and abs(value) < 2**53 else value


def _plain(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(int(v) if isinstance(v, float) and v.is_integer() else v for v in values)


def _some(values: list[Any]) -> str:
    shown = ", ".join(level(v) for v in values[:_SHOWN])
    return f"{shown}, ..." if len(values) > _SHOWN else shown
