"""Pareto fronts: which members of an axis no other member beats on every objective.

A member dominates another when it is at least as good on every objective and better on one. Members
that are equal on all objectives do not dominate each other: they are tied, and said to be so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis import statistics, variables
from kvsweep.analysis.hypervolume import (
    dominates,
    front_share,
    normalised_hypervolume,
    rounded,
)
from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.statistics import Counts, Floats, Interval
from kvsweep.arguments import checked
from kvsweep.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

DEFAULT_OBJECTIVES = ("ttft_p99_ms:min", "throughput_rps:max")


@dataclass(frozen=True)
class Objective:
    """A measure and whether it is to be small (``min``) or large (``max``)."""

    metric: str
    goal: str
    units: str
    long_name: str


@dataclass(frozen=True)
class Member:
    """One candidate.

    Attributes
    ----------
    name
        Its value on the axis `Front.over`.
    values, intervals
        Mean over seeds of each objective, with its interval (None below two seeds with values).
    on_front
        Whether the means are on the front.
    tied_with, dominated_by
        Members with equal means, and members that dominate the means.
    share_of_seeds, share_of_resamples
        How often it is on the front of single seeds, and of bootstrap means spread as Student's t,
        of those in which it has values (None where that is below two seeds).
        docs/statistics.md says what the latter promises.
    missing
        Seeds in which some objective has no value; such a seed does not count for this member, nor
        for the others if the group is paired.
    """

    name: Any
    values: tuple[float, ...]
    intervals: tuple[Interval | None, ...]
    on_front: bool
    tied_with: tuple[Any, ...]
    dominated_by: tuple[Any, ...]
    share_of_seeds: float | None
    share_of_resamples: float | None
    missing: int


@dataclass(frozen=True)
class FrontGroup:
    """The front of one combination of the remaining axes.

    `seeds` counts those in which all members have values, but for members that never have any. If
    there are two or more the front is `paired`: all means, intervals and shares are of these seeds.
    With fewer, each member's are of the seeds that it has.

    `hypervolume` is the share of the box between the best value of every objective (of any member)
    and the `reference` point that the front dominates: 1 if one member is best at everything; None
    beyond four objectives. The reference is the worst value of every objective, moved out by a
    tenth of the range so that the ends of the front count.
    """

    labels: dict[str, Any]
    seeds: int
    paired: bool
    members: tuple[Member, ...]
    hypervolume: float | None
    reference: tuple[float, ...]


@dataclass(frozen=True)
class Front:
    """Pareto fronts over the members of one axis, for every combination of the other axes.

    `seeds_note` warns of too few seeds; `missing` counts the members' seeds without a value.
    """

    objectives: tuple[Objective, ...]
    over: str
    seeds: int | None
    seeds_note: str
    confidence: float
    missing: dict[str, int]
    groups: tuple[FrontGroup, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values for JSON; NaN is None."""
        plain: dict[str, Any] = jsonable(self)
        return plain


@checked
def pareto_front(
    ds: xr.Dataset,
    objectives: Sequence[str] = DEFAULT_OBJECTIVES,
    over: str = "policy",
    confidence: float = 0.95,
    resamples: int = 2000,
) -> Front:
    """Find the members of axis `over` that are not dominated.

    Parameters
    ----------
    ds : xr.Dataset
        Results of a sweep; dimension ``seed`` (optional) holds paired repetitions.
    objectives : sequence of str
        ``measure:min`` or ``measure:max``; quantile names (``ttft_p99_ms``) are measures too.
    over : str
        The axis whose members compete.
    confidence, resamples
        Of the bootstrap over seeds.

    Returns
    -------
    Front
        For every combination of the other axes which members are on the front, their means with
        intervals, and how often they are on it in single seeds and resamples.

    Raises
    ------
    InputError
        For an unknown measure or axis, a malformed or repeated objective, or numbers out of range.

    Examples
    --------
    >>> import kvsweep
    >>> ds = kvsweep.open_results("results/small.zarr").sel(rate=40.0, gpu_blocks=600)
    >>> front = kvsweep.pareto_front(ds, ["ttft_mean_ms:min", "throughput_rps:max"])
    >>> [member.name for member in front.groups[0].members if member.on_front]
    ['base', 'sorted', 'both']
    """
    statistics.check_bootstrap(confidence, resamples)
    variables.axis(ds, over, numeric=False)
    goals = [_parse(text) for text in objectives]
    if len({metric for metric, _ in goals}) < len(goals) or not goals:
        raise InputError("objectives: name each measure once, and at least one")
    arrays = [variables.get(ds, metric) for metric, _ in goals]
    group_dims = _group_dims(ds, arrays, over)
    stacked, labels, seeds = _stack(arrays, group_dims, over)
    counts = statistics.resample_counts(seeds, resamples) if seeds and seeds > 1 else None
    signs = np.array([1.0 if goal == "min" else -1.0 for _, goal in goals])
    names = np.asarray(ds[over].values).tolist()
    groups = tuple(
        _group(values, signs, counts, confidence, names, label)
        for values, label in zip(stacked, labels, strict=True)
    )
    return Front(
        objectives=tuple(
            Objective(m, g, str(a.attrs.get("units", "1")), str(a.attrs.get("long_name", m)))
            for (m, g), a in zip(goals, arrays, strict=True)
        ),
        over=over,
        seeds=seeds,
        seeds_note=statistics.fewest_note(_counted(groups, seeds or 1), seeds),
        confidence=confidence,
        # A sum is NaN where any objective is: members lack a value where one objective does.
        missing=variables.missing(ds, sum(arrays[1:], arrays[0])),
        groups=groups,
    )


