"""Analyses as they are asked for: by what is typed, and else by the sweep of the store.

What is typed are the values of options, which messages name: ``--at``, ``--metric``, ``--joint``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from kvsweep.analysis import variables
from kvsweep.analysis.cliff import find_cliff
from kvsweep.analysis.cliff_records import Cliff
from kvsweep.analysis.effect_records import Effects
from kvsweep.analysis.effects import factorial_effects, joint_effects, refuse_none
from kvsweep.analysis.pareto import Front, pareto_front
from kvsweep.analysis.sensitivity import Sensitivity, sensitivity_indices
from kvsweep.analysis.settings import sweep_of
from kvsweep.config.axes import POLICY, SAMPLE
from kvsweep.errors import InputError, did_you_mean
from kvsweep.metrics import out_of_range

if TYPE_CHECKING:
    import xarray as xr


def select(ds: xr.Dataset, at: Sequence[str], option: str = "--at") -> xr.Dataset:
    """Return the part of a store that is to be looked at.

    Parameters
    ----------
    ds : xr.Dataset
        The store.
    at : sequence of str
        ``AXIS=VALUE`` each.
    option : str
        What they were given by, for messages.

    Raises
    ------
    InputError
        If there is no such axis or value, or the axis has been chosen from already.
    """
    for text in at:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"{option} {text}: expected AXIS=VALUE")
        axes = [str(dim) for dim in ds["status"].dims]
        if name not in axes:
            if name in ds.coords and not ds[name].dims:
                chosen = _plain(ds[name].item())
                raise InputError(f"{option} {text}: {name!r} is {chosen} already; give it once")
            hint = did_you_mean(name, axes) or f"; one of: {', '.join(axes)}"
            raise InputError(f"{option} {text}: no axis {name!r}{hint}")
        if ds[name].dtype.kind == "b" and value in ("true", "false", "0", "1"):  # as elsewhere
            value = str(value in ("true", "1"))
        known = [_plain(known) for known in ds[name].values]
        if value not in known and _is_number(value):  # 7.0 and 7e3, but not of names and seeds
            number = float(value)
            whole = ds[name].dtype.kind in "iu" and number.is_integer()
            value = str(int(number)) if whole else _plain(number)
        if value not in known:
            hint = _nearest(ds[name].values, value) or did_you_mean(value, known)
            hint = hint or f"; one of: {', '.join(known)}"
            raise InputError(f"{option} {text}: the store has no such value{hint}")
        exact = _exactly(ds[name].values, text.partition("=")[2])
        ds = ds.isel({name: known.index(value) if exact is None else exact})
    return ds


def _exactly(values: NDArray[Any], text: str) -> int | None:
    """Return the place of a number with all its digits: 0.3 is not 0.1 + 0.2, if both are there."""
    numbers = values.tolist() if values.dtype.kind == "f" and _is_number(text) else []
    return numbers.index(float(text)) if numbers and float(text) in numbers else None


def _nearest(values: NDArray[Any], text: str) -> str:
    """Return the number of an axis that is closest to another, as a hint; empty of names."""
    if values.dtype.kind not in "iuf" or not _is_number(text) or not isfinite(float(text)):
        return ""
    closest = min(values.tolist(), key=lambda value: abs(value - float(text)))
    return f"; did you mean {_plain(closest)!r}?"


def listed(text: str) -> list[str]:
    """Return the names of a list with commas; blanks around them do not count."""
    return [name.strip() for name in text.split(",")]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _plain(value: Any) -> str:
    """Return an axis value as people type it: 7, not 7.0."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def cliff_of(ds: xr.Dataset, given: Mapping[str, Any]) -> Cliff:
    """Find the cliff asked for by the options and, where they are silent, by the sweep.

    Parameters
    ----------
    ds : xr.Dataset
        The store, or a part of it.
    given : mapping
        Arguments of `find_cliff`; None is what was not given.

    Raises
    ------
    InputError
        If neither says what to look for.
    """
    own = sweep_of(ds).get("cliff") or {}
    asked = own | {key: value for key, value in given.items() if value is not None}
    if "threshold" in own and given.get("threshold") is None:
        check_threshold(own, asked["metric"], lambda name: _units(ds, name))
    for key in ("metric", "along", "threshold"):
        if key not in asked:
            raise InputError(f"--{key}: missing; the sweep of this store has no [cliff]")
    check_limit(asked["metric"], asked["threshold"], "--threshold")
    return find_cliff(ds, **asked)


