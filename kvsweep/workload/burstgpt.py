"""BurstGPT's CSV: ``Timestamp, Model, Request tokens, Response tokens, Total tokens, Log Type``.

Timestamps are seconds from the beginning of the trace; a request with 0 response tokens failed
(HPMLL/BurstGPT, release 1.1; the later one has ``Session ID`` and ``Elapsed time`` besides, which
are not used). Models become clients. The file has no content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError, did_you_mean
from kvsweep.limits import MAX_REQUESTS
from kvsweep.workload.cells import time_cells, token_cells
from kvsweep.workload.csv_columns import read_columns, read_header
from kvsweep.workload.measured import Rows

HEADER = ("Timestamp", "Request tokens", "Response tokens")
CLIENT = "Model"


def read_burstgpt(text: str, where: str, read: Reading) -> Rows:
    """Return the requests.

    Raises
    ------
    InputError
        If a line is malformed, or a request failed and `read` does not leave those out.
    """
    header = read_header(text, where)
    for name in HEADER:
        if name not in header:
            raise InputError(f"{where}:1: missing column {name}{did_you_mean(name, header)}")
    wanted = [header.index(name) for name in HEADER]
    wanted += [header.index(CLIENT)] if CLIENT in header else []
    parts: list[tuple[NDArray[Any], ...]] = []
    models: list[str] = []
    total = 0
    for lines, cells in read_columns(text, where, header, wanted):
        total += len(lines)
        if total > MAX_REQUESTS:
            raise InputError(f"{where}: more than {MAX_REQUESTS} requests")
        kept, *part = _part(lines, cells, where, read)
        parts.append(tuple(part))
        if len(cells) > len(HEADER):
            models += [cells[-1][i].strip(" ") for i in kept.tolist()]
    places, times, prompts, outputs = (
        np.concatenate([part[k] for part in parts]) if parts else np.zeros(0, np.int64)
        for k in range(4)
    )
    return Rows(
        Lines(places), times, "s", prompts, outputs,
        names={"client": models} if models else {},
        unmeasured="BurstGPT's CSV has no times of tokens",
    )  # fmt: skip


class Lines:
    """Places of rows, made when one is asked for."""

    def __init__(self, lines: NDArray[np.int64]) -> None:
        self._lines = lines

    def __getitem__(self, i: int) -> str:
        """Return the place of row `i`."""
        return f":{self._lines[i]}"


def _part(
    lines: Sequence[int], cells: list[list[str]], where: str, read: Reading
) -> tuple[NDArray[Any], ...]:
    """Return positions, lines, times and lengths of the requests that are kept."""

    def place(i: int) -> str:
        return f"{where}:{lines[i]}"

    times = time_cells(cells[0], HEADER[0], place)
    prompts, outputs = (token_cells(cells[k], HEADER[k], place) for k in (1, 2))
    failed = np.flatnonzero(outputs == 0)
    if failed.size and read.failed == "refuse":
        raise InputError(
            f"{place(int(failed[0]))}: {HEADER[2]}: 0, the request failed: read.failed = "
            "'leave-out' leaves such requests out"
        )
    empty = np.flatnonzero((prompts == 0) & (outputs > 0))
    if empty.size:
        raise InputError(f"{place(int(empty[0]))}: {HEADER[1]}: 0 of a request that was answered")
    kept = np.flatnonzero(outputs > 0)
    return kept, np.array(lines, np.int64)[kept], times[kept], prompts[kept], outputs[kept]
