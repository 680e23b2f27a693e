"""Numbers as people write them, which vLLM takes in some places: 8k (8,000) or 8K (8,192)."""

from __future__ import annotations

import re

_DECIMAL: dict[str, int] = {letter: 1000**power for power, letter in enumerate("kmgt", 1)}
_BINARY: dict[str, int] = {letter: 1024**power for power, letter in enumerate("KMGT", 1)}
_WITH_SUFFIX = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)([kmgt])|(\d{1,18})([KMGT])")


def with_suffix(text: str) -> int | None:
    """Return a number with a suffix, None if it is none; only decimal ones have a fraction.

    Examples
    --------
    >>> with_suffix("1.5k"), with_suffix("2K"), with_suffix("1.5K"), with_suffix("2")
    (1500, 2048, None, None)
    """
    found = _WITH_SUFFIX.fullmatch(text)
    if found is None:
        return None
    if found[2]:
        return int(float(found[1]) * _DECIMAL[found[2]])
    return int(found[3]) * _BINARY[found[4]]
