"""Several runs that fill a store, each its share: the store is that of one run, to the byte."""

import os
from collections import Counter
from pathlib import Path

import pytest
from disturbing import GO_ON, comes_to, start
from hypothesis import given
from hypothesis import strategies as st
from longer import long_but
from stores import written
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
from kvsweep.cli import main
from kvsweep.errors import InputError
from kvsweep.store import Share, lock

TEXT = BASE + GRID + CLIFF


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    stand_in(monkeypatch)


@pytest.fixture
def sweep(tmp_path):
    return make_sweep(tmp_path, TEXT)


@pytest.fixture
def whole():
    """The store of a run without shares."""
    return written(TEXT)


def run(sweep, shard, out="a.zarr", **options):
    return kvsweep.run(sweep, out=out, shard=shard, workers=1, **options)


def hidden():
    return sorted(path.name for path in Path().iterdir() if path.name.startswith("."))


@given(st.integers(1, 60), st.integers(1, 300))
def test_each_task_is_in_one_share_and_shares_are_even(shares, tasks):
    owners = [
        k for task in range(tasks) for k in range(1, shares + 1) if Share(k, shares).has(task)
    ]
    assert len(owners) == tasks
    counts = Counter(owners)
    sizes = [counts[k] for k in range(1, shares + 1)]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(2, 12))
def test_no_share_has_the_same_place_in_all_rows_of_tasks(shares):
    """Where each row of tasks goes from the smallest cache to the largest, say."""
    for k in range(1, shares + 1):
        places = {task % shares for task in range(shares**2) if Share(k, shares).has(task)}
        assert places == set(range(shares))


@pytest.mark.long
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_shares_one_after_the_other_give_the_store_of_one_run(sweep, whole, order):
    for number in order:
        ds = run(sweep, f"{number}/3")
        assert ds.attrs["complete"] == (number == order[-1])
        assert ds.identical(kvsweep.open_results("a.zarr"))
    assert tree(Path("a.zarr")) == whole
    assert hidden() == []


def test_a_share_packs_nothing_and_says_what_is_pending(sweep):
    ds = run(sweep, "1/2")
    assert Counter(ds["status"].values.ravel()) == {"ok": 42, "pending": 42}
    assert not list(Path("a.zarr/steps/c").rglob("*"))


def test_a_share_that_is_done_has_nothing_to_do(sweep, monkeypatch):
    run(sweep, "1/2")
    before = tree(Path("a.zarr"))
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", None)
    run(sweep, "1/2")
    assert tree(Path("a.zarr")) == before


def test_progress_counts_the_cells_of_the_share(sweep):
    seen = []
    run(sweep, "2/4", progress=lambda done, total: seen.append((done, total)))
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] < 42


@pytest.mark.parametrize("first", ["1/3", "2/5"])
def test_a_run_without_shares_goes_on_with_what_shares_left(sweep, whole, first):
    run(sweep, first)
    kvsweep.run(sweep, out="a.zarr", workers=2)
    assert tree(Path("a.zarr")) == whole


def test_shares_go_on_with_what_a_run_left(sweep, whole):
    def stop(done, total):
        if done > 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kvsweep.run(sweep, out="a.zarr", workers=1, progress=stop)
    run(sweep, "1/2")
    run(sweep, "2/2")
    assert tree(Path("a.zarr")) == whole


def test_shares_mend_a_complete_store(sweep, whole):
    kvsweep.run(sweep, out="a.zarr", workers=1)
    file = next(f for f in sorted(Path("a.zarr/steps/c").rglob("*")) if f.is_file())
    file.write_bytes(b"\0" + file.read_bytes()[1:])
    run(sweep, "1/2")
    run(sweep, "2/2")
    assert tree(Path("a.zarr")) == whole


def test_cells_that_failed_are_no_reason_to_wait_for_others(sweep, whole, monkeypatch):
    def fails(variants, seeds, **options):
        if 3 in seeds:
            raise RuntimeError("lost")
        return fake_batch(variants, seeds, **options)

    with monkeypatch.context() as patch:
        patch.setattr("kvsweep.simulate.simulate_batch", fails)
        run(sweep, "1/2")
        ds = run(sweep, "2/2")
    assert ds.attrs["complete"]
    assert set(ds["status"].sel(seed=3).values.ravel()) == {"failed"}
    run(sweep, "1/2")
    run(sweep, "2/2")
    assert tree(Path("a.zarr")) == whole


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ("0/4", "shard: 0/4: shards of 4 have the numbers 1 to 4"),
        ("5/4", "shard: 5/4: shards of 4 have the numbers 1 to 4"),
        ("1/0", "shard: 1/0: of at least 1 shard"),
        ("a/b", "shard: expected K/N, such as 2/4, got 'a/b'"),
        ("2", "shard: expected K/N, such as 2/4, got '2'"),
        ("1/2/3", "shard: expected K/N"),
        ("1.0/2", "shard: expected K/N"),
        ("1/99999999999999999999", "shard: expected K/N"),
        ("1/1000", r"shard: 1/1000: the sweep has \d+ tasks, which are at most \d+ shards"),
        (2, "shard: expected a string, got 2"),
    ],
)
def test_what_is_no_share_is_told(sweep, shard, message):
    with pytest.raises(InputError, match=f"^{message}"):
        run(sweep, shard)
    assert not Path("a.zarr").exists()


