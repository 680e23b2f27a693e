"""The cells of a part of a store, with the scenarios of the sweep that it was made from."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis.cells import SEED, Cells, cells_of
from kvsweep.config.axes import POLICY, RATES
from kvsweep.errors import InputError
from kvsweep.store import FOLDERS, restored_sweep
from kvsweep.workload.generate import requests_for

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr

    from kvsweep.addresses import Where
    from kvsweep.config import Sweep
    from kvsweep.workload.requests import Requests


def cells_of_part(ds: xr.Dataset, along: str, store: Where) -> Cells | None:
    """Return the cells in which a cliff is told, as a run of the sweep knows them.

    Parameters
    ----------
    ds : xr.Dataset
        A store, or the values of its axes that were chosen.
    along : str
        The axis of the cliff.
    store : path or Address
        Where it is, for messages.

    Returns
    -------
    Cells or None
        None if the axes are not those of the sweep, or a file that it names is not found.
    """
    for folder in FOLDERS:
        with suppress(InputError):
            return _cells(ds, along, store, folder)
    return None


def _cells(ds: xr.Dataset, along: str, store: Where, folder: Path) -> Cells | None:
    sweep = restored_sweep(ds.attrs, store, folder)
    keys = {axis.name: axis.key for axis in sweep.axes if axis.name != SEED}
    dims = list(map(str, ds["status"].dims))
    fixed = {name: ds[name].item() for name in keys if name in ds.coords and name not in dims}
    if {*dims, *fixed} - {SEED} != keys.keys():
        return None
    values = [[None] if dim == SEED else ds[dim].values.tolist() for dim in dims]
    points = [fixed | dict(zip(dims, each, strict=True)) for each in product(*values)]
    scenarios = np.empty(len(points), object)
    for place, point in enumerate(points):
        point.pop(SEED, None)
        scenarios[place] = sweep.scenario(point)
    shape = [len(each) for each in values]
    numbers = np.broadcast_to(np.arange(len(points)).reshape(shape), ds["status"].shape)
    seeds = np.atleast_1d(ds[SEED].values).tolist() if SEED in ds.coords else [0]

    def requests(index: tuple[int, ...]) -> Requests:
        seed = seeds[index[dims.index(SEED)] if SEED in dims else 0]
        return _requests(sweep, points[int(numbers[index])], seed)

    cells = cells_of(ds, cliff=True, scenarios=scenarios.reshape(shape), requests=requests)
    return replace(cells, sized=keys.get(along) in RATES)


def _requests(sweep: Sweep, point: dict[str, Any], seed: int) -> Requests:
    workload = sweep.scenario(point).workload
    assert workload is not None  # `Sweep.scenario` sees to it
    return requests_for(workload, seed, sweep.entropy, point.get(POLICY), sweep.base_dir)
