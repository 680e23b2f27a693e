"""Values of keys that are written differently and mean the same."""

from __future__ import annotations

import os.path
from collections.abc import Callable
from typing import Any

from kvsweep.errors import InputError


def meaning(key: str, value: Any) -> Any:
    """Return what a value of a key stands for: equal for values that mean the same.

    Parameters
    ----------
    key : str
        Dotted scenario key.
    value : number, str or bool
        Its value, which need not be valid.

    Examples
    --------
    >>> meaning("model.gpu", "H100") == meaning("model.gpu", "h100")
    True
    >>> meaning("workload.trace", "./a.jsonl")
    'a.jsonl'
    """
    found = _MEANINGS.get(key)
    if found is None or not isinstance(value, str):
        return value
    try:
        return found(value)
    except InputError:  # whoever builds the scenario says so
        return value


def _gpu(text: str) -> str | int:
    from kvsweep.sizing.gpus import find_gpu

    gpu = find_gpu(text)
    return gpu.memory if gpu.source == "given" else gpu.name


def _model(name: str) -> str:
    from kvsweep.sizing.shapes import shipped_name

    return shipped_name(name)


def _dtype(name: str) -> str:
    from kvsweep.sizing.dtypes import ALIASES

    return ALIASES.get(name, name)


_MEANINGS: dict[str, Callable[[str], Any]] = {
    "model.gpu": _gpu,
    "model.preset": _model,
    "model.config": os.path.normpath,
    "model.dtype": _dtype,
    "workload.trace": os.path.normpath,
    "workload.lengths_from": os.path.normpath,
    "latency.model": os.path.normpath,
}
