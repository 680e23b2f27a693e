"""Mooncake's traces: JSON lines with ``timestamp, input_length, output_length, hash_ids``.

A hash id stands for a block of tokens together with all tokens before it, the last block of a
prompt being shorter. Outputs have no ids: each is content of its own. Two releases have these keys:

- Mooncake's (kvcache-ai/Mooncake, FAST'25 release): milliseconds, blocks of 512 tokens.
- Qwen-Bailian's (alibaba-edu/qwen-bailian-usagetraces-anon, 2025): seconds, blocks of 16 tokens.
  What its lines have besides (``chat_id, parent_chat_id, turn, type``) is allowed and not used.

Others write the same keys with other units and blocks: `Reading.time_unit`, `Reading.block_size`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError, did_you_mean, shown
from kvsweep.limits import MAX_TIME_US
from kvsweep.parsing import parse_json
from kvsweep.workload.checks import Malformed, check_left_out, check_object, token_count
from kvsweep.workload.columns import RequestColumns, check_count
from kvsweep.workload.measured import PER_SECOND
from kvsweep.workload.requests import Requests

BLOCK_TOKENS = {"mooncake": 512, "qwen-bailian": 16}
TIME_UNIT = {"mooncake": "ms", "qwen-bailian": "s"}

KEYS = ("timestamp", "input_length", "output_length", "hash_ids")
QWEN_KEYS = ("chat_id", "parent_chat_id", "turn", "type")
_KNOWN = frozenset(KEYS + QWEN_KEYS)

_AS_LINES = "; read.format = 'jsonl' with read.columns reads times and lengths of any lines"

# Largest integer that JSON readers of other languages keep, too.
_LARGEST = 2**53
_USUAL_BLOCKS = (16, 32, 64, 128, 256, 512, 1024)
_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


@dataclass(frozen=True)
class _Layout:
    """Tokens of a block, the unit of times, and whether a partial block has an id."""

    block: int
    unit: str
    with_id: bool

    @property
    def most(self) -> int:
        """The latest timestamp."""
        return MAX_TIME_US * PER_SECOND[self.unit] // 10**6


def read_mooncake(text: str, where: str, kind: str, read: Reading) -> Requests:
    """Return the requests in order of arrival, counted from time 0 of the trace.

    Parameters
    ----------
    kind : str
        ``mooncake`` or ``qwen-bailian``.

    Raises
    ------
    InputError
        If a line is malformed, has an unknown key, or more tokens or time than is believed, or a
        request failed and `read` does not leave those out.
    """
    layout = _Layout(
        read.block_size or BLOCK_TOKENS[kind],
        read.time_unit or TIME_UNIT[kind],
        read.partial_block == "with-id",
    )
    rows = []
    unused = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.isspace():
            item = parse_json(line, where, number)
            try:
                if kind == "mooncake" and read.format is None:
                    _check_one_kind(item)
                row = _row(item, layout, read)
            except Malformed as problem:
                raise InputError(f"{where}:{number}: {problem}") from None
            if row:
                rows.append(row)
                unused = max(unused, 1 + max(row[1], default=-1))
    check_count(len(rows), where, read)
    rows.sort(key=lambda row: row[0])
    if rows and layout.unit == "ms" and read.time_unit is None:
        _check_begin(rows[0][0], where)
    if unused + 2 * len(rows) > _LARGEST:  # a file would not hold what is numbered behind them
        numbers: dict[int, int] = {}
        for _, hashes, *_ in rows:
            hashes[:] = [numbers.setdefault(one, len(numbers)) for one in hashes]
        unused = len(numbers)
    columns = RequestColumns()
    for i, (arrival_us, hashes, tokens, output_tokens) in enumerate(rows):
        if layout.block * len(hashes) < tokens:  # what has no id is content of its own
            hashes.append(unused + len(rows) + i)
        sizes = [layout.block] * len(hashes)
        sizes[-1] = tokens - layout.block * (len(hashes) - 1)
        columns.add(arrival_us, hashes, sizes, (unused + i, output_tokens))
    return columns.build()


_SINCE_1970 = "; times count from the begin of the trace: subtract the first one from all"


_EPOCH_S = 10**9
"""Seconds since 1970 of September 2001; as many milliseconds are eleven days and a half."""


def _check_begin(arrival_us: int, where: str) -> None:
    """Refuse milliseconds that look like seconds since 1970, which were a thousand times as dense.

    Traces begin at 0, or near it.
    """
    if arrival_us < 1000 * _EPOCH_S:
        return
    days = arrival_us / (86_400 * 10**6)
    raise InputError(
        f"{where}: timestamp: from {arrival_us // 1000} ms on, {days:.0f} days after the begin of "
        "the trace; if these are seconds since 1970 subtract the first one from all and give "
        "read.time_unit = 's', if they are milliseconds give 'ms'"
    )


def _row(item: Any, layout: _Layout, read: Reading) -> tuple[int, list[int], int, int] | None:
    """Return arrival (us), hash ids, prompt tokens and output tokens of a line; None: left out."""
    check_object(item)
    _check_keys(item)
    if item["output_length"] == 0 and type(item["output_length"]) is int:
        check_left_out(read, "output_length: 0, the request failed")
        return None
    timestamp = item["timestamp"]
    words = _WORDS[layout.unit]
    if type(timestamp) is not int and type(timestamp) is not float:
        raise Malformed(f"timestamp: expected {words}, got {shown(timestamp)}")
    if not 0 <= timestamp <= layout.most:
        raise Malformed(
            f"timestamp: expected {words} from 0 to {layout.most}, got {shown(timestamp)}"
            f"{_SINCE_1970 if timestamp > layout.most else ''}"
        )
    tokens = token_count(item["input_length"], "input_length")
    hashes = item["hash_ids"]
    if (
        type(hashes) is not list
        or not set(map(type, hashes)) <= {int}
        or (hashes and not 0 <= min(hashes) <= max(hashes) < _LARGEST)
    ):
        raise Malformed(f"hash_ids: expected a list of integers from 0 to {_LARGEST - 1}")
    if len(hashes) != _ids(tokens, layout.block, layout.with_id):
        raise Malformed(_wrong_number(len(hashes), tokens, layout))
    arrival_us = round(timestamp * (10**6 / PER_SECOND[layout.unit]))
    return arrival_us, hashes, tokens, token_count(item["output_length"], "output_length")


def _ids(tokens: int, block: int, with_id: bool) -> int:
    """Return how many ids a prompt has."""
    return -(-tokens // block) if with_id else tokens // block


def _check_one_kind(item: Any) -> None:
    """Refuse a line of Qwen-Bailian's, which counts seconds, after one of Mooncake's."""
    for key in QWEN_KEYS if isinstance(item, dict) else ():
        if key in item:
            raise Malformed(
                f"{key}: a key of Qwen-Bailian's lines, of which the first is none: read.format = "
                "'mooncake' or 'qwen-bailian' says which they are"
            )


def _check_keys(item: dict[str, Any]) -> None:
    if not item.keys() <= _KNOWN:
        key = next(key for key in item if key not in _KNOWN)
        others = f"; allowed: {', '.join(KEYS)}{_AS_LINES}"
        raise Malformed(
            f"unknown key {shown(key)}{did_you_mean(key, [*KEYS, *QWEN_KEYS]) or others}"
        )
    for key in KEYS:
        if key not in item:
            meaning = ", the ids of the prompt's blocks" if key == "hash_ids" else ""
            raise Malformed(
                f"missing {key!r}{meaning}: Mooncake's lines have {', '.join(KEYS)}"
                f"{_AS_LINES if key == 'hash_ids' else ''}"
            )


def _wrong_number(ids: int, tokens: int, layout: _Layout) -> str:
    kind = "block" if layout.with_id else "full block"
    expected = _ids(tokens, layout.block, layout.with_id)
    message = (
        f"hash_ids: {ids} ids for {tokens} tokens, expected {expected}, one for each {kind} of "
        f"{layout.block} tokens"
    )
    if ids == _ids(tokens, layout.block, not layout.with_id):
        other = "without-id" if layout.with_id else "with-id"
        return f"{message}; read.partial_block = {other!r} fits"
    for block in _USUAL_BLOCKS:
        if ids == _ids(tokens, block, layout.with_id):
            return f"{message}; read.block_size = {block} fits"
    return message
