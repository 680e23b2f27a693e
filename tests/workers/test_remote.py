"""Sweeps on the workers of a scheduler, in processes of their own: who may simulate, who leaves."""

import threading
from contextlib import ExitStack

import pytest
from distributed import Client
from longer import long_but
from remote_cluster import Remote, until
from sweeping import BASE, GRID, make_sweep, of_threads_alone, tree

import kvsweep
from kvsweep import grid, store
from kvsweep.errors import InputError
from kvsweep.simulate import warm_up
from kvsweep.store.delivery import PartWriter
from kvsweep.store.folder import Folder

pytestmark = pytest.mark.slow

SMALL_TASKS = (2e-4, 2e-4)


@pytest.fixture(autouse=True)
def compiled():
    warm_up()


@pytest.fixture
def remote(tmp_path):
    with ExitStack() as ends:
        yield Remote(tmp_path, ends)


@pytest.fixture
def sweep(tmp_path):
    return make_sweep(tmp_path, BASE + GRID)


@pytest.fixture(scope="module")
def of_threads(tmp_path_factory):
    return of_threads_alone(tmp_path_factory.mktemp("whole"), SMALL_TASKS)


@pytest.fixture
def whole(of_threads, monkeypatch):
    """The store of a run on threads of this process, in several tasks, as those of the test are."""
    monkeypatch.setattr(grid, "CHUNK_SECONDS", SMALL_TASKS)
    return of_threads


@pytest.mark.long
def test_only_workers_that_give_our_numbers_are_used(remote, sweep, tmp_path, whole):
    """Not one with other sources, nor one without kvsweep; each is named, once."""
    remote.worker(path=remote.other_sources())
    remote.worker(path=remote.no_kvsweep())
    with Client(remote.address) as client:
        until(lambda: len(client.nthreads()) == 2)
        bad = set(client.nthreads())
        with pytest.raises(InputError) as refused:
            kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address)
        message = str(refused.value)
        assert message.startswith(f"scheduler {remote.address}: no worker can be used: ")
        assert "\n" not in message
        assert all(address in message for address in bad)
        assert "other sources of kvsweep" in message
        assert "No module named 'kvsweep'" in message
        assert not (tmp_path / "b.zarr").exists()
        remote.worker()
        until(lambda: len(client.nthreads()) == 3)
    told = []
    kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address, notify=told.append)
    refusals = [line for line in told if "not used" in line]
    assert len(refusals) == 2
    assert all(any(address in line for line in refusals) for address in bad)
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.long
def test_a_run_waits_for_its_first_worker(remote, sweep, tmp_path, whole):
    told = []

    def tell(line):
        told.append(line)
        if "no worker" in line:
            remote.worker()

    kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address, notify=tell)
    assert told[0] == (
        f"--scheduler {remote.address}: no worker; waiting for one to come (Ctrl-C ends)"
    )
    assert tree(tmp_path / "b.zarr") == whole


def test_waiting_ends_when_it_was_to(remote, sweep, tmp_path):
    with pytest.raises(InputError, match=r"no worker for 0\.1 s"):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address, wait=0.1)


@pytest.mark.long
def test_workers_that_leave_and_come_are_followed(remote, sweep, tmp_path, whole):
    """The first dies with tasks in flight that only it could do; the next has more threads."""
    first = remote.worker()
    told = []

    def progress(done, total):
        if done > total / 3 and first.poll() is None:
            first.kill()
            first.wait()

    def tell(line):
        told.append(line)
        if "no worker" in line:
            remote.worker("--nthreads", "2")

    kvsweep.run(
        sweep, out=tmp_path / "b.zarr", scheduler=remote.address, progress=progress, notify=tell
    )
    assert first.poll() is not None
    assert any("no worker" in line for line in told)
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.long
def test_a_scheduler_that_dies_ends_the_run_in_one_line(remote, sweep, tmp_path, whole):
    remote.worker()

    def progress(done, total):
        if done > total / 3:
            remote.scheduler.kill()

    with pytest.raises(InputError, match="the scheduler is gone") as lost:
        kvsweep.run(
            sweep, out=tmp_path / "b.zarr", scheduler=remote.address, progress=progress, wait=60
        )
    assert "\n" not in str(lost.value)
    kvsweep.run(sweep, out=tmp_path / "b.zarr", workers=1)
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.long
def test_a_client_of_the_user_is_used_and_stays_open(remote, sweep, tmp_path, whole):
    remote.worker()
    with Client(remote.address) as client:
        kvsweep.run(sweep, out=tmp_path / "b.zarr", client=client)
        kvsweep.run(sweep, out=tmp_path / "c.zarr", scheduler=client)
        assert client.status == "running"
        assert tree(tmp_path / "b.zarr") == tree(tmp_path / "c.zarr") == whole
        plugins = client.run(lambda dask_worker: list(dask_worker.plugins))
        assert "kvsweep" not in str(plugins)
        keys = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
        assert not keys, "nothing of a run is left behind"