def check_limit(metric: str, limit: float, option: str) -> None:
    """Refuse a limit that a measure never has, or never passes.

    Parameters
    ----------
    metric : str
        The measure.
    limit : float
        In its units.
    option : str
        What gave it, for messages.

    Raises
    ------
    InputError
        For a negative number, or of a share one above 1.
    """
    if problem := out_of_range(metric, limit):
        raise InputError(f"{option}: {problem}")


def _units(ds: xr.Dataset, name: str) -> str:
    return str(variables.get(ds, name).attrs.get("units", "1"))


def check_threshold(own: Mapping[str, Any], metric: str, units: Callable[[str], str]) -> None:
    """Refuse to take the threshold of a sweep's own measure for that of another kind.

    Parameters
    ----------
    own : mapping
        The sweep's ``[cliff]``.
    metric : str
        The measure that is asked for.
    units : callable
        Units of a measure.

    Raises
    ------
    InputError
        If the units differ, or which of the two sides is better.
    """
    sides = [name in variables.HIGHER_IS_BETTER for name in (own["metric"], metric)]
    if sides[0] != sides[1] or units(own["metric"]) != units(metric):
        raise InputError(
            f"--threshold: missing; that of the sweep, {own['threshold']:,.15g}, is one of "
            f"{own['metric']}"
        )


def front_of(ds: xr.Dataset, objectives: str | None) -> Front:
    """Find the Pareto front for the objectives given, or else those of the sweep.

    Parameters
    ----------
    ds : xr.Dataset
        The store, or a part of it.
    objectives : str or None
        ``MEASURE:min,MEASURE:max,...``, or what was not given.

    Raises
    ------
    InputError
        If there are no policies, or no such objectives.
    """
    if POLICY not in ds.coords:
        raise InputError(
            f"pareto: the store has no axis {POLICY!r}, whose members compete; in Python "
            "kvsweep.pareto_front(ds, over=AXIS) takes another"
        )
    if objectives is not None:
        return pareto_front(ds, objectives.split(","))
    asked = sweep_of(ds).get("pareto")
    return pareto_front(ds, asked["objectives"]) if asked else pareto_front(ds)


def effects_of(ds: xr.Dataset, metric: str, given: Mapping[str, Any]) -> Effects | Sensitivity:
    """Find the effects asked for: of factors, of designs named by ``--joint``, of parameters.

    A sweep with points of a ``[design]`` has sensitivity indices instead of effects.

    Parameters
    ----------
    ds : xr.Dataset
        The store, or a part of it.
    metric : str
        The measure.
    given : mapping
        ``joint`` (``[AXIS=]BASE,A,B,AB`` each), ``order``, ``factors`` (``AXIS,...``) and
        ``confidence``; None or empty is what was not given.

    Raises
    ------
    InputError
        If ``--joint`` comes with options of a factorial analysis, or names several axes.
    """
    asked = {key: value for key, value in given.items() if value not in (None, ())}
    if SAMPLE in ds.dims:
        for key in ("joint", "factors", "order"):
            if key in asked:
                raise InputError(
                    f"--{key}: not with a [design], whose parameters have sensitivity indices; "
                    f"--at {SAMPLE}=N looks at one of its points"
                )
        return sensitivity_indices(ds, metric, **asked)
    if "joint" not in asked:
        if "factors" in asked:
            asked["factors"] = listed(asked["factors"])
        return refuse_none(ds, factorial_effects(ds, metric, **asked))
    for key in ("factors", "order"):
        if key in asked:
            raise InputError(f"--{key}: not with --joint, which names what to compare")
    designs = [text.rpartition("=") for text in asked.pop("joint")]
    over = {axis or "policy" for axis, _, _ in designs}
    if len(over) > 1:
        raise InputError(f"--joint: levels of one axis only, not of {' and '.join(sorted(over))}")
    levels = [listed(d[2]) for d in designs]
    return refuse_none(ds, joint_effects(ds, metric, levels, over.pop(), **asked))
