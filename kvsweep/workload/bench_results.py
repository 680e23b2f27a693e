"""Results of ``vllm bench serve --save-result --save-detailed``: parallel lists of one run.

As ``vllm/benchmarks/serve.py`` of vLLM 0.23 writes them: ``input_lens``, ``output_lens`` in tokens,
``ttfts``, ``itls`` and ``start_times`` in seconds (``start_times`` on a clock that counts from any
time), ``errors`` as text, empty where there was none. One entry of ``itls`` may be several tokens.
With ``--append-result`` a file has a run on each line.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError, shown
from kvsweep.limits import MAX_RATE, MAX_SECONDS, MIN_RATE
from kvsweep.parsing import parse_json
from kvsweep.workload.checks import Malformed, at, check_left_out, clock, duration, token_count
from kvsweep.workload.measured import Rows

KEYS = ("input_lens", "output_lens", "ttfts", "itls")
"""Lists that only ``--save-detailed`` keeps."""

_AT_ONCE = (
    "'at-once' (at time 0, of which workload.concurrency of a sweep lets so many be under way)"
)
_DETAILED = "run `vllm bench serve` with --save-result --save-detailed"


def read_bench(text: str, document: Any, where: str, read: Reading) -> Rows:
    """Return the requests of a run.

    Parameters
    ----------
    text : str
        The file.
    document : object
        Its content, if it is a single JSON object.

    Raises
    ------
    InputError
        If something is malformed or missing, or the file has several runs and `read` names none.
    """
    run, place = _run(text, document, where, read)
    try:
        return _rows(run, place, read)
    except Malformed as problem:
        raise at(where, place, problem) from None


def _run(text: str, document: Any, where: str, read: Reading) -> tuple[dict[str, Any], str]:
    """Return the run, and where it is."""
    if document is not None:
        lines = [(1, "")]
    else:
        lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if read.run is None and len(lines) > 1:
        raise InputError(f"{where}: holds {len(lines)} runs: read.run = 0 to {len(lines) - 1}")
    chosen = read.run or 0
    if chosen >= len(lines):
        raise InputError(f"{where}: read.run: {chosen}, of {len(lines)} runs, counted from 0")
    number, line = lines[chosen]
    found = parse_json(line, where, number) if document is None else document
    place = f":{number}" if len(lines) > 1 else ""
    if not isinstance(found, dict):
        raise at(where, place, f"expected an object, got {shown(found)}")
    return found, place


def _rows(run: dict[str, Any], place: str, read: Reading) -> Rows:
    for key in KEYS:
        if key not in run:
            raise Malformed(f"missing {key!r}: {_DETAILED}")
    count = len(_list(run, "input_lens", None))
    lists = {key: _list(run, key, count) for key in (*KEYS, "start_times", "errors") if key in run}
    starts = _starts(run, lists, count, read)
    kept: list[int] = []
    rows: list[tuple[float, int, int, float, float]] = []
    for i in range(count):
        row = _row(lists, i, read)
        if row:
            kept.append(i)
            rows.append((starts[i], *row))
    start, prompt, output, ttft, latency = zip(*rows, strict=True) if rows else ([],) * 5
    return Rows(
        places=[f"{place}: request {i}" for i in kept],
        arrival=np.array(start, np.float64),
        unit="s",
        prompt=np.array(prompt, np.int64),
        output=np.array(output, np.int64),
        ttft_us=np.array(ttft, np.float64),
        latency_us=np.array(latency, np.float64),
        unmeasured="" if read.arrivals == "recorded" else f"read.arrivals is {read.arrivals!r}",
        in_file=count,
    )


def _list(run: dict[str, Any], key: str, count: int | None) -> list[Any]:
    found = run[key]
    if not isinstance(found, list) or count not in (None, len(found)):
        got = f"{len(found)} values" if isinstance(found, list) else shown(found)
        many = "" if count is None else f" of {count} values, as input_lens"
        raise Malformed(f"{key}: expected a list{many}, got {got}")
    return found


def _starts(run: dict[str, Any], lists: dict[str, Any], count: int, read: Reading) -> list[float]:
    """Return when each request was sent, seconds: of those at once their order alone counts."""
    if read.arrivals == "at-once" and "start_times" not in lists:
        return [0.0] * count
    rate = run.get("request_rate")
    finite = rate if isinstance(rate, int | float) and MIN_RATE <= rate <= MAX_RATE else None
    if read.arrivals == "even":
        if finite is None:
            raise Malformed(
                f"request_rate: read.arrivals = 'even' needs a number of requests per second, got "
                f"{shown(rate)}: read.arrivals = {_AT_ONCE}"
            )
        return [i / finite for i in range(count)]
    if "start_times" not in lists:
        even = f"'even' (at the request_rate, {finite:g}) or " if finite is not None else ""
        raise Malformed(
            "missing 'start_times', which older releases do not save: to calibrate, run it with a "
            f"newer one; else read.arrivals = {even}{_AT_ONCE}"
        )
    times = enumerate(lists["start_times"])
    return [float(clock(value, f"start_times[{i}]", "seconds")) for i, value in times]


def _row(lists: dict[str, Any], i: int, read: Reading) -> tuple[int, int, float, float] | None:
    """Return prompt, output, and microseconds to the first and last token; None: left out."""
    error = lists["errors"][i] if "errors" in lists else ""
    if error is not None and not isinstance(error, str):
        raise Malformed(f"errors[{i}]: expected text, got {shown(error)}")
    if error:
        check_left_out(read, f"errors[{i}]: the request failed: {shown(error)}")
        return None
    output = lists["output_lens"][i]
    if output == 0 and type(output) is int:
        check_left_out(read, f"output_lens[{i}]: 0, the request failed")
        return None
    prompt = token_count(lists["input_lens"][i], f"input_lens[{i}]")
    output = token_count(output, f"output_lens[{i}]")
    ttft = duration(lists["ttfts"][i], f"ttfts[{i}]", "seconds", MAX_SECONDS)
    if ttft == 0:
        raise Malformed(f"ttfts[{i}]: 0 s to the first token of a request that was answered")
    gaps = lists["itls"][i]
    if not isinstance(gaps, list):
        raise Malformed(f"itls[{i}]: expected a list of seconds, got {shown(gaps)}")
    for k, gap in enumerate(gaps):
        duration(gap, f"itls[{i}][{k}]", "seconds", MAX_SECONDS)
    latency = duration(ttft + math.fsum(gaps), f"itls[{i}], their sum", "seconds", MAX_SECONDS)
    return prompt, output, 1e6 * ttft, 1e6 * latency
