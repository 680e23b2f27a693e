"""What goes wrong on a cluster, with real processes and signals: the store is as if nothing had.

The command runs in a process of its own too, so that it can be killed.
"""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from threading import Timer

import pytest
from distributed import Client
from remote_cluster import Remote, end, until
from sweeping import BASE, GRID, make_sweep, of_threads_alone, tree

import kvsweep
from kvsweep import grid
from kvsweep.simulate import warm_up
from kvsweep.workers import silence

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SMALL_TASKS = (2e-4, 2e-4)
# The command, with the tasks of the tests, each of which takes a while.
COMMAND = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
from kvsweep import grid
grid.CHUNK_SECONDS = {SMALL_TASKS}
from kvsweep.cli import main
sys.exit(main())
"""
# What workers import as they start. Their sources are ours, so that they may simulate.
PATCHED = """
import os, signal, time
from kvsweep import simulate
real = simulate.simulate_batch

def simulate_batch(variants, seeds, **options):
    {what}
    return real(variants, seeds, **options)

simulate.simulate_batch = simulate_batch
"""
SLOWLY = "time.sleep(0.2)"


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(grid, "CHUNK_SECONDS", SMALL_TASKS)
    warm_up()
    return make_sweep(tmp_path, BASE + GRID)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return of_threads_alone(tmp_path_factory.mktemp("whole"), SMALL_TASKS)


@pytest.fixture
def remote(tmp_path):

    with ExitStack() as ends:
        yield Remote(tmp_path, ends)


@pytest.fixture
def patched(tmp_path):
    """Return where workers find a `simulate_batch` that does something before."""

    def write(what):
        path = tmp_path / "patched"
        path.mkdir()
        (path / "sitecustomize.py").write_text(PATCHED.format(what=what))
        return path

    return write


@pytest.fixture
def command(tmp_path, remote):
    """Start the command on the scheduler; it ends with the test."""
    with ExitStack() as ends:

        def start():
            options = ["--scheduler-file", str(remote.file), "--out", str(tmp_path / "b.zarr")]
            process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, "grid", str(tmp_path / "small.toml"), *options],
                cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            ends.callback(end, process)
            return process

        yield start


def parts_in(store):
    return [f for f in (store / "status" / "parts").glob("*") if f.name.isdigit()]


def begun(store):
    """Whether some tasks of a store are done."""
    return len(parts_in(store)) > 1


def test_one_of_two_workers_is_killed(remote, sweep, tmp_path, whole):
    workers = [remote.worker(), remote.worker()]
    with Client(remote.address) as client:
        until(lambda: len(client.nthreads()) == 2)

    def progress(done, total):
        if done:
            workers[0].kill()

    kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address, progress=progress)
    assert workers[0].wait()
    assert workers[1].poll() is None
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.long
def test_the_command_is_killed_and_given_again(remote, sweep, tmp_path, whole, patched, command):
    """It leaves nothing on the scheduler, so that another finds the workers free."""
    remote.worker(path=patched(SLOWLY))
    first = command()
    until(lambda: begun(tmp_path / "b.zarr"))
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    with Client(remote.address) as client:
        until(
            lambda: not client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
        )
        assert "kvsweep" not in str(client.run(lambda dask_worker: list(dask_worker.plugins)))
    again = command()
    _, errors = again.communicate()
    assert again.returncode == 0, errors
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_is_interrupted_and_given_again(
    remote, sweep, tmp_path, whole, patched, command, number
):
    remote.worker(path=patched(SLOWLY))
    first = command()
    until(lambda: begun(tmp_path / "b.zarr"))
    os.kill(first.pid, number)
    _, errors = first.communicate()
    assert first.returncode == 1
    assert "the same command goes on with" in errors
    assert "Traceback" not in errors
    with Client(remote.address) as client:
        until(
            lambda: not client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
        )
        assert "kvsweep" not in str(client.run(lambda dask_worker: list(dask_worker.plugins)))
    again = command()
    _, errors = again.communicate()
    assert again.returncode == 0, errors
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.long
def test_the_scheduler_is_killed(remote, sweep, tmp_path, whole, patched, command):
    """One line, exit code 2, and what was simulated is there for the next."""
    remote.worker(path=patched(SLOWLY))
    first = command()
    until(lambda: begun(tmp_path / "b.zarr"))
    remote.scheduler.kill()
    _, errors = first.communicate()
    assert first.returncode == 2, errors
    assert errors.strip().splitlines()[-1].endswith("is stored, and the same command goes on")
    assert "Traceback" not in errors
    assert begun(tmp_path / "b.zarr")
    kvsweep.run(sweep, out=tmp_path / "b.zarr", workers=1)
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.long
def test_a_worker_freezes_and_thaws(remote, sweep, tmp_path, whole):
    """Its tasks are waited for, while others do the rest."""
    frozen, other = remote.worker(), remote.worker()
    with Client(remote.address) as client:
        until(lambda: len(client.nthreads()) == 2)
    timers = []

    def progress(done, total):
        if done and not timers:
            frozen.send_signal(signal.SIGSTOP)
            timers.append(Timer(3.0, frozen.send_signal, [signal.SIGCONT]))
            timers[0].start()

    kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address, progress=progress)
    timers[0].join()
    assert other.poll() is None
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.long  # waits for silence
def test_a_worker_that_stays_frozen_is_named_and_others_do_its_tasks(
    remote, sweep, tmp_path, whole, monkeypatch, caplog
):
    """Once it was silent for a while; until then nothing else waits for it."""
    monkeypatch.setattr(silence, "STALLED_AFTER", 0.5)
    monkeypatch.setattr(silence, "SILENT_AFTER", 4.0)
    workers = [remote.worker(), remote.worker()]
    with Client(remote.address) as client:
        until(lambda: len(client.nthreads()) == 2)
        pids = client.run(os.getpid)
        stopped = []

        def progress(done, total):
            if done and not stopped:
                until(lambda: any(client.has_what().values()) and not any(under_way(client)))
                stopped.append(max(client.has_what().items(), key=lambda item: len(item[1]))[0])
                os.kill(pids[stopped[0]], signal.SIGSTOP)

        kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address, progress=progress)
    named = [line for line in caplog.messages if "not heard of" in line]
    assert len(named) == 1
    assert stopped[0] in named[0]
    assert "others simulate what was to be done there" in named[0]
    assert all(worker.poll() is None for worker in workers)
    assert tree(tmp_path / "b.zarr") == whole


def under_way(client):
    return client.processing().values()


@pytest.mark.long
def test_a_task_that_kills_its_worker_once_is_done_again(remote, sweep, tmp_path, whole, patched):
    once = tmp_path / "killed"
    kill = (
        f"if not os.path.exists({str(once)!r}): open({str(once)!r}, 'x'); os.kill(os.getpid(), 9)"
    )
    remote.worker(path=patched(kill), nanny=True)
    kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address)
    assert once.exists()
    assert tree(tmp_path / "b.zarr") == whole


ONE_CELL = "3 in seeds and any(v.cache.gpu_blocks == 120 for v in variants)"


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "detail"),
    [
        ("raise MemoryError('no room')", "MemoryError: no room"),
        (
            "os.kill(os.getpid(), 9)",
            "DiedError: the process that simulated this cell ended by sign",
        ),
    ],
)
def test_only_the_cells_fail_that_cannot_be_simulated(
    remote, sweep, tmp_path, whole, patched, what, detail
):
    """Not those of their task, nor what was on the same workers when they died; and it is mended
    by the same command."""
    path = patched(f"if {ONE_CELL}: {what}")
    worker = remote.worker("--nthreads", "2", path=path, nanny=True)
    ds = kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address)
    failed = ds["status"] == "failed"
    assert failed.sum() == 2
    assert failed.sel(seed=3, gpu_blocks=120).all()
    assert (ds["status"].where(~failed, "ok") == "ok").all()
    assert all(text.startswith(detail) for text in ds["status_detail"].values[failed.values])
    end(worker)
    remote.worker()
    kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address)
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.long
def test_two_runs_share_a_scheduler(remote, sweep, tmp_path, whole, patched, command):
    remote.worker("--nthreads", "2", path=patched(SLOWLY))
    other = command()
    until(lambda: begun(tmp_path / "b.zarr"))
    kvsweep.run(sweep, out=tmp_path / "c.zarr", scheduler=remote.address)
    _, errors = other.communicate()
    assert other.returncode == 0, errors
    assert tree(tmp_path / "b.zarr") == tree(tmp_path / "c.zarr") == whole


COMPILED = """
import os
from kvsweep import _entry_cache
real = _entry_cache.EntryCache.save_overload

