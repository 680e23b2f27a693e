"""A dataset that is open gives the numbers of the store that was opened, or none."""

import os
import pickle
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sweeping import BASE, GRID, make_sweep, stand_in

import kvsweep
from kvsweep import grid, store
from kvsweep.errors import InputError
from kvsweep.simulate import source_hash

OTHER = (BASE + GRID).replace("requests = 20", "requests = 30")
LARGER = (BASE + GRID).replace("count = 6", "count = 9")
REPLACED = r"a\.zarr: the store was replaced or extended since it was opened; open it again"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    stand_in(monkeypatch)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.zarr"


@pytest.fixture
def ds(tmp_path, path):
    return kvsweep.run(make_sweep(tmp_path), out=path, workers=1)


def replace(path, text=OTHER, **options):
    sweep = make_sweep(path.parent, text, **options)
    return kvsweep.run(sweep, out=path, workers=1, overwrite=True)


@pytest.mark.parametrize("name", ["ttft_p50_ms", "ttft_ms", "steps"])
def test_no_number_of_the_run_that_replaced_a_store_is_read(ds, path, name):
    before = ds["ttft_p99_ms"].values
    ds[name].isel(seed=0).load()
    replace(path)
    for read in (lambda: ds[name].values, lambda: ds[name].sel(seed=3).values, ds.load):
        with pytest.raises(InputError, match=REPLACED):
            read()
    assert np.array_equal(ds["ttft_p99_ms"].values, before)  # of the store that was opened


def test_an_extended_store_is_opened_again(ds, tmp_path, path):
    ds["ttft_p99_ms"].load()
    larger = kvsweep.run(make_sweep(tmp_path, LARGER), out=path, workers=1, extend=True)
    for name in ("ttft_p50_ms", "steps"):
        with pytest.raises(InputError, match=REPLACED):
            ds[name].load()
    assert larger["ttft_p50_ms"].sizes["seed"] == 9


def test_without_comparison_no_number_of_another_run_is_read_either(ds, path):
    ds = kvsweep.open_results(path, verify=False)
    ds["ttft_p99_ms"].load()
    store.update_attributes(path, {"note": "of the same run"})
    ds["ttft_p90_ms"].load()
    replace(path)
    with pytest.raises(InputError, match=REPLACED):
        ds["ttft_p50_ms"].load()


def test_a_store_replaced_by_the_same_numbers_is_read_on(ds, tmp_path, path):
    before = ds["ttft_ms"].isel(quantile=0).values
    replace(path, BASE + GRID)
    assert np.array_equal(ds["ttft_p50_ms"].values, before)


def test_a_file_that_is_damaged_after_it_was_read_is_damage(ds, path):
    ds["steps"].isel(seed=0).load()
    for file in (file for file in (path / "steps" / "c").rglob("*") if file.is_file()):
        file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(InputError, match=r"damaged: steps/c/"):
        ds["steps"].load()


def test_a_store_that_is_being_filled_may_be_replaced_too(tmp_path, path):
    sweep = make_sweep(tmp_path)
    store.prepare(path, sweep, grid.plan(sweep), source_hash())
    ds = kvsweep.open_results(path)
    shutil.rmtree(path)
    replace(path)
    with pytest.raises(InputError, match=REPLACED):
        ds["steps"].load()


def test_a_store_of_a_newer_version_is_not_replaced(ds, path):
    store.update_attributes(path, {"format": "kvsweep-store/3"})
    with pytest.raises(InputError, match=r"made by a newer kvsweep and is not overwritten"):
        replace(path)


def test_files_that_are_the_same_are_compared_once(ds, monkeypatch):
    compared = []
    sums = store.folder.Folder.sums
    monkeypatch.setattr(
        store.folder.Folder, "sums", lambda self, name: compared.append(name) or sums(self, name)
    )
    for seed in range(6):
        ds["steps"].isel(seed=seed).load()
    assert len(compared) == len(set(compared)) > 0


@pytest.mark.parametrize("verify", [True, False])
def test_a_store_opened_by_a_relative_path_is_read_from_any_folder(
    ds, path, tmp_path, monkeypatch, verify
):
    """Even from one in which another store has this name."""
    other = tmp_path / "other"
    other.mkdir()
    replace(other / "a.zarr")
    monkeypatch.chdir(tmp_path)
    opened = kvsweep.open_results("a.zarr", verify=verify)
    assert opened.encoding["source"] == "a.zarr"
    monkeypatch.chdir(other)
    assert opened["ttft_p50_ms"].equals(ds["ttft_p50_ms"])
    replace(path)
    with pytest.raises(InputError, match=r"^a\.zarr: the store was replaced"):
        opened["steps"].load()


