"""A task that cannot be simulated, by halves: what is left as failed are the cells it fails for."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.errors import InputError
from kvsweep.metrics import VARIABLES
from kvsweep.policies import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Results = dict[str, NDArray[Any]]
    Simulate = Callable[[Sequence[int], Sequence[int]], Results]

# Blocks that may fail before those that are not halved yet count as failed wholly: where everything
# fails, to look on would take twice as many tries as there are cells. 13 single out one of 6,000.
MOST_FAILURES = 200


class DiedError(Exception):
    """The process that simulated some cells died."""


class Halves:
    """What simulates cells, and halves of them where that fails.

    Parameters
    ----------
    simulate : callable (variants, seeds)
        Simulates every variant, by position, with every seed.
    """

    def __init__(self, simulate: Simulate) -> None:
        self._simulate = simulate
        self._failures = 0

    def results(self, variants: Sequence[int], seeds: Sequence[int]) -> Results:
        """Return arrays (variants, seeds, ...) by variable; cells that cannot be are `FAILED`."""
        try:
            return self._simulate(variants, seeds)
        except InputError:
            raise
        except Exception as error:
            self._failures += 1
            if len(variants) * len(seeds) == 1 or self._failures >= MOST_FAILURES:
                return _failed((len(variants), len(seeds)), error)
        if len(seeds) > 1:
            half = len(seeds) // 2
            parts = [self.results(variants, some) for some in (seeds[:half], seeds[half:])]
            return _together(parts, axis=1)
        half = len(variants) // 2
        parts = [self.results(some, seeds) for some in (variants[:half], variants[half:])]
        return _together(parts, axis=0)


def _failed(shape: tuple[int, int], error: Exception) -> Results:
    return {
        "status": np.full(shape, Status.FAILED, np.int8),
        "status_detail": np.full(shape, f"{type(error).__name__}: {error}", object),
    }


def _together(parts: list[Results], axis: int) -> Results:
    """Put results side by side; further dimensions, and variables, may be fewer in one of them."""
    joined = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        found = [part[name] for part in parts if name in part]
        further = tuple(map(max, zip(*(values.shape[2:] for values in found), strict=True)))
        sides = []
        for part in parts:
            values = part.get(name)
            if values is None or values.shape[2:] != further:
                full = np.full(
                    part["status"].shape + further, VARIABLES[name].missing, found[0].dtype
                )
                if values is not None:
                    full[(slice(None), slice(None), *map(slice, values.shape[2:]))] = values
                values = full
            sides.append(values)
        joined[name] = np.concatenate(sides, axis)
    return joined


def simulate_apart(simulate: Simulate, variants: Sequence[int], seeds: Sequence[int]) -> Results:
    """Simulate cells in a process of its own, which may die of them.

    Raises
    ------
    DiedError
        If it did.
    """
    search = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    done = subprocess.run(
        [sys.executable, "-m", "kvsweep.workers.halving"],
        input=pickle.dumps((simulate, variants, seeds)),
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": search},
        check=False,
    )
    if done.returncode:
        how = f"by signal {-done.returncode}" if done.returncode < 0 else f"with {done.returncode}"
        raise DiedError(f"the process that simulated this cell ended {how}")
    results: Results = pickle.loads(done.stdout)  # a child's own, through a pipe
    return results


def _main() -> None:
    """Be the process apart: cells come in by stdin, results go out by what was stdout."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints
    simulate, variants, seeds = pickle.loads(sys.stdin.buffer.read())
    with out:
        out.write(pickle.dumps(Halves(simulate).results(variants, seeds)))


if __name__ == "__main__":
    _main()
