"""Elements of HTML, made of plain text: nothing that is shown is taken for markup."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from html import escape
from typing import TYPE_CHECKING

from kvsweep.errors import InputError, printable
from kvsweep.plot.medium import LIGHT, look
from kvsweep.plot.saving import as_svg
from kvsweep.plot.style import COLUMN_WIDTH
from kvsweep.report.table import Table, is_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LINES = 12  # of an answer that are shown without being asked for
LAST_LINES = 4  # of a long paragraph, that are shown too
MOST_ROWS = 30  # of a table, or lines of a paragraph, that are shown without being asked for
LONG = 24  # letters of a cell whose column is not made as narrow as its longest word

# What the page has by another name: dark where the browser is.
_VARIABLES = {
    LIGHT.paper: "paper",
    LIGHT.ink: "ink",
    LIGHT.faint: "faint",
    LIGHT.grid: "line",
    LIGHT.empty: "panel",
    LIGHT.hatch: "hatch",
    **{colour.lower(): f"c{i}" for i, colour in enumerate(LIGHT.colours)},
}


def text(words: object) -> str:
    """Return plain text as HTML."""
    return escape(printable(words))


def heading(words: object, level: int = 2) -> str:
    """Return a heading."""
    return f"<h{level}>{text(words)}</h{level}>"


def paragraphs(parts: Iterable[str]) -> str:
    """Return lines of a text report: tables as such, what stands between empty lines together."""
    made: list[str] = []
    lines: list[str] = []

    def close() -> None:
        if lines:
            made.append(_paragraph(lines))
            lines.clear()

    for part in parts:
        if isinstance(part, Table):
            close()
            made.append(table(part))
        elif part.strip():
            lines.append(part)
        else:
            close()
    close()
    return "\n".join(made)


def _paragraph(lines: list[str]) -> str:
    """Return lines together; of many those between the first and the last when asked for."""
    if len(lines) <= MOST_ROWS:
        return _together(lines)
    first, between = lines[:MOST_LINES], lines[MOST_LINES:-LAST_LINES]
    more = folded(f"{len(between):,} more", _together(between))
    return "\n".join([_together(first), more, _together(lines[-LAST_LINES:])])


def _together(lines: list[str]) -> str:
    return f"<p>{'<br>'.join(text(line) for line in lines)}</p>"


def shortened(lines: Iterable[str]) -> str:
    """Return a paragraph of lines, of many the first, and the others when asked for."""
    every = list(lines)
    first, more = every[:MOST_LINES], every[MOST_LINES:]
    return paragraphs(first) + (folded(f"{len(more):,} more", _together(more)) if more else "")


def table(found: Table) -> str:
    """Return a table, numbers to the right, that keys can scroll where it is too wide."""
    columns = list(zip(*found.rows, strict=True)) or [()] * len(found.header)
    right = [' class="n"' if all(map(is_number, column)) else "" for column in columns]
    sides = [
        side or (' class="long"' if max(map(len, column)) > LONG else "")
        for side, column in zip(right, columns, strict=True)
    ]
    cells = zip(right, found.header, strict=True)
    head = "".join(f'<th scope="col"{side}>{text(name)}</th>' for side, name in cells)
    body = "\n".join(
        f"<tr>{''.join(f'<td{s}>{text(c)}</td>' for s, c in zip(sides, row, strict=True))}</tr>"
        for row in found.rows
    )
    made = (
        f'<div class="wide" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )
    return made if len(found.rows) <= MOST_ROWS else folded(f"{len(found.rows)} rows", made)


def listing(lines: str) -> str:
    """Return text with its lines as they are."""
    return f"<pre>{text(lines)}</pre>"


def folded(title: str, content: str) -> str:
    """Return what is shown when asked for."""
    return f"<details><summary>{text(title)}</summary>\n{content}\n</details>"


def drawn(make: Callable[[], Figure], caption: str, name: str) -> str:
    """Return a figure as SVG within the page, or why there is none.

    Parameters
    ----------
    make : callable () -> Figure
        Draws it, on light ground.
    caption : str
        What it shows.
    name : str
        Of this figure alone: begins the names within it, which are those of the whole page.
    """
    try:
        with look(title=""):  # the page has it
            figure = make()
        svg = _svg(figure, name)
    except InputError as problem:
        return f'<p class="note">{text(caption)}: not drawn: {text(problem)}</p>'
    label = escape(printable(caption), quote=True)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    broad = ' class="broad"' if figure.get_figwidth() > COLUMN_WIDTH else ""
    return f"<figure{broad}>\n{svg}\n<figcaption>{text(caption)}</figcaption>\n</figure>"


def _svg(figure: Figure, name: str) -> str:
    svg = as_svg(figure)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-")
    return re.sub(
        r"#[0-9a-fA-F]{6}\b",
        lambda found: _variable(found[0]),
        svg,
    )


def _variable(colour: str) -> str:
    name = _VARIABLES.get(colour.lower())
    return f"var(--{name})" if name else colour
