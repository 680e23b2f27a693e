"""A store as Zarr reads it, in which damage is never read: each file is compared when first read.

It is compared again when another one has taken its place since: a store that was replaced gives no
numbers of another run.

Opening reads no cell. Of a store that is being filled, the cells of tasks that are not packed yet
are read from their parts.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any
from zlib import crc32

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.storage import FsspecStore, LocalStore

from kvsweep.addresses import Address
from kvsweep.errors import InputError
from kvsweep.store.checking import COMPLETE, IDENTITY, Shards
from kvsweep.store.details import rows
from kvsweep.store.metadata import ROOT, read_root
from kvsweep.store.packing import assembled
from kvsweep.store.refusals import MAKER, damage, gone, replaced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest

    from kvsweep.addresses import Where
    from kvsweep.store.arrays import Array
    from kvsweep.store.parts import Head
    from kvsweep.store.shard_records import Record
    from kvsweep.store.sharding import Place


# Bytes of files of a bucket that are kept: of each several chunks are read, one after the other.
KEPT_BYTES = 256 * 2**20


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
    told : Where
        The place of the store as it was given, for messages.
    """

    def __init__(
        self,
        shards: Shards,
        arrays: dict[str, Array],
        records: Mapping[Place, Record | None],
        *,
        compare: bool,
        told: Where,
    ) -> None:
        super().__init__(read_only=True)
        self._files = _of_zarr(shards.folder.path)
        self._shards = shards
        self._arrays = arrays
        self._records = dict(records)
        self._comparing = compare
        self._told = told
        self._seen: dict[str, tuple[int, ...] | None] = {}
        self._parts: dict[Place, dict[Place, tuple[Head, bytes]]] = {}
        self._last: tuple[str, bytes | None] = "", None
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    supports_writes = False
    supports_deletes = False
    supports_partial_writes = False  # asked for by Zarr 3.1.0, as the next method
    supports_listing = True

    def __eq__(self, other: object) -> bool:
        """Two that are opened read what was there at different times."""
        return self is other

    __hash__ = object.__hash__

    def __getstate__(self) -> dict[str, Any]:
        """Return what other processes need: they read what is there then."""
        anew = {"_seen": {}, "_parts": {}, "_last": ("", None), "_kept": OrderedDict()}
        return self.__dict__ | anew

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return bytes of a file that is what was written.

        Raises
        ------
        InputError
            If it is not, or the store is another one now.
        """
        array, middle, place = key.partition("/c")
        if not middle or array not in self._arrays:
            return await self._files.get(key, prototype, byte_range)
        dims = len(self._shards.sharding.tasks)
        shard = tuple(map(int, place.split("/")[1 : 1 + dims]))
        record = self._record(shard)
        if record is None:
            data = self._assembled(key, array, shard)
            return None if data is None else prototype.buffer.from_bytes(_cut(data, byte_range))
        there = record.files[array]
        if there is None:
            return None
        if self._comparing and isinstance(self._shards.folder.path, Address):
            return prototype.buffer.from_bytes(_cut(self._fetched(key, there), byte_range))
        if self._comparing and key not in self._seen:
            self._compare(key, there)
        data = await self._files.get(key, prototype, byte_range)
        self._compare(key, there)  # another may have taken its place, even between the two
        return data

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

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Any]]) -> None:
        """Refuse, as it is for reading."""
        self._check_writable()

    async def delete(self, key: str) -> None:
        """Refuse, as it is for reading."""
        self._check_writable()

    def _compare(self, key: str, there: list[int]) -> None:
        """See that a file is what was written; that of one that is still the same is known."""
        if not self._comparing:
            self._refuse_replaced()
            return
        version = self._shards.folder.version(key)
        if version is not None and self._seen.get(key) == version:
            return
        if self._shards.folder.sums(key) != there:
            raise self._changed(key)
        self._seen[key] = version

    def _changed(self, key: str) -> InputError:
        """Return the error of a file that is not what was written."""
        return self._what_happened() or damage(self._told, [key])

    def _refuse_replaced(self) -> None:
        """Refuse to read on if the store is another one now, or none."""
        version = self._shards.folder.version(ROOT)
        if version is None or self._seen.get(ROOT) != version:
            if error := self._what_happened():
                raise error
            self._seen[ROOT] = version

    def _what_happened(self) -> InputError | None:
        """Return the error of a store that is not there any more, of other cells, or begun anew.

        Of a damaged one that is not known.
        """
        folder = self._shards.folder
        try:
            root = read_root(folder.path, MAKER)
        except InputError:
            return gone(self._told) if folder.get(ROOT) is None else None
        other = str(root.attributes.get(IDENTITY)) != self._shards.sweep
        anew = self._shards.complete and not root.attributes.get(COMPLETE)
        return replaced(self._told) if root.intact and (other or anew) else None

    def _fetched(self, key: str, there: list[int]) -> bytes:
        """Return a whole file of a bucket: to compare it, and then read of it, is one transfer."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        data = self._shards.folder.get(key) or b""
        if [len(data), crc32(data)] != there:
            raise self._changed(key)
        self._kept[key] = data
        while len(self._kept) > 1 and sum(map(len, self._kept.values())) > KEPT_BYTES:
            self._kept.popitem(last=False)
        return data

    def _assembled(self, key: str, array: str, shard: Place) -> bytes | None:
        """Return the file of a shard that is not packed, of the parts that are there."""
        if self._last[0] != key:
            self._last = key, assembled(self._arrays, array, self._unpacked(shard))
        return self._last[1]

    def _record(self, shard: Place) -> Record | None:
        """Return the record of a shard, which may have been packed since the store was opened."""
        if self._records.get(shard) is None and shard not in self._parts:
            there = len(self._unpacked(shard))
            if there < len(list(self._shards.sharding.tasks_of(shard))):
                self._records[shard] = self._shards.record(shard)
        return self._records.get(shard)

    def _unpacked(self, shard: Place) -> dict[Place, tuple[Head, bytes]]:
        """Return the parts of a shard, by place in it; one that is damaged is as if not there."""
        if shard not in self._parts:
            inside = self._shards.sharding.inside
            found = self._shards.parts(shard)
            parts = {inside(task): part for task, part in found if part}
            self._refuse_replaced()  # by another store, whose parts are as if not there
            self._parts[shard] = parts
        return self._parts[shard]

    def details(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return the cells of which there is more to say, in order, and what that is."""
        heads: list[Head] = []
        for shard in list(self._records):
            record = self._record(shard)
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


def _of_zarr(where: Where) -> LocalStore | FsspecStore:
    """Return the store of Zarr's at a path or address."""
    if isinstance(where, Address):
        return FsspecStore.from_url(str(where), read_only=True)
    return LocalStore(where, read_only=True)


def _cut(data: bytes, wanted: ByteRequest | None) -> bytes:
    if isinstance(wanted, RangeByteRequest):
        return data[wanted.start : wanted.end]
    if isinstance(wanted, OffsetByteRequest):
        return data[wanted.offset :]
    if isinstance(wanted, SuffixByteRequest):
        return data[-wanted.suffix :]
    return data
