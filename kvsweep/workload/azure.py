"""Azure's LLM inference traces: CSV with ``TIMESTAMP, ContextTokens, GeneratedTokens``.

They carry no content (Azure/AzurePublicDataset, 2023 and 2024), so no two requests share any.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError, did_you_mean, shown
from kvsweep.limits import MAX_TIME_US, MAX_TOKENS
from kvsweep.parsing import parse_csv
from kvsweep.workload.cells import is_nothing
from kvsweep.workload.checks import IF_FAILED, Malformed, check_left_out
from kvsweep.workload.columns import RequestColumns, check_count
from kvsweep.workload.requests import Requests

HEADER = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

_MICROSECOND = timedelta(microseconds=1)
_MAX_DIGITS = 20


def read_azure(text: str, where: str, read: Reading) -> Requests:
    """Return the requests in order of arrival, the first at time 0; other columns are left out.

    Raises
    ------
    InputError
        If a line is malformed, there is none, a request failed and `read` does not leave those
        out, or they have more tokens or time than is believed.
    """
    header, lines = parse_csv(text, where)
    for name in HEADER:
        if name not in header:
            raise InputError(f"{where}:1: missing column {name}{did_you_mean(name, header)}")
    used = time_at, context_at, generated_at = [header.index(name) for name in HEADER]
    rows: list[tuple[datetime, int, int, int]] = []
    for line, row in lines:
        try:
            time = _time(row[time_at])
            if _whole(row[generated_at]) == "0":
                check_left_out(read, "GeneratedTokens: 0, the request failed")
                continue
            context = _count(row[context_at], "ContextTokens")
            generated = _count(row[generated_at], "GeneratedTokens")
        except ValueError as problem:
            told = isinstance(problem, Malformed)
            lacks = not told and any(is_nothing(row[at]) for at in used)
            if lacks and read.failed == "leave-out":
                continue
            raise InputError(f"{where}:{line}: {problem}{IF_FAILED if lacks else ''}") from None
        if rows and (time.tzinfo is None) != (rows[0][0].tzinfo is None):
            raise InputError(
                f"{where}:{line}: TIMESTAMP: with and without a time zone, as in line {rows[0][1]}"
            )
        rows.append((time, line, context, generated))
    check_count(len(rows), where, read)
    rows.sort(key=lambda row: row[0])
    (first, first_line, _, _), (last, last_line, _, _) = rows[0], rows[-1]
    if (last - first) // _MICROSECOND > MAX_TIME_US:
        raise InputError(
            f"{where}:{last_line}: TIMESTAMP: more than {MAX_TIME_US} us after the first, in line "
            f"{first_line}"
        )
    columns = RequestColumns()
    for i, (time, _, context, generated) in enumerate(rows):
        columns.add((time - first) // _MICROSECOND, [2 * i], [context], (2 * i + 1, generated))
    return columns.build()


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
