"""kvsweep as a library leaves the process of its user as it was; a command may change its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sweeping import BASE, CLIFF, write_sweep

import kvsweep

pytestmark = pytest.mark.slow

GRID = """
[grid]
policy = ["round-robin", "least-loaded"]
"cache.gpu_blocks" = [60, 80, 400]
seed = { count = 2 }
"""

# What belongs to the process, or to libraries that the user has too. They are loaded first, as what
# they do to the process when they are loaded is their own.
STATE = """
import gc, logging, os, signal, sys, threading, warnings
import dask.array, matplotlib, matplotlib.pyplot, numba, numpy, pandas, xarray, zarr, zarr.storage
from xarray.namedarray import pycompat, utils

matplotlib.use("agg")
other = xarray.Dataset({"a": ("x", [1.0])})
other.to_zarr("other.zarr", zarr_format=3, consolidated=False)
xarray.open_dataset("other.zarr", engine="zarr", consolidated=False).isel(x=0).load()


def attributes(module):
    return {name: id(value) for name, value in vars(module).items() if name[:2] != "__"}


def is_setting(name, value):
    return name.isupper() and isinstance(value, (str, int, float, type(None)))


def state():
    modules = [xarray.core.utils, xarray.core.dataset, xarray.backends.zarr, pycompat, utils]
    return {
        "numba.config": {k: v for k, v in vars(numba.config).items() if is_setting(k, v)},
        "environment": dict(os.environ),
        "garbage collector": (gc.isenabled(), gc.get_threshold(), gc.get_debug()),
        "xarray": [attributes(module) for module in modules],
        "duck arrays": {type(value) for value in pycompat._cached_duck_array_modules.values()},
        "xarray options": dict(xarray.core.options.OPTIONS),
        "warnings": list(map(str, warnings.filters)),
        "warnings shown": warnings.showwarning,
        "signals": {n: signal.getsignal(n) for n in signal.valid_signals()},
        "signal mask": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "matplotlib": dict(matplotlib.rcParams),
        "recursion": sys.getrecursionlimit(),
        "dask": dask.config.config,
        "zarr": zarr.config.config,
        "numpy": (numpy.geterr(), numpy.get_printoptions()),
        "logging": (logging.root.handlers, logging.root.level, logging.root.manager.disable),
        "hooks": (sys.excepthook, sys.meta_path, threading.excepthook, sys.displayhook),
        "folder": os.getcwd(),
        "umask": (umask := os.umask(0o22), os.umask(umask))[0],
        "switch interval": sys.getswitchinterval(),
        "figures": matplotlib.pyplot.get_fignums(),
    }
"""

LIBRARY = """
import copy
before = copy.deepcopy({k: v for k, v in state().items() if k != "hooks"})
hooks = [list(x) if isinstance(x, list) else x for x in state()["hooks"]]

import kvsweep
from kvsweep.plot import plot_cliff, save

sweep = kvsweep.load_sweep("small.toml")
kvsweep.run(sweep, out="small.zarr", workers=2)
ds = kvsweep.open_results("small.zarr")
cliff = kvsweep.find_cliff(ds, metric="preemption_rate", along="gpu_blocks", threshold=0.05)
save(plot_cliff(ds, cliff), "cliff.svg")

after = state()
assert hooks == list(after.pop("hooks"))
different = [name for name in after if after[name] != before[name]]
for name in different:
    print(name, before[name], after[name], sep="\\n")
raise SystemExit(bool(different))
"""


def python(code, folder, **environment):
    search = os.pathsep.join([str(Path(kvsweep.__file__).parents[1]), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": search, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    write_sweep(tmp_path, BASE + GRID + CLIFF)
    return tmp_path


@pytest.mark.long
def test_a_library_changes_nothing_in_the_process_of_its_user(folder):
    done = python(STATE + LIBRARY, folder)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.long
def test_a_change_would_be_seen(folder):
    change = "import xarray.namedarray.utils as u; u.is_dask_collection = lambda value: False\n"
    done = python(STATE + LIBRARY.replace("after = state", change + "after = state"), folder)
    assert done.returncode == 1
    assert done.stdout.startswith("xarray\n")


COMMAND = """
import sys
from kvsweep.cli import main

try:
    main(["grid", "small.toml", "--out", "small.zarr"])
finally:
    print("dask.array" in sys.modules, file=sys.stderr)
"""


def test_a_command_does_without_dask_arrays(folder):
    done = python(COMMAND, folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.endswith("False\n")


@pytest.mark.parametrize(
    "other",
    [
        "sys.modules['xarray.namedarray.pycompat'] = None; del xarray.namedarray.pycompat",
        "del pycompat._cached_duck_array_modules",
        "del pycompat.DuckArrayModule",
        "del utils.is_dask_collection",
    ],
)
def test_in_another_xarray_nothing_is_changed(other):
    """Where what is looked for is not there any more."""
    code = (
        "import sys\nimport xarray\nfrom xarray.namedarray import pycompat, utils\n"
        f"{other}\n"
        "before = vars(utils) | {}, vars(pycompat) | {}\n"
        "from kvsweep.cli.quick_xarray import leave_dask\n"
        "leave_dask()\n"
        "assert before == (vars(utils), vars(pycompat))\n"
    )
    done = python(code, Path.cwd())
    assert done.returncode == 0, done.stderr
