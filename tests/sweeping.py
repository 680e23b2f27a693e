"""For tests of sweeps: small sweep files, and a stand-in for the simulator that is quick."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import kvsweep
from kvsweep import grid
from kvsweep.config import load_sweep
from kvsweep.metrics import VARIABLES, coordinates
from kvsweep.policies import RequestStatus, Status

BASE = """
title = "small"
question = "what if?"

[workload]
requests = 20

[cluster]
instances = 2

[latency]
beta = [1000, 10, 5]
"""

GRID = """
[grid]
policy = ["round-robin", "least-loaded"]
"cache.gpu_blocks" = { start = 100, stop = 160, step = 10 }
seed = { count = 6 }
"""

CLIFF = """
[cliff]
metric = "preemption_rate"
along = "gpu_blocks"
threshold = 0.5
"""


def stand_in(monkeypatch, seconds: float = 2e-4) -> None:
    """Simulate by `fake_batch`, in tasks of so many nominal seconds: small sweeps have several."""
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fake_batch)
    monkeypatch.setattr("kvsweep.simulate.warm_up", lambda *_: None)
    monkeypatch.setattr(grid, "CHUNK_SECONDS", (seconds, seconds))


def write_sweep(folder: Path, text: str = BASE + GRID, name: str = "small.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def make_sweep(folder: Path, text: str = BASE + GRID, **options):
    return load_sweep(write_sweep(folder, text), **options)


def fake_batch(
    variants,
    seeds,
    *,
    entropy,
    policies,
    base_dir,
    keep_requests=False,
    slo_classes=(),
    prune=True,
    first_requests=None,
):
    """Numbers that depend on scenario and seed alone, as `kvsweep.simulate.simulate_batch` has."""
    along = coordinates(
        instances=max(v.cluster.instances for v in variants),
        rounds=0,
        slo_classes=tuple(slo_classes or ()),
        requests=max(v.workload.requests for v in variants) if keep_requests else 0,
    )
    sizes = {dim: len(values) for dim, values in along.items()}
    shape = (len(variants), len(seeds))
    keys = {at: f"{variants[at[0]].model_dump_json()} {seeds[at[1]]}" for at in np.ndindex(shape)}
    results = {
        name: np.empty(shape + tuple(sizes[d] for d in variable.dims), _dtype(variable))
        for name, variable in VARIABLES.items()
        if all(sizes[d] for d in variable.dims)
    }
    for name, array in results.items():
        for at, key in keys.items():
            number = zlib.crc32(f"{name} {key}".encode()) * (name != "dropped_unservable")
            array[at] = _name(name, number, slo_classes) if array.dtype == object else number / 7.0
    for v, s in np.ndindex(shape):
        rate = preemption_rate(variants[v].cache.gpu_blocks, seeds[s])
        results["preemption_rate"][v, s] = rate
    results["pruned"][...] = prune
    results["status"] = np.full(shape, Status.OK, np.int8)
    results["status_detail"] = np.full(shape, "", object)
    return results


def _name(variable, number, slo_classes):
    known = slo_classes if variable == "request_slo_class" else RequestStatus.labels()
    return known[number % len(known)] if known else ""


def preemption_rate(gpu_blocks: int, seed: int) -> float:
    """What the stand-in gives: a cliff at 130 blocks, give or take the seed."""
    return max(0.0, (140 + seed - gpu_blocks) / 20)


def of_threads_alone(folder, seconds):
    """Run the small sweep on a thread of this process; return the files of its store.

    Its tasks are of so many `seconds`, as those of runs by others that are to be equal.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "CHUNK_SECONDS", seconds)
        kvsweep.run(make_sweep(folder, BASE + GRID), out=folder / "whole.zarr", workers=1)
    return tree(folder / "whole.zarr")


def tree(path: Path) -> dict[str, bytes]:
    """Return every file of a store with its content."""
    return {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}


def start_python(code: str) -> subprocess.Popen[str]:
    """Start another Python that finds the modules that this one finds."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )


def _dtype(variable):
    return object if variable.dtype == "str" else variable.dtype
