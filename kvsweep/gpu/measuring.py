"""All timings of a measurement: begun, interrupted, gone on with."""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kvsweep.gpu.batches import Plan
from kvsweep.gpu.step_device import StepDevice
from kvsweep.gpu.step_store import fill, is_done, refuse_other, template, with_later_ones

if TYPE_CHECKING:
    import xarray as xr


def measure_steps(
    device: StepDevice,
    plan: Plan,
    *,
    stored: xr.Dataset | None = None,
    where: str = "",
    keep: Callable[[xr.Dataset], None] = lambda ds: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> xr.Dataset:
    """Make all timings of `plan` that are not made yet.

    Parameters
    ----------
    device : StepDevice
        What is timed.
    plan : Plan
        The batches.
    stored : xr.Dataset or None
        The same measurement as far as it came before.
    where : str
        Its store, for messages.
    keep : callable
        Called with the dataset before each repetition, so that what cannot be stored is known in
        time, and at the end, however that comes.
    progress : callable
        Called with the timings done and all timings.

    Returns
    -------
    xr.Dataset
        Dimensions part, batch, trial (`kvsweep.gpu.step_store`).

    Raises
    ------
    InputError
        If `stored` is another measurement, or the device fails.
    """
    ds = template(plan, device.parts, {**device.attributes, "time_started": _now()})
    if stored is not None:
        stored = with_later_ones(stored, ds)
        refuse_other(ds, stored, where)
        ds = stored
    total, done = ds["position"].size, int(is_done(ds).sum())
    if done == total:
        return ds
    per_trial = total // plan.trials
    was_enabled = gc.isenabled()
    gc.disable()  # out of what is timed
    try:
        for position, cell in enumerate(plan.order(len(device.parts))):
            if position % per_trial == 0:
                keep(ds)
                gc.collect()
            if ds["position"].values[cell] < 0:
                progress(done, total)
                timing = device.time(cell[0], plan.batches[cell[1]])
                fill(ds, cell, timing, position)
                done += 1
    finally:
        if was_enabled:
            gc.enable()
        ds.attrs["time_ended"] = _now()
        keep(ds)
    progress(done, total)
    return ds


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
