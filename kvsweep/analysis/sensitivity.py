"""Sensitivity indices: which share of a measure's variance each parameter of a design explains.

From Saltelli's design of two samples A and B and, for each parameter, A with that parameter's
values of B. First order: the share explained by the parameter alone (A. Saltelli et al., Computer
Physics Communications 181, 2010, table 2 (b)). Total order: with all its interactions (M. J. W.
Jansen, Computer Physics Communications 117, 1999).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis import statistics, variables
from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.settings import sweep_of
from kvsweep.analysis.statistics import Floats, Interval
from kvsweep.arguments import checked
from kvsweep.config.axes import SAMPLE
from kvsweep.config.design import SALTELLI
from kvsweep.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

RESAMPLES = 1000
# Drawn points of resamples at a time: those of 8,192 points of ten parameters were 3.4 GB.
AT_ONCE = 2**16
# Of the spread of a measure: below it is rounding.
_NOTHING = 1e-12


@dataclass(frozen=True)
class Index:
    """Indices of one parameter; None where the measure does not vary.

    Attributes
    ----------
    key : str
        The parameter.
    first, total : float or None
        Shares of the variance: by the parameter alone, and with its interactions. Estimates, which
        may be a little below 0 or above 1.
    first_interval, total_interval : Interval or None
        Percentiles over resampled points.
    """

    key: str
    first: float | None
    first_interval: Interval | None
    total: float | None
    total_interval: Interval | None


@dataclass(frozen=True)
class IndexGroup:
    """The indices of one part of the measure: ``{"policy": "both"}``, nothing if whole.

    `points` of one sample count, the others have a cell without a value somewhere.
    """

    labels: dict[str, Any]
    mean: float
    variance: float
    points: int
    dropped: int
    indices: tuple[Index, ...]


@dataclass(frozen=True)
class Sensitivity:
    """Sensitivity of a measure, means over seeds, to the parameters of a design."""

    metric: str
    units: str
    long_name: str
    seeds: int | None
    confidence: float
    groups: tuple[IndexGroup, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values for JSON; what has no value is None."""
        plain: dict[str, Any] = jsonable(self)
        return plain


@checked
def sensitivity_indices(ds: xr.Dataset, metric: str, confidence: float = 0.95) -> Sensitivity:
    r"""Find first and total order indices of the parameters of a design.

    Parameters
    ----------
    ds : xr.Dataset
        Results of a sweep with ``[design]`` and ``method = "saltelli"``. Other axes, and further
        dimensions of the measure, are groups; over seeds the mean is taken.
    metric : str
        A measure, or a quantile of one (``ttft_p99_ms``).
    confidence : float
        Of the intervals, each for itself, between 0 and 1.

    Returns
    -------
    Sensitivity
        ``to_dict`` gives plain values.

    Raises
    ------
    InputError
        If the sweep has no such design, points of it were left out, or there is no such measure.

    Examples
    --------
    >>> import kvsweep
    >>> from pathlib import Path
    >>> text = Path("small.toml").read_text().split("[policies")[0]
    >>> text += '[design]\nmethod = "saltelli"\nsamples = 4\n'
    >>> text += '"workload.rate" = { from = 40.0, to = 200.0 }'
    >>> _ = Path("design.toml").write_text(text)
    >>> ds = kvsweep.run(kvsweep.load_sweep("design.toml"))
    >>> (group,) = kvsweep.sensitivity_indices(ds, "ttft_mean_ms").groups
    >>> [index.key for index in group.indices]
    ['workload.rate']
    """
    statistics.check_bootstrap(confidence, RESAMPLES)
    design = sweep_of(ds).get("design", {})
    if design.get("method") != SALTELLI or ds.sizes.get(SAMPLE) is None:
        raise InputError(
            'effects: sensitivity indices need a [design] with method = "saltelli", whole; '
            f"this store has {design.get('method', 'none')}"
        )
    array = variables.get(ds, metric)
    if SAMPLE not in array.dims:
        raise InputError(f"metric: {metric!r} is the same at all points of the design")
    keys = list(design["ranges"])
    array = _told_seeds(_whole(array, (len(keys) + 2) * design["samples"]))
    return Sensitivity(
        metric=metric,
        units=str(array.attrs.get("units", "1")),
        long_name=str(array.attrs.get("long_name", metric)),
        seeds=array.sizes.get("seed"),
        confidence=confidence,
        groups=tuple(
            _group(labels, values.reshape(len(keys) + 2, design["samples"]), keys, confidence)
            for labels, values in _groups(array)
        ),
    )


