"""What is printed where, and what becomes of the command when that fails, or it is interrupted."""

import ast
import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from stores import write_store
from sweeping import BASE, GRID, fake_batch, start_python, write_sweep

import kvsweep
from kvsweep.cli import progress, terminal
from kvsweep.errors import InputError, printable

pytestmark = pytest.mark.slow

CLI = Path(kvsweep.__file__).parent / "cli"
HOSTILE = "\x1b]0;pwned\x07\x1b[31m \u202etxt\x9b1m\x7f"
ESCAPED = r"\x1b]0;pwned\x07\x1b[31m \u202etxt\x9b1m\x7f"


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fake_batch)
    monkeypatch.setattr("kvsweep.simulate.warm_up", lambda *_: None)


@pytest.fixture
def store(tmp_path):
    write_sweep(tmp_path)
    write_store("a.zarr")
    return "a.zarr"


def kvsweep_process(*arguments, shell=""):
    """Run the command in a process of its own; `shell` is what follows it on a command line."""
    words = " ".join((sys.executable, "-P", "-m", "kvsweep", *arguments, shell))
    path = os.pathsep.join([str(CLI.parents[1]), *sys.path])
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(
        ["bash", "-c", words], capture_output=True, text=True, env=environment, check=False
    )


@pytest.mark.parametrize("code", [*range(9), 11, 13, *range(14, 32), *range(127, 160), 0x202E,
                                  0x2066, 0x200F, 0x2028, 0xD800])  # fmt: skip
def test_what_a_terminal_obeys_is_escaped(code):
    assert printable(f"a{chr(code)}b") == f"a{ascii(chr(code))[1:-1]}b"


def test_what_is_to_be_read_stays():
    text = "é ∞ 图\t\n \U0001f600"
    assert printable(text) == text


def test_titles_and_names_cannot_speak_to_the_terminal(run, tmp_path):
    text = BASE.replace('"small"', '"\\u001b]0;pwned\\u0007\\u001b[31m \\u202etxt\\u009b1m\\u007f"')
    policies = '[policies."\\u001b[2J"]\n"cluster.routing" = "least-loaded"\n'
    grid = GRID.replace('"least-loaded"', '"\\u001b[2J"')
    write_sweep(tmp_path, text + policies + grid)
    outputs = [run("grid", "small.toml"), run("show", "results/small.zarr")]
    outputs.append(run("show", "results/small.zarr", "--json"))
    assert ESCAPED in outputs[1][1]
    assert "\\u001b]0;pwned" in outputs[2][1]
    for code, out, err in outputs:
        assert code == 0
        assert printable(out + err) == out + err


def test_errors_cannot_either(run):
    code, _, err = run("grid", "no\x1b[31m.toml", "--set", f"{HOSTILE}=1")
    assert code == 2
    assert printable(err) == err


def test_long_messages_lose_their_middle(run):
    code, _, err = run("grid", "x" * 5000 + ".toml")
    assert code == 2
    assert "[...]" in err
    assert len(err) < terminal.LONGEST + 50


def test_there_is_one_place_that_prints():
    """`click.echo` and `print` would let control characters through."""
    for path in CLI.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and path.name != "terminal.py":
                assert ast.unparse(node.func) not in ("click.echo", "print"), path.name


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is full")
@pytest.mark.parametrize("arguments", [("show", "a.zarr"), ("--help",), ("--version",)])
def test_output_that_does_not_fit_is_told(store, arguments):
    done = kvsweep_process(*arguments, shell="> /dev/full")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("shell", "code", "lines"),
    [
        (">&-", 2, 1),
        ("2>&-", 0, 0),
        pytest.param("<&-", 0, 0, marks=pytest.mark.long),
        pytest.param("| true", 0, 0, marks=pytest.mark.long),
    ],
)
def test_missing_streams_are_no_tracebacks(store, shell, code, lines):
    done = kvsweep_process("show", "a.zarr", shell=shell)
    # The numbers of this store are made up, and some of them mislead.
    told = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert (done.returncode, len(told)) == (code, lines)


