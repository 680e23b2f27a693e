"""From what was simulated to what the page draws: curves, cliffs, differences, with intervals."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis import statistics, variables
from kvsweep.analysis.cliff import find_cliff
from kvsweep.analysis.gib import unit_gib
from kvsweep.analysis.statistics import Counts, Floats
from kvsweep.report.cliff import group_sentence
from kvsweep.report.table import missing_note

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.analysis.cliff_records import Cliff, GroupCliff

SCENARIOS = ("A", "B")
"""Names of the two scenarios, and values of the dimension `SCENARIO` of both together."""

SCENARIO = "scenario"
CONFIDENCE = 0.95
RESAMPLES = 2000


def joined(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """Return one scenario as it is, and two along a dimension of their own."""
    if len(parts) == 1:
        return parts[0]
    import xarray as xr

    both = xr.concat(
        list(parts), dim=SCENARIO, join="exact", combine_attrs="override", data_vars="all"
    )
    both = both.assign_coords({SCENARIO: list(SCENARIOS)})
    for name, array in parts[0].variables.items():
        both[name].attrs.update(array.attrs)
    return both


def variables_of(measures: Sequence[str], known: Container[str]) -> list[str]:
    """Return the variables of which measures are told: of ``ttft_p99_ms`` that is ``ttft_ms``.

    Also one of that very name, as somebody may have assigned it in other units.
    """
    both = (name for measure in measures for name in (measure, _of_quantiles(measure)))
    return list(dict.fromkeys(name for name in both if name in known))


def _of_quantiles(measure: str) -> str:
    """Return the variable that would have a measure as one of its quantiles."""
    stem, _, rest = measure.rpartition("_p")
    unit = rest.partition("_")[2]
    return f"{stem}_{unit}" if unit else stem


def axis_of(parts: Sequence[xr.Dataset], along: str) -> dict[str, Any]:
    """Return the axis of the curves: its values, in ascending order, and what they are."""
    ds = parts[0]
    attrs = ds[along].attrs
    return {
        "name": along,
        "label": str(attrs.get("long_name", along)),
        "units": str(attrs.get("units", "1")),
        "values": np.asarray(ds[along].values, np.float64).tolist(),
        "gib": gib_of(parts, along),
    }


def gib_of(parts: Sequence[xr.Dataset], along: str) -> float | None:
    """Return the GiB of a unit of the axis; None where scenarios differ in it."""
    found = {unit_gib(ds, along) for ds in parts}
    return found.pop() if len(found) == 1 else None


def curves(parts: Sequence[xr.Dataset], measure: str, along: str) -> dict[str, Any]:
    """Return the curves of a measure, and with two scenarios the difference of the second.

    The difference is taken within seeds, with Student's t interval, as `kvsweep.compare` does.
    """
    arrays = [variables.get(ds, measure) for ds in parts]
    values = [_rows(array, along) for array in arrays]
    attrs = arrays[0].attrs
    found: dict[str, Any] = {
        "name": measure,
        "label": str(attrs.get("long_name", measure)),
        "units": str(attrs.get("units", "1")),
        "better": variables.better(measure),
        "curves": [_band(rows) for rows in values],
        "difference": None,
    }
    if len(values) == 2:
        mean, half = statistics.mean_and_t((values[1] - values[0]).T, CONFIDENCE)
        found["difference"] = _plain(mean, mean - half, mean + half)
    return found


def cliff_of(ds: xr.Dataset, measure: str, along: str, threshold: float) -> Cliff:
    """Return the cliffs of the scenarios, and the ratio of those of two."""
    return find_cliff(ds, measure, along, threshold, CONFIDENCE, RESAMPLES)


def cliff_answer(cliff: Cliff, gib: Sequence[float | None]) -> dict[str, Any]:
    """Return what the page tells of cliffs; `gib` is the memory of a unit of each scenario."""
    found: dict[str, Any] = {
        "measure": cliff.metric,
        "threshold": cliff.threshold,
        "past": cliff.past,
        "groups": [_group(cliff, g, each) for g, each in zip(cliff.groups, gib, strict=True)],
        "ratio": None,
    }
    for ratio in cliff.ratios:  # A / B: the page tells B / A
        interval = ratio.interval
        if np.isfinite(ratio.of_mean_curves) and ratio.of_mean_curves > 0:
            found["ratio"] = {
                "value": 1 / ratio.of_mean_curves,
                "low": _inverse(interval.high) if interval else None,
                "high": _inverse(interval.low) if interval else None,
                "has_interval": interval is not None and not np.isnan(interval.low),
            }
    return found


def _inverse(end: float) -> float | None:
    """Return an end of an inverted ratio; what lies outside of the range still does."""
    return 1 / end if np.isfinite(end) and end > 0 else None


def _group(cliff: Cliff, group: GroupCliff, gib: float | None) -> dict[str, Any]:
    interval = group.interval
    return {
        "value": _finite(group.mean_curve.value),
        "outcome": group.mean_curve.outcome.name.lower(),
        "low": _finite(interval.low) if interval else None,
        "high": _finite(interval.high) if interval else None,
        "has_interval": interval is not None,
        "gib": gib,
        "sentence": group_sentence(cliff, group),
    }


def is_narrow(answer: Mapping[str, Any], narrow: float) -> bool:
    """Whether the interval of each cliff is narrow or, if there is none, those of the curves.

    A cliff's by its half width, relative to the cliff; a curve's by the widest half width, relative
    to its largest value.
    """
    if answer["cliff"] and all(g["outcome"] == "crosses" for g in answer["cliff"]["groups"]):
        return all(_half(g) <= narrow * abs(g["value"]) for g in answer["cliff"]["groups"])
    first = answer["measures"][0]["curves"]
    return all(_widest(curve) <= narrow for curve in first)


def _half(group: Mapping[str, Any]) -> float:
    if group["low"] is None or group["high"] is None:
        return np.inf
    return 0.5 * float(group["high"] - group["low"])


def _widest(curve: Mapping[str, Any]) -> float:
    mean, low, high = (np.array(curve[key], np.float64) for key in ("mean", "low", "high"))
    largest = np.nanmax(np.abs(mean), initial=0.0)
    if not largest:
        return 0.0  # equal, and 0, everywhere
    wide = high - low
    if np.isnan(wide[~np.isnan(mean)]).any():
        return float("inf")
    return float(0.5 * np.nanmax(wide) / largest)


def notes_of(ds: xr.Dataset, measure: str, seeds: int | None) -> list[str]:
    """Return what is to be known of the cells: those without a value, and too few seeds."""
    array = variables.get(ds, measure)
    found = missing_note(variables.missing(ds, array))
    few = statistics.seeds_note(seeds)
    return [*found, *([few] if few else [])]


def _rows(array: xr.DataArray, along: str) -> Floats:
    """Return (seeds, points), one row where no seeds are."""
    if "seed" not in array.dims:
        array = array.expand_dims("seed")
    rows: Floats = array.transpose("seed", along).values
    return rows


def _band(rows: Floats) -> dict[str, Any]:
    counts = _counts(len(rows)) if len(rows) > 1 else None
    return _plain(*statistics.mean_band(rows, counts, CONFIDENCE))


@lru_cache(maxsize=8)
def _counts(seeds: int) -> Counts:
    return statistics.resample_counts(seeds, RESAMPLES)


def _plain(mean: Floats, low: Floats, high: Floats) -> dict[str, Any]:
    ends = {"mean": mean, "low": low, "high": high}
    return {key: [_finite(value) for value in each.tolist()] for key, each in ends.items()}


def _finite(value: float) -> float | None:
    """Return a number of JSON; None stands for NaN, and for an end outside of the range."""
    return float(value) if np.isfinite(value) else None
