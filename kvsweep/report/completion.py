"""How the cells of a store ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.variables import count_statuses, is_ok

if TYPE_CHECKING:
    import xarray as xr


def outcome(ds: xr.Dataset) -> dict[str, Any]:
    """Return how many cells ended how, and name those that did not complete.

    Returns
    -------
    dict
        ``cells``: their number; ``status``: number by name; ``incomplete``: of each, its labels
        (``cell``), ``status`` and ``detail``.
    """
    status = ds["status"]
    incomplete = []
    others = np.flatnonzero(~is_ok(ds).values)
    texts = [ds[name].values.ravel() for name in ("status", "status_detail") if others.size]
    for i in map(int, others):
        at = np.unravel_index(i, status.shape)
        places = zip(map(str, status.dims), map(int, at), strict=True)
        labels = {dim: ds[dim].values[j] for dim, j in places}
        name, detail = (str(text[i]) for text in texts)
        incomplete.append({"cell": jsonable(labels), "status": name, "detail": detail})
    return {"cells": status.size, "status": count_statuses(ds), "incomplete": incomplete}
