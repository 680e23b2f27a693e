"""Which parts of a dataset have axes that can be told about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsweep.config.axes import SEED
from kvsweep.errors import InputError

if TYPE_CHECKING:
    import xarray as xr


def check_axes(ds: xr.Dataset, array: xr.DataArray) -> None:
    """Refuse parts of a dataset in which nothing is left, or something is there twice or nowhere.

    Seeds along the axis of something else too, as ``ds.stack`` has them: no mean is taken there.

    Raises
    ------
    InputError
        Naming the axis.
    """
    for dim in array.dims:
        if array.sizes[dim] == 0:
            raise InputError(f"axis: no value of {dim!r} is left; what was selected is not there")
        if dim in ds.indexes and not ds.indexes[dim].is_unique:
            raise InputError(f"axis: {dim!r} has a value twice, whose cells would count twice")
        if dim in array.coords and not _is_finite(array[dim]):
            raise InputError(
                f"axis: {dim!r} has a value that is no number, or without end; leave it out, "
                f"as by ds.isel({dim}=np.isfinite(ds[{str(dim)!r}]))"
            )
    for dim in array.coords[SEED].dims if SEED in array.coords else ():
        if dim != SEED:
            raise InputError(
                f"axis: {dim!r} has seeds in it, over which means are taken: give them an axis of "
                f"their own, ds.unstack({dim!r})"
            )


def _is_finite(axis: xr.DataArray) -> bool:
    return axis.dtype.kind != "f" or bool(np.isfinite(axis.values).all())
