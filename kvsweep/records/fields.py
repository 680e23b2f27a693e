"""Fields of records, and dtypes of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike


class Field(NamedTuple):
    """One field of a record: name, dtype, unit, one-line meaning."""

    name: str
    dtype: DTypeLike
    unit: str
    doc: str


def dtype_of(fields: tuple[Field, ...]) -> np.dtype[Any]:
    """Return the dtype of records with these fields, aligned as C does."""
    return np.dtype([(field.name, field.dtype) for field in fields], align=True)


def without(dtype: np.dtype[Any], names: Sequence[str]) -> np.dtype[Any]:
    """Return a dtype for the same records that lacks fields; what is left is where it was."""
    kept = {name: field for name, field in (dtype.fields or {}).items() if name not in names}
    described = {
        "names": list(kept),
        "formats": [field[0] for field in kept.values()],
        "offsets": [field[1] for field in kept.values()],
        "itemsize": dtype.itemsize,
    }
    return np.dtype(described, align=True)  # type: ignore[call-overload, no-any-return]


# One integer type wherever code may meet it: functions compile once (and no slower: measured).
i32, i64, f64, u8 = np.int32, np.int64, np.float64, np.uint8
