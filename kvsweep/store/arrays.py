"""An array of a store: its metadata, and its chunks and shards as bytes.

What is written is what Zarr writes, without its cost: through Zarr a chunk of 500 cells takes 2 ms,
most of it handing it from thread to thread, and 1.4 ms more in a shard; here 0.1 ms and, to put it
into its shard, 2 us. A million cells in 40 variables are 4,400 chunks. Where that gives
anything else than Zarr does, Zarr writes (`by_zarr`).

Text has a fixed width: of text without one xarray can neither mask cells nor fill gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.store import by_zarr, fast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from kvsweep.store.sharding import Place


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
        Little-endian; text is ``U``, or ``S`` where it is long.
    fill_value : object
        What a chunk that is not there holds.
    dims : tuple of str
        Names of the dimensions.
    attributes : dict
        Unit and meaning; of flags their values and meanings too.
    shards : tuple of int or None
        Chunks of a file along each dimension; None if each is a file of its own.
    flags : tuple of str
        Names of the values 0, 1, ... if it holds codes of names.
    """

    name: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    fill_value: Any
    dims: tuple[str, ...]
    attributes: dict[str, Any]
    shards: tuple[int, ...] | None = None
    flags: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return its metadata as Zarr v3 has them."""
        encoding = {"_Encoding": "ascii"} if self.dtype.kind == "S" else {}
        return self._document(self.shape, self.shards, self.attributes | encoding)

    def encode(self, values: NDArray[Any]) -> bytes | None:
        """Return a chunk; a smaller block of values is filled up.

        None if every value is the missing one: like Zarr, a store has no such chunk.

        Raises
        ------
        ValueError
            If a text is too long.
        """
        block = self.stored(values)
        if block.shape != self.chunks:
            whole = np.full(self.chunks, self.fill_value, self.dtype)
            whole[tuple(map(slice, block.shape))] = block
            block = whole
        if self._is_empty(block):
            return None
        if fast.AVAILABLE:
            return fast.compressed(block)
        return by_zarr.encoded(self._document(self.chunks, None, {}), block)

    def decode(self, data: bytes) -> NDArray[Any]:
        """Return the values of a chunk."""
        if fast.AVAILABLE:
            return fast.decompressed(data, self.dtype).reshape(self.chunks)
        return by_zarr.decoded(self._document(self.chunks, None, {}), data)

    def shard(self, chunks: Mapping[Place, bytes], *, to_read: bool = False) -> bytes | None:
        """Return a shard of these chunks, by their places in it; None if there are none.

        One that is only `to_read` need not be what Zarr writes, and can be made while Zarr waits.
        """
        if not chunks:
            return None
        if self.shards is None:  # of a sweep without axes, which has one cell
            return next(iter(chunks.values()))
        each = self._each()
        whole = {place + (0,) * (len(each) - len(place)): data for place, data in chunks.items()}
        if to_read or fast.agrees():
            return fast.shard(whole, each)
        shape = self._shard_shape()
        values = np.full(shape, self.fill_value, self.dtype)
        for place, data in whole.items():
            starts = zip(place, self.chunks, strict=True)
            values[tuple(slice(at * n, (at + 1) * n) for at, n in starts)] = self.decode(data)
        return by_zarr.encoded(self._document(shape, self.shards, {}), values)

    def _each(self) -> tuple[int, ...]:
        """Return the chunks of a shard along each dimension, those beyond the grid's too."""
        each = self.shards or ()
        return each + (1,) * (len(self.chunks) - len(each))

    def _shard_shape(self) -> tuple[int, ...]:
        return tuple(k * n for k, n in zip(self._each(), self.chunks, strict=True))

    def _document(
        self, shape: tuple[int, ...], shards: tuple[int, ...] | None, attributes: dict[str, Any]
    ) -> dict[str, Any]:
        sharded = shards is not None
        return {
            "shape": list(shape),
            "data_type": _data_type(self.dtype),
            "chunk_grid": {
                "name": "regular",
                "configuration": {
                    "chunk_shape": list(self._shard_shape() if sharded else self.chunks)
                },
            },
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": _json_value(self.fill_value),
            "codecs": self._sharded() if sharded else self._codecs(),
            "attributes": attributes,
            "dimension_names": list(self.dims),
            "zarr_format": 3,
            "node_type": "array",
            "storage_transformers": [],
        }

    def _codecs(self) -> list[dict[str, Any]]:
        plain = self.dtype.itemsize == 1 or self.dtype.kind == "S"
        as_bytes = {} if plain else {"configuration": {"endian": "little"}}
        return [{"name": "bytes", **as_bytes}, {"name": "zstd", "configuration": fast.ZSTD}]

    def _sharded(self) -> list[dict[str, Any]]:
        little = {"name": "bytes", "configuration": {"endian": "little"}}
        configuration = {
            "chunk_shape": list(self.chunks),
            "codecs": self._codecs(),
            "index_codecs": [little, {"name": "crc32c"}],
            "index_location": "end",
        }
        return [{"name": "sharding_indexed", "configuration": configuration}]

    def stored(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values as they are stored: names as their codes, text as wide as all of it."""
        if self.flags and values.dtype.kind in "OU":
            codes = np.full(values.shape, self.fill_value, self.dtype)
            for code, name in enumerate(self.flags):
                codes[values == name] = code
            return codes
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


def from_document(name: str, document: dict[str, Any]) -> Array:
    """Return the array of a store with these metadata, as far as its chunks depend on them."""
    outer = document["chunk_grid"]["configuration"]["chunk_shape"]
    codec = document["codecs"][0]
    sharded = codec["name"] == "sharding_indexed"
    chunks = tuple(codec["configuration"]["chunk_shape"] if sharded else outer)
    kind = document["data_type"]
    width = 0 if isinstance(kind, str) else kind["configuration"]["length_bytes"] // 4
    dtype = np.dtype(f"<U{width}" if width else str(kind)).newbyteorder("<")
    fill = document["fill_value"]
    fill = float(fill) if dtype.kind == "f" else fill
    each = tuple(k // n for k, n in zip(outer, chunks, strict=True)) if sharded else None
    return Array(name, tuple(document["shape"]), chunks, dtype, fill, (), {}, each)


def _data_type(dtype: np.dtype[Any]) -> str | dict[str, Any]:
    names = {"U": "fixed_length_utf32", "S": "null_terminated_bytes"}
    if dtype.kind not in names:
        return dtype.name
    return {"name": names[dtype.kind], "configuration": {"length_bytes": dtype.itemsize}}


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()  # in base 64, but it is always empty
    return "NaN" if value != value else value
