"""Whether processes can start: they import the script that asks for them."""

import subprocess
import sys
from multiprocessing import get_context
from types import ModuleType

import pytest
from sweeping import BASE, GRID, write_sweep

from kvsweep.errors import InputError
from kvsweep.workers import choosing, starting
from kvsweep.workers.choosing import check_workers

RUN = """
import kvsweep
ds = kvsweep.run(kvsweep.load_sweep("small.toml"), out="a.zarr", processes=True, workers=2)
print(bool((ds["status"] == "ok").all()))
"""
GUARDED = f"def main():{RUN.replace(chr(10), chr(10) + '    ')}\n{{0}}if __name__ == '__main__':\n"
ALONE = GUARDED.format("") + "    main()\n"
CHILD = GUARDED.format("from multiprocessing import get_context\n") + (
    "    child = get_context({0!r}).Process(target=main)\n    child.start(), child.join()\n"
)
GUARD = 'put the call under `if __name__ == "__main__":`'
FAILS = "if __name__ != '__main__':\n    raise SystemExit(7)\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sweep(tmp_path, BASE + GRID)


def run(arguments, text):
    done = subprocess.run(
        [sys.executable, *arguments], input=text, capture_output=True, text=True, timeout=200
    )
    return done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "reason"),
    [("", "would ask again in each: " + GUARD), (FAILS, "one ended as it did (exit code 7)")],
)
def test_a_script_without_a_guard_is_refused_once_and_at_once(tmp_path, before, reason):
    (tmp_path / "script.py").write_text(before + RUN)
    out, err = run(["script.py"], "")
    assert reason in err.splitlines()[-1]
    assert (out, err.count("Traceback"), err.count("InputError:")) == ("", 1, 1)
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.slow
def test_a_script_that_is_no_file_is_refused(tmp_path):
    _, err = run(["-"], RUN)
    assert "'<stdin>' is no file: save it as one and " + GUARD in err.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("text", [ALONE, *map(CHILD.format, ("spawn", "fork"))])
def test_a_guarded_script_and_a_process_of_its_own_may_have_processes(tmp_path, text):
    (tmp_path / "script.py").write_text(text)
    out, err = run(["script.py"], "")
    assert out == "True\n", err


def test_other_processes_that_import_a_script_are_refused_too(monkeypatch):
    """As those of a pool of the user's own, where the call is not guarded."""
    monkeypatch.setitem(sys.modules, starting.IMPORTED, starting)
    script = ModuleType("__main__")  # one that such a process runs in place of its own
    script.__file__ = "script.py"
    monkeypatch.setitem(sys.modules, "__main__", script)
    check_workers(None, True, None)
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    with pytest.raises(InputError, match="new processes import the script"):
        check_workers(None, True, None)
    check_workers(2, False, None)
    monkeypatch.setitem(sys.modules, "__main__", starting)  # it is imported
    check_workers(None, True, None)


def test_a_process_that_cannot_start_is_told_as_it_was(monkeypatch):
    def fails(self):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(get_context("spawn").Process, "start", fails)
    with pytest.raises(BlockingIOError):
        starting._try_once.__wrapped__("spawn")


def test_a_daemon_has_no_processes(monkeypatch):
    monkeypatch.setitem(starting.multiprocessing.current_process()._config, "daemon", True)
    with pytest.raises(InputError, match="this process is a daemon of multiprocessing"):
        starting.check_start("spawn")


FORKS = """
import sys
from multiprocessing import get_context
import kvsweep
from kvsweep.workers import choosing

choosing.SMALL = 0.0  # Dask looks after the workers of all sweeps

def run(**how):
    return kvsweep.run(kvsweep.load_sweep("small.toml"), overwrite=True, **how)

def child():
    print(bool((run()["status"] == "ok").all()))
    try:
        run(processes=True, workers=1)
    except kvsweep.InputError as error:
        print(error)

if __name__ == "__main__":
    run()
    child = get_context("fork").Process(target=child)
    child.start(), child.join(60)
    if child.is_alive():
        child.kill()
        print("hangs")
"""


@pytest.mark.slow
def test_a_fork_of_a_process_that_had_dask_does_without(tmp_path):
    """Its threads are not there, and it would wait for what they are to do."""
    (tmp_path / "script.py").write_text(FORKS)
    ok, refusal = run(["script.py"], "")[0].splitlines()
    assert ok == "True"
    assert refusal.startswith("processes: this process was forked from one that had Dask")


def test_a_module_that_another_thread_is_loading_tells_of_no_fork(monkeypatch):
    """Two threads that ran sweeps with processes at once: one had an AttributeError."""
    module = ModuleType("half of it")
    monkeypatch.setitem(sys.modules, "kvsweep.workers.cluster", module)
    assert not choosing._is_forked()
    module.PROCESS = -1
    assert choosing._is_forked()
