"""Codes as names, and texts in their cells, when they are looked at: opening reads no cell.

Lazily indexed arrays and their adapter are what xarray's guide for backends asks backends to use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from kvsweep.store.layout import FLAGS, STATUS, STATUS_DETAIL

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Codes that open_results keeps as numbers, which they were before they were flags.
_NUMBERS = {"pruned"}
_ABOUT = ("units", "long_name")


Details = Callable[[], tuple["NDArray[np.int64]", list[str]]]


def named(ds: xr.Dataset, details: Details) -> xr.Dataset:
    """Return a dataset of a store with names for codes, and the texts of cells.

    Parameters
    ----------
    ds : xr.Dataset
        The store as xarray opens it.
    details : callable
        Returns places of cells in the grid, and the text of each.
    """
    ds = ds.reset_coords(STATUS.name)
    for variable in ds.variables.values():
        variable.encoding.pop("coordinates", None)
    found: dict[str, xr.Variable] = {}
    for name in (name for name in FLAGS if name in ds and name not in _NUMBERS):
        codes = ds.variables[name]
        about = {key: codes.attrs[key] for key in _ABOUT}
        lazily = indexing.LazilyIndexedArray(_Names(codes, FLAGS[name]))
        found[name] = xr.Variable(codes.dims, lazily, about)
    status = ds.variables[STATUS.name]
    lazily = indexing.LazilyIndexedArray(_Texts(status.shape, details))
    about = {"units": STATUS_DETAIL.units, "long_name": STATUS_DETAIL.long_name}
    found[STATUS_DETAIL.name] = xr.Variable(status.dims, lazily, about)
    return ds.assign(found)


class _Names(BackendArray):
    """Names of codes that are not read yet; of -1, none."""

    def __init__(self, codes: xr.Variable, names: tuple[str, ...]) -> None:
        self._codes = codes
        self._names = np.array([*names, ""])
        self.shape = codes.shape
        self.dtype = self._names.dtype

    def __getitem__(self, key: Any) -> Any:
        how = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, how, self._get)

    def _get(self, key: Any) -> NDArray[Any]:
        return np.asarray(self._names[self._codes[key].values])


class _Texts(BackendArray):
    """An array of empty texts but for a few cells."""

    def __init__(self, shape: tuple[int, ...], details: Details) -> None:
        self.shape = shape
        self.dtype = np.dtype(object)
        self._details = details

    def __getitem__(self, key: Any) -> Any:
        how = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, how, self._get)

    def _get(self, key: Any) -> NDArray[Any]:
        cells, texts = self._details()
        if not len(cells):
            empty = np.broadcast_to(np.array("", object), self.shape)[key]
            return np.array(empty, object)
        whole = np.full(self.shape, "", object)
        whole.ravel()[cells] = texts
        return np.asarray(whole[key], object)
