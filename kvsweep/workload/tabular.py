"""CSV files of any columns: which holds what is given, or told by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError, shown
from kvsweep.workload.cells import (
    date_cells,
    is_date,
    is_nothing,
    is_number,
    is_zoned,
    time_cells,
    token_cells,
)
from kvsweep.workload.checks import IF_FAILED
from kvsweep.workload.column_roles import (
    LENGTHS,
    NAMES,
    ON_CLOCK,
    TIMES,
    find_roles,
    units_of,
    without,
)
from kvsweep.workload.columns import no_requests
from kvsweep.workload.csv_columns import Stretch, read_columns, read_header
from kvsweep.workload.long_files import Chunk, Part
from kvsweep.workload.measured import Rows
from kvsweep.workload.row_chunks import DATE, collect


def read_csv(
    text: str, where: str, read: Reading, unit: str | None = None, part: Part | None = None
) -> Rows:
    """Return the requests of a CSV file; `unit` is that of its times, of a format that has one.

    Of more requests than a list may have, only `part` is kept.

    Raises
    ------
    InputError
        If the columns are not told, or a line is malformed.
    """
    header = read_header(text, where)
    roles = find_roles(header, read, where)
    stretches = read_columns(text, where, header, [header.index(name) for name in roles.values()])
    return read_table(stretches, roles, where, read, unit, part)


def read_table(
    stretches: Iterator[Stretch],
    roles: Mapping[str, str],
    where: str,
    read: Reading,
    unit: str | None = None,
    part: Part | None = None,
) -> Rows:
    """Return the requests of a table.

    Parameters
    ----------
    stretches : iterator
        Lines of some rows, and their cells by column, in the order of `roles`.
    roles : dict of str to str
        Names of the columns by role.

    Raises
    ------
    InputError
        If a line is malformed, or the unit of its times is unknown.
    """
    first = next(stretches, None)
    if first is None:
        raise no_requests(where, read)
    columns = dict(zip(roles, first[1], strict=True))
    whole = _whole_rows(columns, len(first[0]), 1) or [0]
    row = {role: cells[whole[0]] for role, cells in columns.items()}
    arrival = row["arrival"]
    dated = is_date(arrival)
    if not _lacks(row):
        _check_times(row, roles, dated, _places(where, first[0])(whole[0]))
    dates = {role: DATE for role in ON_CLOCK if dated and role in roles}
    numbers = {role: roles[role] for role in TIMES if role in roles and role not in dates}
    units = dates | units_of(numbers, read, where, unit)
    zoned = dated and is_zoned(arrival)
    in_file = 0

    def chunks() -> Iterator[tuple[Chunk, Sequence[int]]]:
        nonlocal in_file
        for lines, cells in chain([first], stretches):
            in_file += len(lines)
            columns = dict(zip(roles, cells, strict=True))
            try:
                yield _parsed(columns, roles, units, zoned, _places(where, lines)), lines
            except InputError as problem:
                kept = _whole_rows(columns, len(lines))
                if len(kept) == len(lines):
                    raise
                columns = {role: [cells[i] for i in kept] for role, cells in columns.items()}
                lines = [lines[i] for i in kept]
                rest = kept and _parsed(columns, roles, units, zoned, _places(where, lines))
                if read.failed != "leave-out":
                    raise InputError(f"{problem}{IF_FAILED}") from None
                if rest:
                    yield rest, lines

    rows = collect(chunks(), units, where, read, "", part)
    return replace(rows, in_file=in_file)


def _lacks(row: Mapping[str, str]) -> bool:
    """Return whether a row lacks a number, as that of a request that failed."""
    return any(is_nothing(cell) for role, cell in row.items() if role not in NAMES)


def _whole_rows(columns: Mapping[str, list[str]], count: int, most: int | None = None) -> list[int]:
    """Return the positions of the first `most` rows that lack no number; None: of all."""
    roles = [role for role in columns if role not in NAMES]
    whole = (i for i in range(count) if not _lacks({role: columns[role][i] for role in roles}))
    return list(islice(whole, most))


def _check_times(row: Mapping[str, str], roles: Mapping[str, str], dated: bool, at: str) -> None:
    """Refuse times of which no unit would make sense, by the first row."""
    for role in TIMES:
        if role not in row or is_number(row[role]) or (dated and role in ON_CLOCK):
            continue
        told = f"got {shown(row[role])}"
        if role in ON_CLOCK and is_date(row[role]):
            raise InputError(
                f"{at}: {roles[role]}: expected a number on the clock of {roles['arrival']}, {told}"
            )
        dates = "; dates are written as 2023-11-16 18:17:03.97+00:00" if role == "arrival" else ""
        raise InputError(
            f"{at}: {roles[role]}: expected a time, at least 0, {told}{dates}{without(role)}"
        )


def _places(where: str, lines: Sequence[int]) -> Callable[[int], str]:
    return lambda i: f"{where}:{lines[i]}"


def _parsed(
    cells: Mapping[str, list[str]],
    roles: Mapping[str, str],
    units: Mapping[str, str],
    zoned: bool,
    place: Callable[[int], str],
) -> Chunk:
    found: Chunk = {}
    for role, column in cells.items():
        if role in LENGTHS:
            found[role] = token_cells(column, roles[role], place)
        elif role in NAMES:
            found[role] = [cell.strip(" ") for cell in column]
        elif units[role] == DATE:
            found[role] = date_cells(column, roles[role], place, zoned)
        else:
            try:
                found[role] = time_cells(column, roles[role], place)
            except InputError as problem:
                raise InputError(f"{problem}{without(role)}") from None
    return found
