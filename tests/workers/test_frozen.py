"""A worker that freezes with the job of the tasks, which then is nowhere else."""

import os
import signal
import time
from contextlib import ExitStack

import pytest
from distributed import Client
from remote_cluster import Remote, until
from sweeping import BASE, GRID, make_sweep, tree

import kvsweep
from kvsweep import grid
from kvsweep.simulate import warm_up
from kvsweep.workers import silence
from kvsweep.workers.pool import WAIT_EVERY, Pool

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def address(tmp_path, monkeypatch):
    """The address of a scheduler with two workers, of which a run waits for both."""

    def wait(pool):
        while len(pool.usable) < 2:
            pool.look(every=0)
            time.sleep(WAIT_EVERY)

    monkeypatch.setattr(Pool, "wait", wait)
    with ExitStack() as ends:
        remote = Remote(tmp_path, ends)
        remote.worker()
        remote.worker()
        yield remote.address


@pytest.fixture
def frozen(address, monkeypatch, has_it):
    """The first worker that gets a job, once it did: it freezes; tasks are sent to the other."""
    submit, found = Client.submit, []

    def submitted(client, function, *args, workers, key, **options):
        is_job = "-job-" in key
        if len(workers) == 2 and not (is_job and found):
            workers = workers[:1] if is_job else workers[1:]
        if not is_job or found:
            return submit(client, function, *args, workers=workers, key=key, **options)
        found.extend(workers)
        pid = client.run(os.getpid)[workers[0]]
        if not has_it:
            os.kill(pid, signal.SIGSTOP)
        future = submit(client, function, *args, workers=workers, key=key, **options)
        if has_it:
            until(future.done)
            os.kill(pid, signal.SIGSTOP)
        return future

    monkeypatch.setattr(Client, "submit", submitted)
    return found


@pytest.mark.parametrize("has_it", [False, True])
def test_a_job_that_only_a_frozen_worker_has_is_sent_anew(
    address, frozen, tmp_path, monkeypatch, caplog
):
    """Be it that all tasks wait for it to have it, or the other worker for what it has."""
    monkeypatch.setattr(grid, "CHUNK_SECONDS", (2e-4, 2e-4))
    monkeypatch.setattr(silence, "STALLED_AFTER", 0.5)
    monkeypatch.setattr(silence, "SILENT_AFTER", 4.0)
    warm_up()
    sweep = make_sweep(tmp_path, BASE + GRID)
    kvsweep.run(sweep, out=tmp_path / "whole.zarr", workers=1)
    kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=address)
    assert any(frozen[0] in line for line in caplog.messages if "not heard of" in line)
    assert tree(tmp_path / "b.zarr") == tree(tmp_path / "whole.zarr")
