"""Chunks and shards as Zarr itself makes them, through its public functions."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encoded(document: dict[str, Any], values: NDArray[Any]) -> bytes | None:
    """Return the file of an array that has one, None if all of its values are missing."""
    import zarr

    with TemporaryDirectory() as folder:
        Path(folder, "zarr.json").write_text(json.dumps(document))
        zarr.open_array(folder, mode="r+", zarr_format=3)[...] = values
        file = _file(Path(folder), document)
        return file.read_bytes() if file.exists() else None


def decoded(document: dict[str, Any], data: bytes) -> NDArray[Any]:
    """Return the values of an array that has one file."""
    import zarr

    with TemporaryDirectory() as folder:
        Path(folder, "zarr.json").write_text(json.dumps(document))
        file = _file(Path(folder), document)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        array = zarr.open_array(folder, mode="r", zarr_format=3)
        return np.asarray(array[...])


def _file(folder: Path, document: dict[str, Any]) -> Path:
    return folder.joinpath("c", *("0" for _ in document["shape"]))
