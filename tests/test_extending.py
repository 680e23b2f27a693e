"""A store that goes on with more seeds or values: to the byte what one run of the larger gives."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from disturbing import comes_to, start
from longer import long_but
from stores import write_store
from sweeping import BASE, CLIFF, GRID, fake_batch, make_sweep, tree, write_sweep

import kvsweep
from kvsweep import grid, simulate
from kvsweep.enlarging import extension
from kvsweep.errors import InputError
from kvsweep.policies import Status
from kvsweep.store import Source
from kvsweep.workers.job import Job

TEXT = BASE + GRID + CLIFF
REAL = simulate.simulate_batch
POLICIES = (
    "[policies.short]\nengine.max_num_seqs = 4\n[policies.small]\ncache.block_size = 32\n[grid]"
)


class Simulator:
    """A stand-in that counts the cells that it is asked for."""

    def __init__(self, batch=fake_batch):
        self.cells = 0
        self.batch = batch

    def __call__(self, variants, seeds, **options):
        self.cells += len(variants) * len(seeds)
        return self.batch(variants, seeds, **options)


@pytest.fixture(autouse=True)
def simulator(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    simulator = Simulator()
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", simulator)
    monkeypatch.setattr("kvsweep.simulate.warm_up", lambda *_: None)
    monkeypatch.setattr(grid, "CHUNK_SECONDS", (2e-4, 2e-4))
    return simulator


def hidden():
    return sorted(path.name for path in Path().iterdir() if path.name.startswith("."))


def text(*changes):
    found = TEXT
    for old, new in changes:
        assert old in found
        found = found.replace(old, new)
    return found


SEEDS = ("count = 6", "count = 9")
MORE = {
    "seeds": [SEEDS],
    "seeds before": [("seed = { count = 6 }", "seed = [9, 0, 8, 1, 2, 3, 4, 5]")],
    "larger values": [("stop = 160", "stop = 190")],
    "smaller values": [("start = 100", "start = 80")],
    "values between": [("step = 10", "step = 5")],
    "policies": [('"least-loaded"]', '"least-loaded", "always-busiest"]')],
    "an axis": [("seed = {", '"engine.max_num_seqs" = [64, 256]\nseed = {')],
    "everything": [
        SEEDS,
        ("stop = 160", "stop = 170"),
        ("seed = {", '"engine.max_num_seqs" = [64, 256]\nseed = {'),
    ],
    "title": [SEEDS, ('"small"', '"large"'), ("threshold = 0.5", "threshold = 0.4")],
}


def run_alone(path, text, **options):
    kvsweep.run(make_sweep(Path().absolute(), text), out=path, workers=1, **options)


def both(tmp_path, changes, make=write_store, **options):
    """Run the small sweep, then extend it; run the large one alone. Return both stores."""
    make("a.zarr", TEXT, **options)
    large = make_sweep(tmp_path, text(*changes))
    simulate.simulate_batch.cells = 0
    ds = kvsweep.run(large, out="a.zarr", extend=True, workers=2, **options)
    cells = simulate.simulate_batch.cells
    assert ds.identical(kvsweep.open_results("a.zarr"))
    make("whole.zarr", text(*changes), **options)
    return tree(Path("a.zarr")), tree(Path("whole.zarr")), cells, ds["status"].size


@pytest.mark.parametrize("case", long_but(MORE, "everything", "title"))
def test_an_extended_store_is_that_of_one_run_of_the_larger_sweep(tmp_path, case):
    extended, whole, cells, size = both(tmp_path, MORE[case])
    assert extended == whole
    assert size - 84 <= cells <= size  # more than the new ones where others are copied from these
    assert hidden() == []


def test_only_new_seeds_are_simulated(tmp_path):
    assert both(tmp_path, MORE["seeds"])[2] == 14 * 3


@pytest.mark.long
@pytest.mark.parametrize("case", MORE)
def test_without_pruning_only_new_cells_are_simulated(tmp_path, case):
    extended, whole, cells, size = both(tmp_path, MORE[case], prune=False)
    assert extended == whole
    assert cells == size - 84


@pytest.mark.parametrize("case", long_but(["seeds", "larger values"], "seeds"))
def test_columns_of_requests_are_taken_over(tmp_path, case):
    extended, whole, _, _ = both(tmp_path, MORE[case], keep_requests=True)
    assert extended == whole


@pytest.mark.long
def test_texts_of_cells_are_taken_over_with_their_places(tmp_path, simulator):
    def remarks(variants, seeds, **options):
        results = fake_batch(variants, seeds, **options)
        for s in np.flatnonzero(np.isin(seeds, (3, 7))):
            results["status"][:, s] = Status.LIVELOCK
            results["status_detail"][:, s] = f"repeats with seed {seeds[s]}"
        return results

    simulator.batch = remarks
    extended, whole, cells, _ = both(tmp_path, [*MORE["seeds"], *MORE["an axis"]], run_alone)
    assert extended == whole
    assert cells < 2 * 14 * 9


REAL_SWEEP = """
title = "real"
[workload]
requests = 30
rate = 20.0
[workload.output]
dist = "constant"
value = 64
[latency]
model = "llama-3.1-8b/h100/tp2"
[grid]
"cache.gpu_blocks" = [40, 4000, 8000, 20000]
seed = { count = 3 }
"""
# Values that come before, between and after those that are there, in the kernel's own order.
REAL_MORE = [
    ("count = 3", "count = 5"),
    ("[40, 4000,", "[60, 40, 4000, 6000,"),
    ("20000]", '20000]\n"cluster.instances" = [1, 2]'),
]


@pytest.mark.parametrize("seconds", long_but([2e-4, 1e-4, 1e-2], 2e-4))
def test_what_the_kernel_copies_from_smaller_pools_is_the_same(tmp_path, monkeypatch, seconds):
    """Whatever the tasks: `pruned` tells of each cell how it came about."""
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", REAL)
    monkeypatch.setattr(grid, "CHUNK_SECONDS", (seconds, seconds))
    large = REAL_SWEEP
    kvsweep.run(make_sweep(tmp_path, REAL_SWEEP), out="a.zarr", workers=1)
    for number, (old, new) in enumerate(REAL_MORE):
        large = large.replace(old, new)
        sweep = make_sweep(tmp_path, large)
        kvsweep.run(sweep, out="a.zarr", extend=True, workers=1)
        ds = kvsweep.run(sweep, out=f"{number}.zarr", workers=1)
        assert tree(Path("a.zarr")) == tree(Path(f"{number}.zarr"))
        assert (ds["pruned"].values == 1).any()


@pytest.mark.parametrize("case", long_but(["everything", "values between"], "values between"))
def test_a_job_for_some_tasks_has_their_variants_alone_and_takes_over_the_same(
    tmp_path, simulator, monkeypatch, case
):
    monkeypatch.setattr(grid, "CHUNK_SECONDS", (4e-5, 4e-5))
    write_store("a.zarr", TEXT)
    sweep = make_sweep(tmp_path, text(*MORE[case]))
    cells = grid.plan(sweep)
    known = extension(Path("a.zarr"), sweep, cells, keep_requests=False, prune=True)
    whole = Job("a", cells, sweep.entropy, tmp_path, False, True, known=known)
    simulated = []
    for task in cells.tasks:
        some = pickle.loads(pickle.dumps(whole.only(task)))
        simulator.cells = 0
        found, expected = some.simulate(task), whole.simulate(task)
        simulated.append(simulator.cells)
        np.testing.assert_equal(found, expected)
        for layout in (some.known.new, some.known.old):
            assert None in layout.cells.variants
    assert sum(simulated) < 2 * cells.cells


def test_a_smaller_or_other_sweep_is_refused_and_the_store_kept(tmp_path):
    write_store("a.zarr", TEXT)
    before = tree(Path("a.zarr"))
    for change, message in (
        (("count = 6", "count = 4"), r"grid\.seed has 6 values in the store, 4 in the sweep"),
        (("step = 10", "step = 20"), r"grid\.cache\.gpu_blocks has 7 values in the store, 4"),
        (("requests = 20", "requests = 21"), r"workload\.requests is 20 in the store, 21"),
    ):
        sweep = make_sweep(tmp_path, text(change))
        with pytest.raises(InputError, match=r"a\.zarr: cannot be extended: .*" + message) as told:
            kvsweep.run(sweep, out="a.zarr", extend=True)
        assert "out names another store" in str(told.value)
        assert tree(Path("a.zarr")) == before
        assert hidden() == []


def test_without_the_option_the_store_is_refused_and_the_option_named(tmp_path):
    write_store("a.zarr", TEXT)
    with pytest.raises(
        InputError, match=r"grid\.seed has 6 values .*; extend=True keeps its cells, "
    ):
        kvsweep.run(make_sweep(tmp_path, text(SEEDS)), out="a.zarr")


def drawn(method, samples):
    design = f"[design]\nmethod = '{method}'\nsamples = {samples}\n"
    ranges = "'workload.rate' = { from = 10.0, to = 90.0 }\n"
    return BASE + "[cache]\ngpu_blocks = 100\n" + design + ranges + "[grid]\nseed = [0, 1]\n"


@pytest.mark.parametrize(("method", "points"), [("sobol", 1), ("saltelli", 3)])
def test_designs_of_which_points_stay_are_extended(tmp_path, method, points):
    kvsweep.run(make_sweep(tmp_path, drawn(method, 2)), out="a.zarr", workers=1)
    larger = make_sweep(tmp_path, drawn(method, 4))
    with pytest.raises(InputError, match="extend=True keeps its cells"):
        kvsweep.run(larger, out="a.zarr")
    assert kvsweep.run(larger, out="a.zarr", extend=True).sizes["sample"] == 4 * points


def test_a_latin_hypercube_of_more_points_is_another_design_and_says_so(tmp_path):
    kvsweep.run(make_sweep(tmp_path, drawn("latin-hypercube", 5)), out="a.zarr", workers=1)
    larger = make_sweep(tmp_path, drawn("latin-hypercube", 6))
    said = r"design\.samples is 5 in the store, 6 in the sweep: no point of a latin-hypercube stays"
    with pytest.raises(InputError, match=said) as told:
        kvsweep.run(larger, out="a.zarr")
    assert "extend=True" not in str(told.value)
    with pytest.raises(InputError, match=said):
        kvsweep.run(larger, out="a.zarr", extend=True)


def test_the_option_is_not_named_where_the_sweep_lacks_values_of_the_store(tmp_path):
    write_store("a.zarr", TEXT)
    with pytest.raises(InputError, match=r"grid\.seed has 6 values") as told:
        kvsweep.run(make_sweep(tmp_path, text(("count = 6", "count = 4"))), out="a.zarr")
    assert "extend=True" not in str(told.value)


def test_numbers_of_other_sources_are_not_taken_over(tmp_path, monkeypatch):
    write_store("a.zarr", TEXT)
    monkeypatch.setattr("kvsweep.simulate.source_hash", lambda: "0123")
    with pytest.raises(InputError, match=r"made by other sources .* so it cannot be extended"):
        kvsweep.run(make_sweep(tmp_path, text(SEEDS)), out="a.zarr", extend=True)


@pytest.mark.parametrize("other", [{"overwrite": True}, {"shard": "1/2"}])
def test_options_that_exclude_each_other_are_told(tmp_path, other):
    with pytest.raises(InputError, match="cannot be used with "):
        kvsweep.run(make_sweep(tmp_path, TEXT), out="a.zarr", extend=True, **other)


def test_to_extend_nothing_is_a_run(tmp_path, simulator):
    sweep = make_sweep(tmp_path, TEXT)
    kvsweep.run(sweep, out="a.zarr", extend=True, workers=1)
    assert simulator.cells == 84
    kvsweep.run(sweep, out="a.zarr", extend=True, workers=1)
    assert simulator.cells == 84


def test_damaged_and_pending_cells_are_simulated(tmp_path):
    def stop(done, total):
        if done > 40:
            raise KeyboardInterrupt

    sweep, large = make_sweep(tmp_path, TEXT), make_sweep(tmp_path, text(SEEDS))
    write_store("whole.zarr", text(SEEDS))
    with pytest.raises(KeyboardInterrupt):
        kvsweep.run(sweep, out="a.zarr", workers=1, progress=stop)
    parts = [f for f in sorted(Path("a.zarr/status/parts").iterdir()) if f.name.isdecimal()]
    parts[0].write_bytes(parts[0].read_bytes()[:-3])
    kvsweep.run(large, out="a.zarr", extend=True, workers=1)
    assert tree(Path("a.zarr")) == tree(Path("whole.zarr"))


@pytest.mark.slow
def test_a_kill_keeps_the_store_and_the_same_command_goes_on(tmp_path, simulator):
    write_store("a.zarr", TEXT)
    before = tree(Path("a.zarr"))
    more = ("{ count = 6 }", "[11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]")  # first what is new
    write_sweep(tmp_path, text(more))
    command = ("grid", "small.toml", "--out", "a.zarr", "--extend", "--workers", "1")
    with start(*command, batches=4) as process:
        comes_to(4, process, ".a.zarr.larger")
        process.kill()
    assert tree(Path("a.zarr")) == before
    other = make_sweep(tmp_path, text(("count = 6", "count = 13")))
    with pytest.raises(InputError, match=r"\.a\.zarr\.larger: left by a run with extend=True"):
        kvsweep.run(other, out="a.zarr", extend=True)
    large = make_sweep(tmp_path, text(more))
    simulator.cells = 0
    kvsweep.run(large, out="a.zarr", extend=True, workers=1)
    assert simulator.cells < 84
    kvsweep.run(large, out="whole.zarr", workers=1)
    assert tree(Path("a.zarr")) == tree(Path("whole.zarr"))
    assert hidden() == []


def test_a_dry_run_counts_what_is_new(tmp_path, capsys):
    write_store("a.zarr", TEXT)
    write_sweep(tmp_path, text(SEEDS))
    from kvsweep.cli import main

    with pytest.raises(SystemExit):
        main(["grid", "small.toml", "--out", "a.zarr", "--extend", "--dry-run", "--json"])
    size = json.loads(capsys.readouterr().out)
    assert (size["cells"], size["simulations"]) == (126, 42)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("requests = 20", "requests = 21"), "workload.requests is 20 in the store, 21 in"),
        (("max_num_seqs = 8", "max_num_seqs = 9"), "policies.a.engine.max_num_seqs is 8 in"),
    ],
)
def test_what_keeps_a_sweep_with_more_seeds_from_extending_is_named(tmp_path, edit, message):
    """Both runs named the seeds, and the first advised the second."""
    policies = "[policies.a]\nengine.max_num_seqs = 8\n[policies.b]\nengine.max_num_seqs = 4\n"
    text = BASE + policies + GRID.replace('"round-robin", "least-loaded"', '"a", "b"')
    kvsweep.run(make_sweep(tmp_path, text), out="a.zarr", workers=1)
    larger = make_sweep(tmp_path, text.replace(*edit).replace("count = 6", "count = 9"))
    for extend in (False, True):
        with pytest.raises(InputError, match=message) as told:
            kvsweep.run(larger, out="a.zarr", workers=1, extend=extend)
        assert "extend=True" not in str(told.value)


def test_who_does_not_see_the_store_simulates_what_it_has(tmp_path, simulator, monkeypatch):
    """As a worker of a cluster may: it said that the store changes while it is read."""
    write_store("a.zarr", TEXT)
    large = make_sweep(tmp_path, text(SEEDS))
    simulator.cells = 0
    with monkeypatch.context() as patch:
        patch.setattr(Source, "_parts", lambda *_: iter(()))
        kvsweep.run(large, out="a.zarr", extend=True, workers=1)
    assert simulator.cells > 42
    kvsweep.run(large, out="whole.zarr", workers=1)
    assert tree(Path("a.zarr")) == tree(Path("whole.zarr"))


@pytest.mark.parametrize("still_larger", [False, True])
def test_a_kill_between_the_two_renames_loses_nothing(
    tmp_path, simulator, monkeypatch, still_larger
):
    write_store("a.zarr", TEXT)
    large = make_sweep(tmp_path, text(SEEDS))
    kvsweep.run(large, out="whole.zarr", workers=1)
    rename = Path.rename

    def killed(path, target):
        if path.name.endswith(".larger"):
            raise SystemExit
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(SystemExit):
            kvsweep.run(large, out="a.zarr", workers=1, extend=True)
    assert not Path("a.zarr").exists()
    if still_larger:  # it was refused, although it was said to extend
        kvsweep.run(
            make_sweep(tmp_path, text((SEEDS[0], "count = 12"))),
            out="a.zarr",
            workers=1,
            extend=True,
        )
        return
    simulator.cells = 0
    kvsweep.run(large, out="a.zarr", workers=1, extend=True)
    assert simulator.cells == 0
    assert tree(Path("a.zarr")) == tree(Path("whole.zarr"))
    assert hidden() == []


def test_what_keeps_a_store_from_being_extended_is_named_not_what_would_be_added(tmp_path):
    write_store("a.zarr", TEXT)
    longer = ("step = 10", "step = 5")
    for changes, message in (
        ((longer, ("count = 6", "count = 4")), r"grid\.seed has 6 values in the store, 4 in the"),
        ((longer, ("[grid]", "[engine]\nmax_num_seqs = 7\n[grid]")),
         r"engine\.max_num_seqs is 256 in the store, 7 in the sweep"),
        ((("count = 6", "start = 1, stop = 9, step = 1"),),
         r"grid\.seed has 0 in the store, and not in the sweep"),
    ):  # fmt: skip
        with pytest.raises(InputError, match="cannot be extended: .*" + message):
            kvsweep.run(make_sweep(tmp_path, text(*changes)), out="a.zarr", extend=True)