def test_a_pickled_dataset_is_read_by_a_process_in_another_folder(ds, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(tmp_path)
    Path("ds.pickle").write_bytes(pickle.dumps(kvsweep.open_results("a.zarr")))
    command = "import pickle, sys; print(int(pickle.load(open(sys.argv[1], 'rb')).steps.sum()))"
    run = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path / "ds.pickle")],
        cwd=other,
        env={**os.environ, "PYTHONPATH": str(Path(kvsweep.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(run.stdout) == ds["steps"].sum()


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("filled", [True, False])
def test_a_store_that_was_deleted_is_told_to_be_gone(tmp_path, path, filled, verify):
    """Of one that was being filled all cells were pending, of a whole one its files damaged."""
    sweep = make_sweep(tmp_path)
    store.prepare(path, sweep, grid.plan(sweep), source_hash())
    if filled:
        kvsweep.run(sweep, out=path, workers=1)
    ds = kvsweep.open_results(path, verify=verify)
    shutil.rmtree(path)
    for name in ("status", "steps"):
        with pytest.raises(InputError, match=r"a\.zarr: the store was moved or deleted since it "):
            ds[name].load()


@pytest.mark.parametrize("verify", [True, False])
def test_a_store_that_is_run_anew_is_told_while_cells_are_missing(ds, path, verify):
    """It was told to be damaged; without comparison cells that are pending were read as numbers."""
    ds = kvsweep.open_results(path, verify=verify)
    before = ds["ttft_p50_ms"].values

    def interrupted(done, total):
        raise KeyboardInterrupt

    sweep = make_sweep(path.parent)
    with pytest.raises(KeyboardInterrupt):
        kvsweep.run(sweep, out=path, workers=1, overwrite=True, progress=interrupted)
    with pytest.raises(InputError, match=REPLACED):
        ds["steps"].load()
    kvsweep.run(sweep, out=path, workers=1)
    assert ds["steps"].min() > 0
    assert np.array_equal(ds["ttft_ms"].isel(quantile=0), before)


@pytest.mark.parametrize("moment", ["damaged", "records"])
def test_a_store_that_is_replaced_while_it_is_opened_is_not_told_to_be_damaged(
    ds, path, monkeypatch, moment
):
    """Its root and its files were of two stores: "cannot reshape array", "damaged: seed/c/0"."""
    where = {"damaged": store.metadata.Root, "records": store.checking.Shards}[moment]
    looks = getattr(where, moment)

    def replaced_before(self, *args):
        monkeypatch.setattr(where, moment, looks)
        replace(path, LARGER)
        return looks(self, *args)

    monkeypatch.setattr(where, moment, replaced_before)
    with pytest.raises(InputError, match=REPLACED):
        kvsweep.open_results(path)
    assert kvsweep.open_results(path).sizes["seed"] == 9


def test_a_shard_that_is_packed_between_two_looks_is_not_damaged(ds, path, monkeypatch):
    """Its record was not there at the first look, and there at the second: "damaged"."""
    store.update_attributes(path, {"complete": 0})
    shards = store.checking.Shards
    record, looked = shards.record, set()

    def late(self, shard):
        if shard in looked:
            return record(self, shard)
        return looked.add(shard)

    monkeypatch.setattr(shards, "record", late)
    monkeypatch.setattr(shards, "records", lambda self: dict.fromkeys(self.sharding.shards))
    found = kvsweep.verify(path, sample=0)
    assert (found.damaged, found.pending) == ((), 0)
    assert (kvsweep.open_results(path)["status"] == "ok").all()


def test_a_store_that_is_replaced_while_it_is_compared_is_not_told_to_be_damaged(
    ds, path, monkeypatch
):
    record = store.checking.Shards.record

    def replaced_before(self, shard):
        monkeypatch.setattr(store.checking.Shards, "record", record)
        replace(path)
        return record(self, shard)

    monkeypatch.setattr(store.checking.Shards, "record", replaced_before)
    with pytest.raises(InputError, match=REPLACED):
        kvsweep.verify(path, sample=0)


@pytest.mark.parametrize("moment", ["damaged", "records", "_opened", "record"])
def test_a_store_that_is_deleted_while_it_is_opened_or_compared_is_told_to_be_gone(
    ds, path, monkeypatch, moment
):
    """It was damaged, to be run again, or "No group found in store <VerifiedStore at 0x7f...>"."""
    shards = store.checking.Shards
    where = {"damaged": store.metadata.Root, "_opened": store.reading}.get(moment, shards)
    looks = getattr(where, moment)

    def deleted_before(*args):
        monkeypatch.setattr(where, moment, looks)
        shutil.rmtree(path)
        return looks(*args)

    monkeypatch.setattr(where, moment, deleted_before)
    look = partial(kvsweep.verify, sample=0) if moment == "record" else kvsweep.open_results
    with pytest.raises(InputError, match=r"a\.zarr: the store was moved or deleted since it "):
        look(path)
