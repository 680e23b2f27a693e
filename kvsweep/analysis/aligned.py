"""What two stores have in common, and what not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kvsweep.analysis.compare_records import Differing, Unmatched
from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.settings import attribute, policies_of, settings
from kvsweep.analysis.wording import level
from kvsweep.config.axes import POLICY
from kvsweep.errors import InputError
from kvsweep.store.inputs import FILES, TRACES

if TYPE_CHECKING:
    import xarray as xr

SEED = "seed"
MAKERS = ("source_hash", "numba", "numpy")
"""What made the numbers, besides the sweep."""

_SHOWN = 3

_OF_THE_SAME_LIST = (".workload.concurrency", ".workload.warmup")
"""Ends of keys that say when a request is sent, and whether it is measured."""


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
        here, there = _keys(first[dim].values.tolist(), second[dim].values.tolist())
        in_a, in_b = _places(here), _places(there)
        only_a = tuple(v for v in here if v not in in_b)
        only_b = tuple(v for v in there if v not in in_a)
        if only_a or only_b:
            unmatched.append(Unmatched(dim, _plain(only_a), _plain(only_b)))
        if dim == SEED:
            continue
        common = [v for v in here if v in in_b]
        if not common:
            raise InputError(
                f"{dim}: no value is in both stores: {_some(here)} in A, {_some(there)} in B"
            )
        first = first.isel({dim: [in_a[v] for v in common]})
        second = second.isel({dim: [in_b[v] for v in common]})
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
                f"{lacking}: choose one, --at-{name.lower()} {dim}=VALUE, or .sel() in Python"
            )
        array = array.isel({dim: 0})
    return array


def differing(a: xr.Dataset, b: xr.Dataset) -> Iterator[Differing]:
    """Yield what is not the same in two stores: makers, keys of the sweeps, chosen axis values.

    And files that are others by the same name: traces, presets and configurations.
    """
    for key in MAKERS:
        if a.attrs.get(key) != b.attrs.get(key):
            yield Differing(key, a.attrs.get(key), b.attrs.get(key))
    yield from _other_files(a, b)
    common = set(map(str, a.dims)) & set(map(str, b.dims))
    if POLICY in common:
        pairs = [(name, name) for name in policies_of(a) if name in policies_of(b)]
    else:
        pairs = [(policies_of(a)[0], policies_of(b)[0])]
    both = [_with_orders(settings(a, p, common), settings(b, q, common)) for p, q in pairs]
    for key in dict.fromkeys(key for sides in both for side in sides for key in side):
        values = [(first.get(key), second.get(key)) for first, second in both]
        if all(value == values[0] for value in values):
            told = [(key, values[0])]
        else:
            told = [(f"policies.{p}.{key}", v) for (p, _), v in zip(pairs, values, strict=True)]
        yield from (Differing(k, *map(jsonable, v)) for k, v in told if v[0] != v[1])


def _other_files(a: xr.Dataset, b: xr.Dataset) -> Iterator[Differing]:
    """Yield the sums of files that both stores name, and that have another content in each."""
    for kind in (TRACES, FILES):
        first, second = (attribute(ds, kind, {}) for ds in (a, b))
        for name in first:
            if name in second and first[name] != second[name]:
                yield Differing(f"{kind}.{name}", first[name], second[name])


def _with_orders(
    first: dict[str, Any], second: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Add the order of the same scorers where it differs: their sum is rounded by it."""
    sides = first, second
    keys = [[key for key in side if ".scorers." in key and side[key] is not None] for side in sides]
    if keys[0] == keys[1] or sorted(keys[0]) != sorted(keys[1]):
        return sides
    for side, order in zip(sides, keys, strict=True):
        side["cluster.scorers"] = ", ".join(key.rpartition(".scorers.")[2] for key in order)
    return sides


def changes_requests(key: str) -> bool:
    """Whether a key of `differing` says what is requested, by itself or in a policy."""
    if f".{key}".endswith(_OF_THE_SAME_LIST):
        return False
    if key.startswith(("workload", f"{TRACES}.")):
        return True
    return key.startswith("policies.") and ".workload" in key


def _keys(first: list[Any], second: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the values of an axis in two stores, equal where they are written alike.

    0.3 and 0.1 + 0.2 are, which differ in the last bit alone, unless a store has them both.
    """
    here, there = ([*map(_key, values)] for values in (first, second))
    rounded = [[*map(_rounded, values)] for values in (here, there)]
    if any(len(set(values)) < len(values) for values in rounded):
        return here, there
    return rounded[0], rounded[1]


def _places(values: list[Any]) -> dict[Any, int]:
    """Return where each value comes first; a list would be searched for each of many seeds."""
    return {value: place for place, value in reversed([*enumerate(values)])}


def _rounded(value: Any) -> Any:
    """Return a number as it is written, with 15 digits."""
    return float(f"{value:.15g}") if isinstance(value, float) else value


def _key(value: Any) -> Any:
    """Return an axis value to compare: 1,000 and 1,000.0 are the same, true and 1 too, in text."""
    return float(value) if isinstance(value, int) and abs(value) < 2**53 else value


def _plain(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(int(v) if isinstance(v, float) and v.is_integer() else v for v in values)


def _some(values: list[Any]) -> str:
    shown = ", ".join(level(v) for v in values[:_SHOWN])
    return f"{shown}, ..." if len(values) > _SHOWN else shown
