"""Worker processes of this machine that die: others take their place, and the results are equal."""

import os
import pickle
import signal
import threading

import numpy as np
import psutil
import pytest
from distributed import Nanny, default_client
from remote_cluster import until
from sweeping import BASE, GRID, make_sweep, of_threads_alone, stand_in, tree

import kvsweep
from kvsweep import grid
from kvsweep.errors import InputError
from kvsweep.simulate import warm_up
from kvsweep.workers import cluster, remote_tasks, silence
from kvsweep.workers.job import Job
from kvsweep.workers.threads import Threads

pytestmark = pytest.mark.slow

SMALL_TASKS = (2e-4, 2e-4)


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(grid, "CHUNK_SECONDS", SMALL_TASKS)
    warm_up()
    return make_sweep(tmp_path, BASE + GRID)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return of_threads_alone(tmp_path_factory.mktemp("whole"), SMALL_TASKS)


def nannies():
    return [nanny for nanny in Nanny._instances if nanny.status.name == "running"]


@pytest.mark.long
def test_a_worker_that_dask_gave_up_is_started_again(sweep, tmp_path, whole):
    """Dask starts a worker that is killed again, but not one that is killed while it starts."""
    ended = []

    def progress(done, total):
        if done and not ended:
            for nanny in nannies():
                ended.append(nanny)
                nanny.loop.add_callback(nanny.close)

    kvsweep.run(sweep, out=tmp_path / "b.zarr", processes=True, workers=1, progress=progress)
    assert len(ended) == 1
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.long
def test_a_killed_worker_costs_no_cell(sweep, tmp_path, whole):
    killed = []

    def progress(done, total):
        if done and not killed:
            for nanny in nannies():
                killed.append(nanny)
                nanny.loop.add_callback(nanny.kill)

    kvsweep.run(sweep, out=tmp_path / "b.zarr", processes=True, workers=1, progress=progress)
    assert killed
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_a_frozen_worker_is_named_ended_and_replaced(sweep, tmp_path, monkeypatch, whole, workers):
    """Dask would wait for it for five minutes."""
    monkeypatch.setattr(silence, "STALLED_AFTER", 0.5)
    monkeypatch.setattr(silence, "SILENT_AFTER", 4.0)
    stopped, told = [], []

    def progress(done, total):
        if done and not stopped:
            client = default_client()
            until(lambda: any(client.has_what().values()) and not any(under_way(client)))
            address = max(client.has_what().items(), key=lambda item: len(item[1]))[0]
            stopped.extend(n for n in nannies() if n.worker_address == address)
            stopped.append(stopped[0].pid)
            os.kill(stopped[1], signal.SIGSTOP)

    kvsweep.run(
        sweep,
        out=tmp_path / "b.zarr",
        processes=True,
        workers=workers,
        progress=progress,
        notify=told.append,
    )
    named = [line for line in told if "not heard of" in line]
    assert len(named) == 1
    assert named[0].endswith("(frozen, or cut off?); ended, and started again")
    assert not psutil.pid_exists(stopped[1])
    assert tree(tmp_path / "b.zarr") == whole


def under_way(client):
    return client.processing().values()


def test_a_run_without_workers_ends(sweep, tmp_path, monkeypatch):
    """Whatever kills them: it does not wait for ever."""
    monkeypatch.setattr(cluster, "DEAD_AFTER", 0.2)
    monkeypatch.setattr(cluster.LocalCluster, "scale", lambda self, n: None)
    with pytest.raises(InputError, match=r"workers of this machine: no worker for 0\.2 s"):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", processes=True, workers=1)


def test_a_kvsweep_that_changed_meanwhile_ends_the_run(sweep, tmp_path, monkeypatch):
    """A worker that is started later loads what is there then."""
    monkeypatch.setattr("kvsweep.workers.choosing.SMALL", 0.0)
    theirs = remote_tasks.own_answer() | {"sources": "0123"}
    monkeypatch.setattr(remote_tasks, "_own_answer", lambda: theirs)
    with pytest.raises(InputError, match=r"other sources of kvsweep \(0123, not .*changed meanwh"):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", workers=1)


def test_a_job_carries_the_variants_of_its_tasks_and_simulates_the_same(tmp_path, monkeypatch):
    """With 154,722 variants the whole plan was 104 MB for each worker."""
    stand_in(monkeypatch, 1e-9)
    sweep = make_sweep(tmp_path)
    cells = grid.plan(sweep)
    whole = Job("small", cells, sweep.entropy, tmp_path, False, True)
    for task in cells.tasks:
        job = pickle.loads(pickle.dumps(whole.only(task)))
        kept = sum(variant is not None for variant in job.cells.variants)
        assert kept == len(cells.variant_indices(task)) < len(cells.variants)
        np.testing.assert_equal(job.simulate(task), whole.simulate(task))


def test_threads_begin_no_task_after_an_interruption():
    begun, go_on = [], threading.Event()

    class Held:
        def run(self, task):
            begun.append(task)
            go_on.wait(60)

    before = set(threading.enumerate())
    with Threads(1).holding(Held()) as running:
        running.begin(range(9))
        (thread,) = set(threading.enumerate()) - before
        until(lambda: begun)
    go_on.set()
    thread.join(60)
    assert begun == [0]
