"""Stores of shares put together: the store of one run to the byte, or a refusal in one line."""

import json
import re
from pathlib import Path

import pytest
from disturbing import comes_to, start
from longer import long_but
from stores import write_store, written
from sweeping import (
    BASE,
    CLIFF,
    GRID,
    fake_batch,
    make_sweep,
    stand_in,
    tree,
    write_sweep,
)

import kvsweep
from kvsweep import grid
from kvsweep.cli import main
from kvsweep.errors import InputError

TEXT = BASE + GRID + CLIFF
PARETO = '[pareto]\nobjectives = ["steps:min", "preemption_rate:min"]\n'


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    stand_in(monkeypatch)


@pytest.fixture
def sweep(tmp_path):
    return make_sweep(tmp_path, TEXT)


def shares(count, text=TEXT, **options):
    """Write what runs of all shares do, each into a store of its own; return the stores."""
    stores = [f"{k}.zarr" for k in range(1, count + 1)]
    for k, store in enumerate(stores, 1):
        write_store(store, text, shard=f"{k}/{count}", **options)
    return stores


def run_shares(sweep):
    """Run two shares of a sweep of a trace, each into a store of its own; return the stores."""
    for k in (1, 2):
        kvsweep.run(sweep, out=f"{k}.zarr", shard=f"{k}/2", workers=1)
    return ["1.zarr", "2.zarr"]


def whole(text=TEXT, **options):
    write_store("whole.zarr", text, **options)
    return written(text, **options)


@pytest.mark.parametrize("count", long_but([1, 2, 5], 5))
def test_merged_shares_are_the_store_of_one_run(count):
    stores = shares(count)
    before = [tree(Path(store)) for store in stores]
    ds = kvsweep.merge(stores[::-1], out="merged.zarr")
    assert ds.identical(kvsweep.open_results("merged.zarr"))
    assert tree(Path("merged.zarr")) == whole()
    assert [tree(Path(store)) for store in stores] == before


@pytest.mark.parametrize(
    "options", long_but([{"keep_requests": True}, {"prune": False}], {"keep_requests": True})
)
def test_what_options_store_is_merged(options):
    kvsweep.merge(shares(2, **options), out="merged.zarr")
    assert tree(Path("merged.zarr")) == whole(**options)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TEXT + PARETO, marks=pytest.mark.long),
        BASE + "[grid]\nseed = [7, 8, 9]\n",
        TEXT.replace("[grid]", "[policies.short]\nengine.max_num_seqs = 4\n[grid]").replace(
            '"least-loaded"', '"short"'
        ),
    ],
)
def test_the_sweep_is_restored_whole(monkeypatch, text):
    monkeypatch.setattr(grid, "CHUNK_SECONDS", (1e-5, 1e-5))
    kvsweep.merge(shares(2, text), out="merged.zarr")
    assert tree(Path("merged.zarr")) == whole(text)


def test_complete_stores_and_those_cut_short_are_merged_too(sweep):
    def stop(done, total):
        if done > 30:
            raise KeyboardInterrupt

    expected = whole()
    with pytest.raises(KeyboardInterrupt):
        kvsweep.run(sweep, out="cut.zarr", workers=1, progress=stop)
    kvsweep.merge(["cut.zarr", "whole.zarr"], out="merged.zarr")
    assert tree(Path("merged.zarr")) == expected


def test_a_merge_that_was_cut_short_goes_on(monkeypatch):
    stores = shares(2)
    accept, calls = kvsweep.store.Store.accept, []

    def dies(self, *args):
        if len(calls) == 5:
            raise KeyboardInterrupt
        calls.append(accept(self, *args))

    with monkeypatch.context() as patch:
        patch.setattr("kvsweep.store.Store.accept", dies)
        with pytest.raises(KeyboardInterrupt):
            kvsweep.merge(stores, out="merged.zarr")
    assert (kvsweep.open_results("merged.zarr")["status"] == "pending").any()
    kvsweep.merge(stores, out="merged.zarr")
    assert tree(Path("merged.zarr")) == whole()


