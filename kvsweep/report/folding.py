"""Tables that are wider than the terminal: in blocks of columns, one below the other."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from unicodedata import combining, east_asian_width

import click

LEAST = len("[outside, outside]")
"""Columns of a terminal that words have before they go on in a further line: intervals never do."""

_GAP = _INDENT = "  "


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for each letter of full width.

    Examples
    --------
    >>> columns_of("abc"), columns_of("\u65e5\u672c")
    (3, 4)
    """
    if text.isascii():
        return len(text)
    wide = sum(east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(combining(letter) > 0 for letter in text)


def width_of_terminal() -> int:
    """Return how wide the terminal is that a command prints to, 0 if it is none or does not tell.

    Outside of commands a text is the same wherever it is made: a caller may write it to a file.
    """
    if click.get_current_context(silent=True) is None:
        return 0
    try:
        is_terminal = sys.stdout.isatty()
    except (AttributeError, ValueError):  # none, one of somebody's own, or closed
        return 0
    return shutil.get_terminal_size((0, 0)).columns if is_terminal else 0


def aligned(columns: Sequence[Sequence[str]], rights: Sequence[bool], keys: int) -> str:
    """Return columns side by side, numbers to the right, within the width of a terminal.

    Where that is too narrow long words go on in further lines, and what still has no room follows
    in further blocks, which begin with the first columns again.

    Parameters
    ----------
    columns : sequence of sequence of str
        Each with its header first.
    rights : sequence of bool
        Which of them are aligned to the right.
    keys : int
        How many of the first columns say what a row is.
    """
    width = width_of_terminal()
    widths = [max(map(columns_of, column)) for column in columns]
    if width == 0 or _taken(widths) <= width:
        return _block(columns, widths, rights)
    widths = _narrowed(widths, [_longest_word(column, width) for column in columns], rights, width)
    blocks = []
    for place in _blocks(widths, keys, width, [column[0] for column in columns]):
        of = [(columns[c], widths[c], rights[c]) for c in place]
        blocks.append(_block(*zip(*of, strict=True)))
    return "\n\n".join(blocks)


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _longest_word(column: Sequence[str], width: int) -> int:
    """Return how wide a column must be for names to stay whole, as they are copied.

    Beyond two thirds of the terminal they do not.
    """
    longest = max(columns_of(word) for cell in column for word in (cell.split() or [""]))
    return max(LEAST, longest) if longest <= width * 2 // 3 else LEAST


def _narrowed(
    widths: list[int], least: Sequence[int], rights: Sequence[bool], width: int
) -> list[int]:
    """Give columns of words what the others leave, if that is something, or else a third."""
    words = [c for c, right in enumerate(rights) if not right and widths[c] > least[c]]
    if not words:
        return widths
    over = _taken(widths) - width
    longest = max(words, key=lambda c: widths[c])
    if widths[longest] - over >= least[longest]:
        return [w - over if c == longest else w for c, w in enumerate(widths)]
    return [min(w, max(least[c], width // 3)) if c in words else w for c, w in enumerate(widths)]


def _blocks(widths: Sequence[int], keys: int, width: int, header: Sequence[str]) -> list[list[int]]:
    """Share the columns out to blocks, each with the first columns and at least one more.

    A column without a name, as of intervals, is read with the one before it.
    """
    first = list(range(min(keys, len(widths))))
    named: list[list[int]] = []
    for column in range(len(first), len(widths)):
        if named and not header[column]:
            named[-1].append(column)
        else:
            named.append([column])
    blocks: list[list[int]] = []
    for place in named:
        if blocks and _taken([widths[c] for c in (*blocks[-1], *place)]) <= width:
            blocks[-1] += place
        else:
            blocks.append([*first, *place])
    return blocks or [first]


def _block(columns: Sequence[Sequence[str]], widths: Sequence[int], rights: Sequence[bool]) -> str:
    lines = []
    for row in zip(*columns, strict=True):
        cells = [_lines(cell, width) for cell, width in zip(row, widths, strict=True)]
        for place in range(max(map(len, cells))):
            parts = []
            for cell, width, right in zip(cells, widths, rights, strict=True):
                text = cell[place] if place < len(cell) else ""
                space = " " * (width - columns_of(text))
                parts.append(space + text if right else text + space)
            lines.append(_GAP.join(parts).rstrip())
    return "\n".join(lines)


def _lines(cell: str, width: int) -> list[str]:
    """Break a text to lines of at most so many columns, those after the first set in."""
    if columns_of(cell) <= width:
        return [cell]
    lines, line = [], ""
    for word in re.findall(r"\s*\S+\s*", cell):
        if line.strip() and columns_of(line + word.rstrip()) > width:
            lines.append(line)
            line = _INDENT
        for letter in word:  # of a word without room in any line, as many as have
            if columns_of((line + letter).rstrip()) > width:
                lines.append(line)
                line = _INDENT
            line += letter
    return [each.rstrip() for each in (*lines, line)]
