"""A folder with one release of vLLM: ``site`` (the unpacked wheel) and ``venv`` (what it imports).

vLLM's own requirements are some 10 GB, most of it for GPUs. The scheduler needs none of that: its
wheel is unpacked without being installed, torch is the build for CPUs, and of the rest only what an
import asks for is installed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvsweep.errors import InputError, shown
from record_vllm.requirements import cpu_torch, first_requirements, requirement_for

GIGABYTE = 10**9
NEEDED_BYTES = 4 * GIGABYTE
"""The wheel, what is unpacked of it, torch and the rest: 0.34 + 0.06 + 0.7 + 1.6 GB for 0.33.0."""

MOST_MISSING = 40
"""Modules that imports may ask for, one after the other."""

_VERSION = re.compile(r"\d+(\.\d+)+([a-z]+\d+)*")
_OWN = {"venv", "site", "site.partial", "download"}
"""What setup makes in its folder, the first of them first, and deletes to make it anew."""
_UNPACKED = (".py", ".json", ".jinja", ".txt")
_PROBE = Path(__file__).parent / "probe.py"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wish:
    """What to set up: a release into a folder, by which Python, from which indexes.

    Attributes
    ----------
    version : str
        Of vLLM.
    folder : Path
        Is made; if it is there, what it lacks is added.
    python : str
        Interpreter of the environment.
    torch : str or None
        Requirement; None for a build for CPUs.
    index : str or None
        One more package index, as the one of PyTorch's CPU builds.
    """

    version: str
    folder: Path
    python: str = sys.executable
    torch: str | None = None
    index: str | None = None

    @property
    def site(self) -> Path:
        """Where the wheel is unpacked."""
        return self.folder / "site"

    @property
    def interpreter(self) -> Path:
        """Python of the environment."""
        return interpreter_of(self.folder)


def interpreter_of(folder: Path) -> Path:
    """Return the Python of a folder that `set_up` made."""
    windows = sys.platform == "win32"
    return folder / "venv" / ("Scripts/python.exe" if windows else "bin/python")


def plan(wish: Wish) -> list[str]:
    """Return what `set_up` will do, in words: what is there already is left out."""
    check_version(wish.version)
    steps = []
    if not wish.interpreter.exists():
        steps.append(f"make the virtual environment {wish.folder / 'venv'} with {wish.python}")
    if not (wish.site / "vllm").is_dir():
        steps.append(f"download vllm=={wish.version} without its dependencies")
        steps.append(f"unpack its Python files into {wish.site}, and delete the download")
    steps.append(f"install {wish.torch or 'torch for CPUs'} and what vLLM's scheduler imports")
    steps.append("record three tiny traces, and install what is still missing, name by name")
    return steps


def check_version(version: str) -> None:
    """Refuse what is no version.

    Raises
    ------
    InputError
        It would be taken for something else by pip.
    """
    if not _VERSION.fullmatch(version):
        raise InputError(f"{shown(version)}: no version of vLLM; as 0.33.0, or newest")


def check_room(folder: Path, needed: int = NEEDED_BYTES) -> None:
    """Refuse to begin on a disk without room.

    Raises
    ------
    InputError
        With what is free and what is needed.
    """
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed:
        raise InputError(
            f"{folder}: {free / GIGABYTE:.1f} GB are free, {needed / GIGABYTE:.0f} GB are needed"
        )


def check_own(folder: Path) -> None:
    """Refuse a folder of something else: of the names that setup uses one may be somebody's.

    Raises
    ------
    InputError
        If there is something in it that no setup that was interrupted has left.
    """
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    foreign = there if "venv" not in there else there - _OWN
    if foreign:
        raise InputError(
            f"{folder}: has {min(foreign)!r} in it, which setup did not make; name another folder"
        )


def set_up(wish: Wish, say: Say) -> None:
    """Make the folder of a release; what is there already stays.

    Raises
    ------
    InputError
        If pip does not find something, or vLLM asks for a module that its wheel does not list.
    """
    check_version(wish.version)
    check_room(wish.folder)
    there = unpacked_version(wish.site)
    if there not in (None, wish.version):
        raise InputError(f"{wish.folder}: holds vLLM {there}; name another folder")
    if there is None:
        check_own(wish.folder)
    wish.folder.mkdir(parents=True, exist_ok=True)
    if not wish.interpreter.exists():
        say(f"environment by {wish.python}")
        _run([wish.python, "-m", "venv", str(wish.folder / "venv")])
    if there is None:
        _unpack(wish, say)
    metadata = next(wish.site.glob("vllm-*.dist-info/METADATA")).read_text("utf-8")
    _install(wish, [_torch(wish, metadata)], say)
    _install(wish, first_requirements(metadata), say)
    _add_missing(wish, metadata, say)
    say(f"ready: python tools/record_vllm check --env {wish.folder} TRACE...")


def unpacked_version(site: Path) -> str | None:
    """Return the version whose wheel is unpacked in a folder."""
    for folder in site.glob("vllm-*.dist-info"):
        if (site / "vllm" / "__init__.py").is_file():
            return folder.name.removeprefix("vllm-").removesuffix(".dist-info")
    return None


def newest_version(python: str = sys.executable) -> str:
    """Return the newest release that pip offers.

    Raises
    ------
    InputError
        If pip finds none.
    """
    return _offered(python, "vllm", None)[0]


def _offered(python: str, name: str, index: str | None) -> list[str]:
    """Return the versions of a distribution that pip offers, newest first."""
    extra = ["--extra-index-url", index] if index else []
    command = [python, "-m", "pip", "index", "versions", name, *extra]
    found = re.search(r"^Available versions: (.*)$", _run(command), re.MULTILINE)
    if found is None:
        raise InputError(f"{name}: pip offers no version")
    return found.group(1).split(", ")


def _unpack(wish: Wish, say: Say) -> None:
    """Download the wheel, and unpack what the scheduler is made of."""
    say(f"vllm=={wish.version}, without dependencies")
    downloads = wish.folder / "download"
    wanted = [f"vllm=={wish.version}", "--no-deps", "--only-binary", ":all:"]
    _pip(wish, ["download", *wanted, "--dest", str(downloads)])
    (wheel,) = downloads.glob("vllm-*.whl")
    partial = wish.folder / "site.partial"
    shutil.rmtree(partial, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if n.endswith(_UNPACKED) or ".dist-info/" in n]
        archive.extractall(partial, names)
    shutil.rmtree(wish.site, ignore_errors=True)
    partial.rename(wish.site)
    shutil.rmtree(downloads)


def _torch(wish: Wish, metadata: str) -> str:
    if wish.torch:
        return wish.torch
    if sys.platform != "linux":
        return "torch"  # elsewhere the plain one is for CPUs
    found = cpu_torch(metadata, _offered(str(wish.interpreter), "torch", wish.index))
    if found is None:
        raise InputError(
            "torch: pip offers no build for CPUs (+cpu); add --index "
            "https://download.pytorch.org/whl/cpu, or --torch torch for the one of several GB"
        )
    return found


def _install(wish: Wish, wanted: Sequence[str], say: Say) -> None:
    say(f"install {', '.join(wanted)}")
    _pip(wish, ["install", "--quiet", *wanted])


def _add_missing(wish: Wish, metadata: str, say: Say) -> None:
    for _ in range(MOST_MISSING):
        result = json.loads(_run([str(wish.interpreter), str(_PROBE), str(wish.site)]))
        module = result["missing"]
        if module is None:
            return
        requirement = requirement_for(module, metadata)
        if requirement is None:
            raise InputError(
                f"{wish.folder}: vLLM imports {shown(module)}, which its wheel does not list: "
                f"install it with {wish.interpreter} -m pip, then run setup again"
            )
        _install(wish, [requirement], say)
    raise InputError(f"{wish.folder}: more than {MOST_MISSING} modules are missing")


def _pip(wish: Wish, arguments: Sequence[str]) -> None:
    extra = ["--extra-index-url", wish.index] if wish.index else []
    _run([str(wish.interpreter), "-m", "pip", *arguments, *extra])


def _run(command: Sequence[str]) -> str:
    """Run a command and return what it prints.

    Raises
    ------
    InputError
        If it cannot be started or fails, with its last line.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InputError(f"{command[0]}: cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reasons = [line for line in lines if line.startswith("ERROR")] or lines or ["no message"]
        raise InputError(f"{' '.join(command[:4])}: failed: {reasons[-1]}")
    return done.stdout
