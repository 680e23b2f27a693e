"""Creating a store, or continuing one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.addresses import Address, Where, store_place
from kvsweep.errors import InputError
from kvsweep.files import replace_file, unwritable
from kvsweep.store import details, parts
from kvsweep.store.checking import COMPLETE, IDENTITY
from kvsweep.store.filling import Store
from kvsweep.store.folders import clear_half_files, clear_parts, made_beside, move_in, recognise
from kvsweep.store.identity import WAYS_OUT, check_same, describe, identity, recorded
from kvsweep.store.inputs import input_sums
from kvsweep.store.layout import arrays, contents, measured
from kvsweep.store.lock import PATIENCE, locked
from kvsweep.store.metadata import ROOT, Root, encoded, summed
from kvsweep.store.places import exists, filled, storage
from kvsweep.store.refusals import FORMAT, MAKER, damage, read_store, refuse_unsealed

if TYPE_CHECKING:
    from kvsweep.config import Sweep
    from kvsweep.grid import Plan, Task
    from kvsweep.store.places import Storage


def prepare(
    path: str | Where,
    sweep: Sweep,
    plan: Plan,
    source_hash: str,
    *,
    overwrite: bool = False,
    keep_requests: bool = False,
    prune: bool = True,
    alone: bool = True,
    identity_of: Mapping[str, Any] | None = None,
) -> Store:
    """Create the store of `sweep`, or open it where an interrupted run left it.

    Damaged metadata are written anew. The caller holds the lock (`lock.locked`).

    Parameters
    ----------
    path : path
        Directory of the store, or its address.
    sweep, plan : Sweep, Plan
        What it is to hold.
    source_hash : str
        Of the sources of the simulator: other sources do not continue it.
    overwrite : bool
        Replace a store that exists.
    keep_requests, prune : bool
        As for `kvsweep.run`.
    alone : bool
        Nobody else writes the store. Else it is there, and opened as it is.
    identity_of : mapping, optional
        Attributes of a store of this sweep whose parts it is to take: an older kvsweep may have
        told them by another identity.

    Raises
    ------
    InputError
        If `path` is something else, was made from another sweep, by other sources or another numba
        or numpy, or cannot be read or written.
    """
    path = real_path(path)
    attributes = _attributes(sweep, plan, source_hash, keep_requests, prune)
    if identity_of:
        attributes[IDENTITY] = identity_of[IDENTITY]
    if not alone:
        return _open(path, plan, attributes, sweep.base_dir, repair=False)
    if isinstance(path, Address):
        _place_objects(path, plan, attributes, overwrite=overwrite)
        return _open(path, plan, attributes, sweep.base_dir, repair=True)
    clear_parts(path, FORMAT)
    if overwrite or not path.exists():
        if path.exists():
            recognise(path, FORMAT)
        _create(path, plan, attributes)
    return _open(path, plan, attributes, sweep.base_dir, repair=True)


def pending(
    path: Where,
    sweep: Sweep,
    plan: Plan,
    source_hash: str,
    *,
    keep_requests: bool = False,
    prune: bool = True,
) -> list[Task]:
    """Return the tasks that an existing store lacks; nothing is changed.

    Raises
    ------
    InputError
        As `prepare`.
    """
    attributes = _attributes(sweep, plan, source_hash, keep_requests, prune)
    return _open(real_path(path), plan, attributes, sweep.base_dir, repair=False).pending()


def check_overwritable(path: Where) -> None:
    """Refuse to overwrite what is no store of results; nothing is changed.

    Raises
    ------
    InputError
        As `prepare`.
    """
    path = real_path(path)
    if not exists(path):
        return
    if isinstance(path, Address):
        from kvsweep.store import objects

        objects.recognise(path, FORMAT)
    else:
        recognise(path, FORMAT)


def real_path(path: str | Where) -> Where:
    """Return what `path` leads to: a link to a store stays one when the store is replaced.

    Raises
    ------
    InputError
        If nothing can be written there, as far as its name goes.
    """
    path = store_place(path)
    if isinstance(path, Address):
        return path
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def default_path(sweep: Sweep) -> Path:
    """Return the usual store of a sweep: ``results/<name of the TOML>.zarr``."""
    return Path("results") / f"{sweep.name}.zarr"


def update_attributes(path: str | Where, attributes: Mapping[str, Any]) -> None:
    """Set attributes of a whole store, and renew its checksums.

    Raises
    ------
    InputError
        If the store is damaged, another run writes it, or it cannot be written.
    """
    path = real_path(path)
    if _with(path, attributes).attributes == read_store(path).attributes:
        return
    with locked(path, patience=PATIENCE):
        try:
            _with(path, attributes).write(filled(path))
        except OSError as error:
            raise unwritable(path, error) from None


def _with(path: Where, attributes: Mapping[str, Any]) -> Root:
    """Return the root of a store with further attributes."""
    root = read_store(path)
    if not root.intact:
        raise damage(path, [ROOT])
    return Root({**root.attributes, **attributes}, root.arrays, root.files)


def _attributes(
    sweep: Sweep, plan: Plan, source_hash: str, keep_requests: bool, prune: bool
) -> dict[str, Any]:
    """Return the attributes of a store that is being filled."""
    inputs = input_sums(plan, sweep.base_dir)
    described = describe(
        sweep, source_hash, keep_requests=keep_requests, prune=prune, inputs=inputs
    )
    documents = {name: array.document() for name, array in arrays(plan).items()}
    return {**described, IDENTITY: identity(described, documents), COMPLETE: 0}


def _open(
    path: Where, plan: Plan, attributes: dict[str, Any], base_dir: Path, *, repair: bool
) -> Store:
    """Open a store of these attributes; its metadata are made what they must be, or taken so."""
    root = read_store(path)
    refuse_unsealed(path, root, f"{MAKER} --overwrite")  # another program's, who may want it
    _check_same(path, root, attributes, base_dir)
    if root.intact:
        attributes = attributes | recorded(root.attributes) | _told_by(root.attributes)
    wanted, files = contents(plan, attributes)
    if root.intact and details.without(root)[0] != wanted.arrays:
        raise InputError(f"{path}: laid out by another version of kvsweep; {WAYS_OUT}")
    folder = filled(path)
    sums = summed(folder, root.files | wanted.files)  # once: of a bucket, each is a request
    lost = root.unlike(sums)
    # Damage of the table of details, or of a root that may have told of one: it is made again.
    complete = root.attributes.get(COMPLETE, 0) if root.intact else 0
    if any(name not in files for name in lost):
        complete = 0
    now = {**attributes, COMPLETE: complete}
    before = {key: value for key, value in now.items() if key != COMPLETE}
    if root.intact and before.items() <= root.attributes.items():
        now = {**root.attributes, COMPLETE: complete}  # and what was found since, as the cliff
    wanted = Root(now, *((root.arrays, root.files) if complete else (wanted.arrays, wanted.files)))
    if repair:
        try:
            _repair(folder, root, wanted, {name: files.get(name) for name in wanted.unlike(sums)})
        except OSError as error:
            raise unwritable(path, error) from None
    return Store(folder, plan, attributes, wanted, measured(plan), lost)


def _told_by(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identity of a store: that of its parts, whichever kvsweep began it."""
    return {IDENTITY: attributes[IDENTITY]} if IDENTITY in attributes else {}


