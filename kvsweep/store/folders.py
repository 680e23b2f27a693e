"""Folders of stores: made beside their place and moved there; deleted only if surely our own.

A folder in the making, or on its way out, is called ``.<store>.<8 hexadecimal digits>.part``. What
a killed run left of that kind is removed by the next one, if it is a store of kvsweep.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kvsweep.errors import InputError
from kvsweep.files import unwritable
from kvsweep.metrics import VARIABLES
from kvsweep.store import parts, shard_records
from kvsweep.store.details import GROUP
from kvsweep.store.metadata import ROOT, Root, read_root
from kvsweep.store.places import storage
from kvsweep.store.refusals import OURS, is_newer

if TYPE_CHECKING:
    from kvsweep.addresses import Address, Where
    from kvsweep.store.places import Storage

    AnyPlace = TypeVar("AnyPlace", Path, Address, Path | Address)

_LONG = 200  # bytes of a name from which on a hash stands for it: with more it were too long
_PART = re.compile(r"[0-9a-f]{8}\.part")
# A file of an array, and one whose writing was cut short.
_OF_ARRAY = re.compile(rf"({re.escape(ROOT)}|c(/\d+)*)(\.partial)?")
_OF_STATUS = re.compile(rf"checksums/(all|[\d.]+)(\.partial)?|parts/({parts.OWN.pattern})")
_FOLDERS = (shard_records.FOLDER, parts.FOLDER)
# Forms of stores that this version does not read, but knows for kvsweep's own.
_OLDER = {"kvsweep-store/2": ("kvsweep-store/1",)}


def hidden(path: AnyPlace, ending: str) -> AnyPlace:
    """Return the name beside `path` of something that belongs to it."""
    name = path.name
    if len(os.fsencode(name)) > _LONG:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return path.with_name(f".{name}.{ending}")


@contextmanager
def made_beside(path: Path) -> Iterator[Path]:
    """Make an empty folder beside `path` for the block, which moves it; else it is removed.

    Raises
    ------
    InputError
        If nothing can be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = _unused(path)
        new.mkdir()
        try:
            yield new
        finally:
            shutil.rmtree(new, ignore_errors=True)  # nobody else knows its name
    except OSError as error:
        raise unwritable(path, error) from None


def move_in(new: Path, path: Path) -> None:
    """Give `new` the name `path`; a store that has it, and was recognised, is deleted."""
    if not path.exists():
        new.rename(path)
        return
    old = _unused(path)
    path.rename(old)
    try:
        new.rename(path)
    except OSError:
        old.rename(path)
        raise
    remove(old)


def recognise(path: Path, form: str) -> None:
    """Refuse to replace anything but a store of the format `form` with nothing else in it.

    Raises
    ------
    InputError
        If `path` is something else, or something is in it that kvsweep did not make.
    """
    foreign = next(_foreign(path, recognised(path, form)), None)
    if foreign is not None:
        raise InputError(
            f"{path}: has {foreign!r} in it, which kvsweep did not make, and is not overwritten; "
            "move that elsewhere, or name another store"
        )


def recognised(path: Where, form: str) -> Root:
    """Return the root of a store of the format `form`.

    Raises
    ------
    InputError
        If something else is at `path`.
    """
    if storage(path).size(ROOT) is None:
        raise InputError(f"{path}: is no store of kvsweep and is not overwritten; name another")
    try:
        root = read_root(path, "")
    except InputError as error:
        raise InputError(f"{error}; so it is not overwritten") from None
    if is_newer(root, form):
        raise InputError(
            f"{path}: made by a newer kvsweep and is not overwritten: delete it yourself"
        )
    if root.attributes.get("format") not in (form, *_OLDER.get(form, ())):
        ours = str(root.attributes.get("format")).startswith(OURS)
        told = "is a store of another kind" if ours else "is no store of kvsweep"
        raise InputError(f"{path}: {told} and is not overwritten; name another")
    return root


def owned(root: Root, folder: Storage) -> Callable[[str], bool]:
    """Return what tells whether a file of a store with this root is one that kvsweep makes."""
    arrays = _arrays(root, folder)
    return lambda place: _is_own(place) and (place.split("/")[0] in arrays or "/" not in place)


def clear_parts(path: Path, form: str) -> None:
    """Remove the folders that killed runs left beside `path`: stores in the making, or deleted."""
    start = hidden(path, "").name
    with suppress(OSError):
        for folder in path.parent.iterdir():
            part = folder.name.startswith(start) and folder.name.removeprefix(start)
            if part and _PART.fullmatch(part) and _is_leftover(folder, form):
                remove(folder)


def clear_half_files(path: Path) -> None:
    """Remove the files of a store of ours of which a killed run had not written all."""
    for file in path.rglob("*.partial"):
        if _is_own(file.relative_to(path).as_posix()):
            file.unlink()


def remove(path: Path) -> None:
    """Delete a store, its root last: what is left of it, should this be cut short, is known."""
    for entry in path.iterdir():
        if entry.name != ROOT:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    (path / ROOT).unlink(missing_ok=True)
    path.rmdir()


def _unused(path: Path) -> Path:
    return hidden(path, f"{secrets.token_hex(4)}.part")


def _is_leftover(folder: Path, form: str) -> bool:
    """Whether a folder with such a name has nothing in it, or is a store of ours."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    if {entry.name for entry in folder.iterdir()} <= {f"{ROOT}.partial"}:
        return True  # killed before the first file of it was written
    try:
        recognise(folder, form)
    except InputError:
        return False
    return True


def _foreign(path: Path, root: Root) -> Iterator[str]:
    """Yield the files and folders of a store that are not its own."""
    arrays = _arrays(root, storage(path))
    for folder, subfolders, files in os.walk(path):
        inside = os.path.relpath(folder, path).replace(os.sep, "/")
        for name in (*files, *subfolders):
            place = name if inside == "." else f"{inside}/{name}"
            link = os.path.islink(os.path.join(folder, name))
            array = place.split("/")[0]
            own = _is_own(place) or (name in subfolders and _is_folder(place))
            if link or not own or (array not in arrays and "/" in place):
                yield place


def _arrays(root: Root, folder: Storage) -> set[str]:
    """Return the arrays that a store with this root has; one without checksums may have any."""
    if root.intact:
        return {GROUP, *root.arrays}
    try:
        dims = json.loads(folder.read(f"status/{ROOT}"))["dimension_names"]
    except (OSError, ValueError, TypeError, KeyError):
        dims = []
    further = {dim for variable in VARIABLES.values() for dim in variable.dims}
    return {*VARIABLES, "status", "status_detail", GROUP, *further, *dims}


def _is_own(place: str) -> bool:
    """Whether a file at `place` of a store is one that kvsweep writes."""
    if place in (ROOT, f"{ROOT}.partial"):
        return True
    rest = place.removeprefix(f"{GROUP}/").partition("/")[2]
    if place.startswith("status/") and _OF_STATUS.fullmatch(rest):
        return True
    return bool(_OF_ARRAY.fullmatch(rest)) or place == f"{GROUP}/{ROOT}"


def _is_folder(place: str) -> bool:
    rest = place.removeprefix(f"{GROUP}/").partition("/")[2]
    return not rest or place in _FOLDERS or bool(re.fullmatch(r"c(/\d+)*", rest))
