import json

import pytest
from sweeping import BASE, CLIFF, GRID, fake_batch, make_sweep

import kvsweep


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fake_batch)
    monkeypatch.setattr("kvsweep.simulate.warm_up", lambda *_: None)


@pytest.fixture
def stores(tmp_path):
    """Two sweeps of which the second has other settings, and a store less of one axis."""
    for name, changes in (("a", ()), ("b", ("engine.max_num_seqs=64",))):
        sweep = make_sweep(tmp_path, BASE + GRID + CLIFF)
        sweep = kvsweep.load_sweep(sweep.path, changes)
        kvsweep.run(sweep, out=f"{name}.zarr", workers=1)
    return "a.zarr", "b.zarr"


def test_compare_tells_what_differs_and_each_cell(run, stores):
    code, out, err = run("compare", *stores)
    assert (code, err) == (0, "")
    assert "preemption_rate: B minus A" in out
    assert "engine.max_num_seqs  256  64" in out
    assert "Differences within seeds: equal seeds are equal request lists." in out
    found = json.loads(run("compare", *stores, "--json")[1])
    assert len(found["differences"]) == 14
    assert found["paired"] is True


def test_members_of_an_axis_of_one_store_are_compared(run, stores):
    chosen = ("--at-a", "policy=round-robin", "--at-b", "policy=least-loaded")
    code, out, _ = run("compare", stores[0], stores[0], *chosen, "--metric", "steps")
    assert code == 0
    assert "cluster.routing  round-robin  least-loaded" in out
    assert "policy           round-robin  least-loaded" in out
    assert "7 cells:" in out


def test_one_seed_is_compared_with_itself(run, stores):
    code, out, err = run("compare", *stores, "--at", "seed=0")
    assert (code, err) == (0, "")
    assert "no interval" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--metric", "ttft_p99"), "did you mean 'ttft_p99_ms'"),
        (("--at", "gpu_block=1"), "did you mean 'gpu_blocks'"),
        (("--at-a", "policy=round-robin"), "policy: 2 values in B"),
        (("--confidence", "95"), "confidence"),
    ],
)
def test_a_slip_is_told_in_one_line(run, stores, options, said):
    code, out, err = run("compare", *stores, *options)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_store_that_is_not_there_is_named(run, stores):
    code, _, err = run("compare", stores[0], "c.zarr")
    assert code == 2
    assert "c.zarr: no such store" in err
    assert err.count("\n") == 1


def test_without_a_question_in_the_sweep_a_metric_is_needed(run, tmp_path):
    kvsweep.run(make_sweep(tmp_path, BASE + GRID), out="c.zarr", workers=1)
    code, _, err = run("compare", "c.zarr", "c.zarr")
    assert code == 2
    assert err == "kvsweep: --metric: missing; the sweep of A has neither [cliff] nor [pareto]\n"


def test_the_side_whose_choice_is_wrong_is_named_by_its_option(run, stores):
    """Messages named --at, of whichever of the two stores."""
    for command in (("compare",), ("report", "--compare", "--out", "r.html")):
        code, _, err = run(*command, *stores, "--at-b", "gpu_blocks=7")
        assert code == 2
        assert "kvsweep: --at-b gpu_blocks=7: the store has no such value" in err
    twice = ("--at", "policy=round-robin", "--at-a", "policy=least-loaded")
    _, _, err = run("compare", *stores, *twice)
    told = "--at-a policy=least-loaded: 'policy' is round-robin already; give it once"
    assert err == f"kvsweep: {told}\n"
    _, _, err = run("show", stores[0], "--at", "policy=round-robin", "--at", "policy=other")
    assert "--at policy=other: 'policy' is round-robin already; give it once" in err
