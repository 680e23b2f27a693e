"""A Dask scheduler and workers as processes of their own, over TCP; they end with the test."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
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
    """A scheduler at `address`, and workers that come when they are called."""

    def __init__(self, folder: Path, ends: ExitStack) -> None:
        self._folder = folder
        self._ends = ends
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)
        )
        until(lambda: file.exists() and file.read_text().endswith("}"))
        self.address = json.loads(file.read_text())["address"]

    def worker(self, *options: str, path: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a worker with one thread that finds kvsweep in `path`, if that is given."""
        options = ("--nthreads", "1", *options)
        return self._start("worker", self.address, "--no-nanny", *options, path=path)

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
            env=os.environ | QUIET | {"PYTHONPATH": os.pathsep.join(search)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._ends.callback(end, process)
        return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def until(holds, seconds=60):
    """Wait until something holds; if it never does, the test fails."""
    last = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < last, "never happened"
        time.sleep(0.02)