def test_missing_tasks_are_named_and_how_to_run_them():
    shares(3)
    with pytest.raises(InputError, match=r"tasks are in none of the stores \(tasks 1, ") as told:
        kvsweep.merge(["1.zarr", "3.zarr"], out="merged.zarr")
    assert "`kvsweep grid SWEEP.toml --shard 2/3 --out STORE` simulates them" in str(told.value)
    assert not Path("merged.zarr").exists()


def test_of_many_missing_shares_some_are_named():
    shares(8)
    for given, more in (("34", "and 1 more shard sim"), ("3", "and 2 more shards sim")):
        with pytest.raises(InputError, match=more):
            kvsweep.merge([f"{k}.zarr" for k in given], out="merged.zarr")


def test_a_share_that_was_cut_short_is_named_with_its_store():
    shares(3)
    next(f for f in sorted(Path("2.zarr/status/parts").iterdir()) if f.name.isdecimal()).unlink()
    with pytest.raises(InputError, match=r"1 of \d+ tasks .* --shard 2/3 --out 2\.zarr` simul"):
        kvsweep.merge(["1.zarr", "2.zarr", "3.zarr"], out="merged.zarr")


def test_damaged_tasks_are_taken_from_other_stores_or_missing():
    shares(2)
    part = next(f for f in sorted(Path("2.zarr/status/parts").iterdir()) if f.name.isdecimal())
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"1 of \d+ tasks are in none"):
        kvsweep.merge(["1.zarr", "2.zarr"], out="merged.zarr")
    expected, told = whole(), []
    kvsweep.merge(["1.zarr", "2.zarr", "whole.zarr"], out="merged.zarr", notify=told.append)
    assert tree(Path("merged.zarr")) == expected
    assert told == [f"2.zarr: damaged: status/parts/{part.name}; taken from the others"]


def test_a_task_that_differs_is_refused(sweep, monkeypatch):
    def other(*args, **options):
        results = fake_batch(*args, **options)
        results["steps"] += 1
        return results

    shares(2)
    with monkeypatch.context() as patch:
        patch.setattr("kvsweep.simulate.simulate_batch", other)
        kvsweep.run(sweep, out="other.zarr", shard="1/3", workers=1)
    with pytest.raises(InputError, match=r"other\.zarr: task 0 is another than in 1\.zarr"):
        kvsweep.merge(["1.zarr", "2.zarr", "other.zarr"], out="merged.zarr")
    assert not Path("merged.zarr").exists()


def test_a_task_that_failed_gives_way_to_one_that_did_not(sweep, monkeypatch):
    def fails(*args, **options):
        raise RuntimeError("lost")

    stores = shares(2)
    with monkeypatch.context() as patch:
        patch.setattr("kvsweep.simulate.simulate_batch", fails)
        kvsweep.run(sweep, out="failed.zarr", shard="1/2", workers=1)
    kvsweep.merge(["failed.zarr", *stores], out="merged.zarr")
    assert tree(Path("merged.zarr")) == whole()
    ds = kvsweep.merge(["failed.zarr", "2.zarr"], out="m.zarr")
    assert set(ds["status"].values.ravel()) == {"ok", "failed"}


