"""Where numba's inside is not as expected, public means compile the kernel to the same results."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from longer import long_but

import kvsweep
from kvsweep import _plain

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
GOLDENS = [
    f"tests/kernel/test_vllm_goldens.py::test_kernel_equals_recording[{name}]"
    for name in ("fuzz_44", "h8_s42_b400")
]
HITS = [
    f"tests/traces/test_hits.py::{name}"
    for name in (
        "test_the_optimum_is_the_best_of_all_choices",
        "test_points_reach_from_the_smallest_to_the_largest",
    )
]
ASYNC = (
    "tests/kernel/test_vllm_goldens.py::test_kernel_equals_recording_of_asynchronous_scheduling"
    "[fuzz_1131]"
)

SMALL = """
import numpy as np
from kvsweep import _cache
from kvsweep._jit import kernel, leaf, part
import kvsweep._jit as jit


@leaf
def get(values, at):
    return values[at]


@part
def add(values, at, more):
    return get(values, at) + more


@kernel
def run(values):
    return add(values, 1, 10)


before = numba.config.CACHE_DIR
assert run(np.arange(3)) == 11
assert numba.config.CACHE_DIR == before == ""
print(jit._how.__name__, _cache.folder.name.endswith("-plain"), jit.prunes)
"""

OTHERS = {
    "a name that is gone": "import numba.core.codegen as m; del m.JITCodeLibrary",
    "a module that is gone": "import sys; sys.modules['numba._dynfunc'] = None",
    "a name of the cache that is gone": "import numba.core.caching as m; del m._CacheLocator",
    "a class that is none": "import numba.core.compiler as m; m.CompilerBase = 1",
    "a method that is gone": "import numba.core.compiler_machinery as m\n"
    "del m.PassManager.add_pass_after",
    "an option that is gone": "from numba.core.cpu import CPUTargetOptions as options\n"
    "for kind in options.__mro__:\n"
    "    if '_nrt' in vars(kind):\n"
    "        del kind._nrt\n",
}
WITHOUT_A_PASS = ("a class that is none", "a method that is gone", "an option that is gone")
"""Where a pass of our own cannot be added either, or finds no records where leaves are inlined."""


def python(arguments, folder, **environment):
    search = os.pathsep.join([str(Path(kvsweep.__file__).parents[1]), *sys.path])
    unset = {"NUMBA_CACHE_DIR", "KVSWEEP_PLAIN_NUMBA"}
    environment = {k: v for k, v in os.environ.items() if k not in unset} | environment
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
    )


def run_small(tmp_path, prepare="", **environment):
    file = tmp_path / "small.py"
    file.write_text("import numba\n" + prepare + SMALL)
    return python([file], tmp_path, KVSWEEP_CACHE_DIR=str(tmp_path / "cache"), **environment)


@pytest.mark.slow
@pytest.mark.parametrize("other", long_but(OTHERS, "a name that is gone", "a method that is gone"))
def test_another_numba_is_used_by_its_public_means(tmp_path, other):
    done = run_small(tmp_path, OTHERS[other])
    prunes = other not in WITHOUT_A_PASS
    assert done.stdout == f"kvsweep._plain True {prunes}\n", done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert "is not as expected" in lines[0]
    seconds, gib = (_plain.SECONDS, 2) if prunes else (_plain.ALL_SECONDS, 8)
    assert f"in about {seconds} s with {gib} GiB" in lines[0]


def test_this_numba_is_as_expected(tmp_path):
    done = run_small(tmp_path)
    assert (done.stdout, done.stderr) == ("kvsweep._compiler False True\n", "")


def test_public_means_can_be_demanded(tmp_path):
    """Their code is cached, in a folder of its own that belongs to the user alone."""
    for _ in range(2):
        done = run_small(tmp_path, KVSWEEP_PLAIN_NUMBA="1")
        assert done.stdout == "kvsweep._plain True True\n", done.stderr
        assert done.stderr.startswith("KVSWEEP_PLAIN_NUMBA is set: ")
    files = list((tmp_path / "cache").rglob("small.run-*.nbc"))
    assert len(files) == 1
    folder = files[0].parents[1]
    assert folder.name.endswith("-plain")
    assert folder.stat().st_mode & 0o022 == 0


def test_options_that_only_save_time_are_left_out_where_numba_has_none():
    assert _plain._known("no_cpython_wrapper", True) == {"no_cpython_wrapper": True}
    assert _plain._known("no_such_option", True) == {}


def passes(folder, tests, prepare="", **environment):
    run = f"{prepare}import sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))"
    done = python(
        ["-c", run, "-q", "--timeout=0", "-p", "no:cacheprovider", *tests],
        folder,
        KVSWEEP_PLAIN_NUMBA="1",
        **environment,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].startswith(f"{len(tests)} passed")


@pytest.mark.long  # two minutes of compiling
@pytest.mark.timeout(3000)
def test_public_means_give_the_same_results():
    passes(ROOT, [*GOLDENS, ASYNC])


def test_public_means_without_a_pass_give_the_same_results(tmp_path):
    """Of the smaller kernels: the engine whole takes ten minutes, by hand (CONTRIBUTING.md)."""
    without = OTHERS["a method that is gone"] + "\n"
    passes(ROOT, HITS, without, KVSWEEP_CACHE_DIR=str(tmp_path))
    assert list(tmp_path.rglob("stack.count_optimum-*.nbc"))


def test_the_pass_is_tried_out_whatever_is_cached(tmp_path):
    """A sample that was loaded, not compiled, told that a pass works which cannot be added."""
    for prepare, prunes in (("", True), (OTHERS["a method that is gone"] + "\n", False)):
        done = run_small(tmp_path, prepare, KVSWEEP_PLAIN_NUMBA="1")
        assert done.stdout == f"kvsweep._plain True {prunes}\n", done.stderr
