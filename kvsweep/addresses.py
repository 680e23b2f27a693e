"""Addresses of stores that are not on a file system: ``s3://bucket/h8.zarr``, by fsspec's names."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from kvsweep.errors import InputError
from kvsweep.files import is_special, output_path

# pathlib keeps one slash of two. One letter is a drive of Windows.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+._-]+):/+(.*)", re.DOTALL)
_LOCAL = ("file", "local")
# Further names of a protocol, by which an address leads to the same store.
_ALIASES = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
_CREDENTIALS = re.compile(r"(?<=:)[^/@]*(?=@)|(?<=\?).*", re.DOTALL)
_PATTERN = re.compile(r"[*?\[\]]")  # which fsspec takes for many names

# Archives, tables, figures, texts. What follows a dot may belong to a name, as in `llama-3.1`.
_OF_FILES = frozenset(
    (
        *(".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z"),
        *(".nc", ".nc4", ".h5", ".hdf5", ".parquet", ".npz", ".npy", ".pkl", ".csv", ".xlsx"),
        *(".json", ".jsonl", ".toml", ".yaml", ".yml", ".txt", ".md", ".html", ".log"),
        *(".png", ".svg", ".pdf", ".jpg"),
    )
)


@dataclass(frozen=True)
class Address:
    """Where a store is, in words of fsspec. It has no credentials in it, and may be printed.

    Attributes
    ----------
    protocol : str
        As ``s3``.
    path : str
        What comes after the slashes: bucket and name.
    """

    protocol: str
    path: str

    def __str__(self) -> str:
        return f"{self.protocol}://{self.path}"

    @property
    def name(self) -> str:
        """What is behind the last slash."""
        return self.path.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return Path(self.name).stem

    @property
    def suffix(self) -> str:
        """The ending of the name."""
        return Path(self.name).suffix

    def with_name(self, name: str) -> Address:
        """Return the address of something beside it."""
        folder, slash, _ = self.path.rpartition("/")
        return Address(self.protocol, f"{folder}{slash}{name}")


Where: TypeAlias = "Path | Address"
"""Where a store is."""


def located(place: str | os.PathLike[str] | Address) -> Where:
    """Return the path or address that is meant; ``file://`` is a path.

    Raises
    ------
    InputError
        If it is an address that cannot be that of a store, or has a password in it.
    """
    if isinstance(place, Address):
        return place
    text = os.fspath(place)
    if "::" in text and "://" in text:
        raise InputError(f"{text}: a chain of addresses; one such as s3://bucket/h8.zarr is taken")
    found = _ADDRESS.fullmatch(text)
    if found is None or "\0" in text:
        return Path(text)
    protocol, path = found[1].lower(), found[2].rstrip("/")
    masked = _CREDENTIALS.sub("***", text)
    if masked != text:
        raise InputError(
            f"{masked}: has a password or key in it, which process lists and logs would show; give "
            "the address without, and the rest by environment variables or fsspec's configuration"
        )
    if protocol in _LOCAL:
        if re.match(r"\w+://[^/]", text):  # a host, or a path relative to the current folder
            raise InputError(f"{text}: expected {protocol}:///PATH with three slashes, or the path")
        return Path(f"/{path}")
    parts = path.split("/")
    if not path or (len(parts) < 2 and protocol != "memory"):
        raise InputError(
            f"{text}: names no store; expected {protocol}://BUCKET/NAME.zarr, in a bucket or folder"
        )
    if {"", ".", ".."} & set(parts) or _PATTERN.search(path):
        raise InputError(
            f"{text}: expected names between single slashes, without '*', '?', '[' and '..'"
        )
    return Address(protocol, path)


def store_place(place: str | os.PathLike[str] | Address) -> Where:
    """Return where a store is to be written: an address, or what `output_path` returns.

    Raises
    ------
    InputError
        If nothing can be written there, as far as its name goes, or it is named like a file.
    """
    where = located(place)
    return where if isinstance(where, Address) else folder_of_store(output_path(where))


def folder_of_store(path: Path) -> Path:
    """Return `path` unless it is new and named like a file of another kind.

    Raises
    ------
    InputError
        Naming what it could be called.
    """
    if path.suffix.lower() in _OF_FILES and not path.exists():
        raise InputError(
            f"{path}: a store is a folder, not a {path.suffix} file: "
            f"{str(path.with_suffix('.zarr'))!r}"
        )
    return path


def is_same(path: Where, other: Where) -> bool:
    """Whether both lead to one file, through links of both kinds; what keeps nothing is none."""
    if isinstance(path, Address) or isinstance(other, Address):
        return _by_one_name(path) == _by_one_name(other)
    real = os.path.realpath(path)
    if is_special(Path(real)):
        return False
    with suppress(OSError):
        if os.path.samefile(path, other):
            return True
    return real == os.path.realpath(other)


def overlap(path: Where, other: Where) -> bool:
    """Whether both are the same, or one is in the other, which is a store."""
    return is_same(path, other) or _is_in_store(path, other) or _is_in_store(other, path)


def _is_in_store(path: Where, store: Where) -> bool:
    if isinstance(path, Address) or isinstance(store, Address):
        return _by_one_name(path).startswith(f"{_by_one_name(store)}/")
    root = Path(os.path.realpath(store))
    inside = Path(os.path.realpath(path)).is_relative_to(root)
    return inside and (root / "zarr.json").is_file()


def _by_one_name(place: Where) -> str:
    """Return an address by the first of the names that its protocol has."""
    protocol, colon, path = str(place).partition("://")
    return f"{_ALIASES.get(protocol, protocol)}{colon}{path}"
