"""First-token times of one sequence whose prefix was cached or not, as `kvsweep measure prefix`.

The cache holds A and B. A hit asks [A, B, Q]: only Q is new. A miss asks [B, Q]: A has gone from
the front, so all of it is computed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kvsweep.errors import InputError, did_you_mean, shown
from kvsweep.limits import MAX_INPUT_BYTES, MAX_TIME_US, MAX_TOKENS
from kvsweep.llama.csvfiles import PROMPTS
from kvsweep.llama.design import CONDITIONS
from kvsweep.parsing import parse_csv
from kvsweep.reading import open_regular, read_text
from kvsweep.workload.azure import HEADER
from kvsweep.workload.column_roles import LENGTHS

_NAME = re.compile(r"_a([0-9]+)_b([0-9]+)\.csv$")
_PACKED = re.compile(_NAME.pattern[:-1] + r"\.(?:gz|bz2|xz|zst|zip)$")
_ARRIVAL = re.compile(r"(?:arrival|timestamp)(?:_|$)", re.IGNORECASE)
_COLUMNS = ("condition", "ttft_ms")
_LENGTHS = (tuple(LENGTHS.values()), HEADER[1:])
"""Columns that a log of requests has, both of them; the second ones are Azure's."""
_LONGEST_HEADER = 2**16
_MIN_MS = 1e-6  # a nanosecond; of less the weights of a fit overflow
_MAX_MS = MAX_TIME_US / 1000

_DIMS = ("size", "condition", "trial")
_RATE = "throughput_tok_s"
_OPTIONAL = (_RATE, "completion_tokens")
_STORED: dict[str, tuple[str, ...]] = {
    "context_a": ("size",),
    "context_b": ("size",),
    "condition": ("condition",),
    "ttft_ms": _DIMS,
    "prompt_tokens": _DIMS,
}
"""Variables that a store must have, and their dimensions."""


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


def is_prefix(path: Path, read: tuple[str, ...] = ()) -> bool:
    """Return whether `path` looks like such a measurement: a folder, or a CSV file of trials.

    Other CSV files are logs of requests: those with a column of arrivals, unless all else says that
    they are trials, and those of which `read` says how they are read.
    """
    if path.is_dir() or read:
        return path.is_dir()
    if path.suffix != ".csv":
        return _PACKED.search(path.name) is not None
    columns = _header(path)
    named = _NAME.search(path.name) is not None
    if any(_ARRIVAL.match(name) for name in columns):
        # A trial has a length too, of its prompt, and a time at which it began.
        lengths = any(columns.issuperset(both) for both in _LENGTHS)
        return named and columns.issuperset(_COLUMNS) and not lengths
    return named or _COLUMNS[0] in columns


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
    if not path.is_dir():
        _refuse_packed(files)
    else:
        try:
            found = sorted(path.iterdir())
        except OSError as error:
            raise InputError(f"{path}: cannot read: {error.strerror or error}") from None
        files = [file for file in found if _NAME.search(file.name)]
        _refuse_packed(found)
        _refuse_unnamed(found)
    trials = [trial for file in files for trial in _read_csv(file)]
    if not trials:
        raise InputError(
            f"{path}: no measurements: expected a store of `kvsweep measure prefix`, or CSV files "
            "*_aA_bB.csv with columns condition and ttft_ms; of logs of requests name one file"
        )
    return Measured(trials, {})


def _refuse_packed(files: list[Path]) -> None:
    """Refuse compressed trials, unless they are there unpacked too; prompts are not read anyway."""
    for file in files:
        packed = _PACKED.search(file.name) and not file.name.startswith("prompts_")
        if packed and file.with_suffix("") not in files:
            raise InputError(f"{file}: is compressed: unpack it first")


def _refuse_unnamed(files: list[Path]) -> None:
    """Refuse trials whose file does not say of which size they are: they would be left out."""
    for file in files:
        unnamed = file.suffix.lower() == ".csv" and not _NAME.search(file.name)
        if unnamed and file.is_file() and _header(file).issuperset(_COLUMNS):
            raise InputError(
                f"{file}: has trials, and its name does not end in _aA_bB.csv, the sizes of A and "
                "B: rename it, or move it elsewhere"
            )


def _header(file: Path) -> set[str]:
    """Return the names of the columns, as far as the first line has any."""
    with open_regular(file) as opened:
        header = opened.readline(_LONGEST_HEADER).decode("utf-8-sig", "replace")
    return {name.strip(' "') for name in header.strip().split(",")}


