"""Stores in a bucket of a real S3 server, a process of its own, and what may befall it."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from s3_server import KEYS, Server
from sweeping import BASE, make_sweep, stand_in, tree, write_sweep

import kvsweep

pytest.importorskip("s3fs")
pytest.importorskip("moto")
pytestmark = [pytest.mark.slow, pytest.mark.long]  # processes, and waits for leases

TEXT = BASE + '[grid]\npolicy = ["round-robin"]\nseed = { count = 6 }\n'
# The command, by the stand-in for the simulator: all tasks but the first two take a while.
COMMAND = """
import sys, time
import kvsweep.simulate
from kvsweep import grid
from kvsweep.cli import main
from kvsweep.store import bucket, leases
from sweeping import fake_batch

calls = []

def slowly(*args, **options):
    calls.append(0)
    time.sleep(float(sys.argv[1]) if len(calls) > 2 else 0)
    return fake_batch(*args, **options)

kvsweep.simulate.simulate_batch = slowly
kvsweep.simulate.warm_up = lambda *_: None
grid.CHUNK_SECONDS = (1e-5, 1e-5)
bucket.PATIENCE = float(sys.argv[2])
leases.RENEW_EVERY, leases.DEAD_AFTER = 0.5, 4.0
main(sys.argv[3:])
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.end()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        stand_in(patch, 1e-5)
        kvsweep.run(make_sweep(folder, TEXT), out=folder / "whole.zarr", workers=1)
    return tree(folder / "whole.zarr")


@pytest.fixture
def command(server, tmp_path, request, monkeypatch):
    """Return what starts the command on a store of the test's own, and the store."""
    monkeypatch.chdir(tmp_path)
    file = write_sweep(tmp_path, TEXT)
    out = f"s3://kept/{re.sub(r'[^a-z_]', '', request.node.name)}/a.zarr"
    grid = ["grid", str(file), "--out", out, "--workers", "1"]
    search = os.pathsep.join(map(os.path.abspath, sys.path))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}

    def start(*more, arguments=grid, seconds=0.0, patience=60.0, settings=server.environment):
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(seconds), str(patience), *arguments, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | {"PYTHONPATH": search, "HOME": str(tmp_path)} | settings,
        )

    return start, out


def ended(process, code):
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert "hush" not in out + err
    return out, err


def one_line(err):
    """The last line on stderr; before it there may be others of progress."""
    return err.strip().splitlines()[-1]


def parts(server, out):
    return [name for name in server.names(out) if re.fullmatch(r"status/parts/\d+", name)]


def until_parts(server, out):
    last = time.monotonic() + 60
    while not parts(server, out):
        assert time.monotonic() < last
        time.sleep(0.05)


def test_the_store_in_a_bucket_is_that_of_a_folder_and_all_commands_read_it(server, command, whole):
    start, out = command
    told, _ = ended(start(), 0)
    assert out in told
    assert server.objects(out) == whole
    for arguments in (["show", out], ["verify", out, "--sample", "0"]):
        ended(start(arguments=arguments), 0)


def test_a_run_that_is_killed_goes_on_and_a_second_one_is_refused(server, command, whole):
    start, out = command
    first = start(seconds=100)
    until_parts(server, out)
    _, err = ended(start(), 2)
    assert re.search(r"process \d+ on \S+ is writing it", one_line(err))
    first.send_signal(signal.SIGKILL)
    first.communicate()
    ended(start(), 0)
    assert server.objects(out) == whole


def test_a_server_that_comes_back_is_waited_for(server, command, whole):
    start, out = command
    running = start(seconds=1)
    until_parts(server, out)
    server.cut()
    time.sleep(3)
    server.way()
    ended(running, 0)
    assert server.objects(out) == whole


def test_a_server_that_stays_away_is_told_in_a_line_and_nothing_is_lost(server, command, whole):
    start, out = command
    running = start(seconds=2, patience=0.5)
    until_parts(server, out)
    server.cut()
    try:
        _, err = ended(running, 2)
    finally:
        server.way()
    assert "the same command goes on" in one_line(err)
    assert parts(server, out)
    ended(start(), 0)
    assert server.objects(out) == whole


def test_a_server_that_fails_now_and_then_or_is_slow_changes_nothing(server, command, whole):
    start, out = command
    server.mode.write_text("ill")
    try:
        ended(start(), 0)
    finally:
        server.mode.write_text("well")
    assert server.objects(out) == whole


def test_wrong_keys_and_none_are_told_in_one_line(server, command):
    start, _ = command
    server.mode.write_text("denied")
    try:
        _, err = ended(start(), 2)
    finally:
        server.mode.write_text("well")
    assert "access denied" in one_line(err)
    without = {k: v for k, v in server.environment.items() if k not in list(KEYS)[:2]}
    _, err = ended(start(settings=without), 2)
    assert "access denied: Unable to locate credentials" in one_line(err)


def test_a_bucket_that_is_not_there_or_is_lost_is_told_in_one_line(server, command):
    start, out = command
    _, err = ended(start(arguments=["grid", "small.toml", "--out", "s3://nowhere/a.zarr"]), 2)
    assert "bucket does not exist" in one_line(err)
    _, err = ended(start(arguments=["show", "s3://nowhere/a.zarr"]), 2)
    assert "bucket does not exist" in one_line(err)
    running = start(seconds=5)
    until_parts(server, out)
    server.lose()
    _, err = ended(running, 2)
    server.request("PUT", "/kept")
    assert out in one_line(err)
    assert "is kept" not in one_line(err)


@pytest.mark.filterwarnings("ignore:.*is multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_of_a_process_that_reads_a_bucket_reads_it_too(server, command, monkeypatch):
    """The file systems of its parent do not work in it."""
    start, out = command
    ended(start(), 0)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    ds = kvsweep.open_results(out)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        answers = [pool.apply_async(total, args) for args in ((kvsweep.open_results(out),), (out,))]
        assert [answer.get(timeout=60) for answer in answers] == [total(ds)] * 2


def total(ds):
    ds = kvsweep.open_results(ds) if isinstance(ds, str) else ds
    return float(ds["steps"].sum())