def save_overload(self, sig, data):
    with open({log!r}, "a") as file:
        file.write(self._name.split()[1] + "\\n")
    return real(self, sig, data)

_entry_cache.EntryCache.save_overload = save_overload
"""


@pytest.mark.long
def test_workers_that_share_a_cache_compile_once(sweep, tmp_path, whole):
    """Off their event loop; and the user is told what they do."""
    (tmp_path / "patched").mkdir()
    log = tmp_path / "compiled"
    (tmp_path / "patched" / "sitecustomize.py").write_text(COMPILED.format(log=str(log)))
    told, answers = [], []
    with ExitStack() as ends:
        remote = Remote(tmp_path, ends, {"KVSWEEP_CACHE_DIR": str(tmp_path / "cache")})
        for _ in range(2):
            remote.worker(path=tmp_path / "patched")
        with Client(remote.address) as client:
            until(lambda: len(client.nthreads()) == 2)

            def tell(line):
                told.append(line)
                if "compile" in line:
                    answers.append(client.run(os.getpid))

            kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address, notify=tell)
    assert [line for line in told if "workers load or compile the kernel" in line]
    assert len(answers[0]) == 2
    compiled = log.read_text().split()
    assert "run_batch" in compiled
    assert len(compiled) == len(set(compiled))  # each by one of them
    assert tree(tmp_path / "b.zarr") == whole
