"""The published designs, run again: as shipped, repaired, and under vLLM's rules.

The figures as published are in ``figures/``, the designs and their original request lists in the
published sweeps. `replicate` runs a design under the rules of the replica (`kvsweep.replica`) as
the reference simulator shipped, with its defects repaired, with one of them repaired at a time, and
under vLLM's rules on the kernel, compares every figure, and puts every claim to a stated test.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from kvsweep.errors import InputError, did_you_mean
from kvsweep.studies.bench import Bench, Progress
from kvsweep.studies.records import Report

DESIGNS = {
    "h8": "kvsweep.studies.h8",
    "h-reasoning-kv": "kvsweep.studies.h_reasoning_kv",
    "h10": "kvsweep.studies.h10",
    "h377": "kvsweep.studies.h377",
    "ideas": "kvsweep.studies.ideas",
}
NAMES = (*DESIGNS, "all")
"""What `replicate` takes."""


def replicate(
    name: str, *, workers: int = 1, progress: Progress | None = None
) -> tuple[Report, ...]:
    """Run a published design again and compare it with what was published.

    Parameters
    ----------
    name : str
        One of `NAMES`; ``all`` gives all reports.
    workers : int
        Processes that run the replica.
    progress : callable or None
        Called with the runs done and to do.

    Returns
    -------
    tuple of Report
        One, or all of them.

    Raises
    ------
    InputError
        If there is no design of that name.
    """
    if name not in NAMES:
        hint = did_you_mean(name, list(NAMES))
        raise InputError(f"no published design {name!r}; one of: {', '.join(NAMES)}{hint}")
    bench = Bench(workers, progress)
    chosen: Sequence[str] = tuple(DESIGNS) if name == "all" else (name,)
    return tuple(import_module(DESIGNS[design]).report(bench) for design in chosen)
