"""What a comparison consists of: published figures, rows, claims with verdicts, a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

Cell = float | str
"""A number, or in words why there is none."""

UNAVAILABLE = "not available"


@dataclass(frozen=True)
class Printed:
    """A number as it was published: equal means equal in every printed digit.

    Attributes
    ----------
    text : str
        Such as ``417.2``.
    """

    text: str

    @property
    def decimals(self) -> int:
        """Digits after the point."""
        return len(self.text.partition(".")[2])

    def equals(self, cell: Cell) -> bool:
        """Return whether a number, rounded like this one, reads the same."""
        return not isinstance(cell, str) and f"{cell:.{self.decimals}f}" == self.text


@dataclass(frozen=True)
class Row:
    """One quantity under every column.

    Attributes
    ----------
    label : str
        What it is, unit included.
    published : Printed or None
        As published, if it was.
    cells : dict of str to Cell
        By the names of columns.
    decimals : int
        Digits after the point to show.
    because : str
        Which repair explains the gap between shipped and repaired; empty if there is none.
    """

    label: str
    published: Printed | None
    cells: Mapping[str, Cell]
    decimals: int
    because: str = ""

    def shown(self, column: str) -> str:
        """Return the cell of a column as text."""
        return shown(self.cells[column], self.decimals)


@dataclass(frozen=True)
class Table:
    """Rows under the same columns.

    Attributes
    ----------
    title, source : str
        What it shows; where the published figures stand.
    columns : tuple of str
        Names of the columns to show.
    rows : tuple of Row
    notes : tuple of str
        Sentences below it.
    """

    title: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def reproduced(self) -> tuple[int, int]:
        """Published figures that the first column equals in every digit, and all of them."""
        given = [row for row in self.rows if row.published]
        equal = [r for r in given if r.published and r.published.equals(r.cells[self.columns[0]])]
        return len(equal), len(given)


class ClaimVerdict(StrEnum):
    """What is left of a published claim."""

    STANDS = "stands"
    OTHER_NUMBER = "stands with another number"
    ARTEFACT = "artefact"
    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"


@dataclass(frozen=True)
class Claim:
    """A published claim, the test that it is put to, and what came out.

    Attributes
    ----------
    text, source : str
        The claim; where it is made.
    rule : str
        The statement that is tested, in one sentence.
    holds : dict of str to bool
        Whether it is true, by column or other evidence; columns that cannot tell are left out.
    rows : tuple of Row
        The published figures that belong to it.
    why : str
        What explains the outcome.
    hypothesis : bool
        Whether it was proposed only, without a published result.
    """

    text: str
    source: str
    rule: str
    holds: Mapping[str, bool]
    rows: tuple[Row, ...] = ()
    why: str = ""
    hypothesis: bool = False

    @property
    def verdict(self) -> ClaimVerdict:
        """What is left of the claim.

        An artefact if the tested statement is false anywhere. Else it stands; with another number
        if one of its published figures differs under the repaired rules. A hypothesis is supported
        or not.
        """
        true = all(self.holds.values())
        if self.hypothesis:
            return ClaimVerdict.SUPPORTED if true else ClaimVerdict.NOT_SUPPORTED
        if not true:
            return ClaimVerdict.ARTEFACT
        changed = [r for r in self.rows if r.published and not r.published.equals(_repaired(r))]
        return ClaimVerdict.OTHER_NUMBER if changed else ClaimVerdict.STANDS


def _repaired(row: Row) -> Cell:
    return row.cells["repaired"]


@dataclass(frozen=True)
class Report:
    """A published design, run again.

    Attributes
    ----------
    name, title : str
    story : tuple of str
        Paragraphs in plain words.
    tables : tuple of Table
    claims : tuple of Claim
    """

    name: str
    title: str
    story: tuple[str, ...]
    tables: tuple[Table, ...]
    claims: tuple[Claim, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: missing numbers are words, verdicts are names."""
        plain: dict[str, Any] = asdict(self, dict_factory=_plain_fields)
        for claim, record in zip(self.claims, plain["claims"], strict=True):
            record["verdict"] = str(claim.verdict)
        return plain


def _plain_fields(fields: list[tuple[str, Any]]) -> Any:
    """Return a record as a dict; a printed number as its text."""
    record = dict(fields)
    return record["text"] if list(record) == ["text"] else record


def shown(cell: Cell, decimals: int) -> str:
    """Return a cell as text."""
    return cell if isinstance(cell, str) else f"{cell:,.{decimals}f}"
