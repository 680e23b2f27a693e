"""Loading the parts of a step into a device's memory, if they fit."""

from __future__ import annotations

import platform
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.errors import InputError
from kvsweep.gpu.batches import Batch, Plan
from kvsweep.gpu.counts import KV_BYTES, layer_weights
from kvsweep.gpu.machine import Machine, check_fp8
from kvsweep.gpu.shard import LayerKind, Shard
from kvsweep.gpu.step_device import HEAD, Part
from kvsweep.sizing.sizes import GIB
from kvsweep.sizing.states import FULL, STATE

if TYPE_CHECKING:
    from kvsweep.gpu.torch_device import TorchDevice

MOST_COPIES = 16
"""Layers of one kind at most."""

ROOM = 0.9
"""Share of the free memory that may be taken."""


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
        If it cannot compute in 8 bits, memory does not suffice, or PyTorch fails.
    """
    import torch

    from kvsweep.gpu.torch_attention import find_kernel
    from kvsweep.gpu.torch_clock import CudaClock, HostClock
    from kvsweep.gpu.torch_device import TorchDevice
    from kvsweep.gpu.torch_kit import build_kit
    from kvsweep.gpu.torch_layer import HeadStack, LayerStack, draw_inputs
    from kvsweep.gpu.torch_layout import blocks_needed
    from kvsweep.gpu.torch_scan import find_scan

    if fp8:
        check_fp8(machine)
    copies = {kind: _copies(machine, layer_bytes(shard, kind, fp8)) for kind in shard.kinds}
    head = shard.hidden * shard.vocab * KV_BYTES
    check_memory(machine, shard, plan, fp8, copies)
    try:
        with torch.inference_mode():
            kit = build_kit(machine.device, fp8)
            kernel, refused = ("latent", "") if shard.latent else find_kernel(shard, machine.device)
            scan = find_scan(shard.mamba, machine.device)[0] if shard.mamba else ""
            blocks = blocks_needed(plan.batches)
            inputs = draw_inputs(shard, plan.batches, machine.device)
            parts: dict[Part, LayerStack | HeadStack] = {
                Part(kind.name, kind.layers): LayerStack(
                    shard,
                    kind,
                    kit,
                    copies=copies[kind],
                    blocks=blocks,
                    kernel=kernel,
                    inputs=inputs,
                    scan=scan,
                    states=_states(plan),
                )
                for kind in shard.kinds
            }
            parts[Part(HEAD, 1)] = HeadStack(shard, kit, _copies(machine, head), inputs)
    except torch.OutOfMemoryError:
        raise InputError(
            f"{machine.name}: its memory does not suffice for the layers of {shard.model}; more "
            "--tp, or less --pool-tokens"
        ) from None
    except RuntimeError as error:  # of the driver, or of a kernel that all layers need
        told = " ".join(str(error).split())
        raise InputError(f"{machine.name}: PyTorch failed to make the layers: {told}") from error
    on_gpu = machine.device.type == "cuda"
    clock = CudaClock(torch) if on_gpu else HostClock(machine.threads)
    attributes = {
        **_versions(torch, machine),
        "clock": clock.name,
        "attention_kernel": kernel,
        "kernels_refused": refused,
        "elementwise": "compiled" if kit.compiled else "one by one",
        **({"state_kernel": scan} if scan else {}),
        "copies": ", ".join(f"{kind.name}: {n}" for kind, n in copies.items()),
    }
    return TorchDevice(attributes, parts, clock)


def layer_bytes(shard: Shard, kind: LayerKind, fp8: bool) -> int:
    """Return the bytes of the weights of a layer."""
    return layer_weights(shard, kind)[1] * (1 if fp8 else 2)


def check_memory(
    machine: Machine, shard: Shard, plan: Plan, fp8: bool, copies: dict[LayerKind, int]
) -> None:
    """Refuse what does not fit, before anything is made."""
    parts = sum(
        count * (layer_bytes(shard, kind, fp8) + _kept(shard, kind, plan))
        for kind, count in copies.items()
    )
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


def _states(plan: Plan) -> int:
    """Return how many requests any batch has."""
    return max(batch.sampled for batch in plan.batches)


def _kept(shard: Shard, kind: LayerKind, plan: Plan) -> int:
    """Return the bytes that a layer keeps of the requests of any batch."""
    if kind.keeps == FULL:
        return max(batch.held for batch in plan.batches) * shard.token_channels * KV_BYTES
    if kind.keeps == STATE and shard.mamba:
        return (1 + _states(plan)) * shard.mamba.state_bytes
    return 0


def _working(shard: Shard, batch: Batch) -> int:
    """Return the bytes of what a layer computes on the way, generously."""
    wide = 3 * max(shard.ffn, shard.hidden)
    if shard.mamba:  # states of all chunks in 32 bits, twice
        mamba = shard.mamba
        states = 8 * mamba.inner * mamba.size // min(mamba.chunk, batch.tokens)
        wide = max(wide, 2 * (mamba.inner + mamba.channels) + states)
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
