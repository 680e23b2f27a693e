"""The kernel in other modes, and what its sources and its compiled code must look like.

Plain Python and bounds-checked code must decide alike. Compiled code indexes without checks, so a
wrong index would be silent there; and reference counts would cost more than the simulation.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from sources import KERNEL, functions

from kvsweep import _cache, _compiler, _jit
from kvsweep._entry_cache import EntryCache
from kvsweep.kernel.engine import run_batch
from kvsweep.simulate.kernel_cells import warm_up

TESTS = Path(__file__).parents[1]
GOLDENS = "tests/kernel/test_vllm_goldens.py::test_kernel_equals_recording"
ASYNC = "tests/kernel/test_vllm_goldens.py::test_kernel_equals_recording_of_asynchronous_scheduling"
TWIN = "tests/kernel/test_twin.py::test_kernel_equals_twin_on_longer_traces"
# Of the seven entries that run all lanes each index of the kernel is in one; others have some. Less
# is optimised, as that is as much checked: 252 s of a processor instead of 739 s for random traces.
CHECKED = {"NUMBA_BOUNDSCHECK": "1", "KVSWEEP_FEW_ENTRIES": "1", "NUMBA_OPT": "1"}
FILE_LINES, LEAF_LINES, ENTRY_LINES = 250, 25, 60
# A run of decode steps is one loop over many counters: its parts would pass them all on.
LONGER = {"_decode_alike": 29, "_decode_longer": 30}


def run_tests(selected, **environment):
    """Run tests in a process of their own and return the summary of pytest."""
    paths = [str(TESTS.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    search = os.pathsep.join(path for path in paths if path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *selected],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": search, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_plain_python_decides_as_compiled_code():
    """Without compilation every line is executed as it is written."""
    names = ("fuzz_44", "fuzz_26", "fuzz_20", "fuzz_42")
    selected = [f"{GOLDENS}[{name}]" for name in names]
    selected += [f"{ASYNC}[{name}]" for name in ("fuzz_1131", "fuzz_1135")]
    summary = run_tests(selected, NUMBA_DISABLE_JIT="1")
    assert summary.startswith("6 passed")


@pytest.mark.slow
@pytest.mark.long  # minutes, nearly all of them compiling
@pytest.mark.timeout(2400)
def test_no_index_is_out_of_bounds():
    """Bounds-checked code is compiled into a cache folder of its own."""
    names = (
        "fuzz_00",
        "fuzz_12",
        "fuzz_48",
        "h8_s42_b400",
        "shared_s11_b150",
        "shared_s18_b300_thr128",
    )
    selected = [f"{GOLDENS}[{name}]" for name in names] + [f"{TWIN}[{i}]" for i in (7, 8, 9)]
    selected += [f"{ASYNC}[{name}]" for name in ("fuzz_1193", "fuzz_1212", "real_1002_starving")]
    summary = run_tests(selected, **CHECKED)
    assert summary.startswith("12 passed")


@pytest.mark.slow
@pytest.mark.long  # minutes, nearly all of them compiling
@pytest.mark.timeout(2400)
def test_no_index_is_out_of_bounds_on_random_traces():
    """Each in a workspace of its own size; without the twin, so that they may be many."""
    script = TESTS / "kernel" / "in_bounds.py"
    search = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": search, **CHECKED},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= 1100


def test_a_negative_index_is_out_of_bounds(tmp_path):
    """It does not count from the end, neither in a leaf nor in a kernel."""
    module = tmp_path / "backwards.py"
    module.write_text(
        "import numpy as np\n"
        "from kvsweep._jit import kernel, leaf\n\n"
        "@leaf\ndef get(values, index):\n    return values[index]\n\n"
        "@kernel\ndef read(values, index):\n    return get(values, index)\n\n"
        "@kernel\ndef write(values, index):\n    values[index] = 1\n\n"
        "assert read(np.arange(3), 2) == 2\n"
        "for function in (read, write):\n"
        "    try:\n        function(np.arange(3), -1)\n"
        "    except IndexError:\n        continue\n"
        "    raise SystemExit(1)\n"
    )
    search = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        "PYTHONPATH": search,
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    subprocess.run([sys.executable, str(module)], env=environment, check=True)


def cached_code(dispatcher):
    """Return the machine code that numba keeps on disk for a function and its callees."""
    folder = Path(dispatcher.stats.cache_path)
    files = sorted(folder.glob(f"*{dispatcher.py_func.__name__}-*.nbc"))
    assert files, f"nothing is cached in {folder}"
    return b"".join(file.read_bytes() for file in files)


def test_compiled_kernel_counts_no_references():
    warm_up()
    code = cached_code(run_batch)
    assert b"run_batch" in code
    assert b"NRT_incref" not in code
    assert b"NRT_decref" not in code


def test_reference_counts_would_be_seen(tmp_path, monkeypatch):
    """What the test above looks for is in the code of a function that does count."""
    module = tmp_path / "counting.py"
    module.write_text("def same(values):\n    return values\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    import counting

    same = numba.njit(counting.same)
    same._cache = EntryCache(counting.same)
    assert same(np.zeros(3)).shape == (3,)
    assert b"NRT_incref" in cached_code(same)


def body_lines(path, function):
    """Count the lines of code of a function, without its docstring, comments and blank lines."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    lines = path.read_text().splitlines()[body[0].lineno - 1 : body[-1].end_lineno]
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in lines)