def _read_store(path: Path) -> Measured:
    from kvsweep.llama.dataset import FORMAT
    from kvsweep.store import open_dataset

    ds = open_dataset(path, FORMAT, "kvsweep measure prefix")
    for name, dims in _STORED.items():
        if name not in ds.variables or set(ds[name].dims) != set(dims):
            raise InputError(
                f"{path}: no variable {name!r} of {', '.join(dims)}: not a store of "
                "`kvsweep measure prefix`"
            )
    wanted = _STORED | {name: _DIMS for name in _OPTIONAL if name in ds.variables}
    columns = {
        name: ds[name].broadcast_like(ds["ttft_ms"]).transpose(*_DIMS).values.ravel().tolist()
        for name in wanted
    }
    trials = []
    for i, ttft_ms in enumerate(columns["ttft_ms"]):
        if ttft_ms == ttft_ms:  # it is nan if the trial was not run
            row = {name: column[i] for name, column in columns.items()}
            trial = 1 + i % ds.sizes["trial"]
            where = f"{path}: trial {trial} of {shown(row['context_a'])}:{shown(row['context_b'])}"
            trials.append(_checked(where, row["context_a"], row["context_b"], row))
    return Measured(trials, {str(key): str(value) for key, value in ds.attrs.items()})


def _read_csv(file: Path) -> Iterator[Trial]:
    """Yield the trials of a CSV file, at least one; none of a file of prompts beside it."""
    match = _NAME.search(file.name)
    if match is None:
        raise InputError(
            f"{file}: its name does not end in _aA_bB.csv, the sizes of A and B; "
            "for a log of requests say --read format=csv"
        )
    header, rows = parse_csv(read_text(file, MAX_INPUT_BYTES), str(file))
    if PROMPTS[0] in header:
        return
    _check_header(header, file)
    line = 0
    for line, row in rows:
        named = zip(header, row, strict=True)
        values = {key: value.strip() for key, value in named if value.strip()}
        yield _checked(f"{file}:{line}", int(match[1]), int(match[2]), values)
    if not line:
        raise InputError(f"{file}: no trials: expected a row for each below the header")


def _check_header(header: list[str], file: Path) -> None:
    """Refuse a file that lacks a column."""
    if not header:
        raise InputError(f"{file}: is empty: expected columns {' and '.join(_COLUMNS)}")
    for name in _COLUMNS:
        if name not in header:
            hint = did_you_mean(name, header)
            if len(header) == 1:
                hint = f": expected columns that commas separate, got {shown(header[0])}"
            raise InputError(f"{file}:1: missing column {name}{hint}")


def _checked(where: str, a: Any, b: Any, row: dict[str, Any]) -> Trial:
    """Make a trial of a row, which may lack what was not measured."""
    condition = row.get("condition", "")
    if condition not in CONDITIONS:
        raise InputError(f"{where}: condition: {shown(condition)} is not hit or miss")
    a, b = _integer(a, "context A", 1, where), _integer(b, "context B", 1, where)
    begins = a + b if condition == "hit" else b
    prompt = _integer(row.get("prompt_tokens", begins + 1), "prompt_tokens", 1, where)
    if prompt < begins:
        words = "A and B, with which a hit begins" if condition == "hit" else "B, which a miss has"
        raise InputError(f"{where}: prompt_tokens: {prompt} are less than the {begins} of {words}")
    rate = _number(row[_RATE], _RATE, where) if _RATE in row else math.nan
    ttft_ms = _number(row.get("ttft_ms", ""), "ttft_ms", where)
    if not _MIN_MS <= ttft_ms <= _MAX_MS:
        least = f"at least {_MIN_MS:g}" if 0 < ttft_ms < _MIN_MS else "more than 0"
        raise InputError(
            f"{where}: ttft_ms: expected {least} and at most {_MAX_MS:.12g}, got {ttft_ms:.12g}"
        )
    return Trial(
        a,
        b,
        condition,
        prompt,
        ttft_ms,
        1e3 / rate if rate > 0 else math.nan,
        _integer(row.get("completion_tokens", 1), "completion_tokens", 0, where),
    )


def _plain(value: Any) -> Any:
    """Return a value, of which Python takes more than a file should have: ``1_0`` for 10."""
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        raise ValueError
    return value


def _number(value: Any, key: str, where: str) -> float:
    """Return a number; nan, which stands for what was not measured, is one."""
    try:
        number = float(_plain(value))
    except (TypeError, ValueError):
        number = math.inf
    if math.isinf(number) or number < 0:
        raise InputError(f"{where}: {key}: expected a number of at least 0, got {shown(value)}")
    return number


def _integer(value: Any, key: str, least: int, where: str) -> int:
    try:
        number = int(_plain(value))
    except (TypeError, ValueError, OverflowError):
        number = -1
    if not least <= number <= MAX_TOKENS or (isinstance(value, float) and number != value):
        raise InputError(
            f"{where}: {key}: expected an integer from {least} to {MAX_TOKENS}, got {shown(value)}"
        )
    return number
