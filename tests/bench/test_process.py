"""Whole processes: start, compile, load, and instructions counted by valgrind."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from instructions import SEEDS
from sweep_file import toml

HERE = Path(__file__).parent
WARM_UP = """
import time
begun = time.process_time()
from kvsweep.simulate import warm_up
imported = time.process_time()
warm_up()
print(imported - begun, time.process_time() - imported)
"""
GRID = """
import re, sys
from pathlib import Path
from kvsweep.cli import main
try: main(["grid", *sys.argv[1:]])
except SystemExit as end: assert not end.code, end.code
# Not getrusage: its peak survives exec, so it would be that of the measuring process.
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""
STARTS = {
    "Python alone": ["-c", "pass"],
    "kvsweep --help": ["-c", "from kvsweep.cli import main; main(['--help'])"],
    "kvsweep grid, a file that is not there": [
        "-c",
        "from kvsweep.cli import main\ntry: main(['grid', '/nowhere'])\nexcept SystemExit: pass",
    ],
}
ROUNDS = 20
VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


def python(*arguments, prefix=(), **environment):
    """Run Python and return its output."""
    done = subprocess.run(
        [*prefix, sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_start(tables, smoke):
    """Help needs no compiled code and none of the large libraries."""
    rows = []
    for name, arguments in STARTS.items():
        best = float("inf")
        for _ in range(1 if smoke else 7):
            begun = time.perf_counter()
            python(*arguments)
            best = min(best, time.perf_counter() - begun)
        rows.append((name, f"{best:.2f}"))
    tables.add("Start (wall clock)", ("process", "s"), rows)


def test_compilation(tables, smoke, tmp_path):
    """The first process compiles and stores the code, all others load it."""
    environment = {} if smoke else {"KVSWEEP_CACHE_DIR": str(tmp_path)}
    found = []
    for _ in range(4):
        found.append([float(part) for part in python("-c", WARM_UP, **environment).stdout.split()])
    imports = min(found)[0]
    loads = min(load for _, load in found[1:])
    rows = [
        ("import", f"{imports:.2f}"),
        ("compile the kernel, first process", f"{found[0][1]:.1f}"),
        ("load it from the cache, later processes", f"{loads:.2f}"),
    ]
    tables.add("Compilation (processor time)", ("", "s"), rows)


def test_whole_sweep(tables, smoke, tmp_path):
    """The command, compiled code in its cache: start, all cells, store, cliff and figure."""
    path = tmp_path / "bench.toml"
    rows = []
    for points, seeds in ((2, 2),) if smoke else ((25, 2), (25, 100), (125, 200)):
        path.write_text(toml(points, seeds))
        for workers in ("1", "2"):
            best, memory = float("inf"), 0
            for _ in range(1 if smoke else 2):
                begun = time.perf_counter()
                done = python(
                    *("-c", GRID, str(path), "--out", str(tmp_path / "bench.zarr")),
                    *("--overwrite", "--no-prune", "--workers", workers),
                )
                best = min(best, time.perf_counter() - begun)
                memory = int(done.stdout.split()[-1]) / 1024
            cells = 2 * points * seeds
            row = (f"{cells:,}", workers, f"{best:.1f}", f"{cells / best:,.0f}", f"{memory:.0f}")
            rows.append(row)
    tables.add(
        "`kvsweep grid`, H8, from start to end (wall clock)",
        ("cells", "threads", "s", "simulations/s", "memory, MiB"),
        rows,
    )


def instructions(repeats, environment):
    """Return the instructions of a process that simulates H8's seeds so many times."""
    counted = python(
        str(HERE / "instructions.py"),
        str(repeats),
        prefix=VALGRIND,
        **environment,
    )
    return int(re.search(r"I\s+refs:\s+([\d,]+)", counted.stderr)[1].replace(",", ""))


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_instructions(tables, smoke, tmp_path):
    """Code for a fixed processor, as instructions are compared between machines."""
    if smoke:
        pytest.skip("takes minutes")
    environment = {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "+avx2,+bmi,+bmi2,+lzcnt,+popcnt,+fma",
        "KVSWEEP_CACHE_DIR": str(tmp_path),
        "PYTHONHASHSEED": "0",
    }
    # Compiled before, as valgrind would take hours.
    python(str(HERE / "instructions.py"), "1", **environment)
    # Enough rounds that the start of Python, which varies by some ten million, does not show.
    few, many = instructions(1, environment), instructions(1 + ROUNDS, environment)
    each = (many - few) / (ROUNDS * SEEDS)
    tables.add(
        "Instructions, H8 at 5,000 blocks (cachegrind, code for haswell)",
        ("", "million instructions"),
        [("one simulation", f"{each / 1e6:.3f}")],
        f"Difference of {1 + ROUNDS} rounds and one over {SEEDS} seeds.",
    )
