"""CSV files in stretches of rows, column by column.

Files without quotes are split as a whole: a million rows in a second, and in six row by row, which
is how all others are read, and those with something to complain about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from kvsweep.parsing import csv_rows, parse_csv

_CHARACTERS = 2**22
_ROWS = 2**16

Stretch = tuple[Sequence[int], list[list[str]]]
"""Lines of some rows, and their cells by column."""


def read_header(text: str, where: str) -> list[str]:
    """Return the names of the columns.

    Raises
    ------
    InputError
        If one is there twice.
    """
    # What reads rows has four bytes for each character, of a gigabyte too.
    begin = text[:_CHARACTERS]
    return parse_csv(begin if "\n" in begin.lstrip() else text, where)[0]


def read_columns(
    text: str, where: str, header: Sequence[str], wanted: Sequence[int]
) -> Iterator[Stretch]:
    """Yield the wanted columns of a CSV text with that header, some rows at a time.

    Raises
    ------
    InputError
        If a row is malformed, or has more or fewer fields than the header.
    """
    start, line = 0, 1
    if '"' not in text and "\r" not in text.replace("\r\n", "\n"):
        text = text.replace("\r\n", "\n")
        found = re.compile(r"[^\n]*\S[^\n]*\n?").search(text)
        start = found.end() if found else 0
        line = 1 + text.count("\n", 0, start)
        even = re.compile(rf"(?:(?:[^,\n]*+,){{{len(header) - 1}}}[^,\n]*+\n)*+")
        # A single column's blank line is no row; those are told apart below.
        while start < len(text) and len(header) > 1:
            end = text.find("\n", start + _CHARACTERS) + 1 or len(text)
            piece = text[start:end]
            piece += "" if piece.endswith("\n") else "\n"
            if not even.fullmatch(piece):
                break
            count = piece.count("\n")
            cells = piece[:-1].replace("\n", ",").split(",")
            yield range(line, line + count), [cells[k :: len(header)] for k in wanted]
            start, line = end, line + count
        if start >= len(text):
            return
    yield from _by_rows(text, where, header, wanted, start, line)


def _by_rows(
    text: str, where: str, header: Sequence[str], wanted: Sequence[int], start: int, line: int
) -> Iterator[Stretch]:
    if start:
        rows = csv_rows(text[start:], where, len(header), line - 1)
    else:
        _, rows = parse_csv(text, where)
    while chunk := list(islice(rows, _ROWS)):
        lines = [number for number, _ in chunk]
        yield lines, [[row[k] for _, row in chunk] for k in wanted]
