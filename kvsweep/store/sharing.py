"""Several runs that fill one store, each its share: none waits for another, and the last one packs.

Each holds two locks: one of its share, and the store's, which it shares with the others. To make or
mend the store, and to pack it, a run must have the store's lock alone: at its beginning, if it is
the first, and at its end, if it is the last. So a run without shares, which packs as it goes, is
kept from the store meanwhile, and the other way round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from kvsweep.store.checking import COMPLETE
from kvsweep.store.filling import Store
from kvsweep.store.lock import PATIENCE, BusyError, UnlockableError, locked
from kvsweep.store.places import exists
from kvsweep.store.share import Share

if TYPE_CHECKING:
    from kvsweep.addresses import Where
    from kvsweep.grid import Task

Prepare = Callable[..., Store]
"""`writing.prepare` with all arguments but `alone`."""


@contextmanager
def opened(
    path: Where, share: Share | None, prepare: Prepare, *, anew: bool = False
) -> Iterator[Store]:
    """Open a store for one run alone, or for one of several, and hold its locks meanwhile.

    Where nothing may be written, a store that is whole is opened without, unless it is made `anew`.

    Raises
    ------
    InputError
        As `writing.prepare`, or if another run writes it.
    """
    with ExitStack() as held:
        run = _joined(path, share, prepare) if share else _alone(path, prepare)
        try:
            store = held.enter_context(run)
        except UnlockableError:
            whole = None if anew else _whole(path, prepare)
            if whole is None:
                raise
            store = whole
        yield store


def left_to_do(path: Where, share: Share | None, pending: Callable[[], list[Task]]) -> list[Task]:
    """Return the tasks that a run would find to do in a store that is there; nothing is changed.

    Other shares are not looked out for: who held the store's lock with them, if for a moment, would
    keep the first of them from mending it.

    Parameters
    ----------
    path, share
        As for `opened`.
    pending : callable
        `writing.pending` with all arguments.

    Raises
    ------
    InputError
        As `opened`.
    """
    with ExitStack() as held:
        with suppress(UnlockableError):  # `opened` tells of it, if anything is left
            held.enter_context(locked(path, share.lock) if share else locked(path))
        return [task for task in pending() if share is None or share.has(task.index)]


def completed(path: Where, prepare: Prepare) -> bool:
    """Pack a store and complete it if no task is missing; return whether it is complete.

    If others fill it still, or another run is at it, that is theirs.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    try:
        with locked(path):
            store = prepare()
            if store.has_all():
                store.finish()
                return True
    except BusyError:
        pass
    except UnlockableError:
        return _whole(path, prepare) is not None
    return False


def _whole(path: Where, prepare: Prepare) -> Store | None:
    """Return a store that is complete and undamaged, None if it is not; nothing is changed."""
    if not exists(path):
        return None
    store = prepare(alone=False)
    left = store.pending() or store.damaged or not store.root.attributes[COMPLETE]
    return None if left else store


@contextmanager
def _alone(path: Where, prepare: Prepare) -> Iterator[Store]:
    with locked(path):
        yield prepare()


@contextmanager
def _joined(path: Where, share: Share, prepare: Prepare) -> Iterator[Store]:
    """Open a store for one of several runs that fill it, and make it if it is not there.

    Raises
    ------
    InputError
        If the same share is being run, a run without shares writes the store, or the store is not
        that of the sweep.
    """
    with locked(path, share.lock), ExitStack() as held:
        last = time.monotonic() + PATIENCE
        while True:
            with suppress(BusyError), locked(path):
                prepare().unpack()
            try:
                held.enter_context(locked(path, shared=True))
                break
            except BusyError:
                if time.monotonic() > last:
                    raise
                time.sleep(0.05)
        store = prepare(alone=False)
        store.share = share
        yield store
