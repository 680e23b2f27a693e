"""What a measured loss of a prefix costs: medians by size, and how they depend on context B."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.statistics import Floats
from kvsweep.errors import InputError
from kvsweep.llama.design import CONDITIONS, HIT, MISS

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Spread:
    """Median of some trials, and what all but the fastest and the slowest tenth lie between."""

    median: float
    p10: float
    p90: float


@dataclass(frozen=True)
class SizeCost:
    """One size.

    Attributes
    ----------
    label : str
        ``A:B``.
    a, b : int
        Tokens of the contexts.
    ttft_ms, throughput_tok_s : dict of str to Spread
        By condition; the throughput is NaN where no trial gave any output.
    degradation : float
        Time to first token of misses over that of hits, of the medians, less 1.
    """

    label: str
    a: int
    b: int
    ttft_ms: dict[str, Spread]
    throughput_tok_s: dict[str, Spread]
    degradation: float


@dataclass(frozen=True)
class Line:
    """Least squares through the medians, over the tokens of B.

    Attributes
    ----------
    slope : float
        ms/token.
    intercept : float
        ms.
    r2 : float
        Share of the medians' variance that it explains; NaN of two, through which any line goes.
    r2_trials : float
        The same of all single trials.
    """

    slope: float
    intercept: float
    r2: float
    r2_trials: float


@dataclass(frozen=True)
class PrefixCost:
    """The three findings and the numbers below them.

    Attributes
    ----------
    sizes : tuple of SizeCost
        In the order of B; without those that lack trials of a condition.
    miss, hit : Line or None
        None if the sizes have less than two different B.
    hit_span : float
        Largest over smallest median of the hits, less 1.
    hit_slope_share : float or None
        Slope of the hits over that of the misses.
    throughput_ratio : float
        Median throughput of all misses over that of all hits.
    trials, early_eos : int
        Trials that were run, and those of them whose output ended early.
    """

    sizes: tuple[SizeCost, ...]
    miss: Line | None
    hit: Line | None
    hit_span: float
    hit_slope_share: float | None
    throughput_ratio: float
    trials: int
    early_eos: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python, as ``--json`` prints it."""
        plain: dict[str, Any] = jsonable(self)
        return plain


def prefix_cost(ds: xr.Dataset) -> PrefixCost:
    """Analyse a dataset of ``kvsweep measure prefix``; trials that were not run are left out.

    Raises
    ------
    InputError
        If no size has trials of both conditions.
    """
    ds = ds.isel(size=np.argsort(ds["context_b"].values, kind="stable"))
    ran = ds["position"].values >= 0
    early = int((ds["early_eos"].values == 1).sum())
    ds = ds.isel(size=np.all(ran.any(axis=2), axis=1))
    if not ds.sizes["size"]:
        raise InputError("measurement: no size has trials of both a hit and a miss yet")
    sizes = tuple(_size(ds.isel(size=i)) for i in range(ds.sizes["size"]))
    hit, miss = _line(ds, HIT), _line(ds, MISS)
    hits = [size.ttft_ms[HIT].median for size in sizes]
    speed = _by_condition(ds["throughput_tok_s"])
    return PrefixCost(
        sizes=sizes,
        miss=miss,
        hit=hit,
        hit_span=max(hits) / min(hits) - 1.0,
        hit_slope_share=hit.slope / miss.slope if hit and miss and miss.slope else None,
        throughput_ratio=speed[MISS].median / speed[HIT].median,
        trials=int(ran.sum()),
        early_eos=early,
    )


def _size(ds: xr.Dataset) -> SizeCost:
    ttft = _by_condition(ds["ttft_ms"])
    return SizeCost(
        label=str(ds["size"].values),
        a=int(ds["context_a"]),
        b=int(ds["context_b"]),
        ttft_ms=ttft,
        throughput_tok_s=_by_condition(ds["throughput_tok_s"]),
        degradation=ttft[MISS].median / ttft[HIT].median - 1.0,
    )


def _by_condition(array: xr.DataArray) -> dict[str, Spread]:
    return {name: _spread(array.sel(condition=name).values) for name in CONDITIONS}


def _spread(values: Floats) -> Spread:
    """Summarise the values that are there."""
    known = values[~np.isnan(values)]
    if not known.size:
        return Spread(np.nan, np.nan, np.nan)
    p10, median, p90 = np.quantile(known, (0.1, 0.5, 0.9))
    return Spread(float(median), float(p10), float(p90))


def _line(ds: xr.Dataset, condition: str) -> Line | None:
    """Fit the medians of a condition over B."""
    b = ds["context_b"].values.astype(np.float64)
    different = np.unique(b).size
    if different < 2:
        return None
    trials = ds["ttft_ms"].sel(condition=condition).values
    medians = np.nanmedian(trials, axis=1)
    coefficients = np.polynomial.Polynomial.fit(b, medians, 1).convert().coef
    intercept, slope = (*coefficients, 0.0)[:2]  # NumPy leaves out a slope of exactly 0
    line = slope * b + intercept
    return Line(
        slope=float(slope),
        intercept=float(intercept),
        r2=_r2(medians, line) if different > 2 else np.nan,
        r2_trials=_r2(trials, np.broadcast_to(line[:, None], trials.shape)),
    )


def _r2(values: Floats, line: Floats) -> float:
    """Return the share of the variance of `values` that `line` explains, NaN without any."""
    known = ~np.isnan(values)
    rest = float(((values - line)[known] ** 2).sum())
    total = float(((values[known] - values[known].mean()) ** 2).sum())
    return 1.0 - rest / total if total > 0.0 else float("nan")
