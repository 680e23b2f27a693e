"""What befalls a command with processes of its own (`--processes`): the store is as without."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
from remote_cluster import end, until
from sweeping import BASE, GRID, tree, write_sweep

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]

COMMAND = """
import resource, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as does all that nohup starts
resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))
from kvsweep import grid
grid.CHUNK_SECONDS = (2e-4, 2e-4)
sys.argv = ["kvsweep", "grid", "small.toml", "--out", {out!r}, *{more!r}]
from kvsweep.__main__ import main
main()
"""

# What the processes import as they start: of the batches of each, all but the first wait.
HELD = """
import os, time
from kvsweep import simulate
real, calls = simulate.simulate_batch, []

def simulate_batch(*args, **options):
    calls.append(args)
    last = time.monotonic() + 120.0
    while len(calls) > 1 and not os.path.exists({go_on!r}) and time.monotonic() < last:
        time.sleep(0.01)
    return real(*args, **options)

simulate.simulate_batch = simulate_batch
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sweep(tmp_path, BASE + GRID)


@pytest.fixture
def start():
    """Start the command; it ends with the test."""
    with ExitStack() as ends:

        def begin(out="a.zarr", more=("--processes", "--workers", "2"), files=1024, path=()):
            search = map(os.path.abspath, sys.path)
            process = subprocess.Popen(
                [sys.executable, "-c", COMMAND.format(out=out, more=list(more), files=files)],
                env=os.environ | {"PYTHONPATH": os.pathsep.join([*path, *search])},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            ends.callback(end, process)
            return process

        yield begin


@pytest.fixture
def held(tmp_path):
    """Return where processes find what holds them, until there is a file `go on`."""
    path = tmp_path / "held"
    path.mkdir()
    (path / "sitecustomize.py").write_text(HELD.format(go_on=str(tmp_path / "go on")))
    return path


@pytest.fixture
def whole(start):
    process = start("whole.zarr", ())
    assert process.communicate()[1].count("Traceback") == process.returncode == 0
    return tree(Path("whole.zarr"))


def begun(process, out="a.zarr"):
    """Whether a task is done; or all is, before anybody looked."""
    parts = Path(out, "status/parts").glob("*[0-9]")
    return any(parts) or process.poll() is not None


def goes_on(start, whole, out="a.zarr"):
    process = start(out, ())
    _, err = process.communicate()
    assert process.returncode == 0, err
    return tree(Path(out)) == whole


def to_all(process, number):
    """Send a signal to a process and its own, as a terminal does, or a batch system."""
    os.killpg(process.pid, number)


@pytest.mark.parametrize(
    ("send", "names", "code"),
    [
        (to_all, ("SIGINT",), 1),
        (to_all, ("SIGTERM",), 1),
        (to_all, ("SIGHUP",), 1),
        (subprocess.Popen.send_signal, ("SIGINT",), 1),
        (subprocess.Popen.send_signal, ("SIGINT",) * 3, 1),
        (subprocess.Popen.send_signal, ("SIGTERM",), 1),
        (subprocess.Popen.send_signal, ("SIGHUP",), 1),
        (subprocess.Popen.send_signal, ("SIGKILL",), -signal.SIGKILL),
    ],
)
def test_signals_end_the_command_and_its_processes(start, whole, held, send, names, code):
    """Ctrl-C by somebody who does not wait, too; and the same command goes on."""
    process = start(path=[str(held)])
    until(lambda: begun(process))
    workers = psutil.Process(process.pid).children(recursive=True)
    for name in names:
        with suppress(ProcessLookupError):
            send(process, getattr(signal, name))
        Path("go on").touch()
        time.sleep(0.05)
    _, err = process.communicate()
    assert process.returncode == code, err
    if code == 1:
        assert err.splitlines()[-1] == "interrupted; the same command goes on with a.zarr"
    assert "Traceback" not in err
    until(lambda: not any(map(psutil.Process.is_running, workers)))
    assert goes_on(start, whole)


def test_ctrl_c_while_the_processes_start_is_one_line(start, whole):
    process = start()
    until(lambda: psutil.Process(process.pid).children())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err.count("\n")) == (1, 1)
    assert goes_on(start, whole)


def test_all_workers_are_killed_again_and_again(start, whole):
    process = start()
    until(lambda: begun(process))
    for _ in range(4):
        with suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                if "resource_tracker" not in " ".join(child.cmdline()):
                    child.kill()
        time.sleep(1.0)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert tree(Path("a.zarr")) == whole


def test_too_few_files_may_be_open(start, whole):
    """`ulimit -n`."""
    process = start(files=40)
    _, err = process.communicate()
    assert (process.returncode, err.count("\n")) == (2, 1)
    assert "--processes: 2 need 56 open files, 40 are allowed (`ulimit -n`); take fewer" in err
    process = start(files=56)
    assert process.communicate()[1].count("Traceback") == process.returncode == 0
    assert tree(Path("a.zarr")) == whole


def test_a_disk_that_is_full_under_the_workers(start, whole):
    Path("disk").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", "disk"]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        Path("disk/filler").write_bytes(bytes(550 * 1024))
        process = start("disk/a.zarr")
        _, err = process.communicate()
        assert process.returncode == 2
        assert "disk/a.zarr: cannot be written: No space left on device" in err.splitlines()[-1]
        assert "Traceback" not in err
        Path("disk/filler").unlink()
        assert goes_on(start, whole, "disk/a.zarr")
    finally:
        subprocess.run(["umount", "-l", "disk"], check=True)
