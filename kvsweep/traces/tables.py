"""Hits by capacity as files, and lists of capacities as text."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.errors import InputError, clip, shown
from kvsweep.files import replaced, written
from kvsweep.limits import MAX_BLOCKS

UNITS = {
    "blocks": ("block", "blocks of the cache"),
    "tokens": ("token", "tokens that the blocks hold"),
    "gib": ("GiB", "memory of the blocks on each GPU"),
    "lru_hit_rate": ("1", "prompt tokens found / prompt tokens, by least recent use"),
    "best_hit_rate": ("1", "prompt tokens found / prompt tokens, at best"),
}
"""Unit and meaning of each column."""

_DIGITS = 12


def numbers_of(text: str | None) -> list[int]:
    """Return the numbers of blocks in ``1000,2000``, in order and each once; none of nothing.

    Raises
    ------
    InputError
        If one is no number of blocks.
    """
    found = set()
    for word in text.split(",") if text is not None else ():
        digits = word.strip()
        if not (digits.isascii() and digits.isdecimal()):
            raise InputError(f"--blocks: expected numbers as in 1000,2000, got {shown(word)}")
        if len(digits) > _DIGITS or not 1 <= int(digits) <= MAX_BLOCKS:
            raise InputError(f"--blocks: {clip(digits)}; allowed: 1 to {MAX_BLOCKS:,}")
        found.add(int(digits))
    return sorted(found)


def check_table(path: Path | None) -> None:
    """Refuse a name that does not tell a format.

    Raises
    ------
    InputError
        If it ends neither in .csv nor in .nc.
    """
    if path is not None and path.suffix not in (".csv", ".nc"):
        raise InputError(f"--out {path}: a table is written as .csv or .nc (NetCDF)")


def write_table(path: Path, columns: Mapping[str, Sequence[Any]], about: Mapping[str, Any]) -> None:
    """Write columns by number of blocks.

    Parameters
    ----------
    path : Path
        The file, .csv or .nc; one that is there is replaced.
    columns : dict
        Of `capacities.columns`.
    about : dict
        Of `capacities.summary`; its numbers and names become attributes of a NetCDF file.
    """
    if path.suffix == ".csv":
        with written(path) as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(columns)
            rows.writerows(zip(*columns.values(), strict=True))
        return
    import xarray as xr

    data = {
        name: ("blocks", _storable(values), {"units": UNITS[name][0], "long_name": UNITS[name][1]})
        for name, values in columns.items()
    }
    plain = {
        key: value if isinstance(value, str) else _storable([value])[0]
        for key, value in about.items()
        if isinstance(value, int | float | str)
    }
    with replaced(path) as new:
        xr.Dataset(data, attrs=plain).set_coords("blocks").to_netcdf(new, engine="scipy")


def _storable(values: Sequence[Any]) -> NDArray[Any]:
    """Return numbers as such a file has them: integers beyond 32 bits as doubles."""
    found = np.asarray(values)
    wide = found.dtype.kind == "i" and found.max() > np.iinfo(np.int32).max
    return found.astype(np.float64) if wide else found
