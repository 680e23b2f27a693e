"""Seeds for ``seed = { until = ... }``: more of them, look by look, until intervals are narrow.

All cells get the same seeds, so that whatever is compared stays paired, and a look tells of all of
them. The numbers of seeds at the looks follow from the sweep file alone, and whether there is
another look from the cells in the store: neither workers nor interruptions change what comes out.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis import statistics, variables
from kvsweep.analysis.jsonable import jsonable
from kvsweep.analysis.warning_records import ResultWarning
from kvsweep.analysis.warnings import stored, warnings_of
from kvsweep.analysis.wording import label, number
from kvsweep.config.axes import SEED
from kvsweep.errors import InputError
from kvsweep.store import exists, load, real_path, stored_attributes, update_attributes

if TYPE_CHECKING:
    from collections.abc import Callable

    import xarray as xr
    from numpy.typing import NDArray

    from kvsweep.addresses import Where
    from kvsweep.config import Sweep
    from kvsweep.config.until import Until

ATTRIBUTE = "until"
"""Attribute of a store: what its seeds reached, a JSON object as of `Reached.to_dict`."""


@dataclass(frozen=True)
class OpenCell:
    """A cell whose interval is not narrow enough.

    Attributes
    ----------
    cell : dict
        The value of each axis but the seed.
    mean, half : float or None
        Mean over the seeds and half width of its interval; None without values.
    missing : int
        Seeds without a value, of which no interval can speak: more seeds are of no use.
    """

    cell: dict[str, Any]
    mean: float | None
    half: float | None
    missing: int


@dataclass(frozen=True)
class Reached:
    """How far seeds have brought the intervals of a measure.

    Attributes
    ----------
    asked : Until
        What was asked for.
    seeds : int
        Seeds of every cell.
    cells, narrow : int
        Cells, the seeds not counted, and how many of them are narrow enough.
    equal : int
        Of those that are, how many have the same value with every seed.
    open : tuple of OpenCell
        The others, the widest first.
    """

    asked: Until
    seeds: int
    cells: int
    narrow: int
    equal: int
    open: tuple[OpenCell, ...]

    @property
    def more_help(self) -> bool:
        """Whether there are cells that more seeds may make narrow."""
        return any(not cell.missing for cell in self.open)

    def to_dict(self) -> dict[str, Any]:
        """Return it in plain types."""
        plain: dict[str, Any] = jsonable({**asdict(self), "asked": self.asked.model_dump()})
        return plain


def reached(ds: xr.Dataset, asked: Until) -> Reached:
    """Tell in which cells of a store the mean over the seeds is known well enough.

    Parameters
    ----------
    ds : xr.Dataset
        The store, with an axis of seeds.
    asked : Until
        The measure, and how narrow its intervals must be.
    """
    array = variables.get(load(ds, asked.metric), asked.metric)
    others = [str(dim) for dim in array.dims if dim != SEED]
    values = array.transpose(*others, SEED).values.reshape(-1, array.sizes[SEED])
    mean, half = statistics.mean_and_t(values, asked.confidence)
    missing = np.isnan(values).sum(axis=1)
    goal = np.fmax(asked.absolute or 0.0, (asked.relative or 0.0) * np.abs(mean))
    narrow = (half <= goal) & (missing == 0)
    # What has no interval at all is widest, then those that are furthest from their goals.
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.nan_to_num(half / goal, nan=np.inf)
    widest = sorted(np.flatnonzero(~narrow), key=lambda at: (-excess[at], at))
    shape = [array.sizes[dim] for dim in others]

    def cell(at: np.intp) -> OpenCell:
        places = np.unravel_index(at, shape) if shape else ()
        labels = {dim: ds[dim].values[i] for dim, i in zip(others, places, strict=True)}
        return OpenCell(labels, _known(mean[at]), _known(half[at]), int(missing[at]))

    return Reached(
        asked,
        seeds=values.shape[1],
        cells=len(values),
        narrow=int(narrow.sum()),
        equal=int((narrow & (np.ptp(values, axis=1) == 0.0)).sum()),
        open=tuple(map(cell, widest)),
    )


def run_until(
    sweep: Sweep,
    path: Where,
    run: Callable[..., xr.Dataset],
    *,
    overwrite: bool,
    extend: bool,
    notify: Callable[[str], None] | None,
) -> xr.Dataset:
    """Run a sweep with more and more seeds, until all intervals are narrow or there are `most`.

    Parameters
    ----------
    sweep : Sweep
        With ``until``.
    path : path or Address
        Its store, in which what came out is noted.
    run : callable (Sweep, *, overwrite, extend) -> xr.Dataset
        Fills the store with the seeds that a sweep has.
    overwrite, extend : bool
        As of `kvsweep.run`, for the first look; later ones extend the store.
    notify : callable (str), optional
        Called with a line after each look but the last.
    """
    asked = sweep.until
    assert asked is not None  # whoever calls has looked
    seeds = asked.least if overwrite else seeds_there(real_path(path), asked)
    while True:
        ds = run(sweep.with_seeds(seeds), overwrite=overwrite, extend=extend)
        found = reached(ds, asked)
        if seeds >= asked.most or not found.more_help:
            return noted(path, ds, found)
        seeds, overwrite, extend = asked.next(seeds), False, True
        if notify:
            done = f"{found.seeds:,} seeds: {found.narrow:,} of {found.cells:,} cells narrow enough"
            notify(f"{done}; on to {seeds:,}")


def noted(path: Where, ds: xr.Dataset, found: Reached) -> xr.Dataset:
    """Store with the results what their seeds reached, and the warning if that is not enough.

    Parameters
    ----------
    path : path or Address
        The store.
    ds : xr.Dataset
        Its results, opened.
    found : Reached
        What their seeds reached.

    Returns
    -------
    xr.Dataset
        The results, with these attributes.
    """
    attributes = {ATTRIBUTE: json.dumps(found.to_dict(), allow_nan=False)}
    if warning := warning_of(found):
        attributes |= stored([*warnings_of(ds), warning])
    update_attributes(path, attributes)
    return ds.assign_attrs(attributes)


def refuse_shard(shard: str | None) -> None:
    """Refuse to run shares of the cells: only all of them tell whether seeds are enough."""
    if shard is not None:
        raise InputError(
            "--shard: not with seed = { until = ... }, which looks at all cells to tell whether "
            "seeds are enough; --seeds N gives their number"
        )


def seeds_there(path: Where, asked: Until) -> int:
    """Return how many seeds to begin with: those of a store that an earlier run left, or the least.

    A store of other seeds than 0, 1, 2, ... has too few; it is refused when it is opened.
    """
    if not exists(path):
        return asked.least
    try:
        grid = json.loads(stored_attributes(path)["sweep"])["grid"]
    except (InputError, KeyError, TypeError, ValueError):
        return asked.least  # whoever opens it tells what is wrong
    there = grid.get(SEED) or []
    return max(len(there), asked.least) if there == list(range(len(there))) else asked.least


def warning_of(found: Reached) -> ResultWarning | None:
    """Return the warning that cells are not known as well as was asked for, if any are not."""
    if not found.open:
        return None
    worst = next((cell for cell in found.open if not cell.missing), found.open[0])
    setting = f", worst at {label(worst.cell)}" if worst.cell else ""
    told = (
        ""
        if worst.half is None or worst.mean is None
        else f" (± {number(worst.half)} at a mean of {number(worst.mean)})"
    )
    lost = sum(1 for cell in found.open if cell.missing)
    why = f"; {lost:,} of them lack values, which more seeds do not mend" if lost else ""
    advice = "; raise until.most, or ask for less" if found.more_help else ""
    text = (
        f"{found.asked}: not reached in {len(found.open):,} of {found.cells:,} cells "
        f"with {found.seeds:,} seeds{setting}{told}{why}{advice}"
    )
    return ResultWarning("seeds", text, len(found.open), found.cells, dict(jsonable(worst.cell)))


def _known(value: NDArray[np.float64] | float) -> float | None:
    return None if np.isnan(value) else float(value)
