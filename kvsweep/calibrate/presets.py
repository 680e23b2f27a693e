"""A calibrated preset as TOML, used at once as ``latency.model = "file.toml"``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvsweep.config.latency import Preset
from kvsweep.files import written

DIGITS = 6
"""Significant digits of a coefficient in a preset."""


def rounded(value: float) -> float:
    """Return the number that a preset will hold."""
    return float(f"{value:.{DIGITS}g}")


def to_toml(preset: Preset) -> str:
    """Return the preset as text."""
    given: dict[str, Any] = preset.model_dump(exclude_none=True)
    lines = [f"{key} = {_value(value)}" for key, value in given.items() if value is not None
             and not isinstance(value, dict)]  # fmt: skip
    for name, table in given.items():
        if isinstance(table, dict):
            lines += ["", f"[{name}]", *(f"{key} = {_value(table[key])}" for key in table)]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    # A JSON string is a TOML string, but for characters beyond ASCII, which TOML takes as they are.
    return json.dumps(value, ensure_ascii=False)


def write_preset(preset: Preset, path: Path) -> None:
    """Write a preset.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    with written(path) as file:
        file.write(to_toml(preset))
