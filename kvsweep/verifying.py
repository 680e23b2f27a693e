"""Whether a store is what was written, and what was written is what simulating gives."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep import simulate
from kvsweep.addresses import located
from kvsweep.arguments import checked
from kvsweep.config.axes import POLICY, SEED
from kvsweep.errors import InputError
from kvsweep.metrics import VARIABLES
from kvsweep.policies import Status
from kvsweep.reading import check_folder
from kvsweep.store import (
    FOLDERS,
    FORMAT,
    check_store,
    difference_of_cells,
    difference_of_makers,
    open_results,
    restored_sweep,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import xarray as xr
    from numpy.typing import NDArray

    from kvsweep.config import Sweep

SAMPLE = 5
# Multiples of it, modulo 1, are spread evenly however many there are.
_GOLDEN = (5**0.5 - 1) / 2
# Cells without a result to compare with.
_WITHOUT = (Status.PENDING.label, Status.FAILED.label)
# How a cell came about, not what it is: one copied from a smaller pool is simulated itself here.
_NOT_COMPARED = "pruned"


class _OtherFileError(InputError):
    """A file of the sweep is not the one that the store was made from."""


@dataclass(frozen=True)
class Verification:
    """What was found.

    Attributes
    ----------
    store : str
        Its directory.
    files : int
        Files whose checksums were compared.
    damaged : tuple of str
        Those that are not what was written.
    pending : int
        Cells that were not simulated yet.
    simulated : tuple of dict
        The cells that were simulated again: values by axis.
    different : tuple of dict
        Those of them that gave something else, and ``variables``: in what.
    not_simulated : str
        Why cells that were asked for were not; empty if all were.
    """

    store: str
    files: int
    damaged: tuple[str, ...] = ()
    pending: int = 0
    simulated: tuple[dict[str, Any], ...] = ()
    different: tuple[dict[str, Any], ...] = ()
    not_simulated: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged and nothing differs."""
        return not self.damaged and not self.different

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values for JSON."""
        return {"ok": self.ok, **asdict(self)}


@checked
def verify(
    store: str | Path,
    *,
    sample: int = SAMPLE,
    folder: str | Path | None = None,
    notify: Callable[[str], None] | None = None,
) -> Verification:
    """Compare every file of a store with its checksum, and some cells with what simulating gives.

    Parameters
    ----------
    store : path
        A store of `kvsweep.run`, also by its address, or of ``kvsweep measure``, which cannot be
        simulated.
    sample : int
        Cells to simulate again, spread over the grid; always the same ones.
    folder : path, optional
        Folder of the sweep file, to which names of traces are relative; the current one, or
        ``sweeps`` in it, if not given.
    notify : callable (str), optional
        Called with a line for the user before something that takes long.

    Returns
    -------
    Verification
        Files that are not what was written, and cells that come out differently.

    Raises
    ------
    InputError
        If there is no store at `store`, or it has no checksums, or no folder at `folder`.

    Examples
    --------
    >>> import kvsweep
    >>> found = kvsweep.verify("results/small.zarr", sample=3)
    >>> found.ok, len(found.simulated), found.damaged
    (True, 3, ())
    """
    if sample < 0:
        raise InputError(f"sample: must be at least 0, got {sample}")
    check_folder(folder)
    if folder is not None and not sample:
        raise InputError("--folder: has no effect with --sample 0, which simulates nothing")
    path = located(store)
    root, found = check_store(path)
    report = Verification(str(path), found.compared, tuple(found.files))
    if root.attributes["format"] != FORMAT:
        return replace(report, not_simulated="a measurement cannot be simulated")
    if found.files:
        return replace(report, not_simulated="damaged files come first")
    ds = open_results(str(path), verify=False)
    pending = int((ds["status"].values == Status.PENDING.label).sum())
    folders = [Path(folder)] if folder is not None else list(FOLDERS)
    chosen = _chosen(ds, sample)
    reason = difference_of_makers(ds.attrs, simulate.source_hash())
    reason = (reason or ("" if chosen else "no cell is done")) if sample else ""
    simulated, different = [], []
    if chosen and not reason:
        simulate.warm_up(notify)
        try:
            for place in chosen:
                cell, variables = _simulate_again(ds, place, folders)
                simulated.append(cell)
                different += [{**cell, "variables": variables}] if variables else []
        except InputError as error:
            told = "--folder, or folder= in Python, names the folder of the sweep file"
            reason = f"{error}; {told}"
    return replace(
        report,
        pending=pending,
        simulated=tuple(simulated),
        different=tuple(different),
        not_simulated=reason,
    )


def _chosen(ds: xr.Dataset, count: int) -> list[tuple[int, ...]]:
    """Return the places of so many cells with a result, spread over all."""
    status = ds["status"].values
    cells = np.flatnonzero(~np.isin(status.ravel(), _WITHOUT))
    picked: Iterable[int] = range(cells.size)
    if count < cells.size:
        places = (int(cells.size * ((k + 0.5) * _GOLDEN % 1)) for k in range(8 * count))
        picked = sorted(list(dict.fromkeys(places))[:count])
    return [tuple(map(int, np.unravel_index(cells[i], status.shape))) for i in picked]


def _simulate_again(
    ds: xr.Dataset, place: tuple[int, ...], folders: list[Path]
) -> tuple[dict[str, Any], list[str]]:
    """Simulate the cell at `place`; return its labels, and the variables that are not the same.

    Raises
    ------
    InputError
        If a file of the sweep is in none of the folders, or another.
    """
    failure: InputError | None = None
    for folder in folders:
        try:
            sweep = restored_sweep(ds.attrs, located(ds.encoding["source"]), folder)
            labels = {a.name: a.values[i] for a, i in zip(sweep.axes, place, strict=True)}
            results = _results(sweep, labels, ds)
        except InputError as error:
            failure = failure if isinstance(failure, _OtherFileError) else error
            continue
        cell = ds.isel(dict(zip(labels, place, strict=True)))
        return labels, [name for name in _compared(ds) if not _same(cell[name], results.get(name))]
    assert failure is not None  # there is a folder
    raise failure


def _results(sweep: Sweep, labels: dict[str, Any], ds: xr.Dataset) -> dict[str, NDArray[Any]]:
    """Return the results of one cell, each without the dimensions of the grid."""
    point = {name: value for name, value in labels.items() if name != SEED}
    variants, policies, seeds = [sweep.scenario(point)], [labels.get(POLICY)], [labels.get(SEED, 0)]
    folder = sweep.base_dir.resolve()
    reason = difference_of_cells(ds.attrs, variants, policies, seeds, folder)
    if reason:
        raise _OtherFileError(f"it was {reason}")
    results = simulate.simulate_batch(
        variants,
        seeds,
        entropy=sweep.entropy,
        policies=policies,
        base_dir=folder,
        keep_requests=bool(ds.attrs["per_request"]),
        slo_classes=ds["slo_class"].values.tolist() if "slo_class" in ds else (),
        prune=False,
    )
    status = Status.labels()[results["status"][0, 0]]
    return {**{name: array[0, 0] for name, array in results.items()}, "status": np.array(status)}


def _compared(ds: xr.Dataset) -> list[str]:
    return [n for n in (*VARIABLES, "status") if n in ds and n != _NOT_COMPARED]


def _same(stored: xr.DataArray, found: NDArray[Any] | None) -> bool:
    """Whether a cell holds these values, and none where the cell has fewer than the sweep."""
    there = np.asarray(stored.values)
    text = there.dtype.kind in "UO"
    missing = "" if text else np.nan if there.dtype.kind == "f" else -1
    whole = np.full(there.shape, missing, object if text else there.dtype)
    if found is not None:
        whole[tuple(map(slice, np.shape(found)))] = found
    if text:
        return bool(there.astype(str).tolist() == whole.astype(str).tolist())
    return bool(np.array_equal(there, whole, equal_nan=there.dtype.kind == "f"))
