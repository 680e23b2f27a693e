"""aiperf's ``profile_export.jsonl``: a request on each line, with its metrics and their units.

As documented by ai-dynamo/aiperf 0.13 (docs/tutorials/working-with-profile-exports.md). Requests of
the warm-up are left out, as aiperf leaves them out of its own results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import shown
from kvsweep.limits import MAX_TIME_US
from kvsweep.parsing import parse_json
from kvsweep.workload.checks import (
    Malformed,
    at,
    check_left_out,
    check_object,
    check_spelling,
    clock,
    duration,
    refuse_twice,
    token_count,
)
from kvsweep.workload.measured import Rows

_METADATA = ("request_start_ns", "benchmark_phase", "was_cancelled", "x_request_id")
_METRICS = (
    "input_sequence_length",
    "output_sequence_length",
    "time_to_first_token",
    "request_latency",
)
_UNITS_US = {
    "ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "sec": 1e6,
    "nanoseconds": 1e-3, "microseconds": 1.0, "milliseconds": 1e3, "seconds": 1e6,
}  # fmt: skip
_NAN = float("nan")

Row = tuple[int, int, int, float, float]


def read_aiperf(text: str, where: str, read: Reading) -> Rows:
    """Return the requests of the profiling phase.

    Raises
    ------
    InputError
        If a line is malformed, or a request failed and `read` does not leave those out.
    """
    places: list[str] = []
    rows: list[Row] = []
    seen: dict[str, str] = {}
    in_file = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.isspace():
            continue
        in_file += 1
        item = parse_json(line, where, number)
        try:
            row = _row(check_object(item), f"line {number}", seen, read)
        except Malformed as problem:
            raise at(where, f":{number}", problem) from None
        if row:
            rows.append(row)
            places.append(f":{number}")
    start, prompt, output, ttft, latency = zip(*rows, strict=True) if rows else ([],) * 5
    ttft_us, latency_us = np.array(ttft, np.float64), np.array(latency, np.float64)
    return Rows(
        places, np.array(start, np.int64), "ns", np.array(prompt, np.int64),
        np.array(output, np.int64), ttft_us, latency_us,
        unmeasured=_untimed(ttft_us, latency_us, places), in_file=in_file,
    )  # fmt: skip


def _untimed(ttft_us: Any, latency_us: Any, places: list[str]) -> str:
    """Name a request whose times were not measured, if there is one."""
    for key, times in (("time_to_first_token", ttft_us), ("request_latency", latency_us)):
        absent = np.flatnonzero(np.isnan(times))
        if absent.size:
            stream = ", which aiperf measures with --streaming" if key != "request_latency" else ""
            return f"line {places[absent[0]][1:]} has no {key}{stream}"
    return ""


def _row(item: dict[str, Any], place: str, seen: dict[str, str], read: Reading) -> Row | None:
    check_spelling(item, ("metadata", "metrics", "error"))
    metadata = _table(item, "metadata")
    check_spelling(metadata, _METADATA)
    phase = metadata.get("benchmark_phase", "profiling")
    if phase == "warmup":
        return None
    if phase != "profiling":
        raise Malformed(f"metadata.benchmark_phase: 'warmup' or 'profiling', got {shown(phase)}")
    request_id = metadata.get("x_request_id")
    if isinstance(request_id, str):
        refuse_twice(seen, request_id, place, "metadata.x_request_id")
    cancelled = metadata.get("was_cancelled", False)
    if type(cancelled) is not bool:
        raise Malformed(f"metadata.was_cancelled: expected true or false, got {shown(cancelled)}")
    if item.get("error") is not None:
        check_left_out(read, "error: the request failed")
        return None
    if cancelled:
        check_left_out(read, "metadata.was_cancelled: the request was cancelled")
        return None
    return _success(metadata, _table(item, "metrics"), read)


def _success(metadata: dict[str, Any], metrics: dict[str, Any], read: Reading) -> Row | None:
    check_spelling(metrics, _METRICS)
    start = clock(metadata.get("request_start_ns"), "metadata.request_start_ns", "whole ns")
    if type(start) is not int:
        raise Malformed(f"metadata.request_start_ns: expected an integer, got {shown(start)}")
    key = "output_sequence_length"
    key = key if key in metrics or "output_token_count" not in metrics else "output_token_count"
    output = _value(metrics, key)
    if output == 0:
        check_left_out(read, f"metrics.{key}: 0, the request failed")
        return None
    prompt = token_count(_whole(_value(metrics, "input_sequence_length")), "input_sequence_length")
    ttft, latency = (_time_us(metrics, name) for name in _METRICS[2:])
    if latency < ttft:
        raise Malformed("metrics.request_latency: is less than time_to_first_token")
    return start, prompt, token_count(_whole(output), key), ttft, latency


def _table(item: dict[str, Any], key: str) -> dict[str, Any]:
    found = item.get(key)
    if not isinstance(found, dict):
        raise Malformed(f"{key}: expected an object, got {shown(found)}")
    return found


def _value(metrics: dict[str, Any], key: str) -> Any:
    if key not in metrics:
        raise Malformed(f"metrics.{key}: missing")
    return _table(metrics, key).get("value")


def _whole(value: Any) -> Any:
    """Return a count that was written as 9.0 as an integer."""
    return int(value) if type(value) is float and value.is_integer() else value


def _time_us(metrics: dict[str, Any], key: str) -> float:
    """Return a metric in microseconds, NaN if it is absent."""
    if metrics.get(key) is None:
        return _NAN
    unit = _table(metrics, key).get("unit")
    factor = _UNITS_US.get(unit) if isinstance(unit, str) else None
    if factor is None:
        raise Malformed(
            f"metrics.{key}.unit: expected one of {', '.join(_UNITS_US)}, got {shown(unit)}"
        )
    value = duration(_value(metrics, key), f"metrics.{key}", str(unit), MAX_TIME_US / factor)
    if value == 0:
        raise Malformed(f"metrics.{key}: 0 {unit} of a request that was answered")
    return value * factor
