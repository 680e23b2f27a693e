"""Whole stores in a bucket: made, replaced and deleted, though nothing is renamed there.

A new store begins with its root, by which a run that comes later knows what is missing of it. One
that is deleted loses its root last. One that replaces another (`move`) gives it its root first; its
own goes before its other objects, so that whoever finds both roots goes on with the copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from kvsweep.addresses import Address
from kvsweep.errors import InputError
from kvsweep.store.bucket import Bucket
from kvsweep.store.checking import COMPLETE, IDENTITY
from kvsweep.store.folders import owned, recognised
from kvsweep.store.metadata import ROOT, Root, encoded, read_root
from kvsweep.store.refusals import OURS

if TYPE_CHECKING:
    from kvsweep.store.metadata import Document


def create(address: Address, root: Root, files: Mapping[str, bytes | None]) -> None:
    """Write all metadata of a new store; one that another run has just made stays.

    Raises
    ------
    RemoteError
        If it cannot be written.
    """
    bucket = Bucket(address)
    if bucket.create(ROOT, encoded(root.document())):
        for name, data in files.items():
            if data is not None:
                bucket.put(name, data)


def refuse_inside(address: Address) -> None:
    """Refuse to make a store in another one, which nobody could replace or extend then.

    Raises
    ------
    InputError
        If it lies in one. Folders that may not be read tell nothing.
    """
    folders = address.path.split("/")[:-1]
    for depth in range(len(folders), 0, -1):
        around = Address(address.protocol, "/".join(folders[:depth]))
        root = None
        with suppress(InputError):
            root = Bucket(around, patience=0.0).get(ROOT)
        if root is not None and f'"{OURS}'.encode() in root:
            raise InputError(
                f"{address}: lies in the store {around}, whose files are kvsweep's own"
            )


def recognise(address: Address, form: str) -> None:
    """Refuse to replace anything but a store of the format `form` with nothing else in it.

    Raises
    ------
    InputError
        If something is in it that kvsweep did not make.
    """
    bucket = Bucket(address)
    root = recognised(address, form)
    own = owned(root, bucket)
    for name in bucket.all():
        if not own(name):
            raise InputError(
                f"{address}: has {name!r} in it, which kvsweep did not make, and is not "
                "overwritten; move that elsewhere, or name another store"
            )


def remove(address: Address) -> None:
    """Delete a store, its root last: what is left of it, should this be cut short, is known."""
    bucket = Bucket(address)
    _delete(bucket, [name for name in bucket.all() if name != ROOT])
    bucket.delete(ROOT)


def move(larger: Address, address: Address) -> None:
    """Put a whole store in the place of a smaller one, or go on with that.

    Raises
    ------
    InputError
        If it cannot be written: nothing is lost, and the same command goes on.
    """
    source, target = Bucket(larger, owner=address), Bucket(address)
    moved = source.all()
    if ROOT not in moved:
        return
    source.copy(ROOT, target)
    for name in moved:
        if name != ROOT:
            source.copy(name, target)
    _delete(target, [name for name in target.all() if name not in moved])
    source.delete(ROOT)
    _delete(source, [name for name in moved if name != ROOT])


def go_on_with_move(larger: Address, address: Address) -> None:
    """Finish a `move` that was cut short, and remove what one left that was not.

    Raises
    ------
    InputError
        As `move`.
    """
    source = Bucket(larger, owner=address)
    left = source.all()
    if left and ROOT not in left:
        _delete(source, list(left))
    if ROOT not in left:
        return
    there = _told(address)
    told = _told(larger)
    if told.get(COMPLETE) and there.get(IDENTITY) == told.get(IDENTITY):
        move(larger, address)


def _delete(bucket: Bucket, names: list[str]) -> None:
    """Remove objects and see that they are gone: of many, s3fs does not tell which S3 kept.

    Raises
    ------
    RemoteError
        If one cannot be deleted.
    """
    bucket.delete_all(names)
    there = bucket.all() if names else {}
    for name in names:
        if name in there:
            bucket.delete(name)


def _told(address: Address) -> Document:
    with suppress(InputError):
        return read_root(address, "").attributes
    return {}
