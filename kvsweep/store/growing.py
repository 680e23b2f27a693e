"""A store that takes the place of a smaller one when it is whole, and not before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvsweep.files import unwritable
from kvsweep.store.folders import clear_parts, hidden, move_in, recognise
from kvsweep.store.lock import locked
from kvsweep.store.refusals import FORMAT


def larger_store(path: Path) -> Path:
    """Return the name of the store that is to replace the one at `path`."""
    return hidden(path, "larger")


@contextmanager
def growing(path: Path) -> Iterator[Path]:
    """Yield the name of the larger store, hidden beside the one at `path`, which it then replaces.

    If the block fails both are kept, and the next one goes on with the larger one.

    Raises
    ------
    InputError
        If something else than a store is at `path`, or a run writes it.
    """
    with locked(path):
        if path.exists():
            recognise(path, FORMAT)
        larger = larger_store(path)
        yield larger
        try:
            move_in(larger, path)
        except OSError as error:
            raise unwritable(path, error) from None
        clear_parts(path, FORMAT)
