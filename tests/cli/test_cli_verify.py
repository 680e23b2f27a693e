import json
import shutil
from pathlib import Path

import pytest
from sweeping import tree, write_sweep

import kvsweep
from kvsweep import grid, store

# Real cells: small, but with policies that are bundles, an override, and cells that are pruned.
SWEEP = """
title = "small"

[workload]
requests = 12
rate = 50.0
prompt = { dist = "gaussian", mean = 40, std = 20, min = 16, max = 64 }
output = { dist = "gaussian", mean = 8, std = 4, min = 4, max = 16 }

[cluster]
instances = 2

[engine]
scheduler = "priority"

[latency]
beta = [1000, 10, 5]

[policies.plain]
"cluster.routing" = "round-robin"

[policies.fair]
"cluster.routing" = "least-loaded"
"engine.max_num_seqs" = 3

[grid]
policy = ["fair", "plain"]
"cache.gpu_blocks" = [20, 40, 500]
seed = { count = 3 }
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "CHUNK_SECONDS", (2e-5, 2e-5))
        sweep = kvsweep.load_sweep(
            write_sweep(folder, SWEEP), ["engine.max_num_batched_tokens=300"]
        )
        kvsweep.run(sweep, out=folder / "a.zarr", workers=1, keep_requests=True)
    return folder / "a.zarr"


@pytest.fixture
def path(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, "a.zarr")
    return Path("a.zarr")


def test_a_whole_store_is_well_and_stays_as_it_is(run, path):
    before = tree(path)
    code, out, err = run("verify", "a.zarr", "--sample", "18")
    assert (code, err) == (0, "")
    assert f"a.zarr: {len(before):,} files, all as they were written\n" in out
    assert "18 cells simulated again: all the same\n" in out
    assert tree(path) == before
    found = json.loads(run("verify", "a.zarr", "--json")[1])
    assert found["ok"]
    assert len(found["simulated"]) == 5
    assert found["simulated"] == json.loads(run("verify", "a.zarr", "--json")[1])["simulated"]


def test_damaged_files_are_named(run, path):
    chunks = [path / name / "c" / "0" / "0" / "0" for name in ("preemptions", "steps")]
    chunks[0].unlink()
    chunks[1].write_bytes(b"rubbish")
    code, out, _ = run("verify", "a.zarr")
    assert code == 1
    assert "a.zarr: 2 files changed since written:\n" in out
    for chunk in chunks[:2]:
        assert f"  {chunk.relative_to(path)}\n" in out
    assert json.loads(run("verify", "a.zarr", "--json")[1])["damaged"] == [
        str(chunk.relative_to(path)) for chunk in chunks[:2]
    ]


def test_numbers_that_are_not_what_simulating_gives_are_found(run, path, monkeypatch):
    """A store whose checksums are right may still lie: its simulator was another, say."""
    from kvsweep import simulate

    def other(*args, real=simulate.simulate_batch, **options):
        results = real(*args, **options)
        results["steps"] += 1
        return results

    monkeypatch.setattr("kvsweep.simulate.simulate_batch", other)
    code, out, _ = run("verify", "a.zarr", "--sample", "1")
    assert code == 1
    assert "1 cell simulated again: 1 differs:\n  policy=" in out
    assert out.endswith(": steps\n")


def test_cells_to_do_are_no_fault(run, path):
    record = next((path / "status" / "checksums").iterdir())
    store.update_attributes(path, {"complete": 0})  # as in a run that was interrupted
    record.unlink()
    code, out, _ = run("verify", "a.zarr", "--sample", "0")
    assert code == 0
    assert "cells are not simulated yet\n" in out


def test_a_store_of_other_sources_is_not_simulated(run, path):
    store.update_attributes(path, {"source_hash": "0123"})
    code, out, _ = run("verify", "a.zarr")
    assert code == 0
    assert "not simulated again: it was made by other sources of the simulator, 0123" in out


TRACE = {
    "format": "kvsweep-trace/1",
    "scenario": {},
    "requests": [
        {"id": i, "arrival_us": 5 * i, "prompt": [[0, 20]], "output": [1, 3]} for i in range(4)
    ],
}


def test_a_trace_is_looked_for_and_missed(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("deep").mkdir()
    Path("deep/t.json").write_text(json.dumps(TRACE))
    text = '[workload]\ntrace = "t.json"\n[latency]\nbeta = [1000, 10, 5]\n' + (
        '[grid]\n"cache.gpu_blocks" = [20, 40]\n'
    )
    kvsweep.run(kvsweep.load_sweep(write_sweep(Path("deep"), text)), out="a.zarr", workers=1)
    code, out, _ = run("verify", "a.zarr")
    assert code == 0
    assert "not simulated again: " in out
    assert "; --folder, or folder= in Python, names the folder of the sweep file" in out
    code, out, _ = run("verify", "a.zarr", "--folder", "deep")
    assert (code, "2 cells simulated again: all the same" in out) == (0, True)


def test_a_measurement_has_checksums_too(run, tmp_path, monkeypatch):
    import xarray as xr

    monkeypatch.chdir(tmp_path)
    ds = xr.Dataset({"x": ("t", ["a", "bc"])}, attrs={"format": "kvsweep-prefix/1"})
    store.save_dataset(Path("m.zarr"), ds)
    assert run("verify", "m.zarr")[0] == 0
    chunk = Path("m.zarr/x/c/0")
    chunk.write_bytes(chunk.read_bytes()[:-1])
    code, out, _ = run("verify", "m.zarr")
    assert (code, "  x/c/0\n" in out) == (1, True)
    assert "damaged: x/c/0" in run("plot", "m.zarr", "prefix")[2]


@pytest.mark.parametrize("name", ["none.zarr", "folder", "file"])
def test_what_is_no_store_is_told_in_one_line(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").write_text("")
    code, out, err = run("verify", name)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_a_folder_that_is_none_or_that_nothing_asks_is_refused(run, path):
    """It was taken without a word where no file is read of it."""
    for folder in ("nope", "a.zarr/zarr.json"):
        code, _, err = run("verify", str(path), "--folder", folder)
        assert (code, err) == (2, f"kvsweep: --folder: {folder!r} is no folder\n")
    code, _, err = run("verify", str(path), "--folder", ".", "--sample", "0")
    assert (code, err.count("\n")) == (2, 1)
    assert "--folder: has no effect with --sample 0" in err
