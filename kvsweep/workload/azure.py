"""Azure's LLM inference traces: CSV with ``TIMESTAMP, ContextTokens, GeneratedTokens``.

They carry no content (Azure/AzurePublicDataset, 2023 and 2024), so no two requests share any.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError, did_you_mean, shown
from kvsweep.limits import MAX_TIME_US, MAX_TOKENS
from kvsweep.workload.cells import (
    date_cells,
    is_date,
    is_nothing,
    is_zoned,
    since_1970,
    token_cells,
)
from kvsweep.workload.checks import IF_FAILED, Malformed, check_left_out
from kvsweep.workload.columns import no_requests
from kvsweep.workload.csv_columns import read_columns, read_header
from kvsweep.workload.long_files import Chunk, Kept, Part
from kvsweep.workload.measured import Rows
from kvsweep.workload.row_chunks import Numbered

HEADER = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

_MAX_DIGITS = 20


def read_azure(text: str, where: str, read: Reading, part: Part | None = None) -> Rows:
    """Return the requests; other columns are left out, and of too many requests all but `part`.

    Raises
    ------
    InputError
        If a line is malformed, there is none, a request failed and `read` does not leave those
        out, or they have more tokens or time than is believed.
    """
    header = read_header(text, where)
    for name in HEADER:
        if name not in header:
            raise InputError(f"{where}:1: missing column {name}{did_you_mean(name, header)}")
    rows = Kept(where, "us", part)
    zone: _Zone | None = None
    in_file = 0
    used = [header.index(name) for name in HEADER]
    for lines, cells in read_columns(text, where, header, used):
        kept = np.array(lines, np.int64)
        in_file += len(lines)
        zone = zone or _first_zone(cells[0], lines)
        chunk = _at_once(cells, zone)
        if chunk is None:
            chunk, kept = _row_by_row(cells, lines, where, read, zone)
        rows.add(chunk, kept)
    found, places = rows.joined()
    if not len(places):
        raise no_requests(where, read)
    _check_span(found["arrival"], places, where)
    return Rows(
        Numbered(places, ""), found["arrival"], "us", found["prompt"], found["output"],
        unmeasured="the format has no times of tokens", in_file=in_file, first=rows.origin,
    )  # fmt: skip


class _Zone(NamedTuple):
    """Whether times have a time zone, and the line that told it."""

    told: bool
    line: int


def _first_zone(cells: list[str], lines: Sequence[int]) -> _Zone | None:
    """Return what the first time tells that is one, as that of a failed request may not be."""
    for cell, line in zip(cells, lines, strict=True):
        if is_date(cell):
            return _Zone(is_zoned(cell.strip()), line)
    return None


def _at_once(cells: list[list[str]], zone: _Zone | None) -> Chunk | None:
    """Return the values of many rows; None if something has to be said, or left out."""
    if zone is None:
        return None
    try:
        arrival = date_cells(cells[0], HEADER[0], str, zone.told)
        prompt, output = (token_cells(cells[k], HEADER[k], str) for k in (1, 2))
    except InputError:
        return None
    whole = min(prompt.min(initial=1), output.min(initial=1)) > 0
    return {"arrival": arrival, "prompt": prompt, "output": output} if whole else None


def _row_by_row(
    cells: list[list[str]], lines: Sequence[int], where: str, read: Reading, zone: _Zone | None
) -> tuple[Chunk, NDArray[np.int64]]:
    """Return the values of some rows, and their lines."""
    rows: list[tuple[int, int, int, int]] = []
    for line, row in zip(lines, zip(*cells, strict=True), strict=True):
        try:
            time = _time(row[0])
            if _whole(row[2]) == "0":
                check_left_out(read, "GeneratedTokens: 0, the request failed")
                continue
            lengths = _count(row[1], "ContextTokens"), _count(row[2], "GeneratedTokens")
        except ValueError as problem:
            told = isinstance(problem, Malformed)
            lacks = not told and any(map(is_nothing, row))
            if lacks and read.failed == "leave-out":
                continue
            raise InputError(f"{where}:{line}: {problem}{IF_FAILED if lacks else ''}") from None
        if zone is not None and (time.tzinfo is not None) != zone.told:
            raise InputError(
                f"{where}:{line}: TIMESTAMP: with and without a time zone, as in line {zone.line}"
            )
        rows.append((line, since_1970(time), *lengths))
    kept, arrival, prompt, output = np.array(rows, np.int64).reshape(-1, 4).T
    return {"arrival": arrival, "prompt": prompt, "output": output}, kept


def _check_span(arrival: NDArray[np.int64], lines: NDArray[np.int64], where: str) -> None:
    first, last = int(arrival.argmin()), len(arrival) - 1 - int(arrival[::-1].argmax())
    if arrival[last] - arrival[first] > MAX_TIME_US:
        raise InputError(
            f"{where}:{lines[last]}: TIMESTAMP: more than {MAX_TIME_US} us after the first, in "
            f"line {lines[first]}"
        )


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"TIMESTAMP: expected a time as 2023-11-16 18:17:03.9799600, got {shown(text)}"
        ) from None


def _whole(text: str) -> str:
    """Return what pandas writes as 9.0, where cells of its column are empty, as 9."""
    return text.strip().removesuffix(".0")


def _count(text: str, key: str) -> int:
    digits = _whole(text)
    if digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS:
        value = int(digits)
        if 1 <= value <= MAX_TOKENS:
            return value
    raise ValueError(f"{key}: expected an integer from 1 to {MAX_TOKENS}, got {shown(text)}")
