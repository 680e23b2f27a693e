"""GiB beside blocks, where the bytes of a token are known."""

from __future__ import annotations

import xarray as xr

from kvsweep.analysis.cliff_records import Cliff
from kvsweep.analysis.crossing import Outcome
from kvsweep.analysis.gib import unit_gib
from kvsweep.analysis.wording import gib, label

LINE = 100  # letters, of a line that is read as one


def cliff_memory(ds: xr.Dataset, cliff: Cliff) -> str:
    """Write the cliffs along blocks in GiB, an empty text if that is not known or there is none.

    Many have a line each.
    """
    each = unit_gib(ds, cliff.along)
    if each is None:
        return ""
    found = [
        (label(group.labels), float(group.mean_curve.value))
        for group in cliff.groups
        if group.mean_curve.outcome is Outcome.CROSSES
    ]
    told = [
        f"{name}: {_gib(value * each)}" if name else _gib(value * each) for name, value in found
    ]
    if not told:
        return ""
    head, line = "KV cache at the cliff, on each GPU:", "; ".join(told)
    return f"{head} {line}" if len(head) + len(line) < LINE else "\n  ".join([head, *told])


def axis_memory(ds: xr.Dataset, axis: str) -> str:
    """Write an axis of blocks in GiB: ``0.98 to 2.54 GiB on each GPU``, or an empty text."""
    each = unit_gib(ds, axis)
    values = ds[axis].values
    if each is None or values.dtype.kind not in "iuf":
        return ""
    low, high = float(values.min()) * each, float(values.max()) * each
    return f"{gib(low)} to {_gib(high)} on each GPU"


def _gib(amount: float) -> str:
    return f"{gib(amount)} GiB"
