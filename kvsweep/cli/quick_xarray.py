"""xarray that leaves Dask alone, in the process of a command.

On its first operation xarray imports dask.array (0.3 s, more than a small sweep is simulated in)
to ask whether an array is one of Dask. None is before somebody else has imported it.

It builds on what xarray keeps to itself: another xarray may import Dask again, nothing worse. And
only a command does this: a library leaves its user's xarray as it is.
"""

import sys
from contextlib import suppress
from functools import cache
from typing import Any


def leave_dask() -> None:
    """Put both questions that xarray has so that Dask is not needed for the usual answer."""
    with suppress(Exception):  # whatever another xarray has elsewhere, or otherwise
        from xarray.namedarray import pycompat, utils

        modules: Any = pycompat._cached_duck_array_modules
        ask_dask, known = utils.is_dask_collection, cache(pycompat.DuckArrayModule)

        def is_dask_collection(value: object) -> bool:
            """Tell whether `value` is a Dask collection: as Dask does, by the attribute first."""
            return hasattr(value, "__dask_graph__") and ask_dask(value)

        class Dask:
            """What xarray knows of Dask's arrays: that there are none, then all of it."""

            def __getattr__(self, name: str) -> Any:
                if name == "type" and "dask.array" not in sys.modules:
                    return ()
                return getattr(known("dask"), name)

        if "dask" not in modules:
            modules["dask"] = Dask()
            utils.is_dask_collection = is_dask_collection  # type: ignore[assignment]