@pytest.mark.long
def test_tasks_are_named_after_the_sweep(remote, sweep, tmp_path, monkeypatch):
    monkeypatch.setattr(grid, "CHUNK_SECONDS", SMALL_TASKS)
    remote.worker()
    seen = set()
    with Client(remote.address) as client:

        def progress(done, total):
            seen.update(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks)))

        kvsweep.run(sweep, out=tmp_path / "b.zarr", client=client, progress=progress)
    assert any(key.startswith("kvsweep-small-") for key in seen)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": 8786}, "expected an address as 'tcp://host:8786'"),
        ({"scheduler": "tcp://127.0.0.1:1", "client": object()}, "cannot be used with scheduler"),
        ({"wait": 5.0}, "wait: needs scheduler or scheduler_file"),
        ({"wait": float("nan"), "scheduler": "tcp://127.0.0.1:1"}, "^wait: must be from 0"),
    ],
)
def test_what_is_no_scheduler_is_refused(sweep, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", **options)
    assert not (tmp_path / "b.zarr").exists()
    assert threading.active_count() < 50


@pytest.mark.parametrize("seen", long_but([True, False], True))
def test_workers_write_what_they_simulate_if_they_see_the_store(
    remote, sweep, tmp_path, whole, monkeypatch, seen
):
    """If they do not, it comes over the wire; in neither case does it decide what is stored."""
    remote.worker()
    sent = []
    accept = store.Store.accept

    def noted(self, task, delivery):
        sent.append(delivery.data)
        accept(self, task, delivery)

    def elsewhere(folder, *others):
        return PartWriter(folder if seen else Folder(tmp_path / "nowhere"), *others)

    monkeypatch.setattr(store.Store, "accept", noted)
    monkeypatch.setattr("kvsweep.store.filling.PartWriter", elsewhere)
    kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address)
    assert len(sent) > 4
    assert all((data is None) == seen for data in sent)
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.long
def test_a_worker_with_too_little_memory_is_told_and_not_waited_for(remote, sweep, tmp_path):
    """Dask gives it nothing to do: it would be waited for without end, as if it compiled."""
    remote.worker("--memory-limit", "50MB")
    with Client(remote.address) as client:
        until(lambda: "paused" in str(client.scheduler_info()))
    with pytest.raises(InputError, match="paused by Dask, as its memory is near its limit"):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address, wait=0.1)
    assert not (tmp_path / "b.zarr").exists()


TRACES = """
title = "trace"
question = "what if?"
workload.trace = "trace.csv"
workload.read = { time_unit = "s" }
cluster.instances = 2
latency.beta = [1000, 10, 5]
[grid]
"cache.gpu_blocks" = [100, 110]
seed = [0]
"""
# Where a worker sees other files than this process under the same paths.
ELSEWHERE = """
from pathlib import Path
from kvsweep.workload import trace_sums
real = trace_sums.open_regular
trace_sums.open_regular = lambda path: real(Path(path).parent / "elsewhere" / Path(path).name)
"""


@pytest.mark.long
@pytest.mark.parametrize("same", [False, True])
def test_a_worker_with_another_trace_is_not_used(remote, tmp_path, same):
    """It gave other numbers, under the name of the trace that is here."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "sitecustomize.py").write_text(ELSEWHERE)
    text = "arrival,prompt_tokens,output_tokens\n0,100,10\n1,50,5\n"
    (tmp_path / "trace.csv").write_text(text)
    (tmp_path / "elsewhere" / "trace.csv").write_text(text if same else text + "2,50,6\n")
    remote.worker(path=tmp_path / "elsewhere")
    sweep = make_sweep(tmp_path, TRACES)
    if same:
        ds = kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address)
        assert (ds["status"] == "ok").all()
        return
    with pytest.raises(InputError, match=r"trace\.csv: has another content there"):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address)
