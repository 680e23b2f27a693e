"""The root of a store: attributes, the metadata of every array, and checksums.

All of it is in one file, as Zarr's consolidated metadata: a reader opens one file, not 45. The
attribute ``checksums`` has the CRC-32 of every file that does not change while the store is filled
(the arrays' own metadata, the coordinates), and a SHA-256 of the file that it stands in.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from kvsweep.errors import InputError
from kvsweep.reading import nearby
from kvsweep.store.places import storage

if TYPE_CHECKING:
    from kvsweep.addresses import Where
    from kvsweep.store.places import Storage

ROOT = "zarr.json"
CHECKSUMS = "checksums"

Document = dict[str, Any]


@dataclass(frozen=True)
class Root:
    """What the root of a store says.

    Attributes
    ----------
    attributes : dict
        Of the store, the checksums left out.
    arrays : dict of str to dict
        Metadata of each array, as Zarr has them.
    files : dict of str to str or None
        CRC-32 of the files that do not change, None of one that is not there.
    intact : bool
        Whether the root is what kvsweep wrote.
    sealed : bool
        Whether it has checksums at all.
    """

    attributes: Document
    arrays: dict[str, Document]
    files: dict[str, str | None]
    intact: bool = True
    sealed: bool = True

    def document(self) -> Document:
        """Return the content of the file."""
        said = json.dumps([self.attributes, self.arrays, self.files], sort_keys=True)
        sums = {ROOT: hashlib.sha256(said.encode()).hexdigest(), **self.files}
        return self.group() | {"attributes": {**self.attributes, CHECKSUMS: json.dumps(sums)}}

    def group(self) -> Document:
        """Return the metadata of the group without checksums, as Zarr has them."""
        arrays = {"kind": "inline", "must_understand": False, "metadata": self.arrays}
        return {
            "attributes": self.attributes,
            "zarr_format": 3,
            "consolidated_metadata": arrays,
            "node_type": "group",
        }

    def write(self, folder: Storage) -> None:
        """Write the root of a store, in one step.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        folder.put(ROOT, encoded(self.document()))

    def damaged(self, folder: Storage) -> list[str]:
        """Return the files that are not what they were: the root, and those it has sums of."""
        return self.unlike(summed(folder, self.files))

    def unlike(self, sums: Mapping[str, str | None]) -> list[str]:
        """Return the same of files with these checksums (`summed`)."""
        changed = [name for name, there in self.files.items() if sums[name] != there]
        return [*([] if self.intact else [ROOT]), *changed]


def _is_empty(path: Where) -> bool:
    """Return whether nothing is in a folder."""
    try:
        return isinstance(path, Path) and not any(path.iterdir())
    except OSError:
        return False


def read_root(path: Where, maker: str) -> Root:
    """Read the root of a Zarr group.

    Raises
    ------
    InputError
        If there is no group at `path`, or its root is not readable.
    """
    folder = storage(path)
    try:
        document = json.loads(folder.read(ROOT))
        return _parse(document)
    except InputError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        if not folder.exists():
            near = nearby(path, "results", ".zarr") if isinstance(path, Path) else ""
            raise InputError(f"{path}: no such store; `{maker}` makes one{near}") from error
        if path.suffix == ".toml":
            made = maker.replace("SWEEP.toml", str(path))
            raise InputError(f"{path}: is a sweep, not a store; `{made}` makes one") from error
        if isinstance(error, NotADirectoryError):
            raise InputError(
                f"{path}: is a file, and a store is a folder: of an archive unpack it first"
            ) from error
        if _is_empty(path):
            raise InputError(
                f"{path}: is no store of kvsweep but an empty folder: remove it, or name another"
            ) from error
        raise InputError(
            f"{path}: is no store of kvsweep: there is no {ROOT} in it; name another"
        ) from error
    except PermissionError as error:
        raise InputError(f"{path}: {ROOT} cannot be read: {error.strerror}") from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise InputError(f"{path}: is no store: {error.strerror}") from error
        if "\0" in str(path):
            raise InputError(f"{path}: is not a path: {reason_of(error)}") from error
        remedy = "put back a copy of it, or delete the store and make it anew"
        raise InputError(
            f"{path}: damaged: {ROOT} cannot be read: {reason_of(error)}; {remedy}"
        ) from error


def _parse(document: Document) -> Root:
    attributes = dict(document["attributes"])
    consolidated = document.get("consolidated_metadata") or {}  # Zarr 3.1.0 writes null for none
    arrays = consolidated.get("metadata", {})
    sums = attributes.pop(CHECKSUMS, None)
    if not isinstance(sums, str):
        return Root(attributes, arrays, {}, intact=False, sealed=False)
    try:
        files = dict(json.loads(sums))
    except (ValueError, TypeError):
        return Root(attributes, arrays, {}, intact=False)
    files.pop(ROOT, None)
    intact = Root(attributes, arrays, files).document() == document
    return Root(attributes, arrays, files, intact)


def sums_of(files: Mapping[str, bytes | None]) -> dict[str, str | None]:
    """Return the checksums of files by name, None of one that is absent."""
    return {n: None if data is None else hexadecimal(crc32(data)) for n, data in files.items()}


def summed(folder: Storage, names: Iterable[str]) -> dict[str, str | None]:
    """Return the checksums of files of a store, by name; one that cannot be read is as if empty."""
    return sums_of(dict(folder.get_all(names)))


def hexadecimal(value: int) -> str:
    """Return a CRC-32 as it is written."""
    return f"{value:08x}"


def encoded(document: Mapping[str, Any]) -> bytes:
    """Return metadata as a file: in one line, as Python takes ten times as long to indent it."""
    return json.dumps(document).encode()


def reason_of(error: Exception) -> str:
    """Return the first line of what an error says, or its type if it says nothing."""
    said = isinstance(error, OSError) and error.strerror
    return said or (str(error).splitlines() or [""])[0] or type(error).__name__
