"""What traces a sweep reads, by their content: a store is not continued with others."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvsweep.errors import InputError
from kvsweep.reading import open_regular

if TYPE_CHECKING:
    from kvsweep.config import Scenario

_PIECE = 2**20


def trace_sums(
    variants: Sequence[Scenario],
    policies: Sequence[str | None],
    seeds: Sequence[int],
    folder: Path,
) -> dict[str, str]:
    """Return a SHA-256 of every trace of a sweep, by its name as the sweep has it.

    Parameters
    ----------
    variants, policies, seeds : sequences
        The cells, as a plan has them.
    folder : Path
        What names are relative to.

    Raises
    ------
    InputError
        If one cannot be read.
    """
    names: set[str] = set()
    for name, policy in {(n, p) for n, p in zip(_named(variants), policies, strict=True) if n}:
        names |= {_filled(one, policy, seed) for one in name for seed in _needed(one, seeds)}
    return {name: _sum(folder / name) for name in sorted(names)}


def other_trace(sums: Mapping[str, str], folder: Path) -> str:
    """Say which trace is not here, or is not that of which there is a sum; empty if all are.

    Parameters
    ----------
    sums, folder
        What `trace_sums` returned elsewhere, and what names are relative to.
    """
    for name, wanted in sums.items():
        try:
            if _sum(folder / name) != wanted:
                return f"{folder / name}: has another content there"
        except InputError as error:
            return str(error)
    return ""


def _named(variants: Iterable[Scenario]) -> Iterable[tuple[str, ...]]:
    """Yield the traces that each variant names."""
    for variant in variants:
        workload = variant.workload
        named = (workload.trace, workload.lengths_from) if workload else ()
        yield tuple(name for name in named if name is not None)


def _needed(name: str, seeds: Sequence[int]) -> Sequence[int]:
    return seeds if "{seed}" in name else seeds[:1]


def _filled(name: str, policy: str | None, seed: int) -> str:
    fields = {"seed": str(seed), "policy": policy or ""}
    return re.sub(r"\{(seed|policy)\}", lambda field: fields[field[1]], name)


def _sum(path: Path) -> str:
    found = hashlib.sha256()
    with open_regular(path) as file:
        try:
            while piece := file.read(_PIECE):
                found.update(piece)
        except OSError as error:
            raise InputError(f"{path}: cannot read: {error.strerror or error}") from None
    return found.hexdigest()
