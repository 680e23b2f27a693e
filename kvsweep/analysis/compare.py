"""Two stores compared: the difference of a measure, cell by cell, with intervals.

Where both have the same seeds, differences are taken within seeds, which draw from the same random
streams whatever else differs: what a seed has in common cancels, and the interval is Student's t of
what is left. Where they have not, it is Welch's (B. L. Welch, The generalization of "Student's"
problem when several different population variances are involved, Biometrika 34, 1947).
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis import statistics, student, variables
from kvsweep.analysis.aligned import SEED, aligned, changes_requests, differing
from kvsweep.analysis.compare_records import ComparedAxis, Comparison, Difference
from kvsweep.analysis.contrasts import ROUNDING
from kvsweep.analysis.effect_records import Verdict
from kvsweep.analysis.gib import unit_gib
from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.settings import foreign_axes, sweep_of
from kvsweep.analysis.statistics import Floats, Interval
from kvsweep.arguments import checked
from kvsweep.config.axes import SAMPLE
from kvsweep.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import xarray as xr


@checked
def compare(a: xr.Dataset, b: xr.Dataset, metric: str, confidence: float = 0.95) -> Comparison:
    """Find how a measure differs between two stores.

    Parameters
    ----------
    a, b : xr.Dataset
        Results of two sweeps, or parts of them (``ds.sel``, with names of axes).
    metric : str
        A measure of both, or a quantile of one (``ttft_p99_ms``).
    confidence : float
        Of the intervals, each for itself, between 0 and 1.

    Returns
    -------
    Comparison
        A `Difference` for each combination of axis values that both have, B minus A; and what
        differs between the sweeps. ``to_dict`` gives plain values.

    Raises
    ------
    InputError
        If the measure is not in both in the same units, an axis with several values is in one
        only, an axis has no value in common, or one of them is a mean over seeds.

    Examples
    --------
    >>> import kvsweep
    >>> ds = kvsweep.open_results("results/small.zarr")
    >>> found = kvsweep.compare(ds.sel(policy="base"), ds.sel(policy="both"), "e2e_mean_ms")
    >>> found.paired, found.same_requests, len(found.differences)
    (True, True, 14)
    """
    statistics.check_confidence(confidence)
    first, second = (_measure(ds, metric, name) for ds, name in ((a, "A"), (b, "B")))
    if (units := [x.attrs.get("units", "1") for x in (first, second)])[0] != units[1]:
        raise InputError(f"metric: {metric!r} is in {units[0]} in A and in {units[1]} in B")
    _check_designs(a, b)
    sides = [(first, a, "A"), (second, b, "B")]
    for array, _, name in sides:
        if SEED in array.dims and SEED not in array.coords:
            raise InputError(
                f"seed: {name} has lost the numbers of its seeds, by which they are paired: keep "
                "the coordinate, or give it back, .assign_coords(seed=...)"
            )
    if any(SEED in array.coords for array in (first, second)):
        first, second = (_with_seeds(*side) for side in sides)
    else:
        first, second = (array.expand_dims({SEED: [0]}) for array in (first, second))
    first, second, unmatched = aligned(first, second)
    same_streams = sweep_of(a).get("entropy") == sweep_of(b).get("entropy")
    paired = same_streams and bool(np.isin(first[SEED].values, second[SEED].values).any())
    differences = tuple(_differences(first, second, paired, confidence))
    found = tuple(differing(a, b))
    several = tuple(name for _, ds, name in sides if foreign_axes(ds) - {SEED})
    return Comparison(
        a=_name(a, "A"),
        b=_name(b, "B"),
        metric=metric,
        units=units[0],
        long_name=str(first.attrs.get("long_name", metric)),
        confidence=confidence,
        paired=paired,
        same_requests=(
            paired
            and not several
            and all(map(sweep_of, (a, b)))
            and not any(changes_requests(item.key) for item in found)
        ),
        seeds_note=_seeds_note(differences),
        differing=found,
        unmatched=tuple(unmatched if paired else (u for u in unmatched if u.axis != SEED)),
        differences=differences,
        axes={dim: _axis(a, b, dim) for dim in map(str, first.dims) if dim != SEED},
        several=several,
    )


def _axis(a: xr.Dataset, b: xr.Dataset, name: str) -> ComparedAxis:
    attributes = {**b[name].attrs, **a[name].attrs}
    first, second = unit_gib(a, name), unit_gib(b, name)
    return ComparedAxis(
        long_name=str(attributes.get("long_name", name)),
        units=str(attributes.get("units", "1")),
        gib=first if first == second else None,
    )


def _measure(ds: xr.Dataset, metric: str, name: str) -> xr.DataArray:
    try:
        return variables.get(ds, metric)
    except InputError as error:
        raise InputError(f"{error} (store {name})") from None


def _check_designs(a: xr.Dataset, b: xr.Dataset) -> None:
    """Refuse to align points of different designs by their numbers."""
    designs = [sweep_of(ds).get("design") for ds in (a, b)]
    # Points follow from the order of the parameters too, which dicts do not compare.
    orders = [list((design or {}).get("ranges", ())) for design in designs]
    other = designs[0] != designs[1] or orders[0] != orders[1]
    if SAMPLE in a.dims and SAMPLE in b.dims and other:
        raise InputError(
            "sample: the two designs have other points, so that a number means another point in "
            "each; choose one of each, --at-a sample=N --at-b sample=N, or .sel() in Python"
        )


def _name(ds: xr.Dataset, otherwise: str) -> str:
    return str(ds.encoding.get("source", otherwise))


def _with_seeds(array: xr.DataArray, ds: xr.Dataset, name: str) -> xr.DataArray:
    """Give an array a dimension of seeds: of the chosen one, or of that which its sweep has alone.

    A sweep without an axis of seeds has seed 0.
    """
    if SEED in array.dims:
        return array
    swept = sweep_of(ds).get("grid", {}).get(SEED) or [0]
    if SEED in array.coords:
        swept = [array.coords[SEED].values.item()]
    if len(swept) > 1:
        raise InputError(
            f"seed: {name} has lost its {len(swept):,} seeds, with which the other is paired: give "
            "them, over which means are taken here, or one of them, .sel(seed=0)"
        )
    return array.drop_vars(SEED, errors="ignore").expand_dims({SEED: swept})


def _differences(
    first: xr.DataArray, second: xr.DataArray, paired: bool, confidence: float
) -> list[Difference]:
    """Compare all cells; the arrays have the same axes, but perhaps other seeds."""
    if paired:
        common = first[SEED].values[np.isin(first[SEED].values, second[SEED].values)]
        first, second = first.sel({SEED: common}), second.sel({SEED: common})
    dims = [str(dim) for dim in first.dims if dim != SEED]
    rows = [_rows(array, dims) for array in (first, second)]
    places = product(*(np.asarray(first[dim].values).tolist() for dim in dims))
    return [
        _difference(dict(zip(dims, place, strict=True)), x, y, paired, confidence)
        for place, x, y in zip(places, *rows, strict=True)
    ]


def _seeds_note(differences: Sequence[Difference]) -> str:
    """Warn of too few seeds; not for cells without a value, which would have none of any number."""
    counts = [difference.seeds for difference in differences if difference.seeds]
    return statistics.fewest_note(counts, 1) if counts else ""


def _rows(array: xr.DataArray, dims: list[str]) -> Floats:
    """Return (cells, seeds)."""
    values = array.transpose(*dims, SEED).values
    return np.asarray(values, np.float64).reshape(-1, values.shape[-1])


def _difference(
    labels: dict[str, Any], x: Floats, y: Floats, paired: bool, confidence: float
) -> Difference:
    seeds = min(len(x), len(y))
    if paired:
        both = ~np.isnan(x) & ~np.isnan(y)
        x, y = x[both], y[both]
    else:
        x, y = x[~np.isnan(x)], y[~np.isnan(y)]
    count = min(len(x), len(y))
    mean_a, mean_b = (float(v.mean()) if len(v) else math.nan for v in (x, y))
    if paired:
        gap = y - x
        gap[np.abs(gap) <= ROUNDING * (np.abs(x) + np.abs(y))] = 0.0
        mean, half = (float(v[0]) for v in statistics.mean_and_t(gap[None], confidence))
    else:
        mean, half = mean_b - mean_a, _welch(x, y, confidence)
    known = math.isfinite(half)
    return Difference(
        labels=jsonable(labels),
        mean_a=mean_a,
        mean_b=mean_b,
        difference=mean,
        interval=Interval(mean - half, mean + half, confidence) if known else None,
        relative=mean / mean_a if mean_a > 0.0 and count else None,
        verdict=_verdict(mean, half) if known else None,
        seeds=count,
        dropped=seeds - count,
    )


def _verdict(mean: float, half: float) -> Verdict:
    if abs(mean) <= half:
        return Verdict.NOT_SHOWN
    return Verdict.RAISES if mean > 0 else Verdict.LOWERS


def _welch(x: Floats, y: Floats, confidence: float) -> float:
    """Return the half width of the interval of a difference of means; NaN below two values each."""
    if min(len(x), len(y)) < 2:
        return math.nan
    parts = [float(v.var(ddof=1)) / len(v) for v in (x, y)]
    total = sum(parts)
    if total == 0.0:
        return 0.0
    each = sum(p * p / (len(v) - 1) for p, v in zip(parts, (x, y), strict=True))
    degrees = max(1, math.floor(total * total / each))  # whole, and so a little too wide
    return student.quantile(degrees, confidence) * math.sqrt(total)
