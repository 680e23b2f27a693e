"""A summary of a store: what was swept, what became of the cells, a few numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis import variables
from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.wording import BY_VALUE, counted, label, level, number, seeds_counted
from kvsweep.config.axes import SAMPLE
from kvsweep.report.gib import axis_memory
from kvsweep.report.table import plural, table, with_space

if TYPE_CHECKING:
    import xarray as xr

# The measures shown, where the store has them.
HEADLINES = (
    "preemption_rate",
    "ttft_p99_ms",
    "tpot_p99_ms",
    "e2e_p99_ms",
    "throughput_rps",
    "goodput_rps",
    "slo_attainment",
    "prefix_hit_rate",
    "cpu_hit_rate",
    "fairness_instances",
)
# Shares of the instances less equal than this are worth a column.
EVEN = 0.95
HEADLINE_POINTS = 7
HEADLINE_GROUPS = 4


def summary(ds: xr.Dataset) -> dict[str, Any]:
    """Summarise a store as plain Python: axes, cells by status, headline means along the main axis.

    The main axis is the longest numeric one; headlines are means over seeds at a few of its values,
    for every combination of the other axes. Without a numeric axis it is None.
    """
    swept = variables.swept(ds)
    main = _main_axis(ds, swept)
    found: dict[str, Any] = {
        "title": ds.attrs.get("title", ""),
        "question": ds.attrs.get("question", ""),
        "at": _chosen_values(ds),
        "axes": [_axis_summary(ds, name) for name in swept],
        "parameters": [_axis_summary(ds, name) for name in _parameters(ds)],
        "cells": int(np.prod([ds.sizes[name] for name in swept], dtype=np.int64)),
        "status": variables.count_statuses(ds) if "status" in ds else {},
        "main_axis": main,
        "headlines": _headlines(ds, main),
    }
    plain: dict[str, Any] = jsonable(found)
    return plain


def _main_axis(ds: xr.Dataset, swept: list[str]) -> str | None:
    """Return the longest numeric axis, None if there is none."""
    numeric = [d for d in swept if d != "seed" and ds[d].dtype.kind in "fiu"]
    return max(numeric, key=lambda d: ds.sizes[d]) if numeric else None


def _parameters(ds: xr.Dataset) -> list[str]:
    """Return the parameters of a design: what has a value at each of its points."""
    return [str(name) for name in ds.coords if ds[name].dims == (SAMPLE,) and name != SAMPLE]


def _chosen_values(ds: xr.Dataset) -> dict[str, Any]:
    """Return what the cells have in common: of each axis of which one value is looked at, that."""
    return {str(name): ds[name].item() for name in ds.coords if not ds[name].ndim}


def _axis_summary(ds: xr.Dataset, name: str) -> dict[str, Any]:
    values = ds[name].values
    return {"name": name, "units": str(ds[name].attrs.get("units", "")), "values": values}


def _headlines(ds: xr.Dataset, main: str | None) -> list[dict[str, Any]]:
    """Return one row per combination and chosen value of `main`: its labels and the means."""
    known = set(variables.names(ds))
    chosen = {} if main is None else {main: _chosen(ds.sizes[main])}
    means, counts = {}, {}
    for name in HEADLINES:
        if name in known and _tells(ds, name):
            array = variables.get(ds, name).isel(chosen)
            means[name], counts[name] = _seed_mean(array), _seed_count(array)
    if not means:
        return []
    first = next(iter(means.values()))
    dims = [*(str(d) for d in first.dims if d != main), *chosen]
    values = [np.asarray(first[d].values).tolist() for d in dims]
    labels = (dict(zip(dims, combination, strict=True)) for combination in product(*values))
    rows = zip(labels, _by_row(means, dims), _by_row(counts, dims), strict=True)
    return [{"labels": row, "means": mean, "seeds": count} for row, mean, count in rows]


def _by_row(arrays: Mapping[str, xr.DataArray], dims: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the values of each combination along `dims`; to select each took 5 ms."""
    columns = [array.transpose(*dims).values.ravel().tolist() for array in arrays.values()]
    return (dict(zip(arrays, row, strict=True)) for row in zip(*columns, strict=True))


def _tells(ds: xr.Dataset, name: str) -> bool:
    """Leave out what is the same in most sweeps: no CPU tier, instances with equal shares."""
    if name == "cpu_hit_rate":
        return "offloads" not in ds or bool((variables.get(ds, "offloads") > 0).any())
    if name == "fairness_instances":
        return bool((variables.get(ds, name) < EVEN).any())
    return True


def _chosen(size: int) -> NDArray[np.int64]:
    """Pick indices of a few values of an axis, evenly spread, both ends among them."""
    spread = np.linspace(0, size - 1, min(size, HEADLINE_POINTS))
    return np.unique(np.rint(spread).astype(np.int64))


def _seed_mean(array: xr.DataArray) -> xr.DataArray:
    return array.mean("seed") if "seed" in array.dims else array


def _seed_count(array: xr.DataArray) -> xr.DataArray:
    """Count the seeds that have a value."""
    known = array.notnull()
    return known.sum("seed") if "seed" in array.dims else known


def summary_text(ds: xr.Dataset) -> str:
    """Write the summary of a store: title, axes, cells by status, headline means."""
    head = [str(ds.attrs[key]) for key in ("title", "question") if ds.attrs.get(key)]
    return "\n".join([*head, *([""] if head else []), *summary_parts(ds)]).rstrip()


