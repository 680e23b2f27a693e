"""What traces a sweep reads, by their content: a store is not continued with others."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from kvsweep.errors import InputError
from kvsweep.reading import open_regular
from kvsweep.workload.kept_traces import identity

if TYPE_CHECKING:
    from kvsweep.config import Scenario, Workload

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
    return {name: _sum(folder / name) for name in sorted(_names(variants, policies, seeds))}


@contextmanager
def unchanged(
    sums: Mapping[str, str],
    variants: Sequence[Scenario],
    policies: Sequence[str | None],
    seeds: Sequence[int],
    folder: Path,
) -> Iterator[None]:
    """See that the traces of some cells stay, for the length of the block, those of a sweep.

    Parameters
    ----------
    sums
        What `trace_sums` returned of the sweep; without any, nothing is looked at.
    variants, policies, seeds, folder
        As for `trace_sums`, of the cells.

    Raises
    ------
    InputError
        If one is, or becomes, another.
    """
    names = sorted(_names(variants, policies, seeds)) if sums else []
    for name in names:
        _check(folder / name, sums[name])
    yield
    for name in names:
        _check(folder / name, sums[name])


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


def _names(
    variants: Sequence[Scenario], policies: Sequence[str | None], seeds: Sequence[int]
) -> set[str]:
    """Return the names of the traces of cells."""
    named = (_named(variant.workload) for variant in variants)
    cells = set(zip(named, policies, strict=True))
    return {name for named, policy in cells for name in _filled_names(*named, policy, seeds)}


def _check(path: Path, wanted: str) -> None:
    found = _sum_of(path, about) if (about := identity(path)) else _sum(path)
    if found != wanted:
        raise InputError(
            f"{path}: was changed or replaced since this run began; what was simulated before is "
            "kept: put that file back, and the same command goes on"
        )


@lru_cache(maxsize=1024)
def _sum_of(path: Path, about: object) -> str:
    """Return the sum of a file, computed again when it is another."""
    return _sum(path)


def names_of(workload: Workload | None, policy: str | None, seeds: Sequence[int]) -> list[str]:
    """Return the names of the files that a workload takes requests or lengths from."""
    return list(_filled_names(*_named(workload), policy, seeds))


def _named(workload: Workload | None) -> tuple[str | None, str | None]:
    """Return the traces of requests and of lengths that a workload names."""
    return (workload.trace, workload.lengths_from) if workload else (None, None)


def _filled_names(
    trace: str | None, lengths_from: str | None, policy: str | None, seeds: Sequence[int]
) -> Iterator[str]:
    if trace is not None:
        yield from (_filled(trace, policy, seed) for seed in _needed(trace, seeds))
    if lengths_from is not None:  # one file for all seeds, by the name that it has
        yield lengths_from


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
