"""inference-perf's ``per_request_lifecycle_metrics.json``: a list of requests with token times.

As kubernetes-sigs/inference-perf writes it (``inference_perf/apis/base.py`` of 03e89d4) with
``report.request_lifecycle.per_request``: times in seconds on one clock. Lengths are those that the
server reported (``server_usage``) where it did, else those that the client counted.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import shown
from kvsweep.limits import MAX_SECONDS
from kvsweep.workload.checks import (
    Malformed,
    at,
    check_left_out,
    check_object,
    check_spelling,
    clock,
    token_count,
)
from kvsweep.workload.measured import Rows

_NAN = float("nan")

Row = tuple[float, int, int, float, float]


def read_inference_perf(document: list[Any], where: str, read: Reading) -> Rows:
    """Return the requests of all stages.

    Raises
    ------
    InputError
        If an entry is malformed, or a request failed and `read` does not leave those out.
    """
    places: list[str] = []
    rows: list[Row] = []
    for i, item in enumerate(document):
        try:
            row = _row(check_object(item), read)
        except Malformed as problem:
            raise at(where, f": [{i}]", problem) from None
        if row:
            rows.append(row)
            places.append(f": [{i}]")
    start, prompt, output, ttft, latency = zip(*rows, strict=True) if rows else ([],) * 5
    ttft_us = np.array(ttft, np.float64)
    absent = np.flatnonzero(np.isnan(ttft_us))
    return Rows(
        places, np.array(start, np.float64), "s", np.array(prompt, np.int64),
        np.array(output, np.int64), ttft_us, np.array(latency, np.float64),
        unmeasured=(
            f"request {places[absent[0]][2:]} has no output_token_times, which need api.streaming"
            if absent.size
            else ""
        ),
        in_file=len(document),
    )  # fmt: skip


def _row(item: dict[str, Any], read: Reading) -> Row | None:
    check_spelling(item, ("start_time", "end_time", "info", "error"))
    if item.get("error") is not None:
        check_left_out(read, "error: the request failed")
        return None
    start, end = (clock(item.get(key), key, "seconds") for key in ("start_time", "end_time"))
    if not 0 < end - start <= MAX_SECONDS:
        raise Malformed(
            f"end_time: {end} is not after start_time, {start}, by {MAX_SECONDS:g} s at most"
        )
    info = check_object(item.get("info"), "info")
    response = info.get("response_metrics")
    response = info if response is None else check_object(response, "info.response_metrics")
    output = _count(response, "output_tokens", "completion_tokens", response)
    if output == 0 and type(output) is int:
        check_left_out(read, "info: 0 output tokens, the request failed")
        return None
    output = token_count(output, "info.output_tokens")
    prompt = token_count(_count(_inputs(info), "input_tokens", "prompt_tokens", response),
                         "info.input_tokens")  # fmt: skip
    first, last = _token_times(response, start, end)
    return float(start), prompt, output, 1e6 * (first - start), 1e6 * (last - start)


def _inputs(info: dict[str, Any]) -> dict[str, Any]:
    """Return the table that has the prompt's tokens; early releases have it on top."""
    found: Any = info
    for key in ("request_metrics", "text"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else info


def _count(table: dict[str, Any], key: str, reported: str, response: dict[str, Any]) -> Any:
    """Return a count of the server's, or else of the client's."""
    usage = response.get("server_usage")
    told = usage.get(reported) if isinstance(usage, dict) else None
    return table.get(key) if told is None else told


def _token_times(response: dict[str, Any], start: float, end: float) -> tuple[float, float]:
    """Return when the first and the last token came; NaN and `end` if nobody looked."""
    for key in ("output_token_times", "chunk_times"):
        times = response.get(key)
        if times is None or times == []:
            continue
        if not isinstance(times, list):
            raise Malformed(f"info.{key}: expected a list of seconds, got {shown(times)}")
        for k, time in enumerate(times):
            clock(time, f"info.{key}[{k}]", "seconds")
        _check_order(times, f"info.{key}", start, end)
        return float(times[0]), float(times[-1])
    return _NAN, float(end)


def _check_order(times: list[float], key: str, start: float, end: float) -> None:
    """Refuse times of tokens that go back, or are not within those of the request."""
    if not start < times[0]:
        raise Malformed(f"{key}: from {times[0]} on, which is not after start_time, {start}")
    for k, (before, time) in enumerate(pairwise(times), 1):
        if time < before:
            raise Malformed(f"{key}[{k}]: {time} is before {key}[{k - 1}], {before}")
    if times[-1] > end:
        raise Malformed(f"{key}: up to {times[-1]}, which is after end_time, {end}")
