"""What happens to a run on one machine: a real process, a real signal or limit, an equal store.

`docs/reliability.md` has the table of faults and names these tests.
"""

import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import disturbing
import pytest
from disturbing import GO_ON, comes_to, interrupt
from longer import long_but
from sweeping import BASE, GRID, make_sweep, stand_in, tree, write_sweep

import kvsweep

pytestmark = pytest.mark.slow
TEXT = BASE + GRID  # without a cliff, whose figure takes a second of each command

WRITING = """
write, left = files._write, iter(range({number}))
def dies(file, data):
    if next(left, None) is None:
        write(file, data[:len(data) // 2])  # a file that is half written stays behind
        os.kill(os.getpid(), signal.SIGKILL)
    return write(file, data)
files._write = dies
"""

PACKING = """
packing, left = [], iter(range({number}))
for name in ("put", "delete"):
    def dies(self, *args, usual=getattr(Folder, name), **options):
        if packing and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return usual(self, *args, **options)
    setattr(Folder, name, dies)
pack = Packer.pack
def counted(self, shard):
    packing.append(shard)
    return pack(self, shard)
Packer.pack = counted
"""

NO_CORE = "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"
FEW_FILES = "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))"
FILE_SIZE = "resource.setrlimit(resource.RLIMIT_FSIZE, ({number}, resource.RLIM_INFINITY))"


def start(fault="", out="a.zarr", more=(), batches=None):
    arguments = ["grid", "small.toml", "--out", out, "--workers", "1", *more]
    return disturbing.start(*arguments, batches=batches, fault=fault)


def run(*args, **options):
    """Run a command to its end; return code, stdout and stderr."""
    with start(*args, **options) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The store of a command that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    write_sweep(folder, TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(out="whole.zarr")[0] == 0
    return tree(folder / "whole.zarr")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The sweep's file, in the working directory of the commands."""
    monkeypatch.chdir(tmp_path)
    write_sweep(tmp_path, TEXT)


def goes_on(whole, out="a.zarr"):
    """Whether the same command completes the store, and leaves nothing beside it."""
    before = kvsweep.open_results(out)["status"].values if Path(out).exists() else None
    assert before is None or set(before.ravel()) <= {"ok", "pending"}
    code, text, err = run(out=out)
    assert (code, "84 ok" in text) == (0, True), err
    return tree(Path(out)) == whole and not list(Path(out).parent.glob(".*"))


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 40, 60, 75, 90])
def test_a_kill_in_the_middle_of_a_file(whole, number):
    assert run(WRITING.format(number=number))[0] == -9
    assert goes_on(whole)


@pytest.mark.parametrize("number", long_but([0, 10, 50, 60, 66], 50))
def test_a_kill_while_a_shard_is_packed(whole, number):
    assert run(PACKING.format(number=number))[0] == -9
    assert goes_on(whole)


@pytest.mark.parametrize("name", long_but(["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"], "SIGHUP"))
def test_a_signal_ends_a_run_and_the_same_command_goes_on(whole, name):
    """With a line, but for the one that is to end a process at once."""
    told = name != "SIGQUIT"
    with start(NO_CORE, batches=1) as process:
        comes_to(1, process)
        code, _, err = interrupt(process, getattr(signal, name))
    assert code == (1 if told else -signal.SIGQUIT)
    assert "Traceback" not in err
    if told:
        assert err.splitlines()[-1] == "interrupted; the same command goes on with a.zarr"
    assert goes_on(whole)


@pytest.mark.long
def test_kills_one_after_the_other(whole):
    for number in range(1, 5):
        with start(batches=1) as process:
            comes_to(number, process)
            process.kill()
    assert goes_on(whole)


SURROUNDINGS = ["LC_ALL=C", "TERM=dumb", "HOME", "PYTHONOPTIMIZE=2", "PYTHONWARNINGS=error"]


@pytest.mark.parametrize("surrounding", long_but(SURROUNDINGS, "HOME"))
def test_odd_surroundings_change_nothing(whole, monkeypatch, surrounding):
    """Without the variable, if it has no value."""
    name, given, value = surrounding.partition("=")
    monkeypatch.setenv(name, value)
    if not given:
        monkeypatch.delenv(name)
    code, _, err = run()
    assert (code, "Traceback" in err) == (0, False), err
    assert tree(Path("a.zarr")) == whole


