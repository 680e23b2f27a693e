"""Opening a store for analysis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import zarr

from kvsweep.asked import quantile_names
from kvsweep.errors import InputError
from kvsweep.metrics import QUANTILES, VARIABLES

if TYPE_CHECKING:
    import xarray as xr

FORMAT = "kvsweep-store/1"
MAKER = "kvsweep grid SWEEP.toml"


def open_results(path: str | Path) -> xr.Dataset:
    """Open a store for reading.

    Quantiles are added under their own names: ``ttft_p99_ms`` is ``ttft_ms`` at quantile 0.99.
    Values are read when they are used.

    Raises
    ------
    InputError
        If there is no store at `path`, or it cannot be read.
    """
    from kvsweep.store._xarray import xr

    path = Path(path)
    read_attributes(path)
    try:
        ds = xr.open_dataset(path, engine="zarr", consolidated=False)
        for name in (*ds.sizes, "status", "status_detail"):
            if ds[name].dtype.kind == "T":
                ds[name] = plain_text(ds[name])
    except Exception as error:
        raise unreadable(path, error) from error
    ds = _in_order(ds)
    ds.encoding["source"] = str(path)  # as it was given, for messages
    return ds


def load(ds: xr.Dataset, *names: str) -> xr.Dataset:
    """Read the variables `names` of an open store into memory; all but per-request ones if none.

    Raises
    ------
    InputError
        If a file of the store is damaged.
    """
    for name in names or [str(n) for n in ds.data_vars if "request" not in ds[n].dims]:
        try:
            ds[name].load()
        except Exception as error:
            raise unreadable(Path(ds.encoding["source"]), error) from error
    return ds


def read_attributes(path: Path, form: str = FORMAT, maker: str = MAKER) -> dict[str, Any]:
    """Read the attributes of a store.

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
    found = stored_format(path, maker)
    if found != form:
        made = "" if form == FORMAT else f", as `{maker}` makes it"
        raise InputError(
            f"{path}: is no store of kvsweep{made} (attribute `format` is not {form!r})"
        )
    return dict(zarr.open_group(path, mode="r").attrs)


def stored_format(path: Path, maker: str = MAKER) -> object:
    """Return the attribute ``format`` of a Zarr group, None if it has none.

    Raises
    ------
    InputError
        If there is no group at `path`, or it cannot be read.
    """
    if not path.exists():
        raise InputError(f"{path}: no such store; `{maker}` makes one")
    if not (path / "zarr.json").is_file():
        raise InputError(f"{path}: is no store of kvsweep: there is no zarr.json in it")
    try:
        return zarr.open_group(path, mode="r").attrs.get("format")
    except Exception as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> InputError:
    """Return the error that a broken store raises; what Zarr raises then is of any type."""
    reason = (str(error).splitlines() or [""])[0] or type(error).__name__
    return InputError(f"{path}: cannot be read as a Zarr store: {reason}")


def plain_text(array: xr.DataArray) -> xr.DataArray:
    """Return strings as objects: what Zarr gives, NumPy's newest kind, xarray cannot mask."""
    return array.copy(data=array.values.astype(object))


def _in_order(ds: xr.Dataset) -> xr.Dataset:
    """Order the variables as the registry does, the quantiles after their variable as views."""
    names, views = [], {}
    for name in (name for name in VARIABLES if name in ds):
        names.append(name)
        if "quantile" in ds[name].dims:
            for i, alias in enumerate(quantile_names(name)):
                views[alias] = ds[name].isel(quantile=i, drop=True)
                views[alias].attrs["long_name"] = f"{QUANTILES[i]:g} {ds[name].attrs['long_name']}"
            names += quantile_names(name)
    return ds.assign(views)[[*names, "status", "status_detail"]]
