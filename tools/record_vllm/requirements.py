"""What a wheel of vLLM asks for, and which of it the recorder needs."""

from __future__ import annotations

import re
from collections.abc import Iterable

WITH_VLLM = (
    *("transformers", "numpy", "pydantic", "msgspec", "pyzmq", "cloudpickle", "cbor2", "blake3"),
    *("regex", "cachetools", "psutil", "pillow", "einops", "prometheus_client", "fastapi"),
    *("aiohttp", "openai", "compressed-tensors", "lark", "tiktoken", "py-cpuinfo", "gguf"),
    *("sentencepiece", "oss-harmony", "openai-harmony", "pybase64", "xgrammar"),
    *("partial-json-parser", "llguidance"),
)
"""What importing vLLM's scheduler has asked for so far, where the wheel lists it, too."""

OF_THE_RECORDER = ("click",)

# Modules whose distributions have other names.
_DISTRIBUTIONS = {
    "zmq": ("pyzmq",),
    "PIL": ("pillow",),
    "cv2": ("opencv-python-headless",),
    "yaml": ("pyyaml",),
    "cpuinfo": ("py-cpuinfo",),
    "dotenv": ("python-dotenv",),
    "openai_harmony": ("oss-harmony", "openai-harmony"),
    "google": ("protobuf",),
    "pythonjsonlogger": ("python-json-logger",),
    "prometheus_fastapi_instrumentator": ("prometheus-fastapi-instrumentator",),
    "lmformatenforcer": ("lm-format-enforcer",),
}


def normalized(name: str) -> str:
    """Return a distribution's name as indexes compare it: ``py-cpuinfo`` for ``Py_CPUinfo``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(metadata: str) -> dict[str, str]:
    """Return the requirements of a wheel's METADATA by normalized name, without its extras."""
    found: dict[str, str] = {}
    for line in metadata.splitlines():
        if not line.startswith("Requires-Dist:") or "extra ==" in line:
            continue
        requirement = line.removeprefix("Requires-Dist:").strip()
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        if name:
            found.setdefault(normalized(name.group()), requirement)
    return found


def first_requirements(metadata: str) -> list[str]:
    """Return what to install before vLLM is imported for the first time."""
    wanted = requirements(metadata)
    listed = [wanted[normalized(name)] for name in WITH_VLLM if normalized(name) in wanted]
    return [*listed, *OF_THE_RECORDER]


def requirement_for(module: str, metadata: str) -> str | None:
    """Return the requirement that brings a module, None if the wheel lists none by its name.

    Nothing else is installed: a name taken from an error message may be anybody's.
    """
    wanted = requirements(metadata)
    top = module.split(".")[0]
    for name in _DISTRIBUTIONS.get(top, (top,)):
        if normalized(name) in wanted:
            return wanted[normalized(name)]
    return None


def cpu_torch(metadata: str, offered: Iterable[str]) -> str | None:
    """Return the CPU build of torch to install, of the versions that the index offers.

    The one that the wheel asks for, else the newest below it, else the newest.
    """
    builds = sorted((v for v in offered if v.endswith("+cpu")), key=_numbers)
    if not builds:
        return None
    match = re.search(r"==\s*([0-9.]+)", requirements(metadata).get("torch", ""))
    if match is None:
        return f"torch=={builds[-1]}"
    wanted = _numbers(match.group(1))
    near = [build for build in builds if _numbers(build) <= wanted]
    return f"torch=={(near or builds)[-1]}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0]))