@pytest.mark.parametrize("path", sorted(KERNEL.rglob("*.py")), ids=lambda path: path.name)
def test_files_are_short(path):
    assert len(path.read_text().splitlines()) <= FILE_LINES


def test_every_function_is_compiled():
    """But for the sizes of arrays: they are found for all lanes of a batch at once, in Python."""
    for path, function, decorators in functions():
        if function.name == "workspace_sizes":
            continue
        assert decorators & {"leaf", "part", "kernel"}, f"{path.name}: {function.name}"


def test_functions_are_short():
    found = {}
    for path, function, decorators in functions():
        limit = LEAF_LINES if "leaf" in decorators else ENTRY_LINES
        lines = body_lines(path, function)
        if lines > LONGER.get(function.name, limit):
            found[f"{path.name}: {function.name}"] = lines
    assert found == {}


def test_functions_say_what_they_do():
    """Entries and whatever other files use have docstrings."""
    for path, function, decorators in functions():
        if "kernel" in decorators or not function.name.startswith("_"):
            assert ast.get_docstring(function), f"{path.name}: {function.name}"


@_jit.part
def _rare(number):
    return number * 3


@_jit.leaf
def _frequent(number):
    return _rare(number) + 1


def test_a_part_is_a_function_of_its_own_though_a_leaf_calls_it(monkeypatch):
    """numba hands the option by which a leaf is inlined on to what it calls."""
    monkeypatch.setattr(_cache, "folder", None)

    def run(number):
        return _frequent(number)

    assert _jit.kernel(run)(5) == 16
    inlined = [[code.fndesc.inline for code in f.overloads.values()] for f in (_rare, _frequent)]
    assert inlined == [[False], [True]]


def test_a_trace_is_replayed_without_compilation():
    """A debugger steps through a replay, which asks for what has to be compiled."""
    trace = str(TESTS / "goldens" / "vllm" / "fuzz_12.json.gz")
    search = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "kvsweep", "replay", trace],
        env={**os.environ, "PYTHONPATH": search, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "compiling" not in done.stderr
    assert done.stdout.startswith("status       ok\n")


def test_a_part_is_not_inlined_though_it_has_one_caller(monkeypatch):
    """LLVM inlines such functions, however large, and takes minutes for one that has all in it."""
    monkeypatch.setattr(_cache, "folder", None)

    @_compiler.leaf
    def smaller(number):
        return number + 1

    @_compiler.part
    def larger(number):
        return smaller(number) * 3

    @_compiler.kernel
    def run(number):
        return larger(number)

    assert run(5) == 18
    (code,) = run.inspect_llvm().values()
    defined = [line for line in code.splitlines() if line.startswith("define")]
    assert any("larger" in line for line in defined)
    assert not any("smaller" in line for line in defined)
