"""Variables of a result dataset by name: quantile names resolved, cells without a result masked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.axis_checks import check_axes
from kvsweep.analysis.seed_order import by_seed
from kvsweep.config.axes import SAMPLE
from kvsweep.dimensions import DIMENSIONS
from kvsweep.errors import InputError, did_you_mean
from kvsweep.metrics import LEVEL_VARIABLES, NO_COUNT, REQUEST_VARIABLES, VARIABLES, quantile_name

if TYPE_CHECKING:
    import xarray as xr

_HIGHER = {
    "throughput_rps",
    "output_tokens_per_s",
    "block_hit_rate",
    "prefix_hit_rate",
    "cpu_hit_rate",
    "completed",
    "accepted_tokens",
    "draft_acceptance",
    "fairness_classes",
    "fairness_instances",
    "request_cached_tokens",
    *(variable.name for variable in LEVEL_VARIABLES),
}
# Measures of which more is better, by rounds and classes too; of every other less is better.
HIGHER_IS_BETTER = frozenset(
    name for name in VARIABLES if re.sub("_by_(round|class)", "", name) in _HIGHER
)

# Of these nobody can say: how much there was of what a cell was asked for, or does in serving it.
_NEITHER = {
    "injected",
    "running",
    "peak_blocks",
    "mean_blocks",
    "mean_running",
    "offloads",
    "reloads",
    "tier_loads",
    "tier_stores",
    "tier_loaded_tokens",
    "tier_stored_tokens",
    "window_freed",
    "draft_tokens",
    "pulls",
    "pulled_tokens",
    "steps",
    "pruned",
    "arrivals_s",
    "request_arrival_us",
    "request_instance",
    *(variable.name for variable in REQUEST_VARIABLES if variable.listed is not None),
}

# Values that are read at once: the names of a million cells are 48 MB, and as much again where they
# are compared.
AT_ONCE = 2**17

NO_VALUE = "no value"
"""Why a cell has no number whose status does not say so."""

_QUANTILE_NAME = re.compile(r"(?P<stem>.+)_p(?P<percent>\d{1,2}(?:\.\d+)?)(?P<unit>_[a-z]+)?")
_OF = "quantile of "  # in the meaning of a variable, of all its quantiles


def better(name: str) -> str:
    """Return whether ``more`` or ``less`` of a measure is better, to tell it; empty if neither is.

    Of what somebody has added it is not known; a cliff is looked for as if less were better.

    Examples
    --------
    >>> better("throughput_rps"), better("ttft_p99_ms"), better("pulls"), better("my_own")
    ('more', 'less', '', '')
    """
    match = _QUANTILE_NAME.fullmatch(name)
    known = [name, match["stem"] + (match["unit"] or "")] if match else [name]
    if name in HIGHER_IS_BETTER:
        return "more"
    if re.sub("_by_(round|class)", "", name) in _NEITHER:
        return ""
    return "less" if any(each in VARIABLES for each in known) else ""


def names(ds: xr.Dataset) -> list[str]:
    """Return the numeric measures of `ds`, quantiles under their own names (``ttft_p99_ms``)."""
    found = []
    for name, array in ds.data_vars.items():
        if array.dtype.kind not in "fiub":
            continue
        if "quantile" in array.dims:
            found += [quantile_name(str(name), q) for q in ds["quantile"].values]
        else:
            found.append(str(name))
    return list(dict.fromkeys(found))


def get(ds: xr.Dataset, name: str) -> xr.DataArray:
    """Return measure `name` as float64, NaN where there is no value, with its seeds in order.

    That is in every cell whose status is not ``ok``, and where a cell has no such thing: an
    instance, a request of a round or class, a count that its rule book does not give.

    Parameters
    ----------
    ds : xr.Dataset
        Results of a sweep. Without a ``status`` variable every cell counts as ``ok``; so do the
        values of a variable that lacks dimensions of the status.
    name : str
        A variable, or a quantile of one: ``ttft_p99_ms`` is ``ttft_ms`` at ``quantile=0.99``,
        unless it was assigned as a variable of its own.

    Returns
    -------
    xr.DataArray
        Not to be written into: if there is nothing to mask it is the dataset's own array.

    Raises
    ------
    InputError
        If there is no such measure, it holds no numbers, or it is a mean that may hold the marker
        of counts that are absent.
    """
    return by_seed(as_stored(ds, name))


def as_stored(ds: xr.Dataset, name: str, ok: xr.DataArray | None = None) -> xr.DataArray:
    """Return what `get` does, with the seeds as they lie in `ds`.

    `ok` is where the status is ``ok``, if that was looked at already.
    """
    array = _quantile(ds, name)
    if name in ds.data_vars:
        array = _told_as(ds[name], array)
    if array is None:
        known = names(ds)
        hint = did_you_mean(name, known) or f"; one of: {', '.join(known)}"
        raise InputError(f"metric: no variable {name!r} in the dataset{hint}")
    if array.dtype.kind not in "fiub":
        raise InputError(f"metric: {name!r} holds no numbers; one of: {', '.join(names(ds))}")
    check_axes(ds, array)
    _check_average(ds, name, array)
    ok = (is_ok(ds) if ok is None else ok) if _per_cell(ds, array) else None
    # Not copied if there is nothing to mask: a variable of a million cells is 8 MB.
    values = numbers_of(name, array.values).view()
    values.flags.writeable = False
    numbers = array.copy(data=values)
    if ok is not None and not bool(ok.all()):
        numbers = numbers.where(ok).transpose(*array.dims)
    return numbers.rename(name).assign_attrs(array.attrs)


def numbers_of(name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return values of measure `name` as float64, NaN for the marker of a count that is absent.

    Of measures that are no variables of a store, as those that somebody has added, -1 is a number.
    """
    numbers = np.asarray(values, np.float64)
    if not _is_count(name):
        return numbers
    absent = numbers == NO_COUNT
    return np.where(absent, np.nan, numbers) if absent.any() else numbers


