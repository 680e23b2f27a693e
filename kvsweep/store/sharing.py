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

from kvsweep.store.filling import Store
from kvsweep.store.lock import PATIENCE, BusyError, locked
from kvsweep.store.share import Share

if TYPE_CHECKING:
    from kvsweep.addresses import Where
    from kvsweep.grid import Task

Prepare = Callable[..., Store]
"""`writing.prepare` with all arguments but `alone`."""


@contextmanager
def opened(path: Where, share: Share | None, prepare: Prepare) -> Iterator[Store]:
    """Open a store for one run alone, or for one of several, and hold its locks meanwhile.

    Raises
    ------
    InputError
        As `writing.prepare`, or if another run writes it.
    """
    if share is not None:
        with _joined(path, share, prepare) as store:
            yield store
        return
    with locked(path):
        yield prepare()


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
    with locked(path, share.lock) if share else locked(path):
        return [task for task in pending() if share is None or share.has(task.index)]


def completed(path: Where, prepare: Prepare) -> bool:
    """Pack a store and complete it if no task is missing; return whether it is complete.

    If others fill it still, or another run is at it, that is theirs.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    with suppress(BusyError), locked(path):
        store = prepare()
        if store.has_all():
            store.finish()
            return True
    return False


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
