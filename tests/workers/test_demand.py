"""An adaptive cluster starts workers for what it sees of a sweep."""

import pytest
from distributed import Client, LocalCluster
from remote_cluster import until
from sweeping import BASE, GRID, make_sweep, stand_in, tree

import kvsweep
from kvsweep.workers.demand import MOST, Demand

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster():
    with LocalCluster(
        n_workers=0, processes=False, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster


def test_a_sweep_has_workers_started_that_are_not_there(cluster, tmp_path, monkeypatch):
    """The first, and more for the tasks to come; nothing of that is left."""
    stand_in(monkeypatch)
    sweep = make_sweep(tmp_path, BASE + GRID)
    kvsweep.run(sweep, out=tmp_path / "whole.zarr", workers=1)
    cluster.adapt(minimum=0, maximum=2, interval="50ms")
    shown = []

    def progress(done, total):
        shown.append(len(cluster.scheduler.unrunnable))

    with Client(cluster) as client:
        kvsweep.run(sweep, out=tmp_path / "b.zarr", client=client, wait=60, progress=progress)
        assert max(shown) > 1
        until(lambda: not cluster.scheduler.tasks)
    assert tree(tmp_path / "b.zarr") == tree(tmp_path / "whole.zarr")


def test_a_scheduler_is_shown_so_many_tasks_at_most(cluster):
    with Client(cluster) as client:
        demand = Demand(client)
        for tasks, seen in ((3, 3), (10**6, MOST), (1, 1), (0, 0)):
            demand.show(tasks)
            until(lambda seen=seen: len(cluster.scheduler.unrunnable) == seen)
        assert not cluster.scheduler.tasks
