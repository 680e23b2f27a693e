"""The cells of a sweep that was run here: with their scenarios and request lists."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis.cells import SEED, Cells, cells_of
from kvsweep.analysis.wording import counted, left_out_text
from kvsweep.survey import left_out
from kvsweep.workload.generate import requests_for

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.config import Sweep
    from kvsweep.grid import Plan
    from kvsweep.workload.requests import Requests

NAMED = 10
"""Files of traces that have a line of their own."""


def cells_of_sweep(ds: xr.Dataset, sweep: Sweep, plan: Plan) -> Cells:
    """Return the cells of an open store of `sweep`.

    Parameters
    ----------
    ds : xr.Dataset
        The store.
    sweep, plan : Sweep, Plan
        What it was made from.
    """
    seeds = plan.dims.index(SEED) if SEED in plan.dims else None
    shape = [1 if i == seeds else n for i, n in enumerate(plan.shape)]
    variants = np.arange(len(plan.variants)).reshape(shape)
    scenarios = np.fromiter(plan.variants, object, len(plan.variants)).reshape(shape)

    def requests(index: tuple[int, ...]) -> Requests:
        variant = int(np.broadcast_to(variants, plan.shape)[index])
        workload = plan.variants[variant].workload
        assert workload is not None  # `Sweep.scenario` sees to it
        seed = plan.seeds[0 if seeds is None else index[seeds]]
        return requests_for(workload, seed, sweep.entropy, plan.policies[variant], sweep.base_dir)

    cliff = sweep.cliff is not None
    cells = cells_of(ds, cliff=cliff, scenarios=scenarios, requests=requests)
    return replace(cells, sized=sweep.seeks_rate)


def left_out_texts(sweep: Sweep) -> list[str]:
    """Return which requests of the files of a sweep's traces are not simulated, a line of each.

    Of more than `NAMED` files the last line says how many more there are.
    """
    found = [f"{name}: {left_out_text(*counts)}" for name, counts in left_out(sweep).items()]
    more = len(found) - NAMED
    if more > 0:
        found[NAMED:] = [f"and {counted(more, 'file')} more of which some are left out"]
    return found
