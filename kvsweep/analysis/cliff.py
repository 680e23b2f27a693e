"""The cliff: where, along a shrinking resource, a measure passes a threshold.

The axis is scanned from its generous end, the one towards which the measure gets better. The cliff
is the first pair (value at or within the threshold, next value past it), linear in the axis value
(`kvsweep.analysis.crossing`). Uncertainty is over seeds: every seed is one curve, the headline is
the crossing of the mean curve, and its interval comes from resampling the seeds.
"""

from __future__ import annotations

from itertools import product
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis import ranks, statistics, variables
from kvsweep.analysis.cliff_records import Cliff, Labels
from kvsweep.analysis.cliff_scan import Scan, find_ratios, scan_group
from kvsweep.analysis.settings import sweep_of
from kvsweep.analysis.statistics import Floats
from kvsweep.arguments import checked
from kvsweep.config.axes import SAMPLE, dimension_names, more_is_generous, tells_its_end
from kvsweep.errors import InputError
from kvsweep.metrics import out_of_range

if TYPE_CHECKING:
    import xarray as xr

UNCLEAR = 0.5
"""Mean rank correlation of an axis and a measure from which on it says which end is generous."""


@checked
def find_cliff(
    ds: xr.Dataset,
    metric: str = "preemption_rate",
    along: str = "gpu_blocks",
    threshold: float = 0.05,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> Cliff:
    """Find where `metric` passes `threshold` along an axis, for every combination of the others.

    Parameters
    ----------
    ds : xr.Dataset
        Results of a sweep; dimension ``seed`` (optional) holds paired repetitions.
    metric : str
        A measure, or a quantile of one (``ttft_p99_ms``). For measures of which more is better
        (`variables.HIGHER_IS_BETTER`) "past the threshold" means below it.
    along : str
        The numeric axis of the resource. Which end is generous is read off the data: the end
        towards which the measure improves, by the mean rank correlation of the groups' mean
        curves. If that is zero, or along room and loads below `UNCLEAR`, as of a measure that is
        good at both ends, it is the high end, but of a load (``workload.rate``) the low one.
    threshold : float
        In the units of the measure.
    confidence : float
        Of the intervals, between 0 and 1.
    resamples : int
        Bootstrap resamples of the seeds.

    Returns
    -------
    Cliff
        For each combination where the mean curve passes, with an interval and the crossings of
        single seeds, in the units of `along`; and the ratios of those crossings.

    Raises
    ------
    InputError
        For an unknown measure or axis, an axis of names or of fewer than two values, or numbers
        out of range.

    Examples
    --------
    >>> import kvsweep
    >>> ds = kvsweep.open_results("results/small.zarr")
    >>> cliff = kvsweep.find_cliff(ds, "preemption_rate", along="gpu_blocks", threshold=0.05)
    >>> for group in cliff.groups[:2]:
    ...     print(group.labels, round(group.mean_curve.value))
    {'policy': 'base', 'rate': 40.0} 1192
    {'policy': 'base', 'rate': 200.0} 1320
    """
    statistics.check_bootstrap(confidence, resamples)
    if not isinstance(threshold, Real) or not np.isfinite(threshold):
        raise InputError(f"threshold: {threshold!r} is not a finite number")
    array = _measure(ds, metric, along)
    beyond = array < 0.0 if threshold < 0 else array > 1.0
    problem = out_of_range(metric, float(threshold))
    if problem and not beyond.any():  # else it is one of the caller's: a difference, in per cents
        raise InputError(f"threshold: {problem}")
    missing = variables.missing(ds, array)
    array = array.sortby(along)
    group_dims = [str(d) for d in array.dims if d not in (along, "seed")]
    curves, labels, seeds = _stack(array, along, group_dims)

    sign = -1.0 if metric in variables.HIGHER_IS_BETTER else 1.0
    axis = np.asarray(array[along].values, dtype=np.float64)
    high_is_generous = _is_high_generous(_trend(axis, sign * curves), _key(ds, along))
    scan = Scan(
        axis=axis,
        order=slice(None, None, -1 if high_is_generous else 1),
        sign=sign,
        threshold=sign * threshold,
        seeds=seeds,
        counts=statistics.resample_counts(seeds, resamples) if seeds and seeds > 1 else None,
        confidence=confidence,
    )
    found = [scan_group(scan, values, name) for values, name in zip(curves, labels, strict=True)]
    return Cliff(
        metric=metric,
        along=along,
        threshold=float(threshold),
        past="below" if sign < 0 else "above",
        generous="high" if high_is_generous else "low",
        axis=axis,
        seeds=seeds,
        seeds_note=statistics.fewest_note((group.cliff.seeds for group in found), seeds),
        confidence=confidence,
        units=str(array.attrs.get("units", "1")),
        along_units=str(array[along].attrs.get("units", "")),
        missing=missing,
        groups=tuple(group.cliff for group in found),
        ratios=find_ratios(scan, found, [dim for dim in group_dims if dim != SAMPLE]),
    )


def _measure(ds: xr.Dataset, metric: str, along: str) -> xr.DataArray:
    """Return a measure that has at least two values along the axis `along`."""
    variables.axis(ds, along)
    array = variables.get(ds, metric)
    if along not in array.dims or array.sizes[along] < 2:
        raise InputError(f"axis: {metric!r} has fewer than two values along {along!r}")
    return array


def _stack(
    array: xr.DataArray, along: str, group_dims: list[str]
) -> tuple[Floats, list[Labels], int | None]:
    """Arrange as (groups, seeds, points) with the groups' labels; one row where no seeds are."""
    seeds = array.sizes.get("seed")
    if seeds is None:
        array = array.expand_dims("seed")
    ordered = array.transpose(*group_dims, "seed", along)
    curves = ordered.values.reshape(-1, *ordered.shape[-2:])
    names = [np.asarray(array[d].values).tolist() for d in group_dims]
    grid = [dict(zip(group_dims, combo, strict=True)) for combo in product(*names)]
    return curves, grid, seeds


def _trend(axis: Floats, curves: Floats) -> float:
    """Return the mean of the groups' rank correlations of axis and measure (larger is worse).

    They count by their pairs of points: one of two points is 1 or -1. Constant ones do not.
    """
    means = np.array([statistics.seed_mean(values) for values in curves])
    rho = ranks.spearman(axis, means)
    points = np.count_nonzero(~np.isnan(means), axis=-1)
    pairs = np.where(np.isnan(rho), 0, points * (points - 1))
    return float(np.nansum(rho * pairs) / max(1, pairs.sum()))


def _is_high_generous(trend: float, key: str) -> bool:
    """Whether the high end of an axis is the generous one.

    Of tiny caches most requests are dropped, so that the few others are never preempted: the
    measure is good at both ends, and its correlation with the blocks may have either sign.
    """
    if trend == 0.0 or (abs(trend) < UNCLEAR and tells_its_end(key)):
        return more_is_generous(key)
    return trend < 0.0


def _key(ds: xr.Dataset, along: str) -> str:
    """Return the key of an axis of a sweep; the name of any other."""
    names = dimension_names(list(sweep_of(ds).get("grid", {})))
    return next((key for key, name in names.items() if name == along), along)