@pytest.mark.long
def test_few_files_may_be_open(whole):
    """`ulimit -n`, with threads; for processes of its own a command asks how many there may be."""
    assert run(FEW_FILES)[0] == 0
    assert tree(Path("a.zarr")) == whole


def told_in_a_line(ended, message):
    code, out, err = ended
    lines = [line for line in err.splitlines() if not line.strip().startswith(tuple("0123456789"))]
    assert (code, out) == (2, ""), err
    assert message in lines[-1], err
    assert "Traceback" not in err
    return True


@pytest.mark.parametrize("number", long_but([100, 4_000, 30_000], 4_000))
def test_a_limit_of_the_size_of_files(whole, number):
    """As of a quota: writing takes what fits, then fails."""
    assert told_in_a_line(run(FILE_SIZE.format(number=number)), "a.zarr: cannot be written: File")
    assert goes_on(whole)


def mount(path, *options):
    """Mount a small disk, where that may be done."""
    Path(path).mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", *options, "tmpfs", path]
    try:
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    if not done:
        pytest.skip("no disk can be mounted here")


@pytest.fixture
def disk(here):
    mount("disk", "-o", "size=900k")
    yield
    subprocess.run(["umount", "-l", "disk"], check=True)


@pytest.mark.parametrize("filler", long_but([300, 500, 650], 500))
def test_a_disk_that_is_full(whole, disk, filler):
    Path("disk/filler").write_bytes(bytes(filler * 1024))
    ended = run(out="disk/a.zarr")
    assert told_in_a_line(ended, "cannot be written: No space left")
    Path("disk/filler").unlink()
    assert goes_on(whole, "disk/a.zarr")


@pytest.mark.long
def test_a_disk_that_becomes_read_only(whole, disk):
    assert run(out="disk/a.zarr")[0] == 0
    file = next(f for f in Path("disk/a.zarr/steps/c").rglob("*") if f.is_file())
    file.unlink()
    subprocess.run(["mount", "-o", "remount,ro", "disk"], check=True)
    assert told_in_a_line(run(out="disk/a.zarr"), "cannot be written: Read-only file system")
    subprocess.run(["mount", "-o", "remount,rw", "disk"], check=True)
    assert run(out="disk/a.zarr")[0] == 0
    assert tree(Path("disk/a.zarr")) == whole


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_may_not_be_written(whole):
    Path("closed").mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    assert told_in_a_line(run(out="closed/a.zarr"), "cannot be written: Permission denied")
    Path("closed").chmod(0o700)
    assert goes_on(whole, "closed/a.zarr")


def test_two_runs_at_once(whole):
    with start(batches=0) as first:
        while not Path("a.zarr").exists():
            assert first.poll() is None, "ended before the other began"
            time.sleep(0.005)
        assert told_in_a_line(run(), f"a.zarr: process {first.pid} on ")
        GO_ON.touch()
        first.communicate(timeout=120)
    assert tree(Path("a.zarr")) == whole


def test_a_part_of_another_sweep_or_a_damaged_one(whole, tmp_path, monkeypatch):
    stand_in(monkeypatch)
    sweep = make_sweep(tmp_path, TEXT)
    other = make_sweep(tmp_path, TEXT.replace("requests = 20", "requests = 21"))
    make_sweep(tmp_path, TEXT)
    kvsweep.run(other, out="other.zarr", shard="1/2", workers=1)
    kvsweep.run(sweep, out="a.zarr", shard="1/2", workers=1)
    parts = sorted(f for f in Path("a.zarr/status/parts").iterdir() if f.name.isdecimal())
    parts[0].write_bytes(Path("other.zarr/status/parts", parts[0].name).read_bytes())
    parts[1].write_bytes(parts[1].read_bytes()[:-1] + b"?")
    code, _, err = run()
    assert (code, "2 damaged files" in err) == (0, True)
    assert tree(Path("a.zarr")) == whole
