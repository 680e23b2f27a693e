"""Request lists without content, and when a real server gave their tokens.

What logs of requests and results of benchmarks have in common: arrivals on some clock, lengths, and
perhaps the times of the first and the last token. They say nothing of content, so no two prompts
share any, but for a prefix that `Reading.shared_prefix` gives to all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError
from kvsweep.limits import MAX_NAME, MAX_TIME_US
from kvsweep.records import NONE
from kvsweep.workload.columns import check_count
from kvsweep.workload.requests import Requests

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Units of time, by how many a second has."""

_MAX_NAMES = 2**15
_TODAY_S = range(946_684_800, 4_102_444_800)
"""Seconds since 1970 from the year 2000 to 2100: in a unit too large no clock tells as much."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass
class Rows:
    """Requests in the order of their file.

    Attributes
    ----------
    places : sequence of str
        Where each is in the file, for messages: ``:12`` or ``: [11]``.
    arrival : float64 or int64 (n,)
        In `unit`, on a clock of any origin.
    unit : str
        One of `PER_SECOND`.
    prompt, output : int64 (n,)
        Tokens.
    ttft_us, latency_us : float64 (n,) or None
        Times from the arrival to the first and the last token, microseconds.
    names : dict of str to list of str
        ``client``, ``slo_class`` of each request, where told.
    unmeasured : str
        Why there are no times, if there are none.
    chosen : bool
        Whether `Reading.columns` chooses among the columns of the file.
    in_file : int
        How many the file has, with those that are left out.
    first : float, int or None
        Of rows that are only a part of the file's: its earliest arrival, where time begins.
    """

    places: Any
    arrival: NDArray[Any]
    unit: str
    prompt: Integers
    output: Integers
    ttft_us: Floats | None = None
    latency_us: Floats | None = None
    names: dict[str, list[str]] = field(default_factory=dict)
    unmeasured: str = ""
    chosen: bool = False
    in_file: int = 0
    first: Any = None


def build_requests(
    rows: Rows, read: Reading, where: str
) -> tuple[Requests, dict[str, Any] | None, str]:
    """Return requests in order of arrival, the first at time 0; measured times; why there are none.

    Raises
    ------
    InputError
        If there is no request, or more requests or time than are believed.
    """
    check_count(len(rows.prompt), where, read)
    if read.arrivals == "at-once":
        # Files that are written as answers come have the shortest requests first.
        arrival_us, told = np.zeros(len(rows.arrival), np.int64), "read.arrivals is 'at-once'"
        order = np.argsort(rows.arrival, kind="stable")
    else:
        arrival_us, told = _microseconds(rows.arrival, rows, where), rows.unmeasured
        order = np.argsort(arrival_us, kind="stable")
    requests = _requests(rows, arrival_us, order, read.shared_prefix or 0, where)
    if told or rows.ttft_us is None or rows.latency_us is None:
        return requests, None, told or "the file has no times of tokens"
    first = requests.arrival_us + rows.ttft_us[order]
    last = requests.arrival_us + rows.latency_us[order]
    measured = {"first_token_ts": first.tolist(), "last_token_ts": last.tolist()}
    return requests, {"measured_us": measured}, ""


def _microseconds(arrival: NDArray[Any], rows: Rows, where: str) -> Integers:
    """Return arrivals from the first one on."""
    since = arrival - (arrival.min() if rows.first is None else rows.first)
    per_second = PER_SECOND[rows.unit]
    if since.dtype == np.int64 and per_second > 10**6:
        since_us = (since + 500) // 1000
    else:
        since_us = np.rint(since * (10**6 / per_second))
    # Times of a file that are further apart than 64 bits hold come out below 0.
    late = np.flatnonzero((since_us < 0) | (since_us > MAX_TIME_US))
    if late.size:
        first = int(np.argmin(arrival))
        raise InputError(
            f"{where}{rows.places[late[0]]}: arrives more than {MAX_TIME_US} us after the first "
            f"request, {where}{rows.places[first]}"
        )
    _check_unit(arrival, rows, where)
    found: Integers = since_us.astype(np.int64)
    return found


def _check_unit(arrival: NDArray[Any], rows: Rows, where: str) -> None:
    """Refuse times that are of today in a smaller unit, and in theirs beyond what a clock tells.

    Taken as they are, requests would come a thousand times as slowly, and any server would do.
    """
    last = int(np.argmax(arrival))
    value, per_second = arrival[last].item(), PER_SECOND[rows.unit]
    for unit, many in PER_SECOND.items():
        if many > per_second and int(value / many) in _TODAY_S:
            raise InputError(
                f"{where}{rows.places[last]}: arrival: {value} {rows.unit} are "
                f"{value / per_second / 31_556_952:,.0f} years: are they {unit}? read.time_unit "
                "says it, or the end of the column's name"
            )


def _requests(
    rows: Rows, arrival_us: Integers, order: Integers, prefix: int, where: str
) -> Requests:
    n = len(order)
    prompt, output = rows.prompt[order], rows.output[order]
    own = 1 + 2 * np.arange(n)
    if prefix:
        short = np.flatnonzero(rows.prompt <= prefix)
        if short.size:
            raise InputError(
                f"{where}{rows.places[short[0]]}: a prompt of {rows.prompt[short[0]]} tokens "
                f"cannot begin with read.shared_prefix = {prefix} and have some of its own"
            )
        segments = np.stack([np.zeros(n, np.int64), own], axis=1).ravel()
        tokens = np.stack([np.full(n, prefix), prompt - prefix], axis=1).ravel()
    else:
        segments, tokens = own, prompt
    none, zeros = np.full(n, NONE), np.zeros(n, np.int64)
    names = {key: _coded(rows, order, key, where) for key in rows.names}
    blank: tuple[tuple[str, ...], NDArray[np.int16]] = ((), np.full(n, NONE, np.int16))
    (slo_names, slo_class), (client_names, client) = (
        names.get(key, blank) for key in ("slo_class", "client")
    )
    return Requests(
        arrival_us=arrival_us[order],
        prompt_tokens=prompt,
        output_tokens=output,
        segment_offsets=np.arange(n + 1) * (2 if prefix else 1),
        segment_ids=segments,
        segment_tokens=tokens,
        output_segment=own + 1,
        priority=zeros,
        has_priority=np.zeros(n, np.bool_),
        slo_class=slo_class,
        client=client,
        session=none,
        round=none,
        after=none,
        think_us=zeros,
        patience_us=none,
        slo_names=slo_names,
        client_names=client_names,
    )


def _coded(
    rows: Rows, order: Integers, key: str, where: str
) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """Return distinct names as they first occur, and the index of each; of an empty one, -1."""
    values = rows.names[key]
    codes = {name: i for i, name in enumerate(dict.fromkeys(filter(None, values)))}
    for name, code in codes.items():
        if code < _MAX_NAMES and len(name) <= MAX_NAME and name.isprintable():
            continue
        told = f"more than {_MAX_NAMES} different names"
        if code < _MAX_NAMES:
            told = f"expected printable names of at most {MAX_NAME} characters, got {name[:60]!r}"
        remedy = f"; read.columns.{key} = '' reads no such column" if rows.chosen else ""
        raise InputError(f"{where}{rows.places[values.index(name)]}: {key}: {told}{remedy}")
    found = np.array([codes.get(name, NONE) for name in values], np.int16)
    return tuple(codes), found[order]
