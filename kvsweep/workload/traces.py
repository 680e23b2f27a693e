"""Recorded request lists: kvsweep-trace/1 and the formats of others, plain or gzipped.

`kvsweep.workload.formats` recognises them; docs/traces.md says what is read of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvsweep.config.trace_reading import AS_FOUND, Reading
from kvsweep.config.workload import DEFAULT_ENTROPY
from kvsweep.errors import InputError, dotted, shown
from kvsweep.limits import MAX_INPUT_BYTES
from kvsweep.parsing import first_excess
from kvsweep.reading import read_text, refuse_store
from kvsweep.workload.aiperf import read_aiperf
from kvsweep.workload.azure import read_azure
from kvsweep.workload.bench_results import read_bench
from kvsweep.workload.burstgpt import read_burstgpt
from kvsweep.workload.formats import check_used, recognise
from kvsweep.workload.inference_perf import read_inference_perf
from kvsweep.workload.json_lines import read_json_lines
from kvsweep.workload.long_files import Part
from kvsweep.workload.measured import Rows, build_requests
from kvsweep.workload.mooncake import BLOCK_TOKENS, read_mooncake
from kvsweep.workload.native import FORMAT, read_native, to_trace_dict
from kvsweep.workload.parquet import is_parquet, read_parquet
from kvsweep.workload.requests import Requests
from kvsweep.workload.tabular import read_csv
from kvsweep.workload.weka import count_requests
from kvsweep.workload.weka_requests import read_weka

__all__ = ["FORMAT", "Trace", "load_trace", "to_trace_dict"]


_NO_TIMES = "the format has no times of tokens"


@dataclass(frozen=True)
class Trace:
    """A request list, and what its file says about it.

    Attributes
    ----------
    requests : Requests
        In arrival order.
    scenario : dict
        The file's scenario, not yet checked (`kvsweep.config.parse_scenario` does that).
    expected : object
        What a recorded run gave, or None.
    about : object
        Where the trace comes from, or None.
    where : str
        The file's name, for messages.
    unmeasured : str
        Of files of other tools: why `expected` is None.
    left_out : int
        Requests of the file that are not among them: failed ones, those of a benchmark's warm-up,
        and those of subagents, as the reading has it.
    cut : bool
        Whether `requests` are only a part of the file's: it has more than a list may have.
    seed, entropy : int
        Of what a simulation draws of each request beforehand: accepted drafts, pulls that fail.
    """

    requests: Requests
    scenario: dict[str, Any] = field(default_factory=dict)
    expected: Any = None
    about: Any = None
    where: str = "trace"
    unmeasured: str = ""
    left_out: int = 0
    cut: bool = False
    seed: int = 0
    entropy: int = DEFAULT_ENTROPY


def load_trace(
    source: str | Path | Mapping[str, Any], read: Reading | None = None, part: Part | None = None
) -> Trace:
    """Read a trace; its content tells the format, or `read`.

    Parameters
    ----------
    source : path or dict
        A file, or the content of a kvsweep-trace/1.
    read : Reading or None
        How to read a file; None: by its content alone. Of a dict nothing is left to say.
    part : Part or None
        What is enough of a table that has more requests than a list may have.

    Returns
    -------
    Trace
        Files of other tools have no scenario; their requests are sorted by arrival.

    Raises
    ------
    InputError
        If it cannot be read, is truncated, or something in it is malformed: one line that names
        the file and the request or line.
    """
    if isinstance(source, Mapping):
        _check_content(read or AS_FOUND)
        return _native(source, "trace")
    where = str(source)
    read = read or AS_FOUND
    refuse_store(Path(source), "a trace")
    try:
        if read.format == "parquet" or (read.format is None and is_parquet(Path(source))):
            check_used("parquet", read, where)
            return _measured(read_parquet(Path(source), read, part), read, where)
        text = read_text(Path(source), MAX_INPUT_BYTES, packed=True)
        return _parse(text, where, read, part)
    except MemoryError:
        raise InputError(f"{where}: does not fit into memory") from None


def _check_content(read: Reading) -> None:
    """Refuse what says how a file is read, of the content of a kvsweep-trace/1."""
    check_used("kvsweep", read, "trace")
    if read.format not in (None, "kvsweep"):
        raise InputError(f"trace: read.format: {read.format!r} is of files, and this is {FORMAT}")


def _parse(text: str, where: str, read: Reading, part: Part | None) -> Trace:
    kind, document = recognise(text, where, read)
    check_used(kind, read, where)
    if kind == "azure":
        return _measured(read_azure(text, where, read, part), read, where)
    if kind in BLOCK_TOKENS:
        requests = read_mooncake(text, where, kind, read)
        in_file = sum(not line.isspace() for line in text.split("\n") if line)
        left_out = in_file - len(requests)
        return Trace(requests, where=where, unmeasured=_NO_TIMES, left_out=left_out)
    if kind == "weka":
        requests = read_weka(text, document, where, read)
        left_out = 0
        if "leave-out" in (read.failed, read.subagents):
            left_out = count_requests(text, document, where) - len(requests)
        return Trace(requests, where=where, unmeasured=_NO_TIMES, left_out=left_out)
    if kind == "burstgpt":
        return _measured(read_burstgpt(text, where, read, part), read, where)
    if kind == "csv":
        return _measured(read_csv(text, where, read, part=part), read, where)
    if kind == "jsonl":
        return _measured(read_json_lines(text, where, read, part), read, where)
    if kind == "vllm-bench":
        return _measured(read_bench(text, document, where, read), read, where)
    if kind == "aiperf":
        return _measured(read_aiperf(text, where, read), read, where)
    if kind == "inference-perf":
        return _measured(read_inference_perf(document, where, read), read, where)
    if not isinstance(document, dict):
        raise InputError(f"{where}: expected an object with {FORMAT!r} as format")
    return _native(document, where)


def _measured(rows: Rows, read: Reading, where: str) -> Trace:
    requests, expected, unmeasured = build_requests(rows, read, where)
    cut = rows.first is not None
    return Trace(
        requests,
        expected=expected,
        where=where,
        unmeasured=unmeasured,
        left_out=0 if cut else rows.in_file - len(requests),
        cut=cut,
    )


def _native(document: Mapping[str, Any], where: str) -> Trace:
    requests = read_native(document, where)
    scenario = document.get("scenario", {})
    if not isinstance(scenario, dict):
        raise InputError(f"{where}: scenario: expected an object, got {shown(scenario)}")
    for key in ("scenario", "about"):
        excess = first_excess(document.get(key))
        if excess:
            raise InputError(f"{where}: {dotted((key, *excess[0]))}: {excess[1]}")
    return Trace(
        requests=requests,
        scenario=scenario,
        expected=document.get("expected"),
        about=document.get("about"),
        where=where,
    )