def _whole(array: xr.DataArray, points: int) -> xr.DataArray:
    """Return a measure at all points of a design, in the order in which they were drawn."""
    if SAMPLE in array.coords:
        array = array.sortby(SAMPLE)
    numbers = array[SAMPLE].values  # 0, 1, 2, ... where there is no coordinate
    if not np.array_equal(numbers, np.arange(points)):
        raise InputError(
            f"sample: sensitivity indices need all {points:,} points of the design, got "
            f"{len(numbers):,}; give the design whole"
        )
    return array


def _told_seeds(array: xr.DataArray) -> xr.DataArray:
    """Leave out the seeds without any value, as those that are still to be simulated."""
    if "seed" not in array.dims:
        return array
    some = array.notnull().any([dim for dim in array.dims if dim != "seed"])
    return array.isel(seed=some.values) if some.any() else array


def _groups(array: xr.DataArray) -> Iterator[tuple[dict[str, Any], Floats]]:
    """Yield each group with its values by sample: means over seeds, NaN where one has no value.

    A mean of the other seeds differs from those beside it by the seeds, not by a parameter.
    """
    if "seed" in array.dims:
        array = array.mean("seed", skipna=False)
    rest = [str(dim) for dim in array.dims if dim != SAMPLE]
    values = array.transpose(*rest, SAMPLE).values.reshape(-1, array.sizes[SAMPLE])
    names = [np.asarray(array[dim].values).tolist() for dim in rest]
    labels = (dict(zip(rest, combo, strict=True)) for combo in product(*names))
    return zip(labels, values, strict=True)


def _group(
    labels: dict[str, Any], values: Floats, keys: list[str], confidence: float
) -> IndexGroup:
    """Find the indices of one group; `values` (2 + keys, points): A, B, and A with keys of B."""
    whole = ~np.isnan(values).any(axis=0)
    kept = values[:, whole]
    points = kept.shape[1]
    mean = float(kept[:2].mean()) if points else np.nan
    variance = float(kept[:2].var()) if points else np.nan
    varies = points > 1 and variance > (_NOTHING * abs(mean)) ** 2
    if varies:
        first, total = _indices(kept[:, None, :])
        spread = _resampled(kept)
    indices = []
    for i, key in enumerate(keys):
        if not varies:
            indices.append(Index(key, None, None, None, None))
            continue
        ends = [statistics.percentile_interval(order[i], confidence) for order in spread]
        indices.append(Index(key, float(first[i, 0]), ends[0], float(total[i, 0]), ends[1]))
    dropped = values.shape[1] - points
    return IndexGroup(jsonable(labels), mean, variance, points, dropped, tuple(indices))


def _resampled(kept: Floats) -> Floats:
    """Return the indices of resampled points, (2, keys, resamples), of (2 + keys, points)."""
    rng = np.random.default_rng(statistics.BOOTSTRAP_SEED)
    points = kept.shape[1]
    rows = max(1, AT_ONCE // points)
    counts = (min(rows, RESAMPLES - start) for start in range(0, RESAMPLES, rows))
    drawn = (rng.integers(0, points, (count, points)) for count in counts)
    return np.concatenate([np.stack(_indices(kept[:, some])) for some in drawn], axis=-1)


def _indices(values: Floats) -> tuple[Floats, Floats]:
    """Return first and total order, (keys, resamples), of values (2 + keys, resamples, points)."""
    centre = values[:2].mean(axis=(0, 2))[:, None]
    a, b, *others = values - centre
    crossed = np.stack(others)
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = np.concatenate([a, b], axis=1).var(axis=1)
        first: Floats = (b * (crossed - a)).mean(axis=2) / variance
        total: Floats = 0.5 * ((a - crossed) ** 2).mean(axis=2) / variance
    return first, total
