"""Mooncake's traces: JSON lines with ``timestamp, input_length, output_length, hash_ids``.

A hash id stands for a block of 512 tokens together with all tokens before it, the last block of a
prompt being shorter (kvcache-ai/Mooncake, FAST'25 release). Outputs have no ids: each is content of
its own. What Qwen-Bailian's lines have besides (``chat_id, parent_chat_id, turn, type``) is allowed
and not used.
"""

from __future__ import annotations

from typing import Any

from kvsweep.errors import InputError, did_you_mean, shown
from kvsweep.limits import MAX_TIME_US, MAX_TOKENS
from kvsweep.parsing import parse_json
from kvsweep.workload.columns import RequestColumns, check_count
from kvsweep.workload.requests import Requests

BLOCK_TOKENS = 512

KEYS = ("timestamp", "input_length", "output_length", "hash_ids")
_UNUSED = ("chat_id", "parent_chat_id", "turn", "type")
_KNOWN = frozenset(KEYS + _UNUSED)

# Largest integer that JSON readers of other languages keep, too.
_LARGEST = 2**53
_MAX_TIME_MS = MAX_TIME_US // 1000
_QWEN_BLOCK_TOKENS = 16


def read_mooncake(text: str, where: str) -> Requests:
    """Return the requests in order of arrival, counted from time 0 of the trace.

    Raises
    ------
    InputError
        If a line is malformed, has an unknown key, or more tokens or time than is believed.
    """
    rows = []
    unused = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.isspace():
            item = parse_json(line, where, number)
            try:
                row = _row(item)
            except _Malformed as problem:
                raise InputError(f"{where}:{number}: {problem}") from None
            rows.append(row)
            unused = max(unused, 1 + max(row[1]))
    check_count(len(rows), where)
    rows.sort(key=lambda row: row[0])
    columns = RequestColumns()
    for i, (arrival_us, hashes, tokens, output_tokens) in enumerate(rows):
        sizes = [BLOCK_TOKENS] * len(hashes)
        sizes[-1] = tokens - BLOCK_TOKENS * (len(hashes) - 1)
        columns.add(arrival_us, hashes, sizes, (unused + i, output_tokens))
    return columns.build()


class _Malformed(ValueError):
    """What is wrong with a line."""


def _row(item: Any) -> tuple[int, list[int], int, int]:
    """Return arrival (us), hash ids, prompt tokens and output tokens of one line."""
    if not isinstance(item, dict):
        raise _Malformed(f"expected an object, got {shown(item)}")
    _check_keys(item)
    timestamp = item["timestamp"]
    if type(timestamp) is not int and type(timestamp) is not float:
        raise _Malformed(f"timestamp: expected milliseconds, got {shown(timestamp)}")
    if not 0 <= timestamp <= _MAX_TIME_MS:
        raise _Malformed(
            f"timestamp: expected milliseconds from 0 to {_MAX_TIME_MS}, got {shown(timestamp)}"
        )
    tokens = _count(item, "input_length")
    hashes = item["hash_ids"]
    if (
        type(hashes) is not list
        or not set(map(type, hashes)) <= {int}
        or (hashes and not 0 <= min(hashes) <= max(hashes) < _LARGEST)
    ):
        raise _Malformed(f"hash_ids: expected a list of integers from 0 to {_LARGEST - 1}")
    if len(hashes) != -(-tokens // BLOCK_TOKENS):
        raise _Malformed(_wrong_number(len(hashes), tokens))
    return round(timestamp * 1000), hashes, tokens, _count(item, "output_length")


def _check_keys(item: dict[str, Any]) -> None:
    if not item.keys() <= _KNOWN:
        key = next(key for key in item if key not in _KNOWN)
        hint = did_you_mean(key, [*KEYS, *_UNUSED]) or f"; allowed: {', '.join(KEYS)}"
        raise _Malformed(f"unknown key {shown(key)}{hint}")
    for key in KEYS:
        if key not in item:
            meaning = ", the ids of the prompt's blocks" if key == "hash_ids" else ""
            raise _Malformed(f"missing {key!r}{meaning}: Mooncake's lines have {', '.join(KEYS)}")


def _wrong_number(ids: int, tokens: int) -> str:
    message = (
        f"hash_ids: {ids} ids for {tokens} tokens, expected {-(-tokens // BLOCK_TOKENS)}, one for "
        f"each block of {BLOCK_TOKENS} tokens"
    )
    if ids in (tokens // _QWEN_BLOCK_TOKENS, -(-tokens // _QWEN_BLOCK_TOKENS)):
        message += f"; blocks of {_QWEN_BLOCK_TOKENS} tokens, as Qwen-Bailian's, are not read"
    return message


def _count(item: dict[str, Any], key: str) -> int:
    value = item[key]
    if type(value) is not int or not 1 <= value <= MAX_TOKENS:
        raise _Malformed(f"{key}: expected an integer from 1 to {MAX_TOKENS}, got {shown(value)}")
    return value