def test_one_task_is_one_share():
    with pytest.raises(InputError, match=r"the sweep has 1 task, which is at most 1 shard$"):
        Share(1, 2).check(1)


def test_a_share_does_not_delete_what_others_did(sweep):
    run(sweep, "1/2")
    before = tree(Path("a.zarr"))
    with pytest.raises(InputError, match="shard: cannot be used with overwrite=True"):
        run(sweep, "2/2", overwrite=True)
    assert tree(Path("a.zarr")) == before


def test_a_share_of_another_sweep_is_refused(sweep, tmp_path):
    run(sweep, "1/2")
    before = tree(Path("a.zarr"))
    other = make_sweep(tmp_path, TEXT.replace("requests = 20", "requests = 21"))
    with pytest.raises(InputError, match=r"made from another sweep: scenario\.workload\.requests"):
        run(other, "2/2")
    assert tree(Path("a.zarr")) == before


# Real processes at once, and signals.


def run_share(*more, **options):
    """Start the command of a share, or of all."""
    return start("grid", "small.toml", "--out", "a.zarr", "--workers", "1", *more, **options)


def go_on_with(capsys, number):
    """Run the command of a share in this process; return its exit code and stdout."""
    options = ("--out", "a.zarr", "--workers", "1", "--shard", f"{number}/2")
    with pytest.raises(SystemExit) as ended:
        main(("grid", "small.toml", *options))
    return ended.value.code or 0, capsys.readouterr().out


@pytest.fixture(scope="module")
def of_command(tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    file = write_sweep(folder, TEXT)
    with pytest.MonkeyPatch.context() as patch:
        stand_in(patch)
        with pytest.raises(SystemExit):
            main(("grid", str(file), "--out", f"{folder}/a.zarr"))
    return tree(folder / "a.zarr")


@pytest.fixture
def by_command(of_command, tmp_path):
    """The store of a command without shares, with what it finds at its end."""
    write_sweep(tmp_path, TEXT)
    return of_command


@pytest.mark.slow
@pytest.mark.parametrize("shares", long_but([2, 4]))
def test_processes_at_once_fill_one_store(by_command, shares):
    processes = [run_share("--shard", f"{k}/{shares}", batches=1) for k in range(1, shares + 1)]
    comes_to(shares, processes[0])  # all are at it
    GO_ON.touch()
    ended = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * shares
    assert tree(Path("a.zarr")) == by_command
    assert sum("passes 0.5 at 132.5 blocks" in out for out, _ in ended) >= 1
    assert hidden() == []


@pytest.mark.slow
@pytest.mark.parametrize("parts_done", long_but([1, 4]))
def test_a_share_that_is_killed_goes_on(by_command, capsys, parts_done):
    with run_share("--shard", "2/2", batches=parts_done) as process:
        comes_to(parts_done, process)
        process.kill()
    code, out = go_on_with(capsys, 1)
    assert (code, "pending" in out) == (0, True)
    code, out = go_on_with(capsys, 2)
    assert (code, "a.zarr: 84 ok" in out) == (0, True)
    assert tree(Path("a.zarr")) == by_command
    assert hidden() == []


@pytest.mark.slow
@pytest.mark.long
def test_shares_and_a_run_without_are_kept_apart_and_the_same_share_too(by_command, sweep, capsys):
    with run_share("--shard", "1/2", batches=1) as process:
        comes_to(1, process)
        for how in ({}, {"overwrite": True}, {"shard": "1/2"}):
            with pytest.raises(InputError, match=rf"a\.zarr: process {process.pid} on ") as told:
                kvsweep.run(sweep, out="a.zarr", workers=1, **how)
            assert "\n" not in str(told.value)
        process.kill()
    for number in (1, 2):
        assert go_on_with(capsys, number)[0] == 0
    assert tree(Path("a.zarr")) == by_command


def test_without_locks_each_share_needs_a_store_of_its_own(sweep, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    with lock.locked(Path("a.zarr"), shared=True):
        monkeypatch.setattr("kvsweep.store.sharing.PATIENCE", 0.1)
        with pytest.raises(InputError, match=f"process {os.getpid()} on .*name another store"):
            run(sweep, "2/2")
    run(sweep, "1/2")
    run(sweep, "2/2")
    assert hidden() == []
