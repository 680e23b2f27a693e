"""How the cells of a store ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.variables import count_names
from kvsweep.policies import Status

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
    names = status.values.ravel()
    incomplete = []
    others = np.flatnonzero(names != Status.OK.label)
    details = ds["status_detail"].values.ravel() if others.size else names
    for i in map(int, others):
        at = np.unravel_index(i, status.shape)
        places = zip(map(str, status.dims), map(int, at), strict=True)
        labels = {dim: ds[dim].values[j] for dim, j in places}
        told = {"status": str(names[i]), "detail": str(details[i])}
        incomplete.append({"cell": jsonable(labels), **told})
    return {"cells": names.size, "status": count_names(names), "incomplete": incomplete}
