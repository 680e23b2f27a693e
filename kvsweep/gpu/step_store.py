"""The dataset of a measurement: dimensions part, batch and trial; filled timing by timing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep._version import __version__
from kvsweep.errors import InputError, shown
from kvsweep.gpu.batches import Plan
from kvsweep.gpu.step_device import Part, Timing
from kvsweep.metrics import Variable

if TYPE_CHECKING:
    import xarray as xr
    from numpy.typing import NDArray

FORMAT = "kvsweep-steps/1"

MAKER = "kvsweep measure gpu"

_DIMS = ("part", "batch", "trial")
TIMES = (
    Variable("time_us", _DIMS, "float64", "us", "time of the part, once"),
    Variable("calls", _DIMS, "int64", "1", "how often the part ran for that time"),
    Variable("graphed", _DIMS, "int64", "1", "1 if replayed from a CUDA graph"),
    Variable("clock_mhz", _DIMS, "float64", "MHz", "clock of the device right after"),
    Variable("position", _DIMS, "int64", "1", "place in the order of timing"),
)
_BATCH = ("batch",)
BATCHES = (
    Variable("prefill", _BATCH, "int64", "token", "chunk of a prompt"),
    Variable("prefill_context", _BATCH, "int64", "token", "of that prompt before the chunk"),
    Variable("decode", _BATCH, "int64", "1", "decoding requests"),
    Variable("decode_context", _BATCH, "int64", "token", "of each of them before its token"),
)
HELD_OUT = Variable("held_out", _BATCH, "int64", "1", "1 if nothing is fitted to the batch")
LAYERS = Variable("layers", ("part",), "int64", "1", "how often a step has the part")

LATER = ("experts_share", "experts_bytes", "window", "window_flops", "window_bytes")
"""Attributes that measurements of before do not have."""

CHANGING = ("time_started", "time_ended")
"""Attributes in which runs of one measurement differ."""


def template(plan: Plan, parts: Sequence[Part], attributes: Mapping[str, Any]) -> xr.Dataset:
    """Return the dataset before the first timing: NaN or -1 everywhere.

    Parameters
    ----------
    plan : Plan
        What is timed.
    parts : sequence of Part
        Parts of a step.
    attributes : mapping of str to str, int or float
        Of the device, and of the run.
    """
    import xarray as xr

    sizes = {"part": len(parts), "batch": len(plan.batches), "trial": plan.trials}
    ds = xr.Dataset(attrs={**_about(plan), **attributes})
    for variable in TIMES:
        values = np.full([sizes[dim] for dim in variable.dims], variable.missing, variable.dtype)
        ds[variable.name] = _array(variable, values)
    columns = np.array(plan.batches, dtype=np.int64).T
    is_held_out = np.arange(len(plan.batches)) >= len(plan.fitted)
    named = {
        variable.name: _array(variable, values)
        for variable, values in (
            *zip(BATCHES, columns, strict=True),
            (HELD_OUT, is_held_out.astype(np.int64)),
            (LAYERS, np.array([part.layers for part in parts], dtype=np.int64)),
        )
    }
    names = np.array([part.name for part in parts], dtype=object)
    trials = np.arange(1, plan.trials + 1)
    named["part"] = ("part",), names, {"units": "1", "long_name": "part of a step"}
    named["trial"] = ("trial",), trials, {"units": "1", "long_name": "repetition"}
    return ds.assign_coords(named)


def fill(ds: xr.Dataset, cell: tuple[int, int, int], timing: Timing, position: int) -> None:
    """Enter one timing."""
    values = (1e6 * timing.seconds, timing.calls, timing.graphed, timing.clock_mhz, position)
    for variable, value in zip(TIMES, values, strict=True):
        ds[variable.name].values[cell] = value


def is_done(ds: xr.Dataset) -> NDArray[np.bool_]:
    """Return which timings were made."""
    done: NDArray[np.bool_] = ds["position"].values >= 0
    return done


def with_later_ones(stored: xr.Dataset, ds: xr.Dataset) -> xr.Dataset:
    """Give a measurement of before what it would say now: `LATER`, which follow from its model."""
    missing = {key for key in LATER if key in ds.attrs} - stored.attrs.keys()
    return stored.assign_attrs({key: ds.attrs[key] for key in missing})


def refuse_other(ds: xr.Dataset, stored: xr.Dataset, where: str) -> None:
    """Refuse to go on with another measurement.

    Parameters
    ----------
    ds : xr.Dataset
        What is to be measured.
    stored : xr.Dataset
        What has been, so far.
    where : str
        Its store, for the message.

    Raises
    ------
    InputError
        Naming the first difference.
    """
    end = "; --overwrite replaces it, --store names another"
    for key in dict.fromkeys([*ds.attrs, *stored.attrs]):
        wanted, has = ds.attrs.get(key), stored.attrs.get(key)
        if key not in CHANGING and wanted != has:
            raise InputError(
                f"{where}: is another measurement: {key} is {shown(has)}, not {shown(wanted)}{end}"
            )
    has, wanted = stored.sizes.get("trial"), ds.sizes["trial"]
    if has != wanted:
        raise InputError(f"{where}: has {has} trials of each batch, not {wanted} (--trials){end}")
    names = [*(variable.name for variable in (*BATCHES, HELD_OUT, LAYERS)), "part"]
    if dict(ds.sizes) != dict(stored.sizes) or any(
        not np.array_equal(ds[name].values.astype(str), stored[name].values.astype(str))
        for name in names
    ):
        raise InputError(f"{where}: is a measurement of other batches{end}")


def _about(plan: Plan) -> dict[str, Any]:
    ranges = plan.ranges
    return {
        "format": FORMAT,
        "title": "Step times, part by part",
        "question": "How long does a step take, by the tokens and the contexts of its batch?",
        "max_num_batched_tokens": ranges.max_num_batched_tokens,
        "max_num_seqs": ranges.max_num_seqs,
        "max_model_len": ranges.max_model_len,
        "pool_tokens": ranges.pool_tokens,
        "seed": plan.seed,
        "kvsweep": __version__,
    }


def _array(variable: Variable, values: Any) -> tuple[tuple[str, ...], Any, dict[str, str]]:
    return variable.dims, values, {"units": variable.units, "long_name": variable.long_name}
