"""Is there what a measurement needs? Loading the parts of a step, or saying what is missing."""

from __future__ import annotations

import importlib.metadata
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.errors import InputError, did_you_mean, shown
from kvsweep.gpu.batches import Batch, Plan
from kvsweep.gpu.counts import KV_BYTES, layer_weights
from kvsweep.gpu.hardware_names import known_gpu
from kvsweep.gpu.shard import LayerKind, Shard
from kvsweep.gpu.step_device import HEAD, Part
from kvsweep.llama.hardware import cpu_name
from kvsweep.sizing.sizes import GIB

if TYPE_CHECKING:
    from kvsweep.gpu.torch_device import TorchDevice

INSTALL = "pip install 'kvsweep[torch]'"

MOST_COPIES = 16
"""Layers of one kind at most."""

ROOM = 0.9
"""Share of the free memory that may be taken."""

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
        If PyTorch is not installed, or has no such device.
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
    free, memory = torch.cuda.mem_get_info(device)
    cache = getattr(about, "L2_cache_size", 0)
    return Machine(device, about.name, known_gpu(about.name), memory, free, cache, 0)


def load_device(machine: Machine, shard: Shard, plan: Plan, fp8: bool) -> TorchDevice:
    """Make all parts of a step of random weights, with room for all batches.

    Parameters
    ----------
    machine : Machine
        What is measured.
    shard : Shard
        One GPU's part of a model.
    plan : Plan
        The batches.
    fp8 : bool
        Whether products with the layers' weights are of 8 bits.

    Raises
    ------
    InputError
        If it cannot compute in 8 bits, or memory does not suffice.
    """
    import torch

    from kvsweep.gpu.torch_attention import find_kernel
    from kvsweep.gpu.torch_clock import CudaClock, HostClock
    from kvsweep.gpu.torch_device import TorchDevice
    from kvsweep.gpu.torch_kit import build_kit
    from kvsweep.gpu.torch_layer import HeadStack, LayerStack
    from kvsweep.gpu.torch_layout import blocks_needed

    if fp8:
        check_fp8(machine)
    copies = {kind: _copies(machine, layer_bytes(shard, kind, fp8)) for kind in shard.kinds}
    head = shard.hidden * shard.vocab * KV_BYTES
    check_memory(machine, shard, plan, fp8, copies)
    try:
        with torch.inference_mode():
            kit = build_kit(machine.device, fp8)
            kernel, refused = ("latent", "") if shard.latent else find_kernel(shard, machine.device)
            blocks = blocks_needed(plan.batches)
            parts: dict[Part, LayerStack | HeadStack] = {
                Part(kind.name, kind.layers): LayerStack(
                    shard, kind, kit, copies=copies[kind], blocks=blocks, kernel=kernel
                )
                for kind in shard.kinds
            }
            parts[Part(HEAD, 1)] = HeadStack(shard, kit, _copies(machine, head))
    except torch.OutOfMemoryError:
        raise InputError(
            f"{machine.name}: its memory does not suffice for the layers of {shard.model}; more "
            "--tp, or less --pool-tokens"
        ) from None
    on_gpu = machine.device.type == "cuda"
    clock = CudaClock(torch) if on_gpu else HostClock(machine.threads)
    attributes = {
        **_versions(torch, machine),
        "clock": clock.name,
        "attention_kernel": kernel,
        "kernels_refused": refused,
        "elementwise": "compiled" if kit.compiled else "one by one",
        "copies": ", ".join(f"{kind.name}: {n}" for kind, n in copies.items()),
    }
    return TorchDevice(attributes, parts, clock)


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


def layer_bytes(shard: Shard, kind: LayerKind, fp8: bool) -> int:
    """Return the bytes of the weights of a layer."""
    return layer_weights(shard, kind)[1] * (1 if fp8 else 2)


def check_memory(
    machine: Machine, shard: Shard, plan: Plan, fp8: bool, copies: dict[LayerKind, int]
) -> None:
    """Refuse what does not fit, before anything is made."""
    kept = max(batch.held for batch in plan.batches) * shard.token_channels * KV_BYTES
    parts = sum(count * (layer_bytes(shard, kind, fp8) + kept) for kind, count in copies.items())
    head = shard.hidden * shard.vocab * KV_BYTES
    head *= _copies(machine, head)
    largest = max(plan.batches, key=lambda batch: batch.tokens)
    needed = parts + head + _working(shard, largest)
    if needed > ROOM * machine.free:
        raise InputError(
            f"{machine.name}: {needed / GIB:.1f} GiB are needed for the layers of {shard.model}, "
            f"{machine.free / GIB:.1f} of {machine.memory / GIB:.1f} GiB are free; more --tp, or "
            "less --pool-tokens and --max-num-batched-tokens"
        )


def _working(shard: Shard, batch: Batch) -> int:
    """Return the bytes of what a layer computes on the way, generously."""
    wide = 3 * max(shard.ffn, shard.hidden)
    if shard.experts:
        chosen = shard.experts.chosen * (3 * shard.experts.inner + 2 * shard.hidden)
        wide = max(wide, chosen + 3 * shard.experts.shared)
    return 2 * (batch.tokens * (wide + 4 * shard.hidden) + batch.sampled * shard.vocab)


def _copies(machine: Machine, size: int) -> int:
    """Return how many layers of so many bytes are more than twice the cache."""
    return min(MOST_COPIES, 1 + 2 * machine.cache // max(size, 1))


def _versions(torch: Any, machine: Machine) -> dict[str, str | int]:
    of_gpu: dict[str, str | int] = {}
    if machine.device.type == "cuda":
        capability = torch.cuda.get_device_capability(machine.device)
        of_gpu = {
            "compute_capability": ".".join(map(str, capability)),
            "cuda": torch.version.cuda or f"ROCm {torch.version.hip}",
            "cudnn": str(torch.backends.cudnn.version()),
            "driver": _driver(),
        }
    return {
        "device": machine.device.type,
        "hardware": machine.name,
        "gpu": machine.gpu,
        "memory_bytes": machine.memory,
        "threads": machine.threads,
        "torch": torch.__version__,
        **of_gpu,
        "python": platform.python_version(),
    }


def _driver() -> str:
    """Return the driver's version, where it says it to everyone."""
    with suppress(OSError):
        words = Path("/proc/driver/nvidia/version").read_text().split()
        found = [word for word in words if word.count(".") >= 1 and word[0].isdigit()]
        return found[0] if found else "not told"
    return "not told"


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
