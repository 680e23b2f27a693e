"""Reports as text for a terminal and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import fill

from kvsweep.report.table import table as aligned
from kvsweep.studies.records import Claim, Report, Row, Table

WIDTH = 100
_NUMBER = re.compile(r"[-+]?[\d.,]+")


def text(report: Report) -> str:
    """Return the report for a terminal."""
    parts = [report.title, *(fill(paragraph, WIDTH) for paragraph in report.story)]
    for table in report.tables:
        parts.append(f"{table.title}\n{_indented(_source(table))}")
        parts.append(aligned(*_grid(table)))
        parts += [fill(note, WIDTH) for note in table.notes]
    parts.append("Claims")
    parts += [_claim_text(claim) for claim in report.claims]
    return "\n\n".join(parts)


def markdown(report: Report) -> str:
    """Return the report as Markdown, from a heading of level 2 on."""
    parts = [f"## {report.title}", *report.story]
    for table in report.tables:
        parts += [f"### {table.title}", _source(table), pipes(*_grid(table)), *table.notes]
    parts.append("### Verdicts")
    header = ["claim", "tested statement", "holds", "verdict"]
    rows = [[c.text, c.rule, _holds(c), f"**{c.verdict}**"] for c in report.claims]
    parts.append(pipes(header, rows))
    parts += [f"- *{c.text}* {c.why}" for c in report.claims if c.why]
    return "\n\n".join(parts)


def _grid(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return header and rows; columns without any content are left out."""
    header = ["", "published", *table.columns, "explained by"]
    rows = [_cells(row, table.columns) for row in table.rows]
    kept = [i for i in range(len(header)) if i == 0 or any(row[i] for row in rows)]
    return [header[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _cells(row: Row, columns: Sequence[str]) -> list[str]:
    published = f"{float(row.published.text):,.{row.decimals}f}" if row.published else ""
    return [row.label, published, *(row.shown(column) for column in columns), row.because]


def _source(table: Table) -> str:
    equal, given = table.reproduced
    counted = f"{equal} of {given} published figures equal as shipped." if given else ""
    return " ".join(filter(None, [table.source, counted]))


def _claim_text(claim: Claim) -> str:
    head = fill(f"{str(claim.verdict).upper()}: {claim.text} ({claim.source})", WIDTH)
    lines = [f"Tested: {claim.rule}", f"Holds: {_holds(claim)}.", claim.why]
    return "\n".join([head, *(_indented(line) for line in lines if line)])


def _holds(claim: Claim) -> str:
    return ", ".join(f"{where}: {'yes' if ok else 'no'}" for where, ok in claim.holds.items())


def _indented(line: str) -> str:
    return fill(line, WIDTH, initial_indent="  ", subsequent_indent="  ")


def pipes(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, columns with numbers to the right."""
    right = [any(_NUMBER.fullmatch(row[i]) for row in rows) for i in range(len(header))]
    rule = ["---:" if numeric else "---" for numeric in right]
    lines = [header, rule, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
