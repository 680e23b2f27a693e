"""The cells of a grid as plain arrays, with their scenarios where these are known: for warnings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis import variables
from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.settings import values_of
from kvsweep.config.axes import POLICY
from kvsweep.metrics import VARIABLES

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.config import Scenario
    from kvsweep.workload.requests import Requests

SEED = "seed"
WARMUP = "workload.warmup"
KEPT = 1 << 20
"""How many cells' values are kept of what was read; of a larger grid those of one variable."""


@dataclass(frozen=True)
class Cells:
    """The cells of a grid, of which those that did not end well have no numbers.

    Attributes
    ----------
    axes : dict of str to sequence
        Values of each axis, in the order of the grid's dimensions; empty for a single cell.
    ok : bool (grid)
        Where there are numbers.
    statuses : callable -> dict of str to int
        Counts the cells by how they ended.
    read : callable (str) -> float64 (grid, ...) or None
        Gives a variable, NaN where a cell has no number; None if there is no such variable.
    names : sequence of str
        The variables that there are.
    cliff : bool
        Whether a cliff is looked for.
    scenarios : Scenario (grid), optional
        The scenario of each cell; the seeds, which share them, may have one place.
    requests : callable (index of a cell) -> Requests, optional
        Its request list.
    count_instances : callable -> int64 (grid), optional
        Counts the instances of each cell, where the scenarios are not known.
    sized : bool
        Whether it is the answer to what a server keeps, or takes, or to at which rate a cliff is.
    count_warmups : callable -> int64 (grid), optional
        Counts the requests of each cell that are not measured, where the scenarios are not known.
    """

    axes: Mapping[str, Sequence[Any]]
    ok: NDArray[np.bool_]
    statuses: Callable[[], Mapping[str, int]]
    read: Callable[[str], NDArray[np.float64] | None] = field(repr=False)
    names: Sequence[str] = ()
    cliff: bool = False
    scenarios: NDArray[Any] | None = field(default=None, repr=False)
    requests: Callable[[tuple[int, ...]], Requests] | None = field(default=None, repr=False)
    count_instances: Callable[[], NDArray[np.int64]] | None = field(default=None, repr=False)
    sized: bool = False
    count_warmups: Callable[[], NDArray[np.int64]] | None = field(default=None, repr=False)

    @property
    def warmups(self) -> NDArray[np.int64]:
        """Requests of each cell that are not measured, 0 where nobody tells; (grid)."""
        found = self.settings(lambda scenario: scenario.workload.warmup if scenario.workload else 0)
        if found is None and self.count_warmups is not None:
            return self.count_warmups()
        return np.zeros(self.ok.shape, np.int64) if found is None else found.astype(np.int64)

    @cached_property
    def instances(self) -> NDArray[np.int64]:
        """Instances of each cell; (grid)."""
        found = self.settings(lambda scenario: scenario.cluster.instances, np.int64)
        if found is None:
            assert self.count_instances is not None
            return self.count_instances()
        return found

    def number(self, name: str) -> NDArray[np.float64]:
        """Return a variable, NaN where a cell has no number; all NaN if there is none.

        A variable of a large sweep is read in 5 ms: what seldom matters is asked for last.
        """
        found = self.read(name)
        return np.full(self.ok.shape, np.nan) if found is None else found

    def scenario(self, index: tuple[int, ...]) -> Scenario | None:
        """Return the scenario of the cell at `index`, if it is known."""
        if self.scenarios is None:
            return None
        found: Scenario = np.broadcast_to(self.scenarios, self.ok.shape)[index]
        return found

    def settings(self, get: Callable[[Scenario], Any], dtype: Any = object) -> NDArray[Any] | None:
        """Return what `get` returns of each cell's scenario, if they are known; (grid)."""
        if self.scenarios is None:
            return None
        found = np.asarray(np.frompyfunc(get, 1, 1)(self.scenarios), dtype)
        return np.broadcast_to(found, self.ok.shape)

    def labels(self, index: tuple[int, ...]) -> dict[str, Any]:
        """Return the setting of the cell at `index`: the value of each axis but the seed."""
        places = zip(self.axes.items(), index, strict=True)
        labels = {name: values[i] for (name, values), i in places if name != SEED}
        plain: dict[str, Any] = jsonable(labels)
        return plain

    def seed_mean(self, values: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the mean over the seeds that have a value, NaN of none, and their number."""
        along = (list(self.axes).index(SEED),) if SEED in self.axes else ()
        known = np.isfinite(values)
        count = known.sum(axis=along, keepdims=True)
        total = np.where(known, values, 0.0).sum(axis=along, keepdims=True)
        mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        return np.broadcast_to(mean, values.shape), np.broadcast_to(count, values.shape)


def cells_of(
    ds: xr.Dataset,
    *,
    cliff: bool = False,
    scenarios: NDArray[Any] | None = None,
    requests: Callable[[tuple[int, ...]], Requests] | None = None,
) -> Cells:
    """Return the cells of an open store; a variable is read when it is asked for."""
    ok = variables.is_ok(ds)

    # Of a million cells one is 8 MB, and read in 5 ms: what checks in a row ask for is kept. In
    # small grids, where each takes as long, several checks' are.
    @lru_cache(maxsize=max(1, KEPT // max(1, ok.size)))
    def read(name: str) -> NDArray[np.float64] | None:
        return _variable(ds, name, ok) if name in ds else None

    axes = {str(dim): ds[dim].values.tolist() if dim in ds.coords else range(n)
            for dim, n in ok.sizes.items()}  # fmt: skip
    names = [n for n in VARIABLES if n in ds and ds[n].dtype.kind in "fi"]
    names = [n for n in names if "request" not in ds[n].dims]
    statuses, count = partial(variables.count_statuses, ds), partial(_instances, ds, ok)
    found = Cells(axes, ok.values, statuses, read, names, cliff, scenarios, requests, count)
    return replace(found, count_warmups=partial(_warmups, ds, ok))


def _variable(ds: xr.Dataset, name: str, ok: xr.DataArray) -> NDArray[np.float64]:
    """Read a variable, not to be written into; the dataset does not keep what it was stored as."""
    from kvsweep.store import load

    part = ds[[each for each in (name, "status") if each in ds]].copy()
    array = variables.as_stored(load(part, name), name, ok)
    found: NDArray[np.float64] = array.transpose(*ok.dims, ..., missing_dims="ignore").values
    found.flags.writeable = False
    return found


def _instances(ds: xr.Dataset, ok: xr.DataArray) -> NDArray[np.int64]:
    """Count the instances that each cell has a number of; (grid).

    None are kept: of a million cells with four instances all are 32 MB. Of a part of a dataset that
    does not tell them, as of one instance, it is one.
    """
    if "peak_blocks" not in ds or "instance" not in ds["peak_blocks"].dims:
        return ok.values.astype(np.int64)
    found = np.zeros(ok.shape, np.int64)
    peaks = ds["peak_blocks"].transpose(*ok.dims, "instance", missing_dims="ignore")
    for place, values in variables.in_parts(peaks, ok.dims):
        found[place] = (values >= 0).sum(axis=-1)
    return np.where(ok.values, found, 0)


def _warmups(ds: xr.Dataset, ok: xr.DataArray) -> NDArray[np.int64]:
    """Count the requests of each cell that are not measured, as the sweep of a store has it."""
    values = values_of(ds, WARMUP)
    if isinstance(values, list):
        counts = np.array([value or 0 for value in values], np.int64)
        if POLICY not in ok.dims:  # one policy, or nobody knows which: that all have
            return np.full(ok.shape, counts.min(), np.int64)
        values = ok[POLICY].copy(data=counts)
    spread = values.broadcast_like(ok).transpose(*ok.dims)
    return spread.values.astype(np.int64)