def summary_parts(ds: xr.Dataset) -> list[str]:
    """Return the lines of `summary_text` after title and question, tables whole."""
    found = summary(ds)
    chosen = ", ".join(f"{name} {level(value)}" for name, value in found["at"].items())
    parts = [f"at {chosen}", ""] if chosen else []
    if axes := found["axes"]:
        parts.append(_axes_table(("axis", "values"), axes))
    if found["parameters"]:
        parts += ["", _axes_table(("parameter of the design", "points"), found["parameters"])]
    memory = (axis_memory(ds, axis["name"]) for axis in found["axes"])
    parts += [f"KV cache  {text}" for text in memory if text]
    parts += [*([""] if axes else []), _cells_sentence(found)]
    if found["headlines"]:
        known, seeds = _known_seeds(ds, found), ds.sizes.get("seed", 1)
        head = f"Means over {seeds_counted([known], seeds)}" if seeds > 1 else "Values"
        parts += ["", head + _left_out(ds, found), *_headline_tables(ds, found, known)]
    return parts


def _known_seeds(ds: xr.Dataset, found: dict[str, Any]) -> int:
    """Return of how many seeds any cell has numbers."""
    if not set(found["status"]) - {"ok"}:
        return int(ds.sizes.get("seed", 1))
    ok = variables.is_ok(ds)
    return int(ok.any([dim for dim in ok.dims if dim != "seed"]).sum())


def _left_out(ds: xr.Dataset, found: dict[str, Any]) -> str:
    """Say of how many values of the main axis headlines are, unless of all."""
    main = found["main_axis"]
    points = len({row["labels"][main] for row in found["headlines"]}) if main else 0
    return (
        f", at {points:,} of {ds.sizes[main]:,} {main}" if main and points < ds.sizes[main] else ""
    )


def _axes_table(header: tuple[str, str], axes: list[dict[str, Any]]) -> str:
    """Write axes with their ranges, or their names: those last, as they may be many."""
    rows = [_axis_row(axis) for axis in axes]
    further = [
        (title, *(row[2 + n] for row in rows)) for n, title in enumerate(("from", "to", "names"))
    ]
    kept = [column for column in further if any(column[1:])]
    lines = [(*row[:2], *(column[1 + n] for column in kept)) for n, row in enumerate(rows)]
    return table((*header, *(column[0] for column in kept)), lines)


def _axis_row(axis: dict[str, Any]) -> tuple[str, ...]:
    """Return the name of an axis, its size, and its range or its names."""
    values = axis["values"]
    size = f"{len(values):,}"
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return (axis["name"], size, "", "", ", ".join(dict.fromkeys(map(level, values))))
    unit = with_space(plural(axis["units"]))
    low, high = level(min(values)), level(max(values))
    return (axis["name"], size, low, f"{high}{unit}", "")


def _cells_sentence(found: dict[str, Any]) -> str:
    """Count cells, by status where not all are ok."""
    status, cells = found["status"], counted(found["cells"], "cell")
    if set(status) <= {"ok"}:
        everyone = "" if found["cells"] == 1 else "all "
        return cells + (f", {everyone}ok" if status else "")
    counts = ", ".join(f"{kind} {count:,}" for kind, count in status.items())
    return f"{cells}: {counts}"


def _headline_tables(ds: xr.Dataset, found: dict[str, Any], seeds: int) -> list[str]:
    """Write one table, of the first `HEADLINE_GROUPS`, and how many rows lack some of `seeds`."""
    main, rows = found["main_axis"], found["headlines"]
    names = list(rows[0]["means"])
    points = len({row["labels"][main] for row in rows}) if main else 1
    shown = rows[: HEADLINE_GROUPS * (points if main else HEADLINE_POINTS)]
    drawn = _parameters(ds) if main == SAMPLE else []
    header = ("", main or "", *drawn, *(f"{n}{_in_brackets(ds, n)}" for n in names))
    body = [
        (
            label({k: v for k, v in row["labels"].items() if k != main}) if i % points == 0 else "",
            level(row["labels"][main]) if main else "",
            *(level(ds[name].sel({SAMPLE: row["labels"][SAMPLE]}).item()) for name in drawn),
            *(number(np.nan if v is None else v) for v in row["means"].values()),
        )
        for i, row in enumerate(shown)
    ]
    left = (len(rows) - len(shown)) // points
    keys = 1 + bool(main) + len(drawn)
    more = [f"... and {left:,} more combinations: {BY_VALUE}"] if left else []
    return [table(header, body, keys), *more, *_of_fewer(shown, seeds)]


def _of_fewer(rows: list[dict[str, Any]], seeds: int) -> list[str]:
    """Say in how many rows some mean is of fewer than so many seeds, if in any."""
    fewest = [
        min(few)
        for row in rows
        if (few := [count for count in row["seeds"].values() if 0 < count < seeds])
    ]
    if not fewest:
        return []
    return [
        f"{len(fewest):,} of {counted(len(rows), 'row')}: means of fewer seeds, {min(fewest):,} "
        "at fewest; the others have no value there."
    ]


def _in_brackets(ds: xr.Dataset, name: str) -> str:
    """Return the unit of a measure whose name does not end in it."""
    units = str(variables.get(ds, name).attrs.get("units", "1"))
    return "" if units in ("1", "") or name.endswith(("_ms", "_rps")) else f" ({units})"