def _is_count(name: str) -> bool:
    """Whether a variable of a store holds `NO_COUNT` where there is no number."""
    return name in VARIABLES and VARIABLES[name].missing == NO_COUNT


def _check_average(ds: xr.Dataset, name: str, array: xr.DataArray) -> None:
    """Refuse means of counts in which nothing tells any more which of them were absent."""
    averaged = _is_count(name) and array.dtype.kind == "f" and "sweep" in ds.attrs
    if averaged and "status" not in ds:
        raise InputError(
            f"metric: {name!r} is a mean that may hold -1 of cells without a value: give all "
            "seeds, over which means are taken here, or under another name "
            f'ds.{name}.where((ds.status == "ok") & (ds.{name} >= 0)).mean("seed")'
        )


def is_ok(ds: xr.Dataset) -> xr.DataArray:
    """Return where the status is ``ok``; bool (grid)."""
    status = ds["status"]
    found = np.empty(status.shape, np.bool_)
    for place, values in in_parts(status, status.dims):
        found[place] = in_words(status, values) == "ok"
    return status.copy(data=found)


def count_statuses(ds: xr.Dataset) -> dict[str, int]:
    """Count the cells by how they ended, in alphabetical order."""
    status = ds["status"]
    counts: Counter[str] = Counter()
    for _, values in in_parts(status, status.dims):
        counts.update(count_names(in_words(status, values)))
    return dict(sorted(counts.items()))


def in_words(flags: xr.DataArray, values: NDArray[Any]) -> NDArray[Any]:
    """Return the names of some values of a status, of which plain xarray has the codes.

    Parameters
    ----------
    flags : xr.DataArray
        Its attributes say what codes mean, as CF has it: ``flag_values``, ``flag_meanings``.
    values : array
        Codes, or the names that they are where kvsweep has opened the store.

    Returns
    -------
    array
        Names; empty where a code has none, as where ``ds.reindex`` has left cells without one.

    Raises
    ------
    InputError
        If there are codes, and nothing says what they mean.
    """
    if values.dtype.kind not in "fiu":
        return values
    names = str(flags.attrs.get("flag_meanings", "")).split()
    codes = np.atleast_1d(flags.attrs.get("flag_values", []))
    if not names or len(names) != len(codes):
        raise InputError(
            f"{flags.name}: holds codes without the attributes that say what they mean, "
            "flag_values and flag_meanings: keep those of the store"
        )
    found = np.zeros(values.shape, np.array(names).dtype)
    for code, name in zip(codes, names, strict=True):
        found[values == code] = name
    return found


