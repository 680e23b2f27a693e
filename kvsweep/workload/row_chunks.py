"""Rows of tables as request lists: chunks of columns joined and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError
from kvsweep.limits import MAX_TIME_US
from kvsweep.workload.column_roles import NAMES, without
from kvsweep.workload.columns import no_requests
from kvsweep.workload.long_files import Chunk, Kept, Part, taken
from kvsweep.workload.measured import PER_SECOND, Rows

Values = NDArray[Any]
DATE = "date"
"""Unit of a column of dates, which become microseconds."""


def collect(
    chunks: Iterator[tuple[Chunk, Sequence[int]]],
    units: Mapping[str, str],
    where: str,
    read: Reading,
    word: str,
    part: Part | None = None,
) -> Rows:
    """Return the rows of all chunks, checked.

    Parameters
    ----------
    chunks : iterator
        Values by role, and the numbers of their rows as messages have them.
    units : dict of str to str
        Units of the times.
    word : str
        Stands before a row's number in messages.
    part : Part or None
        What is enough, if there are more rows than a list may have requests; None: all of them.

    Raises
    ------
    InputError
        If a request failed and `read` does not leave those out, or times are not in order.
    """
    unit = "us" if units["arrival"] == DATE else units["arrival"]
    rows = Kept(where, unit, part)
    for chunk, numbers in chunks:
        kept = _answered(chunk, numbers, where, read, word)
        answered = {role: taken(values, kept) for role, values in chunk.items()}
        rows.add(answered, np.array(numbers, np.int64)[kept])
    joined, lines = rows.joined()
    if not len(lines):
        raise no_requests(where, read)
    ttft, latency = _from_arrival(joined, units, lines, where, word)
    return Rows(
        Numbered(lines, word), joined["arrival"], unit, joined["prompt"], joined["output"],
        ttft, latency, {role: joined[role] for role in NAMES if role in joined},
        unmeasured=_untimed(ttft, latency), chosen=True,
        first=rows.origin,
    )  # fmt: skip


class Numbered:
    """Places of rows, made when one is asked for; a word may stand before their numbers."""

    def __init__(self, lines: NDArray[np.int64], word: str) -> None:
        self._lines = lines
        self._word = word

    def __getitem__(self, i: int) -> str:
        """Return the place of row `i`."""
        return f":{self._word and ' '}{self._word}{self._lines[i]}"


def _answered(
    chunk: Chunk, numbers: Sequence[int], where: str, read: Reading, word: str
) -> NDArray[np.int64]:
    """Return the positions of the requests to keep."""
    place = Numbered(np.array(numbers, np.int64), word)
    outputs, prompts = chunk["output"], chunk["prompt"]
    failed = np.flatnonzero(outputs == 0)
    if failed.size and read.failed == "refuse":
        raise InputError(
            f"{where}{place[int(failed[0])]}: 0 output tokens, the request failed: read.failed = "
            "'leave-out' leaves such requests out"
        )
    empty = np.flatnonzero((prompts == 0) & (outputs > 0))
    if empty.size:
        raise InputError(f"{where}{place[int(empty[0])]}: 0 prompt tokens, at least 1 is needed")
    return np.flatnonzero(outputs > 0)


def _from_arrival(
    found: Chunk, units: Mapping[str, str], lines: NDArray[np.int64], where: str, word: str
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return microseconds from the arrival to the first and the last token."""
    place = Numbered(lines, word)
    arrival_us = _us(found["arrival"] - found["arrival"].min(), units["arrival"])
    times: list[NDArray[np.float64] | None] = []
    for on_clock, since in (("first_token", "ttft"), ("last_token", "latency")):
        if since in found:
            value = _us(found[since], units[since])
        elif on_clock in found:
            origin = _in_unit(found["arrival"].min(), units["arrival"], units[on_clock])
            value = _us(found[on_clock] - origin, units[on_clock]) - arrival_us
        else:
            times.append(None)
            continue
        role = since if since in found else on_clock
        bad = np.flatnonzero(~((value > 0) & (value <= MAX_TIME_US)))
        if bad.size:
            raise InputError(
                f"{where}{place[int(bad[0])]}: {role}: {value[bad[0]] / 1e6:.6g} s after the "
                f"arrival, expected more than 0 and at most {MAX_TIME_US / 10**6:g}{without(role)}"
            )
        times.append(value)
    first, last = times
    if first is not None and last is not None:
        # One token is both, however each column was rounded.
        last = np.where(found["output"] == 1, np.maximum(first, last), last)
        early = np.flatnonzero(last < first)
        if early.size:
            raise InputError(f"{where}{place[int(early[0])]}: the last token is before the first")
    return first, last


def _us(values: Values, unit: str) -> NDArray[np.float64]:
    return np.asarray(values * (10**6 / PER_SECOND["us" if unit == DATE else unit]), np.float64)


def _in_unit(value: Any, unit: str, other: str) -> Any:
    """Return a time of one clock in another column's unit."""
    here, there = (PER_SECOND["us" if u == DATE else u] for u in (unit, other))
    return value if here == there else value * (there / here)


def _untimed(first: Any, last: Any) -> str:
    absent = [
        f"{pair[0]} or {pair[1]}"
        for values, pair in ((first, ("first_token", "ttft")), (last, ("last_token", "latency")))
        if values is None
    ]
    return f"no column for {' and '.join(absent)} (read.columns names them)" if absent else ""
