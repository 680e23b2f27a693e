"""Stores of small sweeps for tests that change or read them: each is made once in a process."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sweeping import BASE, GRID, make_sweep, stand_in, tree

import kvsweep
from kvsweep import grid


def written(text: str = BASE + GRID, **options) -> dict[str, bytes]:
    """Return every file of the store of a run by the stand-in, with its content.

    It depends on the sweep, its tasks and options of the run alone.
    """
    return dict(_run(text, grid.CHUNK_SECONDS, tuple(sorted(options.items()))))


def write_store(path: str | Path, text: str = BASE + GRID, **options) -> None:
    """Write the store of a run by the stand-in, as it left it."""
    for name, data in written(text, **options).items():
        file = Path(path, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


@cache
def _run(text, seconds, options):
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        stand_in(patch)
        patch.setattr(grid, "CHUNK_SECONDS", seconds)
        store = Path(folder, "a.zarr")
        kvsweep.run(make_sweep(Path(folder), text), out=store, workers=1, **dict(options))
        return tree(store)