def in_parts(
    array: xr.DataArray, dims: Sequence[Hashable]
) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
    """Read some values of an array of a store at a time, of which none are kept.

    Yields
    ------
    tuple of slice
        Their place along `dims`, by the longest of which the array is cut.
    array
        The values.
    """
    longest = max(dims, key=lambda dim: array.sizes[dim], default=None)
    length = 1 if longest is None else array.sizes[longest]
    step = max(1, AT_ONCE * length // max(1, array.size))
    for start in range(0, length, step):
        part = {} if longest is None else {longest: slice(start, start + step)}
        yield tuple(part.get(dim, slice(None)) for dim in dims), array.isel(part).values


def axis(ds: xr.Dataset, name: str, *, numeric: bool = True) -> xr.DataArray:
    """Return the coordinate of dimension `name`, numbers if `numeric`.

    Raises
    ------
    InputError
        If `ds` has no such dimension, or none of its values, these are names where numbers are
        needed, or it is ``seed``, over which means are taken.
    """
    dims = [str(d) for d in ds.dims if d != "seed"]
    if name == SAMPLE or (name in ds.coords and ds[name].dims == (SAMPLE,)):
        raise InputError(
            f"axis: {name!r} holds points of a design, in no order; an axis of [grid] is needed, "
            "or `kvsweep effects` for what each parameter does"
        )
    if name == "seed":
        raise InputError(f"axis: 'seed' holds repetitions{_offered(ds, numeric)}")
    if name not in dims and name in ds.coords and ds[name].ndim == 0:
        value = ds[name].values.item()
        raise InputError(f"axis: {name!r} is {value} alone, as selected: nothing lies along it")
    if name not in dims:
        hint = did_you_mean(name, dims) or _offered(ds, numeric)
        raise InputError(f"axis: no dimension {name!r} in the dataset{hint}")
    if name not in ds.coords:  # xarray would count from 0
        raise InputError(
            f"axis: {name!r} has no values; give it those of the store, "
            f"ds.assign_coords({name}=store[{name!r}])"
        )
    values = ds[name]
    if numeric and values.dtype.kind not in "fiu":
        raise InputError(f"axis: {name!r} holds names; a numeric dimension is needed")
    return values


def _offered(ds: xr.Dataset, numeric: bool) -> str:
    """Return the axes that would be taken, as the end of a message."""
    axes = [d for d in swept(ds) if d not in ("seed", SAMPLE)]
    taken = [d for d in axes if not numeric or (d in ds.coords and ds[d].dtype.kind in "fiu")]
    return f"; one of: {', '.join(taken)}" if taken else ""


def swept(ds: xr.Dataset) -> list[str]:
    """Return the axes of the grid: the dimensions of the status, or all that can be axes."""
    if "status" in ds:
        return [str(d) for d in ds["status"].dims]
    return [str(d) for d in ds.dims if d not in DIMENSIONS]


def missing(ds: xr.Dataset, array: xr.DataArray) -> dict[str, int]:
    """Count the values of `array` that are absent, by the status of their cell.

    `NO_VALUE` stands for cells that are ``ok`` but have nothing to measure (a rate per completed
    request where nothing completed), and for those that were masked and have no status either.
    """
    absent = np.isnan(array.values)
    count = int(absent.sum())
    if not count or not _per_cell(ds, array):
        return {"no value": count} if count else {}
    status = ds["status"].broadcast_like(array).transpose(*array.dims).values
    counts = count_names(in_words(ds["status"], status[absent]))
    if ok := counts.pop("ok", 0):
        counts[NO_VALUE] = counts.get(NO_VALUE, 0) + ok
    return counts


def count_names(values: NDArray[Any]) -> dict[str, int]:
    """Count equal names in an array of strings, in alphabetical order.

    What is no name, as where ``ds.where`` or ``ds.reindex`` has left cells without a status, is
    counted as `NO_VALUE`, last.
    """
    rest = values.ravel()
    unnamed = 0
    if rest.dtype.kind != "U":
        named = np.fromiter((isinstance(value, str) for value in rest), np.bool_, rest.size)
        unnamed = int(rest.size - named.sum())
        rest = rest[named]
    counts = {}
    while rest.size:  # few names, many values: a million strings of Python were 60 MB
        same = rest == rest[0]
        counts[str(rest[0])] = int(same.sum())
        rest = rest[~same]
    unnamed += counts.pop("", 0)
    return dict(sorted(counts.items())) | ({NO_VALUE: unnamed} if unnamed else {})


def _per_cell(ds: xr.Dataset, array: xr.DataArray) -> bool:
    """Whether every value of `array` belongs to a cell with a status."""
    return "status" in ds and set(ds["status"].dims) <= set(array.dims)


def _told_as(own: xr.DataArray, quantile: xr.DataArray | None) -> xr.DataArray:
    """Return a variable; the view of a quantile that stores have with that quantile's name.

    Its units are its own: somebody may have assigned it in others.
    """
    if quantile is None or _OF not in str(own.attrs.get("long_name", "")):
        return own
    return own.assign_attrs(long_name=quantile.attrs["long_name"])


def _quantile(ds: xr.Dataset, name: str) -> xr.DataArray | None:
    """Resolve ``<stem>_p<percent><unit>`` to its variable and quantile, None if not such a name."""
    match = _QUANTILE_NAME.fullmatch(name)
    if match is None:
        return None
    base = match["stem"] + (match["unit"] or "")
    if base not in ds.data_vars or "quantile" not in ds[base].dims:
        return None
    close = np.isclose(ds["quantile"].values, float(match["percent"]) / 100.0)
    if not close.any():
        return None
    array = ds[base].isel(quantile=int(np.argmax(close)), drop=True)
    meaning = str(ds[base].attrs.get("long_name", base))
    return array.assign_attrs(long_name=_percentile(match, meaning))


def called(name: str, label: str) -> str:
    """Return what a measure is called of which `label` may say ``quantile of``, of all alike.

    Examples
    --------
    >>> called("ttft_p99_ms", "quantile of time to first token"), called("steps", "steps taken")
    ('99th percentile of time to first token', 'steps taken')
    """
    match = _QUANTILE_NAME.fullmatch(name)
    return _percentile(match, label) if match and label.startswith(_OF) else label


def _percentile(match: re.Match[str], label: str) -> str:
    return f"{match['percent']}th percentile of {label.removeprefix(_OF)}"
