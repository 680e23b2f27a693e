"""Times of single requests, of stores that keep them: of ``kvsweep grid --requests``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis import variables
from kvsweep.analysis.axis_checks import check_axes
from kvsweep.analysis.settings import foreign_axes, policies_of, settings, sweep_of, varied
from kvsweep.analysis.wording import BY_VALUE, number
from kvsweep.config.service_levels import ServiceLevels
from kvsweep.dimensions import LEVELS
from kvsweep.errors import InputError, did_you_mean
from kvsweep.limits import MAX_LEVEL_MS, MIN_LEVEL_MS
from kvsweep.policies import RequestStatus

if TYPE_CHECKING:
    import xarray as xr

TIMES = {f"{name}_ms": f"request_{name}_us" for name in LEVELS}
"""Names of times, as service levels have them, and the variables of requests."""

_WARMUP = "workload.warmup"


def times(ds: xr.Dataset, metric: str) -> xr.DataArray:
    """Return a time of every measured request, milliseconds.

    Parameters
    ----------
    ds : xr.Dataset
        Results with a dimension ``request``.
    metric : str
        One of `TIMES`.

    Returns
    -------
    xr.DataArray
        Infinite where a request did not get so far, NaN where there is none to measure: in cells
        that are not ``ok``, before the end of the warm-up, and a time per token of a single token.

    Raises
    ------
    InputError
        For another name, or results without requests.
    """
    _check_name("metric", metric)
    name = TIMES[metric]
    _check_requests(ds, "metric", f" ({name})")
    found = (ds[name] if name in ds else _per_token(ds)).astype(np.float64)
    found = found.where(found >= 0, np.inf) / 1000.0
    if metric == "tpot_ms":  # a single token has no time after the first
        found = found.where((found < np.inf) | ~_completed(ds))
    about = {"long_name": f"{_MEANINGS[metric]} of a request", "units": "ms"}
    return found.where(_measured(ds)).rename(metric).assign_attrs(about)


def _per_token(ds: xr.Dataset) -> xr.DataArray:
    """Return `request_tpot_us`, which only sweeps with service levels store."""
    tokens = ds["request_output_tokens"]
    lasted = ds["request_finish_us"] - ds["request_first_token_us"]
    return (lasted / (tokens - 1)).where(_completed(ds) & (tokens > 1))


_MEANINGS = {
    "ttft_ms": "time to first token",
    "tpot_ms": "time per output token",
    "e2e_ms": "time to last token",
}


def scales(ds: xr.Dataset, levels: Mapping[str, float] | None) -> tuple[xr.DataArray, str]:
    """Return by what its service levels must be multiplied that a request just keeps them all.

    Parameters
    ----------
    ds : xr.Dataset
        Results with a dimension ``request``.
    levels : mapping of str to float, or None
        Milliseconds, by names of `TIMES`; None: those of the sweep.

    Returns
    -------
    xr.DataArray
        Infinite where no multiple is enough, NaN where there is no request to measure.
    str
        The levels in words.

    Raises
    ------
    InputError
        Without levels, if the sweep has several choices of them, or for results without requests.
    """
    slo = _levels(ds, levels)
    _check_requests(ds, "requests")
    classes = ds["request_slo_class"] if slo.classes and "request_slo_class" in ds else None
    worst = ds["request_status"].notnull().astype(np.float64) * 0.0
    for place, (name, level) in enumerate(zip(TIMES, LEVELS, strict=True)):
        if not any(level in each.given for each in (slo, *slo.classes.values())):
            continue
        limit: Any = slo.of_class("")[place]
        limit = worst * 0.0 + (np.nan if limit is None else limit)
        for known in slo.classes if classes is not None else ():
            own = slo.of_class(known)[place]
            limit = limit.where(classes != known, np.nan if own is None else own)
        worst = np.maximum(worst, (times(ds, name) / limit).fillna(0.0))
    about = {"long_name": "multiple of the service levels", "units": "1"}
    worst = worst.where(_completed(ds), np.inf).where(_measured(ds)).rename("scale")
    told = ", ".join(f"{level} {number(getattr(slo, f'{level}_ms'))} ms" for level in slo.given)
    return worst.assign_attrs(about), f"{told}{', others by class' if slo.classes else ''}"


def _check_name(argument: str, name: str) -> None:
    if name not in TIMES:
        hint = did_you_mean(name, list(TIMES)) or ""
        raise InputError(f"{argument}: {name!r} is none of {', '.join(TIMES)}{hint}")


def _check_requests(ds: xr.Dataset, argument: str, what: str = "") -> None:
    if "request_status" not in ds:
        raise InputError(
            f"{argument}: single requests are needed, which `kvsweep grid --requests` stores{what}"
        )
    check_axes(ds, ds["request_status"])


def _levels(ds: xr.Dataset, levels: Mapping[str, float] | None) -> ServiceLevels:
    if levels is not None:
        for name, value in levels.items():
            _check_name("levels", name)
            if not value > 0:
                raise InputError(f"levels: {name} must be more than 0, got {value!r}")
            if not MIN_LEVEL_MS <= value <= MAX_LEVEL_MS:
                allowed = f"from {MIN_LEVEL_MS:g} to {MAX_LEVEL_MS:g} ms"
                raise InputError(f"levels: {name} must be {allowed}, got {value!r}")
        if levels:
            return ServiceLevels(**levels)
    given = _judged_by(ds)
    if not given or levels is not None:
        raise InputError("levels: missing; the sweep has no [slo]")
    return ServiceLevels(**given)


def _judged_by(ds: xr.Dataset) -> dict[str, Any]:
    """Return the service levels of all cells, as the sweep gives them; empty without any."""
    if any(key.startswith("slo.") for key in varied(ds)):
        raise InputError(_SEVERAL)
    found = [
        {key: value for key, value in of_policy.items() if _gives_level(key, value)}
        for of_policy in _settings(ds)
    ]
    if any(one != found[0] for one in found):
        raise InputError(_SEVERAL)
    given: dict[str, Any] = {}
    for key, value in found[0].items():
        of_class, _, level = key.removeprefix("slo.").rpartition(".")
        table = given
        if of_class:  # whose name may have dots
            name = of_class.removeprefix("classes.")
            table = given.setdefault("classes", {}).setdefault(name, {})
        table[level] = value
    return given


_SEVERAL = f"levels: missing; the sweep has several choices of [slo]; select one: {BY_VALUE}"


def _gives_level(key: str, value: Any) -> bool:
    return key.startswith("slo.") and value is not None


def _settings(ds: xr.Dataset) -> list[dict[str, Any]]:
    """Return the settings of each policy that cells may have."""
    return [settings(ds, policy) for policy in policies_of(ds)]


def _completed(ds: xr.Dataset) -> xr.DataArray:
    return _status(ds) == RequestStatus.COMPLETED.label


def _status(ds: xr.Dataset) -> xr.DataArray:
    """Return the names of how requests ended; empty where there is none."""
    status = ds["request_status"]
    names = variables.in_words(status, status.values)
    if names.dtype.kind == "O":  # as ``ds.where`` leaves them
        named = np.frompyfunc(lambda name: isinstance(name, str), 1, 1)(names).astype(np.bool_)
        names = np.where(named, names, "")
    return status.copy(data=names)


def _measured(ds: xr.Dataset) -> xr.DataArray:
    """Return where there is a request that counts."""
    if not sweep_of(ds):
        raise InputError(
            "requests: the dataset has lost the attributes of its sweep, which tell those of the "
            "warm-up: give them back, .assign_attrs(store.attrs)"
        )
    warmups = [of_policy.get(_WARMUP, 0) for of_policy in _settings(ds)]
    if _WARMUP in varied(ds) or any(warmup != warmups[0] for warmup in warmups):
        raise InputError(f"requests: cells differ in {_WARMUP}; select one: {BY_VALUE}")
    found: xr.DataArray = ~_status(ds).isin(["", RequestStatus.NOT_ARRIVED.label])
    if "status" in ds:
        found = found & variables.is_ok(ds)
    measured: xr.DataArray = found & (ds["request_status"]["request"] >= warmups[0])
    if foreign_axes(ds) and "completed" in ds:
        # Of several stores put together the attributes are those of the first.
        completed = ds["completed"]
        other = (measured & _completed(ds)).sum("request") != completed
        if bool((other & (completed >= 0)).any()):
            raise InputError(
                f"requests: some cells have another {_WARMUP} than the attributes tell, as of "
                "several stores put together: take those of each store by themselves"
            )
    return measured
