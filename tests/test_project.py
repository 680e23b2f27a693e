"""The project's own promises: environments in step, layers kept, nothing heavy on import."""

import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
import yaml

import kvsweep
from kvsweep.simulate import warm_up

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# The conda packages without what kvsweep does not use (Qt, bokeh).
CONDA_NAMES = {"dask": "dask-core", "matplotlib": "matplotlib-base"}
# Installed by pip, as the file's comments tell; not for everyone.
PIP_EXTRAS = {"llama", "browser", "torch", "s3"}
HEAVY = (
    *("dask", "matplotlib", "numba", "pydantic", "scipy", "xarray", "zarr", "numpy", "rich"),
    *("llama_cpp", "gguf", "torch"),
)


def requirements(lines):
    """Return {name: lower bound} of requirement lines such as ``numpy>=2.1``."""
    matches = [re.fullmatch(r"([\w-]+)>=([\d.]+)", line) for line in lines]
    return {match[1]: match[2] for match in matches}


def test_environment_has_the_packages_and_bounds_of_pyproject():
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    of_conda = (lines for name, lines in extras.items() if name not in PIP_EXTRAS)
    wanted = requirements([*project["dependencies"], *chain(*of_conda)])
    wanted = {CONDA_NAMES.get(name, name): bound for name, bound in wanted.items()}
    wanted["python"] = project["requires-python"].removeprefix(">=")
    text = (ROOT / "environment.yml").read_text()
    assert all(f"pip install '.[{name}]'" in text for name in PIP_EXTRAS)
    environment = yaml.safe_load(text)
    lines = [line for line in environment["dependencies"] if line != "pip"]
    assert requirements(lines) == wanted


def test_version_is_that_of_pyproject():
    assert kvsweep.__version__ == PYPROJECT["project"]["version"]


@pytest.mark.parametrize("statement", ["import kvsweep", "import kvsweep.cli"])
def test_import_loads_nothing_heavy(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in out.stdout.split()}
    assert loaded.isdisjoint(HEAVY)


def test_what_compiling_needs_is_not_loaded_with_a_compiled_kernel(tmp_path):
    warm_up()
    code = "import sys; from kvsweep.simulate import warm_up; warm_up(); print(*sys.modules)"
    # The package of this process, installed or not: the cache has a folder for each place.
    environment = {**os.environ, "PYTHONPATH": str(Path(kvsweep.__file__).parents[1])}
    out = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "kvsweep.kernel.engine" in out.stdout.split()
    assert {"numba.np.arraymath", "scipy.linalg"}.isdisjoint(out.stdout.split())


def test_no_file_name_stands_more_than_twice():
    """A name that says what is in the file, as editors and tracebacks show no more of it."""
    names = Counter(path.name for path in (ROOT / "kvsweep").rglob("*.py"))
    del names["__init__.py"]
    assert [name for name, count in names.items() if count > 2] == []


def test_every_public_name_is_there():
    for name in kvsweep.__all__:
        assert getattr(kvsweep, name) is not None
    listed = {name for name in dir(kvsweep) if not name.startswith("__")}
    assert listed == {*kvsweep.__all__, "plot"}


def test_figures_are_reached_without_an_import_of_their_own():
    code = "import kvsweep; kvsweep.plot.plot_cliff; from kvsweep import plot; plot.save"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rnu'"):
        _ = kvsweep.rnu


@pytest.mark.parametrize(
    ("library", "home"),
    [
        ("dask", {"workers"}),
        ("distributed", {"workers"}),
        ("zarr", {"store"}),
        ("numcodecs", {"store"}),
        ("llama_cpp", {"llama"}),
        ("gguf", {"llama"}),
        ("tornado", {"explorer"}),
        ("anywidget", {"explorer"}),
        ("torch", {"gpu"}),
    ],
)
def test_library_is_imported_in_one_place(library, home):
    package = ROOT / "kvsweep"
    pattern = re.compile(rf"^\s*(?:import|from) {library}\b", re.MULTILINE)
    users = {
        path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
        if pattern.search(path.read_text())
    }
    assert users == home