def test_output_nobody_reads_is_not_a_success(store):
    done = kvsweep_process("show", "a.zarr", shell="| true; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MemoryError(), 2, "out of memory"),
        pytest.param(
            MemoryError("Unable to allocate 9.3 GiB"),
            2,
            "Unable to allocate 9.3 GiB",
            marks=pytest.mark.long,
        ),
        pytest.param(
            OSError(12, "Cannot allocate memory"), 2, "out of memory", marks=pytest.mark.long
        ),
        (OSError(30, "Read-only file system", "a.zarr/x"), 2, "a.zarr/x: Read-only file system"),
        (InputError("a.toml: no\nway"), 2, "kvsweep: a.toml: no way"),
        (KeyboardInterrupt(), 1, "kvsweep: interrupted"),
    ],
)
def test_whatever_ends_a_command_is_one_line(run, monkeypatch, store, error, code, message):
    def fails(*args):
        raise error

    monkeypatch.setattr("kvsweep.store.open_results", fails)
    found, out, err = run("show", store)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert message in err


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), EOFError()])
def test_a_bug_says_that_it_is_one(run, monkeypatch, store, error):
    """Not an abort without a word, as an EOFError was."""

    def fails(*args):
        raise error

    monkeypatch.setattr("kvsweep.store.open_results", fails)
    code, out, err = run("show", store)
    assert (code, out) == (1, "")
    assert err.startswith("kvsweep: internal error (a bug of kvsweep's, please report it")
    assert "Traceback" in err.splitlines()[1]


LOST = """
import gc, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from kvsweep import grid, simulate
from sweeping import fake_batch
grid.CHUNK_SECONDS = (2e-4, 2e-4)
simulate.simulate_batch = fake_batch
simulate.warm_up = lambda *_: None

signals, errors = iter([signal.{name}]), iter([AssertionError])

def collected(phase, info):  # as Dask's, whose clock is stopped where it was not started
    for number in signals if phase == "start" else ():
        os.kill(os.getpid(), number)
    for error in errors if phase == "stop" else ():
        raise error

from kvsweep.cli import progress
real = progress.Display.__call__

def call(self, done, total):
    if done and collected not in gc.callbacks:
        gc.callbacks.append(collected)
        gc.collect()
    real(self, done, total)

progress.Display.__call__ = call
sys.argv = ["kvsweep", "grid", "small.toml", "--out", "a.zarr", "--workers", "1"]
import kvsweep.__main__
kvsweep.__main__.main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_a_signal_where_python_cannot_raise_is_not_lost(tmp_path, name):
    """In a callback of the garbage collector: the command went on to its end."""
    write_sweep(tmp_path, BASE + GRID)
    with start_python(LOST.format(name=name)) as process:
        _, err = process.communicate()
    assert (process.returncode, err) == (1, "interrupted; the same command goes on with a.zarr\n")


HELD_UP = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["kvsweep", "grid", "small.toml", "--processes"]

def hold(*args, **options):
    print("held up", flush=True)
    while True:  # signal.pause() would miss a signal that comes just before it
        time.sleep(0.05)

import {module}
{module}.{name} = hold
import kvsweep.__main__
kvsweep.__main__.main()
"""


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("kvsweep.cli", "main"),
        ("kvsweep.config", "load_sweep"),
        pytest.param("kvsweep.simulate", "warm_up", marks=pytest.mark.long),
        ("kvsweep.workers.cluster", "OwnPool.wait"),
    ],
)
def test_ctrl_c_at_any_time_is_one_line(tmp_path, module, name):
    """Before the command, while it loads, compiles, and starts its workers."""
    write_sweep(tmp_path)
    with start_python(HELD_UP.format(module=module, name=name)) as process:
        assert process.stdout.readline() == "held up\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 1
    assert err.count("\n") == 1
    assert "interrupted" in err


DROPPED = """
def come(number):
    with suppress(BaseException):  # as a library that tries whether something is there
        os.kill(os.getpid(), number)
        time.sleep(1)
"""
AS_ANOTHER = """
class Waiting:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signals[name])
        time.sleep(1)

def come(number):
    global signals
    signals = {"name": number}
    type("Late", (), {"name": Waiting()})
"""
SWALLOWED = """
import os, signal, sys, time
from contextlib import suppress
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
from kvsweep import grid, simulate
from kvsweep.cli import progress
from sweeping import fake_batch
grid.CHUNK_SECONDS = (2e-4, 2e-4)
simulate.simulate_batch = fake_batch
simulate.warm_up = lambda *_: None
{come}
real = progress.Display.__call__

def call(self, done, total):
    if done:
        come(signal.{name})
    real(self, done, total)

progress.Display.__call__ = call
sys.argv = ["kvsweep", "grid", "small.toml", "--out", "a.zarr", "--workers", "1"]
import kvsweep.__main__
kvsweep.__main__.main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("come", [DROPPED, AS_ANOTHER], ids=["dropped", "as another"])
def test_a_signal_that_is_swallowed_ends_the_command_in_one_line(tmp_path, come, name):
    """A run of 26 s went on to its end with exit code 0; another told of a bug of kvsweep's."""
    write_sweep(tmp_path, BASE + GRID)
    with start_python(SWALLOWED.format(come=come, name=name)) as process:
        _, err = process.communicate()
    assert (process.returncode, err.count("\n")) == (1, 1)
    assert "interrupted" in err


