"""The root of a store: attributes, the metadata of every array, and checksums.

All of it is in one file, as Zarr's consolidated metadata: a reader opens one file, not 45. The
attribute ``checksums`` has the CRC-32 of every file that does not change while the store is filled
(the arrays' own metadata, the coordinates), and a SHA-256 of the file that it stands in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from kvsweep.errors import InputError
from kvsweep.files import replace_file
from kvsweep.reading import regular_bytes

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

    def write(self, path: Path) -> None:
        """Write the root of the store at `path`, in one step.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        replace_file(f"{path}/{ROOT}", encoded(self.document()))

    def damaged(self, path: Path) -> list[str]:
        """Return the files that are not what they were: the root, and those it has sums of."""
        changed = [name for name, there in self.files.items() if checksum(path / name) != there]
        return [*([] if self.intact else [ROOT]), *changed]


def read_root(path: Path, maker: str) -> Root:
    """Read the root of a Zarr group.

    Raises
    ------
    InputError
        If there is no group at `path`, or its root is not readable.
    """
    try:
        document = json.loads(regular_bytes(path / ROOT))
        return _parse(document)
    except (FileNotFoundError, NotADirectoryError) as error:
        if not path.exists():
            raise InputError(f"{path}: no such store; `{maker}` makes one") from error
        raise InputError(f"{path}: is no store of kvsweep: there is no {ROOT} in it") from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: damaged: {ROOT} cannot be read: {_reason(error)}") from error


def _parse(document: Document) -> Root:
    attributes = dict(document["attributes"])
    arrays = document.get("consolidated_metadata", {}).get("metadata", {})
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


def summed(path: Path, names: Iterable[str]) -> dict[str, str | None]:
    """Return the checksums of files of a store, by name."""
    return {name: checksum(path / name) for name in names}


def checksum(path: Path) -> str | None:
    """Return the CRC-32 of a file, None if there is none; a file that cannot be read is damaged."""
    try:
        return hexadecimal(crc32(regular_bytes(path)))
    except FileNotFoundError:
        return None
    except OSError:
        return "unreadable"


def hexadecimal(value: int) -> str:
    """Return a CRC-32 as it is written."""
    return f"{value:08x}"


def encoded(document: Mapping[str, Any]) -> bytes:
    """Return metadata as a file: in one line, as Python takes ten times as long to indent it."""
    return json.dumps(document).encode()


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0] or type(error).__name__