def _parse(text: str) -> tuple[str, str]:
    """Split ``measure:goal``."""
    metric, _, goal = text.strip().partition(":")
    if goal not in ("min", "max"):
        raise InputError(f"objectives: {text!r} is not of the form 'measure:min' or 'measure:max'")
    return metric, goal


def _group_dims(ds: xr.Dataset, arrays: list[xr.DataArray], over: str) -> list[str]:
    """Return the remaining dimensions of the objectives, in the order of the dataset."""
    for array in arrays:
        if over not in array.dims:
            raise InputError(f"objectives: {array.name!r} does not vary along {over!r}")
    used = {str(d) for a in arrays for d in a.dims} - {over, "seed"}
    return [str(d) for d in ds.dims if str(d) in used]


def _stack(
    arrays: list[xr.DataArray], group_dims: list[str], over: str
) -> tuple[Floats, list[dict[str, Any]], int | None]:
    """Arrange as (groups, members, seeds, objectives); one row where no seeds are."""
    import xarray as xr

    aligned = xr.broadcast(*arrays)
    seeds = aligned[0].sizes.get("seed")
    if seeds is None:
        aligned = tuple(a.expand_dims("seed") for a in aligned)
    blocks = [a.transpose(*group_dims, over, "seed").values for a in aligned]
    stacked = np.stack(blocks, axis=-1).reshape(-1, *blocks[0].shape[-2:], len(blocks))
    values = [np.asarray(aligned[0][d].values).tolist() for d in group_dims]
    labels = [dict(zip(group_dims, combo, strict=True)) for combo in product(*values)]
    return stacked, labels, seeds


def _group(
    values: Floats,
    signs: Floats,
    counts: Counts | None,
    confidence: float,
    names: list[Any],
    labels: dict[str, Any],
) -> FrontGroup:
    """Find the front of one group: `values` is (members, seeds, objectives)."""
    gaps: NDArray[np.bool_] = np.any(np.isnan(values), axis=-1)
    common = _common_seeds(gaps)
    seeds = int(np.count_nonzero(common))
    paired = seeds >= min(2, common.size)
    lost = gaps | ~common if paired else gaps
    values = np.where(lost[..., None], np.nan, values)
    means = _shared(values, statistics.resample_means, np.ones((1, values.shape[1])))[:, 0]
    samples = None if counts is None else _shared(values, statistics.student_means, counts)
    known = np.count_nonzero(~lost, axis=1)
    shares = None if samples is None else (signs * values, signs * samples)
    by_seed, by_resample = (None, None) if shares is None else map(front_share, shares)
    told = rounded(means)
    beaten = dominates(signs * told)
    equal: NDArray[np.bool_] = np.all(told[:, None] == told[None], axis=-1)
    members = tuple(
        Member(
            name=name,
            values=tuple(means[i].tolist()),
            intervals=_intervals(
                None if samples is None or known[i] < 2 else samples[i], signs.size, confidence
            ),
            on_front=not (np.isnan(means[i]).any() or beaten[:, i].any()),
            tied_with=tuple(n for j, n in enumerate(names) if equal[i, j] and j != i),
            dominated_by=tuple(n for j, n in enumerate(names) if beaten[j, i]),
            share_of_seeds=_share(by_seed, i) if known[i] > 1 else None,
            share_of_resamples=_share(by_resample, i) if known[i] > 1 else None,
            missing=int(np.count_nonzero(gaps[i])),
        )
        for i, name in enumerate(names)
    )
    volume, reference = normalised_hypervolume(signs * means)
    reference = signs * reference
    return FrontGroup(labels, seeds, paired, members, volume, tuple(reference.tolist()))


def _counted(groups: Sequence[FrontGroup], seeds: int) -> Iterator[int]:
    """Yield the seeds that the intervals of each group or, if it is not paired, member rest on."""
    for group in groups:
        known = [seeds - member.missing for member in group.members]
        yield from [group.seeds] if group.paired else known


def _common_seeds(gaps: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which seeds all members have, but those that have none; `gaps` (members, seeds)."""
    some = ~gaps.all(axis=1)
    common: NDArray[np.bool_] = np.all(~gaps[some], axis=0)
    return common if some.any() else np.zeros_like(common)


def _share(shares: Floats | None, member: int) -> float | None:
    return None if shares is None or np.isnan(shares[member]) else float(shares[member])


def _shared(values: Floats, means: Callable[[Floats, Counts], Floats], counts: Counts) -> Floats:
    """Means of resamples, (members, resamples, objectives); equal members get equal bits.

    A matrix product may round the same numbers differently in different columns, which would turn
    an exact tie into a random order: members with the same values share one result.
    """
    first: dict[bytes, int] = {}
    unique = [first.setdefault(member.tobytes(), i) for i, member in enumerate(values)]
    return means(values, counts)[unique]


def _intervals(
    samples: Floats | None, objectives: int, confidence: float
) -> tuple[Interval | None, ...]:
    """Interval of each objective; `samples` is (resamples, objectives)."""
    if samples is None:
        return (None,) * objectives
    return tuple(statistics.percentile_interval(column, confidence) for column in samples.T)
