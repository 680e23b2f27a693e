"""A store as Zarr reads it, in which damage is never read: each file is compared when first read.

Opening reads no cell. Of a store that is being filled, the cells of tasks that are not packed yet
are read from their parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.storage import LocalStore

from kvsweep.store.checking import Shards
from kvsweep.store.details import rows
from kvsweep.store.packing import assembled
from kvsweep.store.refusals import damage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import numpy as np
    from numpy.typing import NDArray
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest

    from kvsweep.store.arrays import Array
    from kvsweep.store.parts import Head
    from kvsweep.store.shard_records import Record
    from kvsweep.store.sharding import Place


class VerifiedStore(Store):  # type: ignore[misc]
    """A store of results for reading.

    All bytes go through `get`: it is no `WrapperStore`, as that hands on whatever else reads (since
    Zarr 3.4 ``get_sync`` and ``get_ranges``, for parts of a shard) to the store that it wraps.

    Parameters
    ----------
    shards : Shards
        Its shards.
    arrays : dict of str to Array
        What tasks write, in the order of `layout.names`.
    records : mapping of Place to Record
        Of the shards; None of one that is not packed.
    compare : bool
        Whether files are compared with their checksums.
    """

    def __init__(
        self,
        shards: Shards,
        arrays: dict[str, Array],
        records: Mapping[Place, Record | None],
        *,
        compare: bool,
    ) -> None:
        super().__init__(read_only=True)
        self._files = LocalStore(shards.folder.path, read_only=True)
        self._shards = shards
        self._arrays = arrays
        self._records = records
        self._comparing = compare
        self._seen: set[str] = set()
        self._parts: dict[Place, dict[Place, tuple[Head, bytes]]] = {}
        self._last: tuple[str, bytes | None] = "", None

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __eq__(self, other: object) -> bool:
        """Two that are opened read what was there at different times."""
        return self is other

    __hash__ = object.__hash__

    def __getstate__(self) -> dict[str, Any]:
        """Return what other processes need: they read what is there then."""
        return self.__dict__ | {"_seen": set(), "_parts": {}, "_last": ("", None)}

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return bytes of a file that is what was written.

        Raises
        ------
        InputError
            If it is not.
        """
        array, middle, place = key.partition("/c")
        if not middle or array not in self._arrays:
            return await self._files.get(key, prototype, byte_range)
        dims = len(self._shards.sharding.tasks)
        shard = tuple(map(int, place.split("/")[1 : 1 + dims]))
        record = self._records.get(shard)
        if record is None:
            data = self._assembled(key, array, shard)
            return None if data is None else prototype.buffer.from_bytes(_cut(data, byte_range))
        if record.files[array] is None:
            return None
        self._compare(key, record.files[array])
        return await self._files.get(key, prototype, byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Any
    ) -> list[Buffer | None]:
        """Return bytes of several files, as `get`."""
        return [await self.get(key, prototype, wanted) for key, wanted in key_ranges]

    async def exists(self, key: str) -> bool:
        """Return whether there is such a file."""
        return bool(await self._files.exists(key))

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse, as it is for reading."""
        self._check_writable()

    async def delete(self, key: str) -> None:
        """Refuse, as it is for reading."""
        self._check_writable()

    def _compare(self, key: str, there: list[int] | None) -> None:
        if key in self._seen or not self._comparing:
            return
        if self._shards.folder.sums(key) != there:
            raise damage(self._shards.folder.path, [key])
        self._seen.add(key)

    def _assembled(self, key: str, array: str, shard: Place) -> bytes | None:
        """Return the file of a shard that is not packed, of the parts that are there."""
        if self._last[0] != key:
            self._last = key, assembled(self._arrays, array, self._unpacked(shard))
        return self._last[1]

    def _unpacked(self, shard: Place) -> dict[Place, tuple[Head, bytes]]:
        """Return the parts of a shard, by place in it; one that is damaged is as if not there."""
        if shard not in self._parts:
            inside = self._shards.sharding.inside
            found = self._shards.parts(shard)
            self._parts[shard] = {inside(task): part for task, part in found if part}
        return self._parts[shard]

    def details(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return the cells of which there is more to say, in order, and what that is."""
        heads: list[Head] = []
        for shard, record in self._records.items():
            parts = () if record else self._unpacked(shard).values()
            heads += record.heads if record else (head for head, _ in parts)
        cells, _, texts = rows(head.details for head in heads)
        return cells, texts

    async def list(self) -> AsyncIterator[str]:
        """Yield the names of all files."""
        async for name in self._files.list():
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names that begin with `prefix`."""
        async for name in self._files.list_prefix(prefix):
            yield name

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names in a folder."""
        async for name in self._files.list_dir(prefix):
            yield name


def _cut(data: bytes, wanted: ByteRequest | None) -> bytes:
    if isinstance(wanted, RangeByteRequest):
        return data[wanted.start : wanted.end]
    if isinstance(wanted, OffsetByteRequest):
        return data[wanted.offset :]
    if isinstance(wanted, SuffixByteRequest):
        return data[-wanted.suffix :]
    return data
