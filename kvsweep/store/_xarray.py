"""xarray that leaves Dask alone until somebody uses it.

On its first operation xarray imports dask.array (0.3 s, more than a small sweep is simulated in)
to ask whether an array is one of Dask. None is before somebody else has imported it.

It builds on what xarray keeps to itself: another xarray may import Dask again, nothing worse.
"""

import sys
from contextlib import suppress
from typing import Any

import xarray as xr
from xarray.namedarray import pycompat, utils

__all__ = ["xr"]


class _Dask:
    """What xarray knows of Dask's arrays: that there are none, then all of it once they are."""

    def __getattr__(self, name: str) -> Any:
        if name == "type" and "dask.array" not in sys.modules:
            return ()
        self.__dict__ |= vars(pycompat.DuckArrayModule("dask"))
        return self.__dict__[name]


def _ask_less() -> None:
    """Put both questions that xarray has so that Dask is not needed for the usual answer."""
    ask_dask = utils.is_dask_collection

    def is_dask_collection(value: object) -> bool:
        """Tell whether `value` is a Dask collection: as Dask does, by the attribute first."""
        return hasattr(value, "__dask_graph__") and ask_dask(value)

    utils.is_dask_collection = is_dask_collection  # type: ignore[assignment]
    pycompat._cached_duck_array_modules.setdefault("dask", _Dask())  # type: ignore[arg-type]


with suppress(AttributeError):
    _ask_less()
