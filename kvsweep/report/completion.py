"""How the cells of a store ended."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis.jsonable import jsonable
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
    names = list(status.values.flat)
    incomplete = []
    for i in (i for i, name in enumerate(names) if name != Status.OK.label):
        at = np.unravel_index(i, status.shape)
        places = zip(map(str, status.dims), map(int, at), strict=True)
        labels = {dim: ds[dim].values[j] for dim, j in places}
        detail = ds["status_detail"].values[at]
        incomplete.append({"cell": jsonable(labels), "status": names[i], "detail": detail})
    counts = dict(sorted(Counter(names).items()))
    return {"cells": len(names), "status": counts, "incomplete": incomplete}
