"""A trace that is replaced between two runs: the store is not continued with another."""

import json
import threading

import pytest
from sweeping import make_sweep, stand_in, tree

import kvsweep
from kvsweep.errors import InputError
from kvsweep.grid import plan
from kvsweep.workload.trace_sums import other_trace, trace_sums, unchanged

TEXT = """
title = "trace"
question = "what if?"
workload.trace = "{seed}.csv"
workload.read = { time_unit = "s" }
cluster.instances = 2
latency.beta = [1000, 10, 5]
[grid]
"cache.gpu_blocks" = [100, 110]
seed = { count = 2 }
"""
TRACE = "arrival,prompt_tokens,output_tokens\n0,100,10\n1,50,5\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    stand_in(monkeypatch, 1e-9)
    for seed in range(3):
        (tmp_path / f"{seed}.csv").write_text(TRACE)


@pytest.fixture
def sweep(tmp_path):
    return make_sweep(tmp_path, TEXT)


def run(sweep, **options):
    return kvsweep.run(sweep, out="a.zarr", workers=1, **options)


def test_a_store_notes_its_traces_and_is_continued_with_the_same_ones_only(sweep, tmp_path):
    def stops(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(sweep, progress=stops)
    for thread in threading.enumerate():  # an interrupt does not wait for what they are at
        if thread.name.endswith("(work)"):
            thread.join()
    before = tree(tmp_path / "a.zarr")
    (tmp_path / "1.csv").write_text(TRACE.replace("50,5", "50,6"))
    for options in ({}, {"extend": True}):
        with pytest.raises(InputError, match=r"a\.zarr: made from another 1\.csv: that trace was"):
            run(sweep, **options)
    assert tree(tmp_path / "a.zarr") == before
    (tmp_path / "1.csv").write_text(TRACE)
    noted = json.loads(run(sweep).attrs["traces"])
    assert list(noted) == ["0.csv", "1.csv"]


def test_a_larger_sweep_may_have_more_traces_and_none_that_was_replaced(sweep, tmp_path):
    run(sweep)
    more = make_sweep(tmp_path, TEXT.replace("count = 2", "count = 3"))
    (tmp_path / "0.csv").write_text(TRACE.replace("50,5", "50,6"))
    with pytest.raises(InputError, match=r"made from another 0\.csv"):
        run(more, extend=True)
    (tmp_path / "0.csv").write_text(TRACE)
    assert list(json.loads(run(more, extend=True).attrs["traces"])) == ["0.csv", "1.csv", "2.csv"]


def test_stores_of_other_traces_are_not_merged(sweep, tmp_path):
    for k in (1, 2):
        kvsweep.run(sweep, out=f"{k}.zarr", shard=f"{k}/2", workers=1)
    (tmp_path / "0.csv").write_text(TRACE.replace("50,5", "50,6"))
    with pytest.raises(InputError, match=r"made from another 0\.csv"):
        kvsweep.merge(["1.zarr", "2.zarr"], out="m.zarr")


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (TRACE, ""),
        (TRACE.replace("50,5", "50,6"), "0.csv: has another content there"),
        (None, "0.csv: cannot read: No such file or directory"),
    ],
)
def test_a_machine_is_asked_for_the_traces_of_a_sweep(tmp_path, there, said):
    sums = trace_sums(list(plan(make_sweep(tmp_path, TEXT)).variants), [None, None], [0], tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if there is not None:
        (elsewhere / "0.csv").write_text(there)
    found = other_trace(sums, elsewhere)
    assert found == (f"{elsewhere / said}" if said else "")


@pytest.mark.parametrize("then", [TRACE.replace("50,5", "50,6"), None], ids=["another", "gone"])
def test_a_trace_that_is_replaced_during_a_run_ends_it(sweep, tmp_path, then):
    """Cells of the other trace stood in a store that names the first."""
    kvsweep.run(sweep, out="whole.zarr", workers=1)
    whole = tree(tmp_path / "whole.zarr")
    changed = tmp_path / "1.csv"

    def replaces(done, total):
        if done:
            changed.unlink(missing_ok=True)
            if then is not None:
                changed.write_text(then)

    with pytest.raises(InputError, match=r"1\.csv: (was changed or replaced|cannot read)"):
        run(sweep, progress=replaces)
    assert 0 < (kvsweep.open_results("a.zarr").status == "ok").sum() < 4
    changed.write_text(TRACE)
    run(sweep)
    assert tree(tmp_path / "a.zarr") == whole


def test_a_trace_that_is_replaced_while_it_is_read_is_found(sweep, tmp_path):
    variants, policies = list(plan(sweep).variants), list(plan(sweep).policies)
    sums = trace_sums(variants, policies, [0, 1], tmp_path)
    with unchanged(sums, variants, policies, [0], tmp_path):
        (tmp_path / "1.csv").write_text("of another seed")
    with (
        pytest.raises(InputError, match=r"0\.csv: was changed or replaced since this run began"),
        unchanged(sums, variants, policies, [0], tmp_path),
    ):
        (tmp_path / "0.csv").write_text(TRACE.replace("50,5", "50,6"))


def test_cells_of_a_trace_that_was_replaced_are_not_simulated_again(tmp_path, monkeypatch):
    """They differ, and nothing is wrong with the store."""
    sweep = make_sweep(tmp_path, TEXT)
    run(sweep)
    (tmp_path / "sweeps").mkdir()
    assert kvsweep.verify("a.zarr", sample=4).not_simulated == ""
    for seed in range(2):
        (tmp_path / f"{seed}.csv").write_text(TRACE.replace("50,5", "50,6"))
    found = kvsweep.verify("a.zarr", sample=4)
    assert (found.simulated, found.different, found.ok) == ((), (), True)
    assert found.not_simulated.startswith(
        "it was made from another 0.csv: that trace was changed or replaced since; --folder, "
    )
    for seed in range(2):  # where the sweep file is
        (tmp_path / "sweeps" / f"{seed}.csv").write_text(TRACE)
    assert kvsweep.verify("a.zarr", sample=4).not_simulated == ""


def test_the_trace_of_lengths_is_the_file_of_that_very_name(tmp_path):
    """Of `{seed}.csv` it was read, and 0.csv compared: another was not told from it."""
    (tmp_path / "{seed}.csv").write_text(TRACE)
    text = TEXT.replace("workload.trace", "workload.requests = 4\nworkload.lengths_from")
    sweep = make_sweep(tmp_path, text)
    assert list(json.loads(run(sweep).attrs["traces"])) == ["{seed}.csv"]
    (tmp_path / "{seed}.csv").write_text(TRACE.replace("50,5", "50,6"))
    with pytest.raises(InputError, match=r"a\.zarr: made from another \{seed\}\.csv: that trace"):
        run(sweep)
