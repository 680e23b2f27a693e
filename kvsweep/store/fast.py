"""Chunks and shards as bytes, without Zarr but by its rules, if it gives the same: see `arrays`.

`KVSWEEP_PLAIN_ZARR=1` leaves all writing to Zarr.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from google_crc32c import value as _crc32c
from numcodecs.zstd import Zstd

from kvsweep.store.sharding import morton

if TYPE_CHECKING:
    from numpy.typing import NDArray

ZSTD = {"level": 0, "checksum": True}
AVAILABLE = os.environ.get("KVSWEEP_PLAIN_ZARR", "0") in ("", "0")
"""Whether chunks are made here, by the libraries that Zarr itself uses."""

_COMPRESSOR = Zstd(**ZSTD)
_NONE = np.uint64(2**64 - 1)


def compressed(block: NDArray[Any]) -> bytes:
    """Return a chunk, compressed and with a checksum that every reader of Zarr looks at."""
    data: bytes = _COMPRESSOR.encode(np.ascontiguousarray(block))
    return data


def decompressed(data: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the values of a chunk, in one dimension."""
    return np.frombuffer(_COMPRESSOR.decode(data), dtype)


def shard(chunks: Mapping[tuple[int, ...], bytes], each: tuple[int, ...]) -> bytes:
    """Return a shard: chunks by their places in it, `each` of them along each dimension.

    They stand in Morton's order, as Zarr has them; then comes the index, with a CRC-32C.
    """
    index = np.full((*each, 2), _NONE, "<u8")
    pieces = []
    start = 0
    for place in sorted(chunks, key=morton):
        data = chunks[place]
        index[place] = start, len(data)
        start += len(data)
        pieces.append(data)
    said = index.tobytes()
    return b"".join([*pieces, said, _crc32c(said).to_bytes(4, "little")])


@cache
def agrees() -> bool:
    """Whether a small shard is, to the byte, the one that this Zarr writes."""
    if not AVAILABLE:
        return False
    from kvsweep.store.arrays import Array

    each, chunks = (2, 3), (3, 2)
    dtype = np.dtype("<f8")
    array = Array("x", (6, 6), chunks, dtype, np.nan, ("a", "b"), {}, shards=each)
    values = np.arange(prod(each) * prod(chunks), dtype=dtype).reshape(6, 6)
    values[3:, :2] = np.nan
    pieces: dict[tuple[int, ...], bytes] = {}
    for i, j in np.ndindex(each):
        data = array.encode(values[3 * i : 3 * i + 3, 2 * j : 2 * j + 2])
        if data is not None:
            pieces[i, j] = data
    try:
        from kvsweep.store import by_zarr

        return shard(pieces, each) == by_zarr.encoded(array.document(), values)
    except Exception:  # whatever another Zarr says of it: it shall write itself then
        return False
