"""Seeds that are added until intervals are narrow: to the byte one run's with as many seeds."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from sweeping import BASE, fake_batch, make_sweep, tree

import kvsweep
from kvsweep import grid
from kvsweep.config.until import Until
from kvsweep.errors import InputError
from kvsweep.policies import Status
from kvsweep.report import seeds_text
from kvsweep.report.seeds import _row
from kvsweep.seeding import reached

POLICIES = 'policy = ["round-robin", "least-loaded"]\n"cache.gpu_blocks" = [100, 160]\n'
WANTED = 'metric = "e2e_p99_ms", relative = 0.2, least = 4'
UNTIL = f"[grid]\n{POLICIES}seed = {{ until = {{ {WANTED} }} }}\n"
LOOKS = [4, 6, 9, 14, 21]


class Simulator:
    """Counts what it simulates; ``e2e_ms`` has a mean of 100 and a spread of `spread`."""

    def __init__(self):
        self.cells = []
        self.spread = 30.0
        self.fails = None

    def __call__(self, variants, seeds, **options):
        found = fake_batch(variants, seeds, **options)
        for v, variant in enumerate(variants):
            for s, seed in enumerate(seeds):
                self.cells.append((variant.cache.gpu_blocks, variant.cluster.routing, seed))
                rng = np.random.default_rng((seed, variant.cache.gpu_blocks))
                found["e2e_ms"][v, s] = rng.normal(100.0, self.spread)
                if self.fails == (variant.cache.gpu_blocks, seed):
                    found["status"][v, s] = Status.LIVELOCK
        return found


@pytest.fixture(autouse=True)
def simulator(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    simulator = Simulator()
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", simulator)
    monkeypatch.setattr("kvsweep.simulate.warm_up", lambda *_: None)
    monkeypatch.setattr(grid, "CHUNK_SECONDS", (8e-4, 8e-4))
    return simulator


def run(tmp_path, text=UNTIL, **options):
    return kvsweep.run(make_sweep(tmp_path, BASE + text), out="a.zarr", **options)


def told(ds):
    return json.loads(ds.attrs["until"])


def arrays(store):
    return {name: data for name, data in tree(Path(store)).items() if name != "zarr.json"}


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 3])
def test_the_store_is_that_of_one_run_with_as_many_seeds(tmp_path, workers):
    lines = []
    ds = run(tmp_path, workers=workers, notify=lines.append)
    seeds = ds.sizes["seed"]
    assert seeds in LOOKS[1:]
    assert len(lines) == LOOKS.index(seeds)
    assert told(ds)["open"] == []
    assert told(ds)["narrow"] == 4
    plain = make_sweep(tmp_path, f"{BASE}[grid]\n{POLICIES}seed = {{ count = {seeds} }}\n")
    kvsweep.run(plain, out="plain.zarr", workers=1)
    assert arrays("a.zarr") == arrays("plain.zarr")
    assert kvsweep.open_results("a.zarr").attrs["until"] == ds.attrs["until"]


def test_no_cell_is_simulated_twice_and_a_second_run_simulates_none(tmp_path, simulator):
    ds = run(tmp_path, workers=1, prune=False)
    assert len(simulator.cells) == len(set(simulator.cells)) == ds["status"].size
    before, simulator.cells = tree(Path("a.zarr")), []
    run(tmp_path, workers=1, prune=False)
    assert simulator.cells == []
    assert tree(Path("a.zarr")) == before


@pytest.mark.long  # seconds each
@pytest.mark.parametrize("look", [4, 9])
def test_a_run_that_was_cut_short_goes_on_to_the_same_store(tmp_path, simulator, look):
    def stop(done, total):
        if total == 4 * look and 2 * done > total:
            raise KeyboardInterrupt

    simulator.spread = 40.0
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, workers=1, progress=stop)
    run(tmp_path, workers=2)
    continued = tree(Path("a.zarr"))
    run(tmp_path, workers=2, overwrite=True)
    assert tree(Path("a.zarr")) == continued


def test_a_store_of_fewer_seeds_is_gone_on_with(tmp_path, simulator):
    plain = make_sweep(tmp_path, f"{BASE}[grid]\n{POLICIES}seed = {{ count = 5 }}\n")
    kvsweep.run(plain, out="a.zarr", prune=False)
    simulator.cells = []
    ds = run(tmp_path, prune=False)
    assert min(seed for *_, seed in simulator.cells) == 5
    assert ds.sizes["seed"] in (8, 12, 18)


def test_at_the_most_seeds_it_tells_which_cells_are_not_narrow(tmp_path):
    ds = run(tmp_path, UNTIL.replace("least = 4", "least = 4, most = 5").replace("0.2", "0.001"))
    found = told(ds)
    assert (found["seeds"], found["narrow"], len(found["open"])) == (5, 0, 4)
    warning = next(w for w in kvsweep.warnings_of(ds) if w.kind == "seeds")
    assert "not reached in 4 of 4 cells with 5 seeds" in warning.text
    assert "5 seeds, the most" in seeds_text(found)
    assert "gpu_blocks 160" in seeds_text(found)
    assert [w.kind for w in kvsweep.warnings_of(kvsweep.open_results("a.zarr"))][-1] == "seeds"


def test_a_store_of_more_seeds_than_the_most_says_that_no_more_are_allowed(tmp_path):
    text = UNTIL.replace("relative = 0.2, least = 4", "relative = 1e-9, least = 4, most = {}")
    run(tmp_path, text.replace("{}", "8"))
    found = told(run(tmp_path, text.replace("{}", "6")))
    assert found["seeds"] == 8
    assert seeds_text(found).startswith("8 seeds, where most = 6 allows no more: e2e_p99_ms to ")
    assert ", the most" not in seeds_text(found)


def test_a_single_cell_is_no_plural(tmp_path):
    text = UNTIL.replace(POLICIES, "").replace("0.2, least", "{}, least")
    assert seeds_text(told(run(tmp_path, text.replace("{}", "9.0")))).endswith(" in the one cell")
    open_cell = text.replace("{}", "1e-9, most = 4")
    found = told(run(tmp_path, open_cell, overwrite=True))
    assert "in 0 of 1 cell\n" in seeds_text(found)


def test_cells_without_values_are_told_and_not_waited_for(tmp_path, simulator):
    simulator.fails = (100, 1)
    ds = run(tmp_path)
    found = told(ds)
    assert found["seeds"] < 50
    assert [cell["missing"] for cell in found["open"]] == [1, 1]
    assert {cell["cell"]["gpu_blocks"] for cell in found["open"]} == {100}


def values_of(rows):
    data = {"e2e_p99_ms": (("gpu_blocks", "seed"), np.array(rows, float))}
    coords = {"gpu_blocks": np.arange(len(rows)), "seed": np.arange(len(rows[0]))}
    return xr.Dataset(data, coords)


def test_either_goal_is_enough_and_equal_values_are_counted():
    asked = Until(metric="e2e_p99_ms", relative=0.01, absolute=1.0)
    noise = np.random.default_rng(1).normal(size=50)
    found = reached(values_of([0 * noise, 1e-3 * noise, 1e3 + noise, 1e3 * (1 + noise)]), asked)
    assert (found.narrow, found.equal) == (3, 1)
    assert [cell.cell["gpu_blocks"] for cell in found.open] == [3]
    assert "less than 0.06 of all seeds" in seeds_text(found.to_dict())


def test_intervals_hold_as_often_as_they_say_though_looked_at_again_and_again():
    """Stopping when an interval is narrow favours seeds that are alike by chance."""
    asked = Until(metric="e2e_p99_ms", relative=0.08)
    rng = np.random.default_rng(7)
    held = []
    draws = 1.0 + 0.4 * rng.gamma(1.0, size=(4000, 1000)) - 0.4  # mean 1, skewed
    seeds, left = asked.least, np.arange(len(draws))
    while len(left):
        found = reached(values_of(draws[left][:, :seeds]), asked)
        waits = {cell.cell["gpu_blocks"] for cell in found.open} if seeds < asked.most else set()
        done = np.array([at for at in range(len(left)) if at not in waits], int)
        stopped = draws[left[done]][:, :seeds]
        half = 0.08 * stopped.mean(axis=1)
        held += list(np.abs(stopped.mean(axis=1) - 1.0) <= half)
        left, seeds = np.delete(left, done), asked.next(seeds)
    assert np.mean(held) >= 0.93


@pytest.mark.parametrize(
    ("seed", "where", "words"),
    [
        ("{ untl = {} }", "seed", "did you mean 'until'"),
        ("{ until = 3 }", "seed.until", "expected a table"),
        ("{ until = {}, count = 3 }", "seed.count", "not beside until"),
        ('{ until = { metric = "e2e_p99_ms" } }', "seed.until", "needs relative"),
        ("{ until = { metrc = 'a', relative = 1 } }", "seed.until.metrc", "did you mean 'metric'"),
        ("{ until = { metric = 'a', relative = 0 } }", "until.relative", "more than 0"),
        ("{ until = { metric = 'a', relative = 1, most = 9 } }", "until.least", "more than most"),
        ("{ until = { metric = 'a', relative = 1, least = 2 } }", "until.least", "at least 3"),
    ],
)
def test_mistakes_are_told_at_their_keys(tmp_path, seed, where, words):
    with pytest.raises(InputError) as error:
        make_sweep(tmp_path, f"{BASE}[grid]\n{POLICIES}seed = {seed}\n")
    assert where in str(error.value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("e2e_ms", "e2e_p99_ms"),
        ("peak_blocks", "several values in a cell"),
        ("status", "no number"),
        ("e2e_p9_ms", "did you mean"),
    ],
)
def test_measures_without_one_number_are_refused_before_anything_is_simulated(
    tmp_path, simulator, metric, words
):
    with pytest.raises(InputError, match=r"seed\.until\.metric") as error:
        run(tmp_path, UNTIL.replace("e2e_p99_ms", metric))
    assert words in str(error.value).replace("not numbers", "no number")
    assert simulator.cells == []


def test_shares_are_refused_and_a_given_number_of_seeds_is_taken(tmp_path):
    with pytest.raises(InputError, match="seeds=N"):
        run(tmp_path, shard="1/2")
    sweep = make_sweep(tmp_path, BASE + UNTIL, seeds=3)
    assert sweep.until is None
    assert kvsweep.run(sweep, out="b.zarr").sizes["seed"] == 3
    sweep = make_sweep(tmp_path, BASE + UNTIL, overrides=["seed.until.most=7"])
    assert sweep.until.most == 7


def test_what_is_not_narrow_has_the_width_of_the_terminal(tmp_path, monkeypatch):
    ds = run(tmp_path, UNTIL.replace("least = 4", "least = 4, most = 5").replace("0.2", "0.001"))
    width = max(map(len, seeds_text(told(ds)).splitlines()[1:])) - 1
    monkeypatch.setattr("kvsweep.report.folding.width_of_terminal", lambda: width)
    _, *rows = seeds_text(told(ds)).splitlines()
    assert rows[0].startswith("  not in")
    assert max(map(len, rows)) <= width


def test_a_half_width_above_the_mean_is_written_in_whole_per_cents():
    """It was `± 3e+02 %`."""
    row = _row({"cell": {"rate": 9}, "mean": 1.0, "half": 3.0, "missing": 0})
    assert row[2] == "± 300 %"


@pytest.mark.parametrize(("half", "told"), [(5.03, "5.1"), (5.4, "5.4"), (12.3, "13"), (0, "0")])
def test_a_cell_that_is_not_narrow_enough_never_looks_so(half, told):
    asked = {"metric": "preemption_rate", "relative": 0.05, "most": 60}
    cell = {"cell": {"policy": "base"}, "mean": 100.0, "half": half, "missing": 0}
    reached = {"asked": asked, "seeds": 9, "cells": 2, "narrow": 1, "equal": 0, "open": [cell]}
    assert f"± {told} %" in seeds_text(reached).splitlines()[-1]


@pytest.mark.parametrize("relative", ["0.9", "0.001"])
def test_a_merge_keeps_what_was_reached(tmp_path, relative):
    """It left it out, and with it the warning of cells that are not known well enough."""
    ds = run(tmp_path, UNTIL.replace("least = 4", "least = 4, most = 9").replace("0.2", relative))
    merged = kvsweep.merge(["a.zarr"], out="merged.zarr")
    assert tree(Path("merged.zarr")) == tree(Path("a.zarr"))
    assert told(merged) == told(ds)
    kinds = [warning.kind for warning in kvsweep.warnings_of(merged)]
    assert ("seeds" in kinds) == bool(told(ds)["open"])
    assert bool(told(ds)["open"]) == (relative == "0.001")
