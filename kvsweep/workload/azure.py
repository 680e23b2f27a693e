"""Azure's LLM inference traces: CSV with ``TIMESTAMP, ContextTokens, GeneratedTokens``.

They carry no content (Azure/AzurePublicDataset, 2023 and 2024), so no two requests share any.
"""

from __future__ import annotations

import csv
import io
from datetime import datetime, timedelta

from kvsweep.errors import InputError
from kvsweep.workload.columns import Columns
from kvsweep.workload.requests import Requests

HEADER = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

_MICROSECOND = timedelta(microseconds=1)


def read_azure(text: str, where: str) -> Requests:
    """Return the requests in order of arrival, the first at time 0.

    Raises
    ------
    InputError
        If a line is malformed, or there is none.
    """
    reader = csv.DictReader(io.StringIO(text), strict=True)
    missing = [name for name in HEADER if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(f"{where}:1: missing column {missing[0]}")
    rows = []
    try:
        for row in reader:
            time = datetime.fromisoformat(row["TIMESTAMP"])
            rows.append((time, _count(row, "ContextTokens"), _count(row, "GeneratedTokens")))
        rows.sort(key=lambda row: row[0])
    except (ValueError, TypeError, csv.Error) as problem:
        raise InputError(f"{where}:{reader.line_num}: {problem}") from None
    if not rows:
        raise InputError(f"{where}: no requests")
    columns = Columns()
    for i, (time, prompt, output) in enumerate(rows):
        columns.add((time - rows[0][0]) // _MICROSECOND, [(2 * i, prompt)], (2 * i + 1, output))
    return columns.build()


def _count(row: dict[str, str], key: str) -> int:
    text = row[key]
    if text is None or not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"{key}: expected an integer of at least 1, got {text!r:.40}")
    return int(text)
