"""Commands in another Python, with the stand-in for the simulator, that a test disturbs half-way.

No test may hope that a run is still at it when a signal comes: one that is to be disturbed lets
so many batches through and then waits, so that it cannot end before.
"""

import subprocess
import time
from itertools import count
from pathlib import Path

import pytest
from sweeping import fake_batch, start_python

GO_ON = Path("go on")
# Seconds after which a process goes on by itself, so that a test that fails ends.
PATIENCE = 120.0

COMMAND = """
import os, resource, signal, sys, time
import disturbing, kvsweep.simulate, sweeping
from kvsweep import cli, files, grid
from kvsweep.store.folder import Folder
from kvsweep.store.packing import Packer

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it, and SIGQUIT
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)  # as does all that nohup starts
kvsweep.simulate.simulate_batch = disturbing.held_after({batches!r})
kvsweep.simulate.warm_up = lambda *_: None
grid.CHUNK_SECONDS = (2e-4, 2e-4)
{fault}
cli.main({arguments!r})
"""


def start(*arguments: str, batches: int | None = None, fault: str = "") -> subprocess.Popen[str]:
    """Start a command that waits after so many batches, if that is given, for a file `go on`.

    `fault` is what it executes before.
    """
    return start_python(COMMAND.format(arguments=list(arguments), batches=batches, fault=fault))


def held_after(batches):
    """Return the stand-in for the simulator; of its calls, the first few do not wait."""
    calls = count()

    def simulate_batch(*args, **options):
        if batches is not None and next(calls) >= batches:
            last = time.monotonic() + PATIENCE
            while not GO_ON.exists() and time.monotonic() < last:
                time.sleep(0.01)
        return fake_batch(*args, **options)

    return simulate_batch


def parts(store="a.zarr"):
    """Return the files of a store whose tasks are done."""
    return [f for f in Path(store).glob("status/parts/*") if f.name.isdecimal()]


def comes_to(number, process, store="a.zarr"):
    """Wait until so many tasks are done, of a run that goes on."""
    while len(parts(store)) < number:
        if process.poll() is not None:
            pytest.fail(f"ended before it was disturbed: {process.communicate()}")
        time.sleep(0.005)


def interrupt(process, number):
    """Send a signal; a batch that is waited for ends. Return code, stdout and stderr."""
    process.send_signal(number)
    GO_ON.touch()
    out, err = process.communicate(timeout=PATIENCE)
    GO_ON.unlink()
    return process.returncode, out, err
