"""Aligned columns and the small phrases of all reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvsweep.analysis.statistics import Interval
from kvsweep.analysis.wording import MISSING, ROUNDING, decimals, interval_ends, number
from kvsweep.report.folding import aligned

_NUMERIC = frozenset("0123456789.,-+±%[] e")


class Table(str):
    """Aligned columns, and what they were made of, for pages that align by themselves.

    Attributes
    ----------
    header, rows : tuple of str, list of tuple of str
        Without the columns that are all empty.
    """

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def table(header: Sequence[str], rows: Sequence[Sequence[str]], keys: int = 1) -> Table:
    """Align columns: numbers to the right, words to the left; columns that are all empty go.

    The first `keys` say what a row is: a table wider than the terminal repeats them
    (`report.folding`).
    """
    kept = [c for c in range(len(header)) if header[c] or any(row[c] for row in rows)]
    columns = [[header[c], *(row[c] for row in rows)] for c in kept]
    rights = [all(map(is_number, column[1:])) for column in columns]
    made = Table(aligned(columns, rights, sum(c < keys for c in kept)))
    made.header = tuple(header[c] for c in kept)
    made.rows = [tuple(row[c] for c in kept) for row in rows]
    return made


def is_number(cell: str) -> bool:
    """Whether a cell is one of those that columns are aligned to the right by."""
    return set(cell) <= _NUMERIC


def interval_text(interval: Interval | None, null: float = 0.0) -> str:
    """Return ``[2,131, 2,158]``, no end told as the `null` that it is not; a dash without one."""
    if interval is None or np.isnan(interval.low):
        return MISSING
    low, high = interval_ends(interval, null)
    return f"[{low}, {high}]"


def mean_and_sd(mean: float, sd: float) -> str:
    """Return ``2,115 ± 49``, two digits of the spread; the mean alone where there is none.

    Equal values have no digits to go by, or those of roundings: their mean is told as any number.

    Examples
    --------
    >>> mean_and_sd(2115.3, 49.4), mean_and_sd(0.6356, 0.0), mean_and_sd(0.6356, 1e-17)
    ('2,115 ± 49', '0.6356 ± 0', '0.6356 ± 0')
    """
    if not np.isfinite(sd):
        return number(mean)
    if sd <= ROUNDING * abs(mean):
        return f"{number(mean)} ± 0"
    places = decimals(sd)
    return f"{mean:,.{places}f} ± {sd:,.{places}f}"


def with_space(units: str) -> str:
    """Return the unit as a suffix, nothing for pure numbers."""
    return "" if units in ("1", "") else f" {units}"


def plural(units: str) -> str:
    """Return ``blocks`` for the unit ``block``; other units stay as they are."""
    counted = ("block", "token", "request", "instance", "step")
    return f"{units}s" if units in counted else units


def unit_of(value: float, units: str) -> str:
    """Return the unit as a suffix of a value: `` block`` of 1, `` blocks`` of others."""
    return with_space(units if abs(value) == 1 else plural(units))


def seeds_note(note: str) -> list[str]:
    """Write the warning of too few seeds as a sentence; nothing where there is none."""
    return [f"{note[0].upper()}{note[1:]} (docs/statistics.md)."] if note else []


def missing_note(missing: dict[str, int]) -> list[str]:
    """Say how many cells have no value and why; nothing where all have."""
    if not missing:
        return []
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in missing.items())
    return [f"Cells without a value, left out: {sum(missing.values()):,} ({reasons})."]
