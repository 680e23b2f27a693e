"""Opening a store for analysis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.arguments import checked
from kvsweep.errors import InputError, did_you_mean
from kvsweep.metrics import QUANTILES, VARIABLES, quantile_names
from kvsweep.store.checking import Check, check
from kvsweep.store.metadata import ROOT, Root, read_root
from kvsweep.store.points import with_points

if TYPE_CHECKING:
    import xarray as xr

FORMAT = "kvsweep-store/1"
MAKER = "kvsweep grid SWEEP.toml"


@checked
def open_results(path: str | Path, *, verify: bool = True) -> xr.Dataset:
    """Open a store for reading.

    Quantiles are added under their own names: ``ttft_p99_ms`` is ``ttft_ms`` at quantile 0.99.
    Values are read when they are used.

    Parameters
    ----------
    path : path
        Directory of the store.
    verify : bool
        Compare all files with their checksums first. It takes 20 ms for 13,400 cells and 0.2 s for
        a million; without, damage may be read as numbers.

    Returns
    -------
    xr.Dataset
        A variable per measure, with ``units`` and ``long_name``, over the axes of the sweep:
        float64, int64 or text. Look at ``status`` first: only ``ok`` cells carry numbers, others
        NaN or -1.

    Raises
    ------
    InputError
        If there is no store at `path`, it is damaged, or it cannot be read.

    Examples
    --------
    >>> import kvsweep
    >>> ds = kvsweep.open_results("results/small.zarr")
    >>> ds["ttft_p99_ms"].dims, ds["ttft_p99_ms"].attrs["units"]
    (('policy', 'rate', 'gpu_blocks', 'seed'), 'ms')
    """
    import xarray as xr

    path = Path(path)
    root = read_store(path)
    if verify:
        refuse_unsealed(path, root, f"{MAKER} --overwrite")
        found = check(path, root)
        if found.files:
            raise damage(path, found.files)
    try:
        ds = xr.open_dataset(path, engine="zarr", consolidated=bool(root.arrays))
        if not (path / "status_detail" / "c").exists():  # nothing went wrong: nothing to decode
            status, about = ds["status"], ds["status_detail"].attrs
            ds["status_detail"] = (status.dims, np.full(status.shape, "", object), about)
        ds = _in_order(ds)
    except Exception as error:
        raise unreadable(path, error) from error
    ds.attrs = root.attributes
    ds = with_points(ds)
    ds.encoding["source"] = str(path)  # as it was given, for messages
    return ds


def load(ds: xr.Dataset, *names: str) -> xr.Dataset:
    """Read the variables `names` of an open store into memory; all but per-request ones if none.

    Raises
    ------
    InputError
        If there is no such variable, or a file of the store is damaged.
    """
    for name in names or [str(n) for n in ds.data_vars if "request" not in ds[n].dims]:
        if name not in ds:
            raise InputError(
                f"metric: no variable {name!r}{did_you_mean(name, list(map(str, ds)))}"
            )
        try:
            ds[name].load()
        except Exception as error:
            raise unreadable(Path(ds.encoding["source"]), error) from error
    return ds


def check_store(path: Path) -> tuple[Root, Check]:
    """Compare all files of a store, of results or of measurements, with their checksums.

    Returns
    -------
    Root, Check
        What its root says, and what is the matter with it.

    Raises
    ------
    InputError
        If there is no store at `path`, or it has no checksums.
    """
    root = read_root(path, MAKER)
    if not str(root.attributes.get("format")).startswith("kvsweep-"):
        read_store(path)  # which says so
    refuse_unsealed(path, root, f"{MAKER} --overwrite")
    return root, check(path, root)


def refuse_unsealed(path: Path, root: Root, maker: str) -> None:
    """Refuse a store without checksums: to read it were to print numbers that nobody vouches for.

    Raises
    ------
    InputError
        If it has none.
    """
    if not root.sealed:
        raise InputError(
            f"{path}: has no checksums: an older kvsweep made it, or another program changed it, "
            f"so that damage would not be seen; `{maker}` makes it anew, xarray.open_zarr reads it "
            "as it is"
        )


def damage(path: Path, files: list[str], remedy: str = "") -> InputError:
    """Return the error of a store whose `files` are not what was written, naming the first."""
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    remedy = remedy or f"`{MAKER} --out {path}` runs these cells again"
    return InputError(
        f"{path}: damaged: {files[0]}{more} changed since written; {remedy}, "
        f"`kvsweep verify {path}` lists all"
    )


def read_store(path: Path, form: str = FORMAT, maker: str = MAKER) -> Root:
    """Read the root of a store.

    Parameters
    ----------
    path : Path
        Its directory.
    form : str
        What its attribute ``format`` must be.
    maker : str
        The command that makes such stores, for messages.

    Raises
    ------
    InputError
        If there is no store at `path`, it cannot be read, or it is something else.
    """
    root = read_root(path, maker)
    if root.attributes.get("format") != form:
        made = "" if form == FORMAT else f", as `{maker}` makes it"
        if root.sealed and not root.intact:
            raise damage(path, [ROOT])
        raise InputError(
            f"{path}: is no store of kvsweep{made} (attribute `format` is not {form!r})"
        )
    return root


def stored_format(path: Path, maker: str = MAKER) -> object:
    """Return the attribute ``format`` of a Zarr group, None if it has none.

    Raises
    ------
    InputError
        If there is no group at `path`, or it cannot be read.
    """
    return read_root(path, maker).attributes.get("format")


def unreadable(path: Path, error: Exception) -> InputError:
    """Return the error that a broken store raises; what Zarr raises then is of any type."""
    reason = (str(error).splitlines() or [""])[0] or type(error).__name__
    return InputError(f"{path}: cannot be read as a Zarr store: {reason}")


def _in_order(ds: xr.Dataset) -> xr.Dataset:
    """Order the variables as the registry does, the quantiles after their variable as views."""
    names: list[str] = []
    views: dict[str, Any] = {}
    for name in (name for name in VARIABLES if name in ds):
        names.append(name)
        if "quantile" in ds[name].dims:
            for i, alias in enumerate(quantile_names(name)):
                views[alias] = ds[name].isel(quantile=i, drop=True)
                views[alias].attrs["long_name"] = f"{QUANTILES[i]:g} {ds[name].attrs['long_name']}"
            names += quantile_names(name)
    return ds.assign(views)[[*names, "status", "status_detail"]]
