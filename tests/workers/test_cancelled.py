"""Somebody else on the scheduler cancels what a run has there."""

import pytest
from distributed import Client, Future, LocalCluster
from sweeping import BASE, GRID, make_sweep, stand_in, tree

import kvsweep

pytestmark = pytest.mark.slow


def test_what_is_cancelled_is_sent_again_with_its_job(tmp_path, monkeypatch):
    stand_in(monkeypatch)
    sweep = make_sweep(tmp_path, BASE + GRID)
    kvsweep.run(sweep, out=tmp_path / "whole.zarr", workers=1)
    cancelled = []

    with LocalCluster(
        n_workers=1, processes=False, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:

        def progress(done, total):
            if done and not cancelled:
                with Client(cluster, set_as_default=False) as other:
                    cancelled.extend(Future(key, other) for key in list(cluster.scheduler.tasks))
                    other.cancel(cancelled, force=True)

        kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=cluster, progress=progress)
    assert any("-job-" in future.key for future in cancelled)
    assert tree(tmp_path / "b.zarr") == tree(tmp_path / "whole.zarr")
