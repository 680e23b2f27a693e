"""Effects of factors: what one change does, and what several do together beyond that.

Every axis of a factorial sweep is a factor, its first level the reference. The effect of a change
is the difference between the two levels, averaged over the levels of all other axes; the
interaction of two changes is the difference between the effect of one with and without the other,
and so on for more. The same on the scale of logarithms gives ratios. Seeds are paired: every
contrast is taken within a seed, whose cells serve the same requests, and its interval is Student's
t over the seeds. G. E. P. Box, J. S. Hunter and W. G. Hunter, Statistics for Experimenters (2005),
chapter 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis import statistics, variables
from kvsweep.analysis.contrasts import DIFFERENCE, RATIO, estimates
from kvsweep.analysis.effect_records import Change, Effect, EffectGroup, Effects
from kvsweep.analysis.statistics import Floats
from kvsweep.analysis.wording import BY_VALUE, level
from kvsweep.arguments import checked
from kvsweep.config.axes import SAMPLE
from kvsweep.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import xarray as xr


SHOWN = 3
"""Levels without a value that a message names."""


@checked
def factorial_effects(
    ds: xr.Dataset,
    metric: str,
    factors: Sequence[str] | None = None,
    order: int = 2,
    confidence: float = 0.95,
) -> Effects:
    """Find the main effects of the axes of a sweep on `metric`, and their interactions.

    Parameters
    ----------
    ds : xr.Dataset
        Results of a sweep; dimension ``seed`` (optional) holds paired repetitions.
    metric : str
        A measure, or a quantile of one (``ttft_p99_ms``). Its dimensions that are no axes of the
        sweep (``slo_class``) are groups.
    factors : sequence of str, optional
        The axes whose effects to find; the others are averaged over. All by default.
    order : int
        Interactions of up to this many factors; 1 gives main effects only.
    confidence : float
        Of the intervals, each for itself, between 0 and 1.

    Returns
    -------
    Effects
        Per group one `Effect` for each change and each set of up to `order` changes: differences in
        the units of `metric`, and ratios, with intervals over the paired seeds. ``to_dict`` gives
        plain values.

    Raises
    ------
    InputError
        For an unknown measure or axis, if no factor has two levels, or for numbers out of range.

    Examples
    --------
    >>> import kvsweep
    >>> ds = kvsweep.open_results("results/small.zarr").sel(policy="base")
    >>> found = kvsweep.factorial_effects(ds, "preemption_rate", factors=["rate"])
    >>> effect = found.groups[0].effects[0]
    >>> round(effect.difference.effect, 3), effect.difference.verdict.value
    (0.061, 'raises')
    """
    statistics.check_confidence(confidence)
    if order < 1:
        raise InputError(f"order: {order!r} is not a positive count (2 is usual)")
    array = variables.get(ds, metric)
    axes = _axes(ds, array)
    named = axes if factors is None else [_known_axis(name, axes) for name in factors]
    if len(set(named)) < len(named):
        raise InputError("factors: name each axis once")
    if SAMPLE in named:
        raise InputError(
            "factors: 'sample' holds points of a design, whose parameters have sensitivity indices"
        )
    chosen = [name for name in named if array.sizes[name] > 1]
    if not chosen:
        none = f"none of {', '.join(named)} has two levels" if named else "none is named"
        none = none if axes else "there is no axis"
        raise InputError(f"factors: {none}; effects are differences between values of an axis")
    others = [name for name in axes if name not in chosen]
    levels = [np.asarray(variables.axis(ds, name, numeric=False)).tolist() for name in chosen]

    def effects(values: Floats) -> Iterator[Effect]:
        for count in range(1, min(order, len(chosen)) + 1):
            for subset in combinations(range(len(chosen)), count):
                changed = [[Change(chosen[i], v, levels[i][0]) for v in levels[i][1:]]
                           for i in subset]  # fmt: skip
                yield from _effects(values, subset, product(*changed), confidence)

    groups = tuple(
        EffectGroup(labels, tuple(effects(values)))
        for labels, values in _groups(array, [*chosen, *others])
    )
    skipped = [name for name in named if name not in chosen]
    averaged = [name for name in others if array.sizes[name] > 1]
    return _result(ds, array, confidence, chosen, averaged, skipped, groups)


def refuse_none(ds: xr.Dataset, found: Effects) -> Effects:
    """Refuse effects of which none has a value because some levels have none in any cell.

    Parameters
    ----------
    ds : xr.Dataset
        What they were found in.
    found : Effects

    Returns
    -------
    Effects
        As given.

    Raises
    ------
    InputError
        Naming the levels.
    """
    array, axes = variables.get(ds, found.metric), (*found.factors, *found.averaged)
    every = [effect.difference.effect for group in found.groups for effect in group.effects]
    known = array.notnull()
    if not np.isnan(every).all() or not known.any():
        return found
    lacking = []
    for name in axes:
        levels = array[name].values[~known.any([d for d in array.dims if d != name]).values]
        if levels.size:
            lacking.append(f"{name} {', '.join(level(value) for value in levels.tolist()[:SHOWN])}")
            lacking[-1] += " ..." if levels.size > SHOWN else ""
    if lacking:
        raise InputError(
            f"effects: {found.metric} has no value at {' and '.join(lacking)}, and every effect "
            f"compares with that or is a mean over it; choose levels that have values: {BY_VALUE}"
        )
    return found


@checked
def joint_effects(
    ds: xr.Dataset,
    metric: str,
    designs: Sequence[Sequence[Any]],
    over: str = "policy",
    confidence: float = 0.95,
) -> Effects:
    """Find what two changes do apart and together where four levels of one axis stand for them.

    Parameters
    ----------
    ds, metric
        As for `factorial_effects`.
    designs : sequence of (base, a, b, ab)
        Levels of `over`: neither change, the first, the second, both.
    over : str
        The axis; the others are averaged over.
    confidence : float
        Of the intervals, each for itself, between 0 and 1.

    Returns
    -------
    Effects
        As of `factorial_effects`: the changes alone and, for each design, both together.

    Raises
    ------
    InputError
        For an unknown measure, axis or level, no design or one that does not name four levels, or
        numbers out of range.

    Examples
    --------
    >>> import kvsweep
    >>> ds = kvsweep.open_results("results/small.zarr")
    >>> designs = [("base", "balanced", "sorted", "both")]
    >>> found = kvsweep.joint_effects(ds, "ttft_mean_ms", designs)
    >>> [(len(e.changes), e.difference.verdict.value) for e in found.groups[0].effects]
    [(1, 'not shown'), (1, 'lowers'), (2, 'not shown')]
    """
    statistics.check_confidence(confidence)
    array = variables.get(ds, metric)
    axes = _axes(ds, array)
    _known_axis(over, axes, "joint")
    others = [name for name in axes if name != over]
    levels = np.asarray(array[over].values).tolist()
    if not designs:
        raise InputError("joint: no design; name at least one BASE,A,B,AB")
    places = [_places(design, over, levels) for design in designs]

    def effects(values: Floats) -> Iterator[Effect]:
        for base, first, second, both in places:
            changes = [Change(over, levels[i], levels[base]) for i in (first, second)]
            for i, change in zip((first, second), changes, strict=True):
                yield from _effects(values[[base, i]], (0,), [(change,)], confidence)
            square = values[[base, second, first, both]].reshape(2, 2, *values.shape[1:])
            yield from _effects(square, (0, 1), [tuple(changes)], confidence, levels[both])

    groups = tuple(
        EffectGroup(labels, tuple(effects(values)))
        for labels, values in _groups(array, [over, *others])
    )
    averaged = [name for name in others if array.sizes[name] > 1]
    return _result(ds, array, confidence, [over], averaged, [], groups)


def _axes(ds: xr.Dataset, array: xr.DataArray) -> list[str]:
    """Return the axes of the sweep that the measure has, without ``seed``."""
    return [name for name in variables.swept(ds) if name != "seed" and name in array.dims]


def _known_axis(name: str, axes: list[str], asked: str = "factors") -> str:
    """Return `name` if it is one of `axes`."""
    if name not in axes:
        there = f"one of: {', '.join(axes)}" if axes else "there is none"
        hint = did_you_mean(name, axes) or f"; {there}"
        raise InputError(f"{asked}: no axis {name!r}{hint}")
    return name


def _places(design: Sequence[Any], over: str, levels: list[Any]) -> list[int]:
    """Return where on the axis the four levels of a design are; numbers may be given as text."""
    numbers = all(isinstance(level, int | float) for level in levels)
    known, names = ([_text(level, numbers) for level in some] for some in (levels, design))
    if len(names) != 4 or len(set(names)) < 4:
        raise InputError(f"joint: {','.join(names)!r} does not name four levels BASE,A,B,AB")
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"; one of: {', '.join(known)}"
            raise InputError(f"joint: no level {name!r} of {over}{hint}")
    return [known.index(name) for name in names]


def _text(level: Any, number: bool) -> str:
    """Return a level as text, 40 and 40.0 alike on an axis of numbers."""
    if number:
        with suppress(OverflowError, TypeError, ValueError):
            return f"{float(level):.15g}"
    return str(level)


def _groups(array: xr.DataArray, axes: list[str]) -> Iterator[tuple[dict[str, Any], Floats]]:
    """Arrange each group as (levels of `axes`..., seeds), with its labels; one seed if none are."""
    if "seed" not in array.dims:
        array = array.expand_dims("seed")
    rest = [str(d) for d in array.dims if d not in (*axes, "seed")]
    ordered = array.transpose(*rest, *axes, "seed")
    values = ordered.values.reshape(-1, *ordered.shape[len(rest) :])
    names = [np.asarray(array[d].values).tolist() for d in rest]
    labels = (dict(zip(rest, combo, strict=True)) for combo in product(*names))
    return zip(labels, values, strict=True)


def _effects(
    values: Floats,
    chosen: Sequence[int],
    changes: Iterable[tuple[Change, ...]],
    confidence: float,
    together: Any = None,
) -> Iterator[Effect]:
    """Find the effects of one set of factors; `changes` names them in the order of `estimates`."""
    differences, ratios = (estimates(values, chosen, confidence, s) for s in (DIFFERENCE, RATIO))
    for named, absolute, relative in zip(changes, differences, ratios, strict=True):
        yield Effect(named, together, absolute, relative)


def _result(
    ds: xr.Dataset,
    array: xr.DataArray,
    confidence: float,
    factors: list[str],
    averaged: list[str],
    skipped: list[str],
    groups: tuple[EffectGroup, ...],
) -> Effects:
    every = [effect for group in groups for effect in group.effects]
    counts = [part.seeds for effect in every for part in (effect.difference, effect.ratio)]
    return Effects(
        metric=str(array.name),
        units=str(array.attrs.get("units", "1")),
        long_name=str(array.attrs.get("long_name", array.name)),
        factors=tuple(factors),
        averaged=tuple(averaged),
        skipped=tuple(skipped),
        seeds=array.sizes.get("seed"),
        seeds_note=statistics.fewest_note(counts, array.sizes.get("seed")),
        confidence=confidence,
        missing=variables.missing(ds, array),
        groups=groups,
    )
