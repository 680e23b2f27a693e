"""How numbers and combinations of axis values are written, in tables and figures alike."""

from __future__ import annotations

from typing import Any

import numpy as np

MISSING = "-"


def number(value: float) -> str:
    """Write `value` with four significant digits, thousands separated, no needless zeros.

    NaN is a dash; whole digits are never rounded away.
    """
    if np.isnan(value):
        return MISSING
    if value == 0 or np.isinf(value):
        return f"{value:g}"
    decimals = max(0, 3 - int(np.floor(np.log10(abs(value)))))
    if decimals > 7:
        return f"{value:.3g}"
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def label(labels: dict[str, Any]) -> str:
    """Name a combination: names stand for themselves, numbers with their axis (``rate 200``)."""
    parts = [
        value if isinstance(value, str) else f"{name} {number(float(value))}"
        for name, value in labels.items()
    ]
    return ", ".join(parts)