OTHERS = {
    "a value": (("requests = 20", "requests = 21"), {}, r"workload\.requests is 21 in b\.zarr, 20"),
    "seeds": (("count = 6", "count = 7"), {}, r"grid\.seed has 7 values in b\.zarr, 6 in 1\.zarr"),
    "requests": (("", ""), {"keep_requests": True}, "made with keep_requests=True"),
    "pruning": (("", ""), {"prune": False}, "made without pruning"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_stores_of_other_sweeps_are_refused_naming_what_differs(tmp_path, case):
    (old, new), options, message = OTHERS[case]
    shares(2)
    other = make_sweep(tmp_path, TEXT.replace(old, new) if old else TEXT)
    kvsweep.run(other, out="b.zarr", shard="2/2", workers=1, **options)
    with pytest.raises(InputError, match=r"b\.zarr: cannot be merged with 1\.zarr: ") as told:
        kvsweep.merge(["1.zarr", "b.zarr"], out="merged.zarr")
    assert re.search(message, str(told.value))
    assert "\n" not in str(told.value)


def test_stores_of_other_sources_are_refused(sweep, monkeypatch):
    shares(2)
    with monkeypatch.context() as patch:
        patch.setattr("kvsweep.simulate.source_hash", lambda: "0123")
        kvsweep.run(sweep, out="b.zarr", shard="2/2", workers=1)
        with pytest.raises(InputError, match=r"1\.zarr: it was made by other sources of the simul"):
            kvsweep.merge(["1.zarr", "2.zarr"], out="merged.zarr")
    with pytest.raises(InputError, match=r"b\.zarr: cannot be merged with 1\.zarr: made by other"):
        kvsweep.merge(["1.zarr", "b.zarr"], out="merged.zarr")


@pytest.mark.parametrize("file", ["zarr.json", "steps/zarr.json"])
def test_damaged_metadata_are_refused(file):
    shares(2)
    path = Path("2.zarr", file)
    path.write_bytes(path.read_bytes().replace(b"int", b"tin", 1))
    with pytest.raises(InputError, match=r"2\.zarr: .*damaged"):
        kvsweep.merge(["1.zarr", "2.zarr"], out="merged.zarr")


def test_traces_are_found_in_the_folder_that_is_named(tmp_path):
    (tmp_path / "far").mkdir()
    line = {"timestamp": 5, "input_length": 600, "output_length": 9, "hash_ids": [1, 2]}
    (tmp_path / "far/t.jsonl").write_text(f"{json.dumps(line)}\n" * 20)
    text = TEXT.replace("requests = 20", 'trace = "t.jsonl"')
    sweep = make_sweep(tmp_path / "far", text)
    stores = run_shares(sweep)
    with pytest.raises(InputError, match=r"t\.jsonl.*; folder names the folder of the sweep file"):
        kvsweep.merge(stores, out="merged.zarr")
    kvsweep.merge(stores, out="merged.zarr", folder="far")
    kvsweep.run(sweep, out="whole.zarr", workers=1)
    assert tree(Path("merged.zarr")) == tree(Path("whole.zarr"))


def test_a_refusal_leaves_what_was_to_be_overwritten(tmp_path):
    """Also one for a trace that has changed, which is known only when it is read."""
    line = {"timestamp": 5, "input_length": 600, "output_length": 9, "hash_ids": [1, 2]}
    (tmp_path / "t.jsonl").write_text(f"{json.dumps(line)}\n" * 20)
    stores = run_shares(make_sweep(tmp_path, TEXT.replace("requests = 20", 'trace = "t.jsonl"')))
    kvsweep.merge(stores, out="merged.zarr")
    before = tree(Path("merged.zarr"))
    (tmp_path / "t.jsonl").write_text(f"{json.dumps(line)}\n" * 21)
    with pytest.raises(InputError, match=r"1\.zarr: made from another t\.jsonl.*; merge with the"):
        kvsweep.merge(stores, out="merged.zarr", overwrite=True)
    assert tree(Path("merged.zarr")) == before


@pytest.mark.parametrize("out", ["2.zarr", "./2.zarr", "link.zarr", "2.zarr/steps", "."])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_store_that_is_read_is_not_replaced(out, overwrite):
    stores = shares(2)
    Path("link.zarr").symlink_to("2.zarr")
    before = tree(Path("2.zarr"))
    with pytest.raises(InputError):
        kvsweep.merge(stores, out=out, overwrite=overwrite)
    assert tree(Path("2.zarr")) == before


# The command.


@pytest.mark.slow
@pytest.mark.long
def test_shares_of_processes_one_of_them_killed_are_merged_by_command(tmp_path):
    write_sweep(tmp_path, TEXT)
    with start("grid", "small.toml", "--out", "whole.zarr") as process:
        out = process.communicate(timeout=60)[0].replace("whole", "merged")
    shared = ("grid", "small.toml", "--shard")
    with start(*shared, "1/2", "--out", "1.zarr") as first:
        with start(*shared, "2/2", "--out", "2.zarr", batches=1) as second:
            comes_to(1, second, "2.zarr")
            second.kill()
        first.communicate(timeout=60)
    with start("merge", "1.zarr", "2.zarr", "-o", "merged.zarr") as process:
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told.count("\n")) == (2, 1)
    assert "`kvsweep grid SWEEP.toml --shard 2/2 --out 2.zarr` simulates" in told
    with start(*shared, "2/2", "--out", "2.zarr") as process:
        process.communicate(timeout=60)
    with start("merge", "1.zarr", "2.zarr", "-o", "merged.zarr") as process:
        assert process.communicate(timeout=60)[0] == out
    assert tree(Path("merged.zarr")) == tree(Path("whole.zarr"))


def call(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code or 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("merge",), "Missing argument", marks=pytest.mark.long),
        pytest.param(("merge", "1.zarr"), "Missing option", marks=pytest.mark.long),
        (("merge", "none.zarr", "-o", "m.zarr"), "none.zarr: no such store"),
        pytest.param(
            ("merge", "small.toml", "-o", "m.zarr"), "small.toml: ", marks=pytest.mark.long
        ),
        (("merge", "1.zarr", "-o", "1.zarr"), "--out 1.zarr: would replace 1.zarr, which is read"),
        pytest.param(
            ("merge", "1.zarr", "-o", "nope://b/m.zarr"),
            "kvsweep: nope://b/m.zarr: no protocol",
            marks=pytest.mark.long,
        ),
    ],
)
def test_bad_usage_is_told_in_one_line(capsys, arguments, message):
    shares(1)
    before = tree(Path("1.zarr"))
    assert call(*arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert tree(Path("1.zarr")) == before
    assert not Path("m.zarr").exists()


def test_another_store_is_not_overwritten_unless_told(sweep, tmp_path, capsys):
    stores = shares(2)
    other = make_sweep(tmp_path, TEXT.replace("requests = 20", "requests = 21"))
    kvsweep.run(other, out="m.zarr", workers=1)
    before = tree(Path("m.zarr"))
    assert call("merge", *stores, "-o", "m.zarr") == 2
    assert "m.zarr: made from another sweep: " in capsys.readouterr().err
    assert tree(Path("m.zarr")) == before
    assert call("merge", *stores, "-o", "m.zarr", "--overwrite") == 0
    assert kvsweep.open_results("m.zarr").identical(kvsweep.run(sweep, out="m.zarr", workers=1))


def test_what_is_at_out_must_be_the_same_too(sweep, monkeypatch):
    """It was kept without a word, as if the stores had been put together."""
    stores = shares(2)
    kvsweep.merge(stores, out="merged.zarr")
    before = tree(Path("merged.zarr"))
    assert kvsweep.merge(stores, out="merged.zarr").attrs["complete"]

    def other_batch(*given, **options):
        results = fake_batch(*given, **options)
        return results | {"steps": results["steps"] + 1}

    monkeypatch.setattr("kvsweep.simulate.simulate_batch", other_batch)
    kvsweep.run(sweep, out="other.zarr", workers=1)
    with pytest.raises(InputError, match=r"merged\.zarr: task 0 is another than in other\.zarr"):
        kvsweep.merge(["other.zarr"], out="merged.zarr")
    assert tree(Path("merged.zarr")) == before
    kvsweep.merge(["other.zarr"], out="merged.zarr", overwrite=True)
    assert tree(Path("merged.zarr")) == tree(Path("other.zarr"))


def test_a_folder_for_traces_that_is_none_is_refused():
    """It was taken without a word where no file is read of it."""
    stores = shares(2)
    with pytest.raises(InputError, match="folder: 'nope' is no folder"):
        kvsweep.merge(stores, out="merged.zarr", folder="nope")
    assert not Path("merged.zarr").exists()
