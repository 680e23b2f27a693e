"""Which store a run fills that is to extend one, and what it takes over from that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kvsweep import simulate
from kvsweep.errors import InputError
from kvsweep.extending import Extension, Layout
from kvsweep.grid import plan
from kvsweep.store import (
    Source,
    describe,
    difference_of_runs,
    difference_of_sweeps,
    exists,
    finish_growing,
    growing,
    input_sums,
    larger_store,
    left_to_do,
    measured,
    restored_sweep,
    stored_attributes,
    unlike,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kvsweep.addresses import Where
    from kvsweep.config import Sweep
    from kvsweep.grid import Plan, Task
    from kvsweep.store import Share

_WAYS_OUT = "--overwrite starts again, --out names another store"


def extension(
    place: Where, sweep: Sweep, cells: Plan, *, keep_requests: bool, prune: bool
) -> Extension | None:
    """Return the cells of a store within those of a larger sweep.

    Returns
    -------
    Extension or None
        None if there is no store, or it is that of this very sweep.

    Raises
    ------
    InputError
        If the store has cells that the sweep has not, or was made by other sources or libraries.
    """
    if not exists(place):
        return None
    wanted = describe(
        sweep,
        simulate.source_hash(),
        keep_requests=keep_requests,
        prune=prune,
        inputs=input_sums(cells, sweep.base_dir),
    )
    if not difference_of_sweeps(stored_attributes(place), wanted, folder=sweep.base_dir):
        return None
    source = Source.open(place)
    reason = difference_of_runs(source.attributes, wanted)
    if reason:
        raise InputError(f"{place}: {reason}, so it cannot be extended; {_WAYS_OUT}")
    before = restored_sweep(source.attributes, place, sweep.base_dir)
    smaller = plan(before, keep_requests=keep_requests)
    layouts = Layout(smaller, prune), Layout(cells, prune)
    found = Extension(source, *layouts, arrays=tuple(measured(cells)))
    reason = unlike(source, before, smaller)
    if not reason and not found.contains_all():
        told = difference_of_sweeps(source.attributes, wanted, folder=sweep.base_dir)
        reason = f"{told}; the sweep must have all cells of the store, and may have more"
    if not reason and smaller.extra.get("slo_class") not in (None, cells.extra.get("slo_class")):
        reason = "the SLO classes are others"
    if reason:
        raise InputError(f"{place}: cannot be extended: {reason}; {_WAYS_OUT}")
    _check_leftover(larger_store(place), wanted, sweep.base_dir)
    return found


@contextmanager
def filled_place(place: Where, known: Extension | None) -> Iterator[Where]:
    """Yield where the store is filled: in its place, or beside it until it is whole."""
    if known is None:
        finish_growing(place)
        yield place
        return
    with growing(place) as larger:
        yield larger


def has_all(place: Where, share: Share | None, pending: Callable[[], list[Task]]) -> bool:
    """Whether there is a store in which a run has nothing to do.

    Parameters
    ----------
    place, share
        Of the run.
    pending : callable
        `kvsweep.store.pending` with all arguments.

    Raises
    ------
    InputError
        If the store is of something else, or another run writes it.
    """
    finish_growing(place)
    return exists(place) and not left_to_do(place, share, pending)


def _check_leftover(larger: Where, wanted: dict[str, object], folder: Path) -> None:
    """See that a run that was cut short, if there is one, was to extend to the same sweep."""
    if exists(larger) and difference_of_sweeps(stored_attributes(larger), wanted, folder=folder):
        raise InputError(
            f"{larger}: left by a run with --extend that was cut short, of another sweep; run that "
            "one again, or delete what it left"
        )
