"""Compiled kernels on disk: damage is found before it is run, and others are kept out."""

import importlib.util
import os
import pickle
import shutil
import stat
import sys
from pathlib import Path

import pytest
from sweeping import start_python

from kvsweep import _cache, _entry_cache
from kvsweep._jit import kernel

pytestmark = pytest.mark.slow

SOURCE = """
def twice(x):
    return 2 * x


def thrice(x):
    return 3 * x
"""


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """Two functions in a module of their own."""
    (tmp_path / "small.py").write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("small", tmp_path / "small.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "small", module)  # where numba looks for it
    return module.twice, module.thrice


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "kvsweep" / "0123"
    monkeypatch.setattr(_cache, "folder", path)
    return path


def run(function):
    """Run a function as a new process would, and return its value for 7 and if it was loaded."""
    fresh = kernel(function)
    return fresh(7), sum(fresh.stats.cache_hits.values()) == 1


def files(folder, name, ending):
    found = list(folder.rglob(f"*{name}-*{ending}"))
    assert len(found) == 1
    return found[0]


def flip(file, other):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


DAMAGES = {
    "empty": lambda file, other: file.write_bytes(b""),
    "truncated": lambda file, other: file.write_bytes(file.read_bytes()[:-7]),
    "cut to its head": lambda file, other: file.write_bytes(file.read_bytes()[:20]),
    "appended": lambda file, other: file.write_bytes(file.read_bytes() + b"\0"),
    "garbage": lambda file, other: file.write_bytes(os.urandom(500)),
    "a bit flipped": flip,
    "another's": lambda file, other: shutil.copy(other, file),
}


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_discarded_and_compiled_anew(functions, folder, caplog, damage, ending):
    twice, thrice = functions
    assert run(twice) == (14, False)
    assert run(thrice) == (21, False)
    assert run(twice) == (14, True)
    file = files(folder, "twice", ending)
    DAMAGES[damage](file, files(folder, "thrice", ending))
    assert not caplog.messages
    assert run(twice) == (14, False)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f"{file}: damaged")
    assert run(twice) == (14, True)
    assert len(caplog.messages) == 1


def test_code_of_other_sources_is_not_run(functions, folder, monkeypatch, caplog):
    """Not even if its whole folder is put in the place of ours."""
    twice, _ = functions
    run(twice)
    other = folder.with_name("4567")
    shutil.copytree(folder, other)
    monkeypatch.setattr(_cache, "folder", other)
    assert run(twice) == (14, False)
    assert len(caplog.messages) == 1


class Trap:
    def __reduce__(self):
        return os.mkdir, ("sprung",)


def test_a_pickle_without_its_seal_is_not_loaded(functions, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    twice, _ = functions
    run(twice)
    for ending in (".nbi", ".nbc"):
        files(folder, "twice", ending).write_bytes(pickle.dumps(Trap()))
        assert run(twice) == (14, False)
    assert not Path("sprung").exists()


def test_a_full_disk_costs_the_cache_only(functions, folder, monkeypatch, caplog):
    twice, _ = functions

    def fails(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_entry_cache.SealedFile, "_write", fails)
    assert run(twice) == (14, False)
    assert "cannot be written (No space left on device)" in caplog.text


@pytest.fixture
def root(tmp_path, monkeypatch):
    path = tmp_path / "cache"
    monkeypatch.setenv("KVSWEEP_CACHE_DIR", str(path))
    return path


def test_the_cache_folder_is_the_users_own(root, caplog):
    found = _cache.make_folder("0123")
    assert found == root / "kvsweep" / "0123"
    for path in (root, found.parent, found):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert not caplog.messages


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_cache_folder_that_others_can_write_is_not_used(root, caplog, mode):
    root.mkdir()
    root.chmod(mode)
    assert _cache.make_folder("0123") is None
    assert len(caplog.messages) == 1
    assert f"{root}: can be written by other users" in caplog.messages[0]
    assert list(root.iterdir()) == []


def test_a_cache_folder_of_another_user_is_not_used(root, caplog, monkeypatch):
    root.mkdir(mode=0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert _cache.make_folder("0123") is None
    assert f"{root}: belongs to another user" in caplog.text


def test_a_cache_folder_that_is_a_file_is_told(root, caplog):
    root.write_text("")
    assert _cache.make_folder("0123") is None
    assert len(caplog.messages) == 1
    assert "every run" in caplog.messages[0]


def test_without_a_cache_folder_kernels_are_compiled_in_memory(functions, monkeypatch, tmp_path):
    monkeypatch.setattr(_cache, "folder", None)
    twice, _ = functions
    before = set(tmp_path.rglob("*.nb?"))
    assert run(twice) == (14, False)
    assert set(tmp_path.rglob("*.nb?")) == before, "nothing is written beside the source either"


TWO = """
import sys
sys.path.insert(0, {folder!r})
import small
from kvsweep._jit import kernel

fresh = kernel(small.twice)
print("ready", flush=True)
input()
print(fresh(7), sum(fresh.stats.cache_hits.values()))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
def test_two_processes_compile_once(functions, root, tmp_path):
    """One waits for the other, and loads what that compiled."""
    code = TWO.format(folder=str(tmp_path))
    both = [start_python(code), start_python(code)]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    said = sorted(process.communicate(timeout=60)[0] for process in both)
    assert said == ["14 0\n", "14 1\n"]


def test_another_function_is_compiled_without_waiting(functions, folder, monkeypatch):
    twice, thrice = functions
    compiling = kernel(twice)._cache
    folder_of_code = Path(compiling.cache_path)
    folder_of_code.mkdir(parents=True, exist_ok=True)
    compiling._turn.wait(compiling._lock)
    try:
        monkeypatch.setattr(_cache.time, "sleep", lambda seconds: pytest.fail("it waits"))
        assert run(thrice) == (21, False)
    finally:
        compiling._turn.end()


def test_a_tilde_that_no_shell_replaced_is_the_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KVSWEEP_CACHE_DIR", "~/kernels")
    assert _cache.cache_root() == tmp_path / "kernels"
