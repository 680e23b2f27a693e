"""A calibrated preset as TOML, used at once as ``latency.model = "file.toml"``."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from kvsweep.calibrate.holding import Reference
from kvsweep.config.coefficients import ALPHAS, padded
from kvsweep.config.preset import Preset, load_preset, preset_names
from kvsweep.errors import escaped
from kvsweep.files import written
from kvsweep.sizing.gpus import known_gpu

CONTEXT = 3
"""Place in `Latency.beta` of the time per token of context of decoded tokens."""

DIGITS = 6
"""Significant digits of a coefficient in a preset."""


_MANY = r"([1-9]\d{0,3})"
_COUNT = re.compile(
    rf"\b{_MANY} ?x |\b{_MANY} (?:devices|gpus)\b|\b(?:tensor parallel|tp) ?{_MANY}\b",
    re.IGNORECASE,
)
"""How many GPUs a text tells of."""


def peak_reference(model: str, hardware: str) -> Reference | None:
    """Return what the context of a decoded token costs at least, on hardware that is known.

    That is reading its keys and values at the memory's peak, by the roofline preset of the same
    model and hardware that comes with the package; None if there is none. Hardware may be named as
    the preset has it, or as its driver does; without a number of GPUs it is one.
    """
    for name in preset_names():
        preset = load_preset(name, Path())
        known = preset.model.casefold() in model.casefold() and _is_of(preset, hardware)
        if known and preset.device is not None:
            peak = {"bandwidth_efficiency": 1.0, "compute_efficiency": 1.0}
            memory = preset.roofline(preset.device.model_copy(update=peak)).memory
            values = np.full(len(memory), np.nan)
            values[CONTEXT] = memory[CONTEXT]
            told = f"what reading a token's keys and values takes at the peak of {preset.hardware}"
            return Reference(values, told)
    return None


def _is_of(preset: Preset, hardware: str) -> bool:
    """Return whether a roofline is of such hardware: of as many GPUs, of the same name or kind."""
    if preset.device is None or preset.device.tp != _devices(hardware):
        return False
    if preset.hardware.casefold() in hardware.casefold():
        return True
    kinds = [known_gpu(text.replace(",", " ")) for text in (hardware, preset.hardware)]
    return kinds[0] != "" and kinds[0] == kinds[1]


def _devices(hardware: str) -> int:
    """Return how many GPUs it is, one unless told.

    Examples
    --------
    >>> [_devices(text) for text in ("4 x H100", "H100 SXM, 2 devices", "H100, tensor parallel 8")]
    [4, 2, 8]
    >>> _devices("NVIDIA H100 80GB HBM3")
    1
    """
    found = _COUNT.search(hardware)
    return int(next(filter(None, found.groups()))) if found else 1


def rounded(value: float) -> float:
    """Return the number that a preset will hold."""
    return float(f"{value:.{DIGITS}g}")


def named_after(path: Path) -> str:
    """Return a name for what nobody named: the file's or folder's, without its endings."""
    return _name(path).strip(".").split(".")[0] or "not told"


def _name(path: Path) -> str:
    """Return the name of a file or folder, which ``.`` has too, as text that can be written."""
    return escaped(Path(os.path.abspath(path)).name)


def source_of(path: Path, *origins: str | None) -> str:
    """Say what a preset was fitted to: the file, its digest, and where that comes from."""
    digest = ""
    if path.is_file():
        digest = f" (sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]})"
    return "; ".join([f"`kvsweep calibrate` on {_name(path)}{digest}", *filter(None, origins)])


KEPT = ("link", "kv_bytes_per_token", "tp")
"""Keys of a preset that a server's times do not tell."""


def kept(start: Preset | None) -> dict[str, Any]:
    """Return what a preset keeps of the one that its fit started from."""
    values = {key: getattr(start, key) for key in KEPT} if start else {}
    return {key: value for key, value in values.items() if value is not None}


def kept_words(start: Preset | None, alpha: tuple[float, ...] = ()) -> str | None:
    """Say so, for the preset's source, and whether the `alpha` that it has is kept too."""
    if start is None:
        return None
    names = list(kept(start))
    if any(alpha) and alpha == padded(start.alpha, ALPHAS):
        names.insert(0, "alpha")
    if not names:
        return None
    return f"{', '.join(names)}: as of the preset of {start.model} on {start.hardware}"


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
