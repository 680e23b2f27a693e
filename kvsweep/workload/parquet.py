"""Parquet files of any columns, by pyarrow, which the extra ``parquet`` installs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError, shown
from kvsweep.limits import MAX_INPUT_BYTES, MAX_REQUESTS, MAX_TOKENS
from kvsweep.reading import open_regular
from kvsweep.workload.checks import IF_FAILED
from kvsweep.workload.column_roles import LENGTHS, NAMES, ON_CLOCK, TIMES, find_roles, units_of
from kvsweep.workload.long_files import Chunk, Part, too_many
from kvsweep.workload.measured import PER_SECOND, Rows
from kvsweep.workload.row_chunks import DATE, Numbered, collect

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"PAR1"

_CHUNK = 2**16

COARSEST_S = 0.1
"""Seconds by which the times of a column may be rounded, by the bits that they have."""


def is_parquet(path: Path) -> bool:
    """Return whether a file begins as Parquet files do."""
    with open_regular(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def read_parquet(path: Path, read: Reading, part: Part | None = None) -> Rows:
    """Return the requests of a Parquet file; of more than a list may have, only `part`.

    Raises
    ------
    InputError
        If pyarrow is not installed, the file is damaged, the columns are not told, or a row is
        malformed.
    """
    where = str(path)
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            f"{where}: is a Parquet file, which needs pyarrow: pip install 'kvsweep[parquet]'"
        ) from None
    try:
        with open_regular(path) as source, parquet.ParquetFile(source) as file:
            if os.fstat(source.fileno()).st_size > MAX_INPUT_BYTES:
                raise InputError(f"{where}: more than {MAX_INPUT_BYTES:,} bytes")
            if file.metadata.num_rows > MAX_REQUESTS and part is None:
                raise too_many(where)
            schema = file.schema_arrow
            roles = find_roles(schema.names, read, where)
            _check_once(schema.names, roles.values(), where)
            kinds = {role: schema.field(name).type for role, name in roles.items()}
            _check_kinds(kinds, roles, where)
            own = {role: unit for role in TIMES if (unit := _own_unit(kinds.get(role)))}
            numbers = {role: roles[role] for role in TIMES if role in roles and role not in own}
            units = own | units_of(numbers, read, where)
            batches = file.iter_batches(_CHUNK, columns=sorted(set(roles.values())))
            chunks = _chunks(_told_apart(batches, roles, units, where), roles, where, read)
            rows = collect(chunks, units, where, read, "row ", part)
            return replace(rows, in_file=file.metadata.num_rows)
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(f"{where}: damaged or unreadable Parquet file: {problem}") from None


def _check_once(names: Sequence[str], used: Iterable[str], where: str) -> None:
    """Refuse columns of the same name, if they are used."""
    for name in used:
        if names.count(name) > 1:
            raise InputError(f"{where}: duplicate column {shown(name)}")


def _check_kinds(kinds: dict[str, Any], roles: dict[str, str], where: str) -> None:
    """Refuse columns of types that cannot be what they are to be, and clocks of two kinds."""
    import pyarrow as pa

    dates = {
        roles[role]: kinds[role].tz is not None
        for role in ON_CLOCK
        if role in kinds and pa.types.is_timestamp(kinds[role])
    }
    for role, kind in kinds.items():
        if role in NAMES or pa.types.is_integer(kind) or pa.types.is_null(kind):
            continue
        dated = role in ON_CLOCK and pa.types.is_timestamp(kind)
        lasts = pa.types.is_duration(kind) and not (role in ON_CLOCK and dates)
        counts = pa.types.is_floating(kind)  # as pandas has integers some of which are missing
        if not (counts or (role not in LENGTHS and (lasts or dated))):
            raise InputError(
                f"{where}: {roles[role]}: expected a column of {_wanted(role)}, got "
                f"{shown(str(kind))}{_remedy(kind)}"
            )
    if len(set(dates.values())) > 1:
        with_zone, without = (
            next(name for name, zoned in dates.items() if zoned is told) for told in (True, False)
        )
        raise InputError(
            f"{where}: {without}: times with and without a time zone: those of {with_zone} have one"
        )


def _remedy(kind: Any) -> str:
    """Return how texts, which CSV files may have in any column, become what is expected."""
    import pyarrow as pa

    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not any(is_text(kind) for is_text in texts):
        return ""
    return "; make numbers or times of its texts (pandas: to_numeric, to_datetime), or write a CSV"


def _wanted(role: str) -> str:
    if role in LENGTHS:
        return "integers"
    return "numbers or timestamps" if role in ON_CLOCK else "numbers or durations"


def _own_unit(kind: Any) -> str | None:
    """Return the unit that times have by their type; `DATE`: they become microseconds."""
    import pyarrow as pa

    if kind is None or not (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)):
        return None
    return DATE if pa.types.is_timestamp(kind) else str(kind.unit)


def _told_apart(
    batches: Any, roles: dict[str, str], units: dict[str, str], where: str
) -> Iterator[Any]:
    """Yield the batches, if floats of few bits tell their times apart.

    Seconds since 1970 in 32 bits are 128 s apart, so that requests of two minutes come at once.
    """
    import pyarrow as pa

    for batch in batches:
        for role in TIMES:
            kind = batch.schema.field(roles[role]).type if role in roles else None
            if kind not in (pa.float16(), pa.float32()):
                continue
            column = batch.column(batch.schema.names.index(roles[role]))
            values = np.abs(column.to_numpy(zero_copy_only=False).astype(kind.to_pandas_dtype()))
            largest = values[np.isfinite(values)].max(initial=0)
            apart = float(np.spacing(largest)) / PER_SECOND[units[role]]
            if apart > COARSEST_S:
                raise InputError(
                    f"{where}: {roles[role]}: floats of {kind.bit_width} bits tell its times to "
                    f"{apart:.3g} s, and no closer: write them with 64 bits"
                )
        yield batch


def _chunks(
    batches: Any, roles: dict[str, str], where: str, read: Reading
) -> Iterator[tuple[Chunk, Sequence[int]]]:
    """Yield the values of a batch by role, and the numbers of its rows, from 0."""
    start = 0
    for batch in batches:
        columns = {role: batch.column(batch.schema.names.index(n)) for role, n in roles.items()}
        lacks = np.zeros(batch.num_rows, np.bool_)
        for role, column in columns.items():
            lacks |= False if role in NAMES else _nothing(column)
        numbers = np.arange(start, start + batch.num_rows)
        start += batch.num_rows
        if read.failed == "leave-out" and lacks.any():
            numbers = numbers[~lacks]
            columns = {role: column.filter(~lacks) for role, column in columns.items()}
        if not len(numbers):
            continue
        place = Numbered(numbers, "row ")
        try:
            found = {
                role: _values(column, role, f"{roles[role]}: ", place, where)
                for role, column in columns.items()
            }
        except InputError as problem:
            raise InputError(f"{problem}{IF_FAILED if lacks.any() else ''}") from None
        yield found, numbers.tolist()


def _nothing(column: pa.Array) -> NDArray[np.bool_]:
    """Return which values are those of requests that have no such number: none, NaN, -1."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
    missing: NDArray[np.bool_] = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        missing = missing | (column.fill_null(0).to_numpy(zero_copy_only=False) == -1)
    return missing