def _create(path: Path, plan: Plan, attributes: Mapping[str, Any]) -> None:
    """Write all metadata of a new store beside `path`, then give it its name in one step.

    A store that is there is deleted then; `folders.recognise` tells before whether it may be.

    Raises
    ------
    InputError
        If nothing can be written there.
    """
    with made_beside(path) as new:
        root, files = contents(plan, attributes)
        first = {ROOT: encoded(root.document())}  # so that what a kill leaves is known for a store
        for name, data in (first | files).items():
            if data is not None:
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                replace_file(f"{new}/{name}", data)
        move_in(new, path)


def _place_objects(
    address: Address, plan: Plan, attributes: Mapping[str, Any], *, overwrite: bool
) -> None:
    """See that there is a store at an address: a new one, or to go on with."""
    from kvsweep.store import objects

    there = storage(address).exists()
    if there and overwrite:
        objects.recognise(address, FORMAT)
        objects.remove(address)
    if not there:
        objects.refuse_inside(address)
    if overwrite or not there:
        objects.create(address, *contents(plan, attributes))


def _check_same(path: Where, root: Root, attributes: Mapping[str, Any], base_dir: Path) -> None:
    """Refuse a store of something else; a damaged root may be why it seems to be."""
    try:
        check_same(path, root.attributes, attributes, base_dir)
    except InputError as error:
        if root.intact or not root.sealed:
            raise
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(
            f"{path}: damaged: {ROOT} is not what kvsweep wrote, and too much of it is lost to go "
            f"on ({reason})"
        ) from None


def _repair(folder: Storage, root: Root, wanted: Root, lost: Mapping[str, bytes | None]) -> None:
    """Write what is not as it must be of everything but the results: files, and the root."""
    if isinstance(folder.path, Path):
        clear_half_files(folder.path)
    for name, data in lost.items():
        if data is None:
            folder.delete(name)
        else:
            folder.put(name, data)
    if not root.intact or root != wanted:
        wanted.write(folder)
    if wanted.attributes[COMPLETE]:
        parts.clear(folder)  # of a worker that was late
    else:
        details.remove(folder)
