"""A TOML file: its values, and the line of every key."""

import os
import re
import tomllib
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvsweep.config.schema import KeyPath, dotted
from kvsweep.errors import InputError
from kvsweep.limits import MAX_SETTINGS_BYTES
from kvsweep.parsing import first_excess, parse_toml
from kvsweep.reading import nearby, read_text, refuse_store

_BARE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
_LONG_WORD = re.compile(r"\S{120,}")  # quoted from the file: messages stay readable
_BLANK = " \t\r\n"


@dataclass(frozen=True)
class Source:
    """A parsed TOML text.

    Attributes
    ----------
    label : str
        The file's name, as messages have it.
    text : str
        The whole file.
    values : dict
        Its content.
    lines : dict of key to int
        Line of each key, table and list element, from 1.
    labels : dict of key to str
        What messages call the keys that were not set in the file but from outside.
    """

    label: str
    text: str
    values: dict[str, Any]
    lines: dict[KeyPath, int]
    labels: dict[KeyPath, str] = field(default_factory=dict)

    def error(self, path: KeyPath, message: str) -> InputError:
        """Return an error about the key `path`, with its line if it has one."""
        message = _LONG_WORD.sub(lambda found: f"{found[0][:60]}...", message)
        for n in range(len(path), 0, -1):
            if path[:n] in self.labels:
                key = dotted((self.labels[path[:n]], *path[n:]))
                return InputError(f"{self.label}: {key}: {message}")
        line = self.lines.get(path)
        table = table_of(path, message)
        if line is None and table:
            line = self.lines.get(table)
            # A table that the file lacks has nothing but what was set of it.
            inside = (name for at, name in self.labels.items() if at[: len(table)] == table)
            option = None if line is not None else next(inside, None)
            if option is not None:
                return InputError(f"{self.label}: {option}: {dotted(path)}: {message}")
        where = self.label if line is None else f"{self.label}:{line}"
        return InputError(f"{where}: {dotted(path)}: {message}")


def table_of(path: KeyPath, message: str) -> KeyPath:
    """Return the table that a message about `path` is of: of a key that is missing, its table."""
    return path[:-1] if message.startswith("missing") else path


def read_source(file: Path) -> Source:
    """Read a TOML file.

    Raises
    ------
    InputError
        If it cannot be read or is not TOML, or as `parse_source`.
    """
    refuse_store(file, "a sweep")
    if not os.path.exists(file) and (near := nearby(file, "sweeps", ".toml")):
        raise InputError(f"{file}: no such file{near}")
    text = read_text(file, MAX_SETTINGS_BYTES).replace("\r\n", "\n")
    return parse_source(text, str(file))


def parse_source(text: str, label: str) -> Source:
    """Parse a TOML text.

    Raises
    ------
    InputError
        If it is not TOML, nested too deeply, or has an integer of more than 64 bits.
    """
    values = parse_toml(text, label)
    excess = first_excess(values)
    if excess:
        raise InputError(f"{label}: {dotted(excess[0])}: {excess[1]}")
    return Source(label, text, values, _LineFinder(text).find())


class _LineFinder:
    """Walks over a text that is known to be TOML and notes where keys are."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self.breaks = [at for at, character in enumerate(text) if character == "\n"]
        # Number of elements so far of each array of tables.
        self.arrays: dict[KeyPath, int] = {}

    def find(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self._skip_blank():
            start = self.at
            if self.text.startswith("[[", start):
                self.at += 2
                table = self._append(self._key())
                self.at += 2
            elif self.text[start] == "[":
                self.at += 1
                table = self._resolve(self._key())
                self.at += 1
            else:
                self._pair(table)
                continue
            self._note(table, start)
        return self.lines

    def _append(self, key: KeyPath) -> KeyPath:
        """Return the path of a new element of the array of tables called `key`."""
        array = (*self._resolve(key[:-1]), key[-1])
        index = self.arrays.get(array, 0)
        self.arrays[array] = index + 1
        return (*array, index)

    def _resolve(self, key: KeyPath) -> KeyPath:
        """Return the path of a header's key: arrays of tables mean their last element."""
        path: KeyPath = ()
        for part in key:
            path = (*path, part)
            if path in self.arrays:
                path = (*path, self.arrays[path] - 1)
        return path

    def _pair(self, table: KeyPath) -> None:
        start = self.at
        path = table + self._key()
        self._skip_blank()
        self.at += 1  # "="
        self._note(path, start)
        self._value(path)

    def _note(self, path: KeyPath, start: int) -> None:
        line = bisect_left(self.breaks, start) + 1
        for n in range(1, len(path) + 1):
            self.lines.setdefault(path[:n], line)

    def _key(self) -> KeyPath:
        parts: list[str | int] = []
        while True:
            self._skip_blank()
            start = self.at
            if self.text[start] in "\"'":
                self._string()
                parts.append(_unquoted(self.text[start : self.at]))
            else:
                while self.text[self.at] in _BARE:
                    self.at += 1
                parts.append(self.text[start : self.at])
            self._skip_blank()
            if self.text[self.at] != ".":
                return tuple(parts)
            self.at += 1

    def _value(self, path: KeyPath) -> None:
        self._skip_blank()
        first = self.text[self.at]
        if first == "[":
            self._elements(path)
        elif first == "{":
            self._inline_table(path)
        elif first in "\"'":
            self._string()
        else:
            while self.at < len(self.text) and self.text[self.at] not in ",]}#\n":
                self.at += 1

    def _elements(self, path: KeyPath) -> None:
        self.at += 1
        index = 0
        while self._skip_blank() and self.text[self.at] != "]":
            self._note((*path, index), self.at)
            self._value((*path, index))
            index += 1
            self._skip_comma()
        self.at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self.at += 1
        while self._skip_blank() and self.text[self.at] != "}":
            self._pair(path)
            self._skip_comma()
        self.at += 1

    def _skip_comma(self) -> None:
        self._skip_blank()
        if self.text[self.at] == ",":
            self.at += 1

    def _string(self) -> None:
        quote = self.text[self.at]
        mark = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.at += len(mark)
        while not self.text.startswith(mark, self.at):
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += len(mark)
        # Up to two quotes may stand directly before the closing three.
        while len(mark) == 3 and self.text.startswith(quote, self.at):
            self.at += 1

    def _skip_blank(self) -> bool:
        """Skip white space and comments; return whether anything is left."""
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text[self.at] in _BLANK:
                self.at += 1
            else:
                return True
        return False


def _unquoted(key: str) -> str:
    (name,) = tomllib.loads(f"{key} = 0")
    return name
