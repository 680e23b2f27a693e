"""A store that takes the place of a smaller one when it is whole, and not before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kvsweep.addresses import Address, Where
from kvsweep.files import unwritable
from kvsweep.store.checking import COMPLETE
from kvsweep.store.folders import clear_parts, hidden, move_in, recognise
from kvsweep.store.lock import UnlockableError, locked
from kvsweep.store.places import storage
from kvsweep.store.refusals import FORMAT, read_store


def larger_store(path: Where) -> Where:
    """Return the name of the store that is to replace the one at `path`."""
    return hidden(path, "larger")


@contextmanager
def growing(path: Where) -> Iterator[Where]:
    """Yield the name of the larger store, hidden beside the one at `path`, which it then replaces.

    If the block fails both are kept, and the next one goes on with the larger one.

    Raises
    ------
    InputError
        If something else than a store is at `path`, or a run writes it.
    """
    with locked(path):
        larger = larger_store(path)
        if isinstance(path, Address) and isinstance(larger, Address):
            from kvsweep.store import objects

            if storage(path).exists():
                objects.recognise(path, FORMAT)
            yield larger
            objects.move(larger, path)
            return
        assert isinstance(path, Path)
        assert isinstance(larger, Path)
        if path.exists():
            recognise(path, FORMAT)
        yield larger
        try:
            move_in(larger, path)
        except OSError as error:
            raise unwritable(path, error) from None
        clear_parts(path, FORMAT)


def finish_growing(path: Where) -> None:
    """Go on with the last step of `growing` if that was cut short.

    At an address it takes a while. In a folder it is two renames, and the store has no name between
    them.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    larger = larger_store(path)
    if isinstance(path, Address) and isinstance(larger, Address):
        from kvsweep.store import objects

        with suppress(UnlockableError), locked(path):  # else what is there may be whole
            objects.go_on_with_move(larger, path)
        return
    assert isinstance(path, Path)
    assert isinstance(larger, Path)
    if larger.exists() and not path.exists():
        with locked(path):
            if not path.exists() and read_store(larger).attributes.get(COMPLETE):
                larger.rename(path)
