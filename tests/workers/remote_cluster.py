"""A Dask scheduler and workers as processes of their own, over TCP; they end with the test."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import kvsweep

PACKAGE = Path(kvsweep.__file__).parent
# Whoever is imported with this on its path finds no kvsweep.
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "kvsweep":
            raise ModuleNotFoundError("No module named 'kvsweep'", name="kvsweep")

sys.meta_path.insert(0, Blocked())
"""
QUIET = {"DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error"}


class Remote:
    """A scheduler at `address`, in `file`, and workers that come when they are called.

    Parameters
    ----------
    folder : Path
        Where they work.
    ends : ExitStack
        Ends them.
    settings : dict of str to str, optional
        Environment variables of theirs.
    scheduler_options : str
        Of the scheduler's command.
    """

    def __init__(
        self,
        folder: Path,
        ends: ExitStack,
        settings: dict[str, str] | None = None,
        scheduler_options: tuple[str, ...] = ("--host", "127.0.0.1"),
    ) -> None:
        self._folder = folder
        self._ends = ends
        self._settings = settings or {}
        self.file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler",
            *scheduler_options,
            "--port",
            "0",
            "--dashboard-address",
            "127.0.0.1:0",
            "--scheduler-file",
            str(self.file),
        )
        until(lambda: self.file.exists() and self.file.read_text().endswith("}"))
        self.address = json.loads(self.file.read_text())["address"]

    def worker(
        self, *options: str, path: Path | None = None, nanny: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start a worker with one thread that finds kvsweep in `path`, if that is given.

        A nanny starts it again when it dies.
        """
        options = ("--nthreads", "1", *options)
        kind = "--nanny" if nanny else "--no-nanny"
        return self._start("worker", self.address, kind, *options, path=path)

    def other_sources(self) -> Path:
        """Return where a kvsweep is whose milliseconds are others."""
        path = self._folder / "other"
        shutil.copytree(PACKAGE, path / "kvsweep", ignore=shutil.ignore_patterns("__pycache__"))
        metrics = path / "kvsweep" / "metrics" / "arithmetic.py"
        text = metrics.read_text()
        assert "/ 1000" in text
        metrics.write_text(text.replace("/ 1000", "/ 1024"))
        return path

    def no_kvsweep(self) -> Path:
        """Return a path with which there is no kvsweep."""
        path = self._folder / "none"
        path.mkdir()
        (path / "sitecustomize.py").write_text(BLOCKED)
        return path

    def _start(self, *arguments: str, path: Path | None = None) -> subprocess.Popen[bytes]:
        search = [str(path or PACKAGE.parent), str(PACKAGE.parent)]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dask", *arguments, "--no-dashboard"],
            cwd=self._folder,
            env=os.environ | QUIET | self._settings | {"PYTHONPATH": os.pathsep.join(search)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._ends.callback(end, process)
        return process


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def until(holds, seconds=60):
    """Wait until something holds; if it never does, the test fails."""
    last = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < last, "never happened"
        time.sleep(0.02)
