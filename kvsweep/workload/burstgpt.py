"""BurstGPT's CSV: ``Timestamp, Model, Request tokens, Response tokens, Total tokens, Log Type``.

Timestamps are seconds from the beginning of the trace; a request with 0 response tokens failed
(HPMLL/BurstGPT, release 1.1; the later one has ``Session ID`` and ``Elapsed time`` besides, which
are not used). Models become clients. The file has no content.
"""

from __future__ import annotations

from dataclasses import replace

from kvsweep.config.trace_reading import Columns, Reading
from kvsweep.errors import InputError, did_you_mean
from kvsweep.workload.csv_columns import read_header
from kvsweep.workload.long_files import Part
from kvsweep.workload.measured import Rows
from kvsweep.workload.tabular import read_csv

HEADER = ("Timestamp", "Request tokens", "Response tokens")
CLIENT = "Model"


def read_burstgpt(text: str, where: str, read: Reading, part: Part | None = None) -> Rows:
    """Return the requests; of more than a list may have, only `part`.

    Raises
    ------
    InputError
        If a line is malformed, or a request failed and `read` does not leave those out.
    """
    header = read_header(text, where)
    for name in HEADER:
        if name not in header:
            raise InputError(f"{where}:1: missing column {name}{did_you_mean(name, header)}")
    arrival, prompt, output = HEADER
    others = dict.fromkeys(("first_token", "last_token", "ttft", "latency", "slo_class"), "")
    client = CLIENT if CLIENT in header else ""
    columns = Columns(arrival=arrival, prompt=prompt, output=output, client=client, **others)
    rows = read_csv(text, where, read.model_copy(update={"columns": columns}), "s", part)
    return replace(rows, unmeasured="BurstGPT's CSV has no times of tokens", chosen=False)
