"""The measurement as CSV, two files per size: every trial, and the prompts."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.errors import InputError
from kvsweep.files import written

if TYPE_CHECKING:
    import xarray as xr

RESULTS = ("trial", "condition", "warmup_time_ms", "ttft_ms", "total_time_ms", "throughput_tok_s",
           "prompt_tokens", "completion_tokens", "finish_reason")  # fmt: skip
PROMPTS = ("prompt_name", "token_count", "prompt_text", "sample_output")


def write_csv(ds: xr.Dataset, folder: Path) -> None:
    """Write ``results_aA_bB.csv`` and ``prompts_aA_bB.csv`` of every size.

    Trials that were not run have no row.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    for i in range(ds.sizes["size"]):
        size = ds.isel(size=i)
        results, prompts = csv_files(folder, int(size["context_a"]), int(size["context_b"]))
        _write(results, RESULTS, _results(size))
        _write(prompts, PROMPTS, _prompts(size))


def csv_files(folder: Path, a: int, b: int) -> tuple[Path, Path]:
    """Return the files of the trials and of the prompts of a size."""
    return folder / f"results_a{a}_b{b}.csv", folder / f"prompts_a{a}_b{b}.csv"


def _results(size: xr.Dataset) -> Iterator[list[Any]]:
    """Yield a row per trial: trial by trial, hit before miss."""
    ordered = size.transpose("trial", "condition", ...)
    for k, trial in enumerate(ordered["trial"].values):
        for j, condition in enumerate(ordered["condition"].values):
            if ordered["position"].values[k, j] >= 0:
                values = (ordered[name].values[k, j] for name in RESULTS[2:])
                yield [trial, condition, *values]


def _prompts(size: xr.Dataset) -> Iterator[list[Any]]:
    for k, name in enumerate(size["prompt"].values):
        yield [name, *(size[column].values[k] for column in PROMPTS[1:])]


def _write(path: Path, columns: Sequence[str], rows: Iterable[list[Any]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    with written(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
