"""From runs to cells and rows: a measure under every column, and which repair explains a gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kvsweep.studies.bench import Bench
from kvsweep.studies.columns import AS_SHIPPED, REPAIRED, Column
from kvsweep.studies.records import UNAVAILABLE, Cell, Printed, Row, shown
from kvsweep.studies.runs import Case, Run

Value = Callable[[Run], float]

_WORDS = {"livelock": "livelock", "failed": "crash", "unavailable": UNAVAILABLE}

# A repair explains a gap if it closes at least this share of it.
EXPLAINS = 0.5


@dataclass(frozen=True)
class Measure:
    """A quantity of a design.

    Attributes
    ----------
    label : str
        What it is, unit included.
    cell : callable
        (bench, column) -> Cell.
    published : str or None
        As published.
    decimals : int or None
        Digits to show; None: as published.
    """

    label: str
    cell: Callable[[Bench, Column], Cell]
    published: str | None = None
    decimals: int | None = None


def mean(cases: Sequence[Case], value: Value) -> Callable[[Bench, Column], Cell]:
    """Return a cell with the mean of a value over cases, or with a word if a case did not end well.

    The word is that of the first such case; "none" if the mean is no number.
    """

    def cell(bench: Bench, column: Column) -> Cell:
        runs = [bench.run(case, column) for case in cases]
        for run in runs:
            if run.status != "ok":
                return _WORDS[run.status]
        found = sum(map(value, runs)) / len(runs)
        return "none" if math.isnan(found) else found

    return cell


def make_row(
    bench: Bench, measure: Measure, columns: Sequence[Column], repairs: Sequence[Column] = ()
) -> Row:
    """Return the row of a measure; `repairs` are tried on the gap if there is one."""
    published = Printed(measure.published) if measure.published is not None else None
    decimals = measure.decimals
    if decimals is None:
        decimals = published.decimals if published else 1
    cells = {column.name: measure.cell(bench, column) for column in columns}
    because = ""
    if repairs and has_gap(cells[AS_SHIPPED.name], cells[REPAIRED.name], decimals):
        tried = {column.name: measure.cell(bench, column) for column in repairs}
        because = explanation(cells[AS_SHIPPED.name], number(cells[REPAIRED.name]), tried)
    return Row(measure.label, published, cells, decimals, because)


def has_gap(shipped: Cell, repaired: Cell, decimals: int) -> bool:
    """Return whether the repaired rules give a number that reads differently."""
    return not isinstance(repaired, str) and shown(shipped, decimals) != shown(repaired, decimals)


def number(cell: Cell) -> float:
    """Return a cell's number, NaN where it has none: comparisons with it are false."""
    return math.nan if isinstance(cell, str) else cell


def names(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the heads of columns."""
    return tuple(column.name for column in columns)


def able(bench: Bench, cases: Sequence[Case], columns: Sequence[Column]) -> list[Column]:
    """Return the columns whose rules have all that the cases ask for."""
    return [
        column
        for column in columns
        if all(bench.run(case, column).status != "unavailable" for case in cases)
    ]


def explanation(shipped: Cell, repaired: float, tried: Mapping[str, Cell]) -> str:
    """Say which repairs, each on its own, close most of the gap between two cells.

    Those that close at least half of it are named with their shares, the largest first; if there
    are none, the same is asked of combinations (names with ``+``). Where the shipped rules give no
    number, the repairs that give one are named.
    """
    numbers = {name: cell for name, cell in tried.items() if not isinstance(cell, str)}
    for together in (False, True):
        group = {name: cell for name, cell in numbers.items() if ("+" in name) is together}
        if isinstance(shipped, str):
            found = " or ".join(group)
        else:
            found = _shares(shipped, repaired, group)
        if found:
            return found
    return "no single defect"


def _shares(shipped: float, repaired: float, tried: Mapping[str, float]) -> str:
    """Name those that close enough of the gap, with their shares."""
    shares = {
        name: 1 - abs(repaired - cell) / abs(repaired - shipped) for name, cell in tried.items()
    }
    enough = sorted((n for n in shares if shares[n] >= EXPLAINS), key=lambda n: -shares[n])
    return ", ".join(f"{name} ({100 * shares[name]:.0f} %)" for name in enough)
