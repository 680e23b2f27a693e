"""Mooncake's traces: JSON lines with ``timestamp, input_length, output_length, hash_ids``.

A hash id stands for a block of 512 tokens together with all tokens before it, the last block of a
prompt being shorter (kvcache-ai/Mooncake, FAST'25 release). Outputs have no ids: each is content of
its own.
"""

from __future__ import annotations

import json
import math
from typing import Any

from kvsweep.errors import InputError
from kvsweep.workload.columns import Columns
from kvsweep.workload.requests import Requests

BLOCK_TOKENS = 512


def read_mooncake(text: str, where: str) -> Requests:
    """Return the requests in order of arrival, counted from time 0 of the trace.

    Raises
    ------
    InputError
        If a line is malformed.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                rows.append(_row(line))
            except (ValueError, KeyError, TypeError) as problem:
                reason = f"missing {problem}" if isinstance(problem, KeyError) else str(problem)
                raise InputError(f"{where}:{number}: {reason}") from None
    rows.sort(key=lambda row: row[0])
    columns = Columns()
    unused = 1 + max(segment for _, prompt, _ in rows for segment, _ in prompt)
    for i, (arrival_us, prompt, output_tokens) in enumerate(rows):
        columns.add(arrival_us, prompt, (unused + i, output_tokens))
    return columns.build()


def _row(line: str) -> tuple[int, list[tuple[int, int]], int]:
    """Return arrival (us), prompt entries and output tokens of one line."""
    item = json.loads(line)
    if not isinstance(item, dict):
        raise TypeError("expected an object")
    timestamp = item["timestamp"]
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
        raise TypeError(f"timestamp: expected milliseconds, got {timestamp!r:.40}")
    if not 0 <= timestamp <= 2**43:
        raise ValueError(f"timestamp: out of range: {timestamp!r:.40}")
    tokens = _count(item, "input_length")
    hashes = item["hash_ids"]
    if not isinstance(hashes, list) or not all(type(h) is int and h >= 0 for h in hashes):
        raise TypeError("hash_ids: expected a list of integers of at least 0")
    wanted = math.ceil(tokens / BLOCK_TOKENS)
    if len(hashes) != wanted:
        raise ValueError(f"hash_ids: {len(hashes)} ids for {tokens} tokens, expected {wanted}")
    sizes = [BLOCK_TOKENS] * (wanted - 1) + [tokens - BLOCK_TOKENS * (wanted - 1)]
    prompt = list(zip(hashes, sizes, strict=True))
    return round(timestamp * 1000), prompt, _count(item, "output_length")


def _count(item: dict[str, Any], key: str) -> int:
    value = item[key]
    if type(value) is not int or value < 1:
        raise ValueError(f"{key}: expected an integer of at least 1, got {value!r:.40}")
    return value
