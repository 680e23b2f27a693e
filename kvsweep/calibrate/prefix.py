"""First-token times of one sequence whose prefix was cached or not, as `kvsweep measure prefix`.

The cache holds A and B. A hit asks [A, B, Q]: only Q is new. A miss asks [B, Q]: A has gone from
the front, so all of it is computed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvsweep.errors import InputError

Floats = NDArray[np.float64]

CONDITIONS = ("hit", "miss")

_NAME = re.compile(r"_a(\d+)_b(\d+)\.csv$")
_COLUMNS = ("condition", "ttft_ms")


class Trial(NamedTuple):
    """One measurement.

    Attributes
    ----------
    a, b : int
        Tokens of contexts A and B.
    condition : str
        ``hit`` or ``miss``.
    prompt : int
        Tokens of the prompt.
    ttft_ms : float
    token_ms : float
        Time per output token; nan if not measured.
    output : int
        Output tokens of that measurement.
    """

    a: int
    b: int
    condition: str
    prompt: int
    ttft_ms: float
    token_ms: float
    output: int

    @property
    def size(self) -> str:
        """The contexts, ``A:B``."""
        return f"{self.a}:{self.b}"

    @property
    def cached(self) -> int:
        """Leading tokens of the prompt that are in the cache."""
        return self.a + self.b if self.condition == "hit" else 0

    @property
    def computed(self) -> int:
        """Tokens of the prompt that are computed before the first token, at least one."""
        return max(self.prompt - self.cached, 1)


@dataclass(frozen=True)
class Measured:
    """All trials, and where they come from.

    Attributes
    ----------
    trials : list of Trial
    about : dict of str to str
        Attributes of the store; empty for CSV.
    """

    trials: list[Trial]
    about: dict[str, str]

    @property
    def sizes(self) -> list[str]:
        """The sizes, in the order of measuring."""
        return list(dict.fromkeys(trial.size for trial in self.trials))


def is_prefix(path: Path) -> bool:
    """Return whether `path` looks like such a measurement: a folder, or a CSV file of one size."""
    return path.is_dir() or bool(_NAME.search(path.name))


def read_prefix(path: Path) -> Measured:
    """Read a store of `kvsweep measure prefix`, or CSV files ``*_aA_bB.csv`` (or a folder of them).

    A CSV file has a row per trial; ``condition`` and ``ttft_ms`` are needed, ``prompt_tokens``,
    ``throughput_tok_s`` and ``completion_tokens`` are used. Without ``prompt_tokens`` the query is
    taken for one token, and what it costs goes to the constant term.

    Raises
    ------
    InputError
        If nothing can be read, or a value is not a number.
    """
    if (path / "zarr.json").is_file():
        return _read_store(path)
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if _NAME.search(file.name))
    trials = [trial for file in files for trial in _read_csv(file)]
    if not trials:
        raise InputError(
            f"{path}: no measurements: expected a store of `kvsweep measure prefix`, or CSV files "
            "*_aA_bB.csv with columns condition and ttft_ms"
        )
    return Measured(trials, {})


def _read_store(path: Path) -> Measured:
    from kvsweep.measure.dataset import FORMAT
    from kvsweep.store import open_dataset

    ds = open_dataset(path, FORMAT, "kvsweep measure prefix")
    needed = ("context_a", "context_b", "ttft_ms", "prompt_tokens")
    for name in needed:
        if name not in ds.variables:
            raise InputError(
                f"{path}: no variable {name!r}: not a store of `kvsweep measure prefix`"
            )
    trials = []
    for size in range(ds.sizes["size"]):
        one = ds.isel(size=size)
        for condition in one["condition"].values.tolist():
            cell = one.sel(condition=condition)
            for k in range(ds.sizes["trial"]):
                row = {name: cell[name].values[k] for name in _used_columns(cell)}
                if not np.isnan(row["ttft_ms"]):
                    ends = int(one["context_a"]), int(one["context_b"])
                    trials.append(_trial(*ends, {"condition": str(condition), **row}))
    return Measured(trials, {str(key): str(value) for key, value in ds.attrs.items()})


def _used_columns(ds: Any) -> list[str]:
    used = ("ttft_ms", "prompt_tokens", "throughput_tok_s", "completion_tokens")
    return [name for name in used if name in ds.variables]


def _read_csv(file: Path) -> Iterator[Trial]:
    """Yield the trials of a CSV file; none if it lacks the columns (a file of prompts)."""
    match = _NAME.search(file.name)
    if match is None:
        raise InputError(f"{file}: its name does not end in _aA_bB.csv, the sizes of A and B")
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            rows = csv.DictReader(lines)
            if all(name in (rows.fieldnames or ()) for name in _COLUMNS):
                for number, row in enumerate(rows, 2):
                    yield _checked(file, number, int(match[1]), int(match[2]), row)
    except OSError as error:
        raise InputError(f"{file}: cannot read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: not a text file in UTF-8") from None


def _checked(file: Path, number: int, a: int, b: int, row: dict[str, str]) -> Trial:
    if row["condition"] not in CONDITIONS:
        raise InputError(f"{file}:{number}: condition: {row['condition']!r} is not hit or miss")
    try:
        return _trial(a, b, row)
    except ValueError:
        raise InputError(f"{file}:{number}: a value is not a number: {row}") from None


def _trial(a: int, b: int, row: dict[str, Any]) -> Trial:
    """Make a trial of a row; empty values are missing ones."""
    known = {key: value for key, value in row.items() if value not in ("", None)}
    asked = {"hit": a + b, "miss": b}[row["condition"]]
    rate = float(known.get("throughput_tok_s", np.nan))
    return Trial(
        a,
        b,
        row["condition"],
        int(known.get("prompt_tokens", asked + 1)),
        float(known["ttft_ms"]),
        1e3 / rate if rate > 0 else np.nan,
        int(known.get("completion_tokens", 1)),
    )
