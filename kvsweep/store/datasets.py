"""Small datasets as they are, written and read whole: measurements."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kvsweep.errors import InputError
from kvsweep.store.reading import plain_text, read_attributes, unreadable
from kvsweep.store.writing import discard

if TYPE_CHECKING:
    import xarray as xr


def save_dataset(path: Path, ds: xr.Dataset) -> None:
    """Write `ds` to `path`, in place of the store that is there: one of the two is there, whole.

    Raises
    ------
    InputError
        If nothing can be written there, or something is there that is no store.
    """
    new = path.with_name(path.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.parent.mkdir(parents=True, exist_ok=True)
        ds.to_zarr(new, mode="w-", zarr_format=3, consolidated=False)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    if path.exists():
        discard(path)
    new.rename(path)


def open_dataset(path: Path, form: str, maker: str) -> xr.Dataset:
    """Read the whole dataset at `path` into memory.

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
        If there is no such store, or it cannot be read.
    """
    from kvsweep.store._xarray import xr

    read_attributes(path, form, maker)
    try:
        ds = xr.open_dataset(path, engine="zarr", consolidated=False).load()
    except Exception as error:
        raise unreadable(path, error) from error
    for name in ds.variables:
        if ds[name].dtype.kind == "T":
            ds[name] = plain_text(ds[name])
    return ds