def _values(column: pa.Array, role: str, name: str, place: Numbered, where: str) -> Any:
    import pyarrow as pa

    kind = column.type
    if role in NAMES:
        return ["" if value is None else str(value).strip(" ") for value in column.to_pylist()]
    if column.null_count:
        first = column.is_null().to_pylist().index(True)
        raise InputError(f"{where}{place[first]}: {name}no value")
    if pa.types.is_timestamp(kind):
        return _microseconds(column)
    if pa.types.is_duration(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_floating(kind):
        column = column.cast(pa.float64())  # half of them cannot hold the limits
    values = column.to_numpy(zero_copy_only=False)
    most = MAX_TOKENS if role in LENGTHS else 2.0**63
    bad = np.flatnonzero(~((values >= 0) & (values <= most if role in LENGTHS else values < most)))
    if bad.size:
        raise InputError(
            f"{where}{place[int(bad[0])]}: {name}expected a number from 0 to {most:.12g}, got "
            f"{shown(values[bad[0]].item())}"
        )
    if role in LENGTHS and (part := np.flatnonzero(values % 1)).size:
        raise InputError(
            f"{where}{place[int(part[0])]}: {name}expected an integer, got "
            f"{shown(values[part[0]].item())}"
        )
    timed = role not in LENGTHS and pa.types.is_floating(kind)
    return values.astype(np.float64 if timed else np.int64)


def _microseconds(column: pa.Array) -> NDArray[np.int64]:
    """Return timestamps as microseconds since 1970."""
    import pyarrow as pa

    zone = column.type.tz
    cast = column.cast(pa.timestamp("us", zone), safe=False)
    found: NDArray[np.int64] = cast.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found
