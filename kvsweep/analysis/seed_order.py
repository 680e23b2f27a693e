"""Seeds in the order of their numbers, so that the order of a sweep's list decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsweep.config.axes import SEED

if TYPE_CHECKING:
    import xarray as xr


def by_seed(array: xr.DataArray) -> xr.DataArray:
    """Return an array with its seeds in ascending order: itself, if they are or have no numbers.

    Resamples are drawn by the places of seeds: the same seeds in another order would give other
    intervals, and sums that differ in their last bits.
    """
    if SEED not in array.dims or SEED not in array.coords:
        return array
    if array.coords[SEED].to_index().is_monotonic_increasing:
        return array
    found = array.sortby(SEED)
    # Laid out as a store's: a matrix product adds in an order that depends on it.
    return found.copy(data=np.ascontiguousarray(found.values))
