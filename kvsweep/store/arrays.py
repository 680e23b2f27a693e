"""An array of a store: its metadata, and its chunks as bytes.

What is written is what Zarr writes, without its cost: through Zarr the metadata of an array takes
2 ms and a chunk of 500 cells as long, most of it handing them from thread to thread, and a store
has 40 variables. What is in a chunk's file takes 0.1 ms: the bytes, compressed by the codec library
that Zarr itself uses, with a checksum that every reader of Zarr looks at.

Text has a fixed width: of text without one xarray can neither mask cells nor fill gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numcodecs.zstd import Zstd

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ZSTD = {"level": 0, "checksum": True}
_COMPRESSOR = Zstd(**_ZSTD)


@dataclass(frozen=True)
class Array:
    """An array of a store.

    Attributes
    ----------
    name : str
        Its name, and its folder's.
    shape, chunks : tuple of int
        Length along each dimension, of the array and of a chunk.
    dtype : np.dtype
        Little-endian; text is ``U``, or ``S`` where it is long and mostly empty.
    fill_value : object
        What a chunk without a file holds.
    dims : tuple of str
        Names of the dimensions.
    attributes : dict of str to str
        Unit and meaning.
    """

    name: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    fill_value: Any
    dims: tuple[str, ...]
    attributes: dict[str, str]

    @property
    def is_coordinate(self) -> bool:
        """Whether it labels its own dimension."""
        return self.dims == (self.name,)

    def document(self) -> dict[str, Any]:
        """Return its metadata as Zarr v3 has them."""
        plain = self.dtype.itemsize == 1 or self.dtype.kind == "S"
        as_bytes = {} if plain else {"configuration": {"endian": "little"}}
        encoding = {"_Encoding": "ascii"} if self.dtype.kind == "S" else {}
        return {
            "shape": list(self.shape),
            "data_type": _data_type(self.dtype),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.chunks)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": _json_value(self.fill_value),
            "codecs": [
                {"name": "bytes", **as_bytes},
                {"name": "zstd", "configuration": _ZSTD},
            ],
            "attributes": {**self.attributes, **encoding},
            "dimension_names": list(self.dims),
            "zarr_format": 3,
            "node_type": "array",
            "storage_transformers": [],
        }

    def encode(self, values: NDArray[Any]) -> bytes | None:
        """Return the file of a chunk; a smaller block of values is filled up.

        None if every value is the missing one: like Zarr, a store has no file of such a chunk.

        Raises
        ------
        ValueError
            If a text is too long.
        """
        block = self._cells(values)
        if block.shape != self.chunks:
            whole = np.full(self.chunks, self.fill_value, self.dtype)
            whole[tuple(map(slice, block.shape))] = block
            block = whole
        if self._is_empty(block):
            return None
        compressed: bytes = _COMPRESSOR.encode(np.ascontiguousarray(block))
        return compressed

    def decode(self, data: bytes) -> NDArray[Any]:
        """Return the chunk of a file whose checksum is right."""
        return np.frombuffer(_COMPRESSOR.decode(data), self.dtype).reshape(self.chunks)

    def _cells(self, values: NDArray[Any]) -> NDArray[Any]:
        if self.dtype.kind == "S":
            return _ascii(values, self.dtype)
        if self.dtype.kind == "U":
            values = values.astype(str)
            if values.dtype.itemsize > self.dtype.itemsize:
                raise ValueError(f"{self.name}: a text is longer than {self.dtype.itemsize // 4}")
        return values.astype(self.dtype, copy=False)

    def _is_empty(self, block: NDArray[Any]) -> bool:
        """Whether every value is the missing one."""
        if not block.size:
            return True
        first = block.flat[0]
        if first == first and first != self.fill_value:
            return False  # cheaper than a look at all, and mostly so
        same = np.isnan(block) if block.dtype.kind == "f" else block == self.fill_value
        return bool(same.all())


def _data_type(dtype: np.dtype[Any]) -> str | dict[str, Any]:
    names = {"U": "fixed_length_utf32", "S": "null_terminated_bytes"}
    if dtype.kind not in names:
        return dtype.name
    return {"name": names[dtype.kind], "configuration": {"length_bytes": dtype.itemsize}}


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()  # in base 64, but it is always empty
    return "NaN" if value != value else value


def _ascii(texts: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return texts as ASCII bytes, as which xarray writes them to netCDF 3 too.

    Other characters are escaped; what is too long ends with dots.
    """
    found = np.zeros(texts.shape, dtype)
    if texts.any():
        for at, text in np.ndenumerate(texts):
            found[at] = _shortened(str(text), dtype.itemsize)
    return found


def _shortened(text: str, width: int) -> bytes:
    data = text.encode("ascii", errors="backslashreplace")
    return data if len(data) <= width else data[: width - 3] + b"..."
