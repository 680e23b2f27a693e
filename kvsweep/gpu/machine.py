"""The device that is measured, or one line that says what is missing of it."""

from __future__ import annotations

import importlib.metadata
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError, did_you_mean, shown
from kvsweep.llama.hardware import cpu_name
from kvsweep.sizing.gpus import known_gpu

INSTALL = "pip install 'kvsweep[torch]'"

_MEMINFO = Path("/proc/meminfo")
_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
_FP8_CAPABILITY = (8, 9)


@dataclass(frozen=True)
class Machine:
    """What there is to measure.

    Attributes
    ----------
    device : torch.device
        A GPU, or the processor.
    name : str
        What it is called.
    gpu : str
        Its name in `kvsweep.sizing.gpus`, or empty.
    memory, free, cache : int
        Bytes of its memory, of what is free of it, and of its last-level cache.
    threads : int
        Threads that compute, of a processor.
    """

    device: Any
    name: str
    gpu: str
    memory: int
    free: int
    cache: int
    threads: int


def find_machine(wanted: str, threads: int | None) -> Machine:
    """Return the device to measure.

    Parameters
    ----------
    wanted : str
        ``cuda``, ``cuda:1``, ``cpu``, or ``auto``: CUDA if there is a GPU.
    threads : int or None
        Of a processor; None: as PyTorch has it.

    Raises
    ------
    InputError
        If PyTorch is not installed, or has no such device, or one that is a part of a GPU.
    """
    torch = _import()
    there = torch.cuda.is_available()
    kind = wanted.partition(":")[0]
    if kind not in ("auto", "cuda", "cpu"):
        hint = did_you_mean(wanted, ["auto", "cuda", "cpu"])
        raise InputError(f"--device: {shown(wanted)}; allowed: auto, cuda, cuda:N, cpu{hint}")
    if kind == "cuda" and not there:
        raise InputError(f"--device: {wanted}: PyTorch {torch.__version__} sees no GPU")
    if kind == "cpu" or not there:
        if threads:
            torch.set_num_threads(threads)
        memory, free = _host_memory()
        count = torch.get_num_threads()
        return Machine(torch.device("cpu"), cpu_name(), "", memory, free, _host_cache(), count)
    if threads:
        raise InputError("--threads: has no effect on a GPU; --device cpu measures the processor")
    index = wanted.partition(":")[2] or "0"
    if not index.isdecimal() or int(index) >= torch.cuda.device_count():
        raise InputError(f"--device: {wanted}: there are {torch.cuda.device_count()} GPUs, from 0")
    device = torch.device("cuda", int(index))
    torch.cuda.set_device(device)
    about = torch.cuda.get_device_properties(device)
    if " MIG " in about.name:
        raise InputError(
            f"--device: {about.name}: is a slice of a GPU (MIG), whose times are not the GPU's; "
            "another --device, or the GPU undivided"
        )
    free, memory = torch.cuda.mem_get_info(device)
    cache = getattr(about, "L2_cache_size", 0)
    return Machine(device, about.name, known_gpu(about.name), memory, free, cache, 0)


def check_fp8(machine: Machine) -> None:
    """Refuse 8 bits where there are none."""
    import torch

    if machine.device.type != "cuda":
        raise InputError("--dtype: fp8 needs a GPU (CUDA); a processor is measured in bf16")
    has = torch.cuda.get_device_capability(machine.device)
    if torch.version.hip is None and has < _FP8_CAPABILITY:
        raise InputError(
            f"--dtype: fp8 needs a GPU of compute capability 8.9 or later; {machine.name} has "
            f"{has[0]}.{has[1]}"
        )


def _import() -> Any:
    try:
        import torch
    except ImportError:
        with suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version("torch")
            raise InputError(f"PyTorch {version} does not load; {INSTALL} again") from None
        raise InputError(f"measuring steps needs PyTorch: {INSTALL}") from None
    except Exception as error:  # its shared libraries do not load
        raise InputError(f"PyTorch does not load: {error}; {INSTALL} again") from error
    return torch


def _host_memory() -> tuple[int, int]:
    """Return the bytes of memory, and of what is free of it."""
    try:
        lines = dict(line.split(":") for line in _MEMINFO.read_text().splitlines())
        total, free = (1024 * int(lines[key].split()[0]) for key in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError):
        return 2**62, 2**62  # not told: nothing is refused
    return total, free


def _host_cache() -> int:
    """Return the bytes of the last-level cache, 32 MiB if not told."""
    try:
        text = _CACHE.read_text().strip()
        return int(text.removesuffix("K")) * 1024
    except (OSError, ValueError):
        return 2**25
