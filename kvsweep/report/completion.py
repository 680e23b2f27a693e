"""How the cells of a store ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.variables import count_statuses, in_parts, in_words

if TYPE_CHECKING:
    import xarray as xr

_NOT_NAMED = ("ok", "pending")


def outcome(ds: xr.Dataset) -> dict[str, Any]:
    """Return how many cells ended how, and name those that did not end well.

    Returns
    -------
    dict
        ``cells``: their number; ``status``: number by name; ``incomplete``: of each that was
        simulated and is not ok, its labels (``cell``), ``status`` and ``detail``.
    """
    status = ds["status"]
    axes = {str(dim): ds[dim].values for dim in status.dims}
    found: list[tuple[tuple[int, ...], str]] = []
    for place, values in in_parts(status, status.dims):
        names = in_words(status, values)
        starts = [part.start or 0 for part in place]
        for at in map(tuple, np.argwhere(~np.isin(names, _NOT_NAMED)).tolist()):
            where = tuple(i + start for i, start in zip(at, starts, strict=True))
            found.append((where, str(names[at])))
    # Plain xarray has no texts: they are a table of their own.
    texts = ds["status_detail"].values if found and "status_detail" in ds else None
    incomplete = []
    for where, name in sorted(found):
        labels = {dim: values[i] for (dim, values), i in zip(axes.items(), where, strict=True)}
        detail = "" if texts is None else str(texts[where])
        incomplete.append({"cell": jsonable(labels), "status": name, "detail": detail})
    return {"cells": status.size, "status": count_statuses(ds), "incomplete": incomplete}
