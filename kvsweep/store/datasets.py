"""Small datasets as they are, written and read whole: measurements."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from kvsweep.addresses import Address, Where
from kvsweep.errors import InputError
from kvsweep.store.folders import clear_parts, made_beside, move_in, recognise
from kvsweep.store.lock import locked
from kvsweep.store.metadata import ROOT, Root, summed
from kvsweep.store.places import storage
from kvsweep.store.refusals import damage, read_store, refuse_unsealed, unreadable
from kvsweep.store.writing import real_path

if TYPE_CHECKING:
    import xarray as xr


def save_dataset(path: Path, ds: xr.Dataset) -> None:
    """Write `ds` to `path`, in place of the store that is there: one of the two is there, whole.

    Raises
    ------
    InputError
        If nothing can be written there, or something is there that is no store of this kind.
    """
    path = _folder(path)
    form = ds.attrs["format"]
    with locked(path):
        clear_parts(path, form)
        check_replaceable(path, form)
        with made_beside(path) as new:
            _write(new, ds)
            move_in(new, path)


def check_replaceable(path: Path, form: str) -> None:
    """Refuse a place where something is that is no store of the format `form`.

    Raises
    ------
    InputError
        If `save_dataset` would refuse it.
    """
    path = _folder(path)
    if path.exists():
        recognise(path, form)


def open_dataset(path: Where, form: str, maker: str) -> xr.Dataset:
    """Read the whole dataset at `path` into memory.

    Parameters
    ----------
    path : Where
        Its directory, or address.
    form : str
        What its attribute ``format`` must be.
    maker : str
        The command that makes such stores, for messages.

    Raises
    ------
    InputError
        If there is no such store, it is damaged, or it cannot be read.
    """
    import xarray as xr

    root = read_store(path, form, maker)
    refuse_unsealed(path, root, maker)
    if files := root.damaged(storage(path)):
        raise damage(path, files, f"`{maker} --overwrite` measures it again")
    try:
        ds = xr.open_dataset(str(path), engine="zarr", consolidated=True).load()
    except Exception as error:
        raise unreadable(path, error) from error
    ds.attrs = root.attributes
    return ds


def _folder(path: Path) -> Path:
    """Return what `path` leads to."""
    where = real_path(path)
    if isinstance(where, Address):
        raise InputError(f"{where}: measurements are written into folders of this machine only")
    return where


def _write(path: Path, ds: xr.Dataset) -> None:
    """Write a store into an empty folder, and then the checksums of all its files."""
    from zarr.codecs import ZstdCodec

    ds = ds.copy()
    for name, array in ds.variables.items():
        if array.dtype == object:  # text, which has a fixed width in a store
            ds[name] = ds[name].astype(str)
    encoding = {
        name: {"compressors": (ZstdCodec(level=0, checksum=True),)} for name in ds.variables
    }
    with warnings.catch_warnings():
        # Zarr warns of text of a fixed width, whose specification is an extension of version 3.
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification")
        ds.to_zarr(path, mode="w-", zarr_format=3, consolidated=False, encoding=encoding)
    attributes = json.loads((path / ROOT).read_bytes())["attributes"]
    files = sorted(file for file in path.rglob("*") if file.is_file() and file != path / ROOT)
    arrays = {
        file.parent.name: json.loads(file.read_bytes()) for file in files if file.name == ROOT
    }
    names = [file.relative_to(path).as_posix() for file in files]
    folder = storage(path)
    Root(attributes, arrays, summed(folder, names)).write(folder)
