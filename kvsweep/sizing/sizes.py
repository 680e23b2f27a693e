"""Amounts of memory as people write them: ``80GiB``, ``12116 MiB``, ``16`` (GiB)."""

from __future__ import annotations

import math
import re

from kvsweep.errors import InputError, shown
from kvsweep.limits import MAX_MEMORY_BYTES

GIB = 2**30

UNITS = {
    "": GIB,
    **{"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12},
    **{"kib": 2**10, "mib": 2**20, "gib": GIB, "tib": 2**40},
}
"""Bytes of a unit; a number without one is of GiB."""

_SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)\s*([kmgt]?i?b|)", re.IGNORECASE)


def is_size(text: str) -> bool:
    """Return whether `text` is a number with or without a unit of `UNITS`."""
    found = _SIZE.fullmatch(text.strip())
    return found is not None and found[2].lower() in UNITS


def parse_size(text: str, where: str) -> int:
    """Return the bytes of an amount of memory.

    Parameters
    ----------
    text : str
        A number and a unit: GiB, MiB, KiB, TiB (powers of 1024), GB, MB, KB, TB (powers of 1000),
        B. Without a unit: GiB.
    where : str
        The option or key, for messages.

    Raises
    ------
    InputError
        If it is no such amount, or not between a byte and `kvsweep.limits.MAX_MEMORY_BYTES`.

    Examples
    --------
    >>> parse_size("16", "--kv-memory") == parse_size("16GiB", "--kv-memory") == 16 * 2**30
    True
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or found[2].lower() not in UNITS:
        raise InputError(
            f"{where}: {shown(text)} is no amount of memory; allowed: a number of GiB, or one with "
            "its unit, as 80GiB, 12116MiB or 85.9GB"
        )
    size = math.floor(float(found[1]) * UNITS[found[2].lower()])
    if not 1 <= size <= MAX_MEMORY_BYTES:
        most = MAX_MEMORY_BYTES // GIB
        raise InputError(f"{where}: {shown(text)}; allowed: 1 byte to {most:,} GiB")
    return size


def gib(size: float) -> float:
    """Return bytes as GiB."""
    return size / GIB
