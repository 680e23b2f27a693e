"""Keys and values that no attention of vLLM 0.33.0 takes on a GPU, so that it does not start.

As its ``vllm/platforms/cuda.py`` chooses among backends, and as those that are left refuse.
"""

from __future__ import annotations

from kvsweep.sizing.architectures import KNOWN
from kvsweep.sizing.gpus import Gpu
from kvsweep.sizing.model import Model
from kvsweep.sizing.settings import Served

FLASHINFER_HEADS = (64, 128, 256, 512)
"""Channels of a head that FlashInfer takes."""


def unserved(served: Served, gpu: Gpu | None) -> str | None:
    """Say that no attention takes the keys and values of a server; None if one does, or may.

    Parameters
    ----------
    served : Served
        What is served.
    gpu : Gpu or None
        The GPU; None: one of NVIDIA's.
    """
    model, dtype = served.model, served.dtype
    if gpu is not None and gpu.rocm:
        return None
    if model.is_latent and dtype == "fp8_e5m2":
        return "vLLM does not start: its latent attention takes FP8 as fp8_e4m3, not fp8_e5m2"
    if gpu is None:
        return None
    if model.is_sparse and (gpu.a100 or gpu.name == "l40s"):
        return f"vLLM does not start: it has no sparse latent attention on {gpu.name}"
    if gpu.a100 and dtype.startswith("fp8") and _needs_triton(model):
        only = f"Triton's attention, the only one for {model.name}"
        return f"vLLM does not start: {only}, takes no FP8 on {gpu.name}"
    return None


def _needs_triton(model: Model) -> bool:
    """Return whether of the attentions that an A100 has in FP8 all but Triton's refuse a model."""
    if model.is_latent:
        return True
    sinks = KNOWN[model.architecture].all_bias
    wide = any(shape.key not in FLASHINFER_HEADS for shape in model.attention)
    several = model.architecture.startswith("Gemma4")  # heads of several sizes, all to Triton
    return sinks or wide or several or bool(model.whole_items)
