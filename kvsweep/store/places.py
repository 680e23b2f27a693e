"""What holds the store at a path or address."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from kvsweep.addresses import Address, Where
from kvsweep.store.folder import Folder

if TYPE_CHECKING:
    from kvsweep.store.bucket import Bucket

Storage: TypeAlias = "Folder | Bucket"


def storage(where: Where) -> Storage:
    """Return what holds a store."""
    if isinstance(where, Address):
        from kvsweep.store.bucket import Bucket  # and so fsspec, which few need

        return Bucket(where)
    return Folder(where)


def filled(where: Where) -> Storage:
    """Return what holds a store, for writing: that very one, and no other of its name."""
    if isinstance(where, Address):
        from kvsweep.store.bucket import Bucket

        return Bucket(where, watched=True)
    return Folder(where, os.stat(where))


def exists(where: Where) -> bool:
    """Whether there is anything at a path or address.

    Raises
    ------
    InputError
        If an address cannot be reached.
    """
    return storage(where).exists()
