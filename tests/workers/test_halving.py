"""A task that cannot be simulated as a whole: only the cells that cannot be are marked."""

import numpy as np
import pytest
from sweeping import BASE, GRID, fake_batch, make_sweep, tree

import kvsweep
from kvsweep.errors import InputError
from kvsweep.workers import halving
from kvsweep.workers.halving import Halves


def simulated(bad):
    """Return a stand-in that raises if it is given one of some cells."""
    calls = []

    def simulate(variants, seeds):
        calls.append((variants, seeds))
        if bad & {(v, s) for v in variants for s in seeds}:
            raise MemoryError("no room")
        shape = len(variants), len(seeds)
        numbers = np.add.outer(np.array(variants), 1000.0 * np.array(seeds))
        rounds = max(variants)  # of further dimensions a half may have less than the whole
        by_round = np.broadcast_to(numbers[:, :, None], (*shape, rounds)).copy()
        status = np.ones(shape, np.int8)
        detail = np.full(shape, "", object)
        return {
            "status": status,
            "status_detail": detail,
            "preemption_rate": numbers,
            "prefix_hit_rate_by_round": by_round,
        }

    return simulate, calls


@pytest.mark.parametrize("bad", [set(), {(3, 2)}, {(0, 0), (6, 4)}, {(v, 1) for v in range(7)}])
def test_only_bad_cells_fail_and_the_others_are_what_they_are(bad):
    simulate, calls = simulated(bad)
    found = Halves(simulate).results(range(7), range(5))
    for (v, s), status in np.ndenumerate(found["status"]):
        assert (status != 1) == ((v, s) in bad)
        detail = found["status_detail"][v, s]
        assert detail == ("MemoryError: no room" if (v, s) in bad else "")
        if status == 1:
            assert found["preemption_rate"][v, s] == v + 1000 * s
            there = found["prefix_hit_rate_by_round"][v, s]
            assert set(there[~np.isnan(there)]) <= {v + 1000 * s}
    assert len(calls) <= 1 + 2 * 6 * max(1, len(bad))


def test_where_everything_fails_it_is_given_up(monkeypatch):
    monkeypatch.setattr(halving, "MOST_FAILURES", 20)
    simulate, calls = simulated({(v, s) for v in range(40) for s in range(40)})
    found = Halves(simulate).results(range(40), range(40))
    assert len(calls) < 30
    assert (found["status"] != 1).all()


def test_bad_input_is_told_and_not_looked_into():
    def simulate(variants, seeds):
        raise InputError("a.csv: gone")

    with pytest.raises(InputError, match=r"a\.csv: gone"):
        Halves(simulate).results([0, 1], [0])


def test_threads_fail_the_bad_cell_alone_and_the_same_command_mends_it(tmp_path, monkeypatch):
    monkeypatch.setattr("kvsweep.simulate.warm_up", lambda *_: None)
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fake_batch)
    sweep = make_sweep(tmp_path, BASE + GRID)
    kvsweep.run(sweep, out=tmp_path / "a.zarr", workers=1)

    def fails(variants, seeds, **options):
        if 3 in seeds and any(v.cache.gpu_blocks == 120 for v in variants):
            raise ValueError("bad")
        return fake_batch(variants, seeds, **options)

    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fails)
    ds = kvsweep.run(sweep, out=tmp_path / "b.zarr", workers=1)
    failed = ds["status"] == "failed"
    assert failed.sum() == 2
    assert failed.sel(seed=3, gpu_blocks=120).all()
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fake_batch)
    kvsweep.run(sweep, out=tmp_path / "b.zarr", workers=1)
    assert tree(tmp_path / "b.zarr") == tree(tmp_path / "a.zarr")