@pytest.mark.parametrize("name", ["a[/x].jsonl", "[red]a.jsonl", "a\x1b]0;evil\x07.jsonl"])
def test_names_of_traces_are_no_markup_of_a_bar(monkeypatch, capsys, name):
    """`a[/x].jsonl` ended a run in a terminal with a traceback."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.Display(first=f"reads {name}") as display:
        display(1, 2)
    shown = capsys.readouterr().err
    assert "\x07" not in shown
    assert f"reads {printable(name)}" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_without_bars_has_lines(monkeypatch, capsys, term):
    """Nothing was shown there, for hours if it took so long."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress.time, "monotonic", itertools.count(0, 20).__next__)
    monkeypatch.setenv("TERM", term)
    with progress.Display() as display:
        display.notify("compiling")
        for done in range(3):
            display(done, 2)
    shown = capsys.readouterr().err
    assert shown == (
        "compiling\n1 of 2 cells, 0.1 cells/s, 20 s left\n2 of 2 cells, 0.1 cells/s, 0.0 s left\n"
    )


CUT_SHORT = """
import multiprocessing.resource_tracker
import kvsweep.cli
import kvsweep.__main__

def leave():
    # As when another thread has taken its semaphore back, and has not yet said so.
    multiprocessing.resource_tracker.register("/kvsweep-no-such", "semaphore")
    raise KeyboardInterrupt

kvsweep.cli.main = leave
kvsweep.__main__.main()
"""


def test_nothing_is_said_of_semaphores_after_the_last_line(tmp_path):
    """By multiprocessing's tracker, which outlives a command that is interrupted."""
    with start_python(CUT_SHORT) as process:
        _, err = process.communicate()
    assert (process.returncode, err) == (1, "kvsweep: interrupted\n")


def test_a_current_folder_that_was_deleted_is_told(run, tmp_path, monkeypatch):
    """It was "No such file or directory", of which file was not said."""
    write_sweep(tmp_path, BASE + GRID)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, _, err = run("grid", str(tmp_path / "small.toml"))
    told = "kvsweep: the current folder was deleted: change to one that is there\n"
    assert (code, err) == (2, told)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_of_which_a_part_fits_is_not_a_success(tmp_path, unbuffered):
    """Without a buffer Python drops the rest: `schema` ended with 0, its file after 4 kB."""
    limits = f"ulimit -f 4; export PYTHONUNBUFFERED={unbuffered}"
    asked = f"{limits}; {sys.executable} -P -m kvsweep schema"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(CLI.parents[1]), *sys.path])}
    done = subprocess.run(
        ["bash", "-c", f"{asked} > schema.json"],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.stderr == "kvsweep: the output cannot be written: File too large\n"
    assert done.returncode == 2


def test_a_window_system_that_matplotlib_does_not_know_is_no_bug_of_ours(store, monkeypatch):
    """`plot` and `report` ended with a traceback where MPLBACKEND was one of older releases."""
    monkeypatch.setenv("MPLBACKEND", "qt4agg")
    asked = ("curve", "--metric", "steps", "--along", "gpu_blocks", "-o", "a.png")
    done = kvsweep_process("plot", "a.zarr", *asked)
    assert (done.returncode, done.stdout) == (0, "a.png\n"), done.stderr


def test_settings_of_matplotlib_that_are_no_utf_8_are_bad_input(store, tmp_path, monkeypatch):
    """`plot` ended with a traceback, told as a bug, and `grid` did not name the file."""
    settings = tmp_path / "latin"
    settings.write_bytes(b"font.family: d\xe9j\xe0\n")
    monkeypatch.setenv("MATPLOTLIBRC", str(settings))
    done = kvsweep_process("plot", store, "curve", "--metric", "steps", "--along", "gpu_blocks")
    told = f"{settings}: Matplotlib's settings are not UTF-8; save it as UTF-8, or set MATPLOTLIBRC"
    assert done.returncode == 2
    assert f"kvsweep: {told} to another\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_long_messages_are_cut_between_words():
    """Of the architectures that are known one was named "DeepseekV32ForCausal"."""
    names = [f"Name{n}ForCausalLM" for n in range(100)]
    line = terminal.one_line(", ".join(names))
    assert len(line) <= terminal.LONGEST + len(" [...] ")
    begin, end = line.split(" [...] ")
    assert set(f"{begin} {end}".replace(",", "").split()) <= set(names)
    assert terminal.one_line("x" * 900) == f"{'x' * 500} [...] {'x' * 200}"
