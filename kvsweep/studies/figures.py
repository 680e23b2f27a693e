"""The published figures, as printed, with where they stand: ``figures/*.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def figures(name: str) -> dict[str, Any]:
    """Return the figures of a design: tables of printed numbers, each with its ``source``."""
    path = Path(__file__).parent / "figures" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))
