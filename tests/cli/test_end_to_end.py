"""One sweep through the whole program, kernel included."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from sweeping import BASE, tree, write_sweep

import kvsweep
from kvsweep import _cache
from kvsweep.simulate import entries, kernel_cells

pytestmark = pytest.mark.slow

GRID = """
[grid]
policy = ["round-robin", "least-loaded"]
"cache.gpu_blocks" = [70, 100, 150, 200, 400, 800]
seed = { count = 4 }

[cliff]
metric = "preemption_rate"
along = "gpu_blocks"
threshold = 0.05
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sweep(tmp_path, BASE + GRID)
    return "small.toml"


def test_a_sweep_from_file_to_figure(run, file):
    code, out, _ = run("grid", file)
    assert code == 0
    assert "results/small.zarr: 48 ok" in out
    assert "preemption_rate passes 0.05 at" in out
    ds = kvsweep.open_results("results/small.zarr")
    parts = ("completed", "queued", "running", "dropped_unservable", "rejected", "timed_out")
    assert np.array_equal(ds["injected"], sum(ds[name] for name in parts))
    assert (ds["injected"] == 20).all()
    rate = ds["preemption_rate"].mean("seed")
    assert (rate.sel(gpu_blocks=70) > 0.05).all()
    assert (rate.sel(gpu_blocks=800) == 0).all()


def test_compiling_is_told_when_there_is_nothing_compiled_yet(tmp_path, monkeypatch):
    told = []
    kernel_cells.warm_up()
    kernel_cells.warm_up(told.append)
    assert told == []
    nowhere = SimpleNamespace(cache_path=str(tmp_path / "none"))
    run = Mock(stats=nowhere, __name__="run_batch")
    monkeypatch.setattr(entries, "ENTRIES", (replace(entries.USUAL, run=run),))
    kernel_cells.warm_up(told.append)
    assert told == [f"compiling the kernel (first run only, about {_cache.seconds} s)"]


def test_processes_give_the_same_bytes_as_threads(run, file):
    run("grid", file)
    code, _, _ = run("grid", file, "--processes", "--workers", "2", "--out", "results/other.zarr")
    assert code == 0
    assert tree(Path("results/small.zarr")) == tree(Path("results/other.zarr"))
