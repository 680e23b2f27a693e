"""What the recorder's setup asks pip for, without asking it."""

import json
import zipfile
from pathlib import Path

import pytest
from record_vllm import environment
from record_vllm.environment import Wish, check_room, plan, set_up
from record_vllm.requirements import cpu_torch, first_requirements, requirement_for, requirements

from kvsweep.errors import InputError

METADATA = """Metadata-Version: 2.4
Name: vllm
Version: 0.33.0
Requires-Dist: numpy
Requires-Dist: transformers<5.21.0,>=5.16.1
Requires-Dist: Py_CPUinfo
Requires-Dist: torch==2.14.0
Requires-Dist: oss-harmony>=0.0.11
Requires-Dist: flashinfer-python==0.7.2.post1
Requires-Dist: pandas; extra == "bench"
"""


def test_requirements_are_found_by_any_spelling_and_without_extras():
    found = requirements(METADATA)
    assert found["py-cpuinfo"] == "Py_CPUinfo"
    assert "pandas" not in found


def test_only_what_the_scheduler_imports_is_installed():
    assert first_requirements(METADATA) == [
        "transformers<5.21.0,>=5.16.1",
        "numpy",
        "Py_CPUinfo",
        "oss-harmony>=0.0.11",
        "click",
    ]


@pytest.mark.parametrize(
    ("module", "requirement"),
    [
        ("openai_harmony", "oss-harmony>=0.0.11"),
        ("cpuinfo", "Py_CPUinfo"),
        ("numpy.linalg", "numpy"),
        ("pandas", None),
        ("anything", None),
    ],
)
def test_a_missing_module_is_installed_only_if_the_wheel_lists_it(module, requirement):
    assert requirement_for(module, METADATA) == requirement


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["2.15.0", "2.14.0+cpu", "2.13.0+cpu"], "torch==2.14.0+cpu"),
        (["2.15.0+cpu", "2.14.0", "2.13.0+cpu", "2.9.1+cpu"], "torch==2.13.0+cpu"),
        (["2.15.0+cpu", "2.15.1+cpu"], "torch==2.15.1+cpu"),
        (["2.14.0"], None),
    ],
)
def test_torch_is_the_cpu_build_nearest_to_what_the_wheel_asks_for(offered, chosen):
    assert cpu_torch(METADATA, offered) == chosen


@pytest.mark.parametrize("version", ["newest ", "v0.33.0", "0.33.0; x", "--pre", ""])
def test_only_versions_reach_pip(version, tmp_path):
    with pytest.raises(InputError, match="no version of vLLM"):
        plan(Wish(version, tmp_path))


def test_a_full_disk_is_told_before_anything_is_done(tmp_path):
    with pytest.raises(InputError, match=r"new: [0-9.]+ GB are free, 1000000 GB are needed"):
        check_room(tmp_path / "new", 10**15)


class Pip:
    """Stands for every command that setup runs, and notes them."""

    def __init__(self, wish, missing=()):
        self.wish, self.missing, self.commands = wish, list(missing), []

    def __call__(self, command):
        self.commands.append([str(part) for part in command])
        text = " ".join(self.commands[-1])
        if " -m venv " in text:
            self.wish.interpreter.parent.mkdir(parents=True)
            self.wish.interpreter.touch()
        if " pip download " in text:
            self.download(Path(command[-1]))
        if " index versions " in text:
            return "torch (2.15.0)\nAvailable versions: 2.15.0, 2.14.0+cpu\n"
        if "probe.py" in text:
            return json.dumps({"missing": self.missing.pop(0) if self.missing else None})
        return ""

    def download(self, folder):
        folder.mkdir()
        with zipfile.ZipFile(folder / "vllm-0.33.0-cp38-abi3-linux.whl", "w") as wheel:
            wheel.writestr("vllm/__init__.py", "")
            wheel.writestr("vllm/_C.abi3.so", "compiled")
            wheel.writestr("vllm-0.33.0.dist-info/METADATA", METADATA)

    @property
    def installed(self):
        return [c[5:] for c in self.commands if c[1:4] == ["-m", "pip", "install"]]


@pytest.fixture
def wish(tmp_path):
    return Wish("0.33.0", tmp_path / "v33", python="python3")


def run(monkeypatch, wish, missing=()):
    pip = Pip(wish, missing)
    monkeypatch.setattr(environment, "_run", pip)
    monkeypatch.setattr(environment, "check_room", lambda folder: None)
    monkeypatch.setattr(environment.sys, "platform", "linux")
    set_up(wish, lambda text: None)
    return pip


def test_setup_unpacks_the_wheel_without_compiled_parts(monkeypatch, wish):
    pip = run(monkeypatch, wish)
    files = {str(p.relative_to(wish.site)) for p in wish.site.rglob("*") if p.is_file()}
    assert files == {"vllm/__init__.py", "vllm-0.33.0.dist-info/METADATA"}
    assert not (wish.folder / "download").exists()
    (download,) = [c for c in pip.commands if "download" in c]
    assert "--no-deps" in download
    assert pip.installed == [["torch==2.14.0+cpu"], first_requirements(METADATA)]


def test_setup_adds_what_imports_ask_for(monkeypatch, wish):
    pip = run(monkeypatch, wish, missing=["flashinfer_python", "openai_harmony"])
    assert pip.installed[2:] == [["flashinfer-python==0.7.2.post1"], ["oss-harmony>=0.0.11"]]


def test_setup_installs_no_name_that_the_wheel_does_not_list(monkeypatch, wish):
    with pytest.raises(InputError, match="vLLM imports 'surprise', which its wheel does not list"):
        run(monkeypatch, wish, missing=["surprise"])


def test_setup_again_keeps_what_is_there(monkeypatch, wish):
    assert len(plan(wish)) == 5
    run(monkeypatch, wish)
    assert len(plan(wish)) == 2
    again = run(monkeypatch, wish)
    assert not [c for c in again.commands if "venv" in c or "download" in c]


def test_another_release_needs_another_folder(monkeypatch, wish):
    run(monkeypatch, wish)
    with pytest.raises(InputError, match=r"holds vLLM 0\.33\.0; name another folder"):
        run(monkeypatch, Wish("0.32.0", wish.folder))


def test_a_command_that_fails_is_told_in_one_line(tmp_path):
    with pytest.raises(InputError, match="no_such_python: cannot be run"):
        set_up(Wish("0.33.0", tmp_path / "v", python="no_such_python"), lambda text: None)


@pytest.mark.parametrize("names", [("site",), ("download", "notes.txt"), ("venv", "site", "docs")])
def test_folders_of_something_else_are_left_alone(monkeypatch, wish, names):
    """`site` and `download` of whatever folder was named were deleted."""
    for name in names:
        (wish.folder / name).mkdir(parents=True)
        (wish.folder / name / "mine").write_text("a")
    with pytest.raises(InputError, match="in it, which setup did not make; name another folder"):
        run(monkeypatch, wish)
    assert all((wish.folder / name / "mine").exists() for name in names)


def test_a_setup_that_was_interrupted_goes_on(monkeypatch, wish):
    for name in ("venv", "site.partial"):
        (wish.folder / name).mkdir(parents=True)
    run(monkeypatch, wish)
    assert (wish.site / "vllm").is_dir()
