"""The state that layers keep of a request, and the block size that vLLM raises to hold it.

Counterpart of vLLM 0.33.0's ``Platform._align_hybrid_block_size`` (``platforms/interface.py``): a
block of all layers has as many bytes, so that one of attention has to be as large as a state.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

from kvsweep.errors import InputError, shown
from kvsweep.sizing.layers import State, cdiv
from kvsweep.sizing.states import CHANNEL_BYTES, number_bytes

if TYPE_CHECKING:
    from kvsweep.sizing.gpus import Gpu
    from kvsweep.sizing.model import Model
    from kvsweep.sizing.settings import Asked

KERNEL_BLOCK = 16
"""Tokens of the smallest block of FlashAttention, FlashInfer, Triton and ROCm's attention."""

DELTA_CHUNK = 64
"""Tokens between the states that FlashInfer's prefill of gated delta nets can tell."""

PREFILLS = ("flashinfer", "triton", "cutedsl", "aiter_flydsl", "sycl")
"""vLLM's ``--gdn-prefill-backend``."""


def kept_state(model: Model, asked: Asked, gpu: Gpu | None, block: int, longest: int) -> State:
    """Return what a layer keeps of a request on one GPU.

    Parameters
    ----------
    model : Model
        A model with states.
    asked : Asked
        How it is served. With prefix caching (``mamba_cache_mode`` align) a request holds the
        state that it writes and the last one before, and one for a checkpoint.
    gpu : Gpu or None
        The GPU; None: one on which checkpoints are told.
    block : int
        Tokens of a block, as raised.
    longest : int
        Tokens of the longest request.
    """
    size = state_bytes(model, asked)
    if not asked.prefix_caching:
        return State(size, 1, longest, checkpoint=False)
    told = tells_checkpoints(model, asked, gpu)
    return State(size, 3 if told else 2, block, told)


def state_bytes(model: Model, asked: Asked) -> int:
    """Return the bytes of a layer's state on one GPU.

    Raises
    ------
    InputError
        If a data type is none of vLLM's.
    """
    channel = number_bytes(asked.mamba_dtype, "--mamba-cache-dtype") or CHANNEL_BYTES
    cell = number_bytes(asked.mamba_ssm_dtype, "--mamba-ssm-cache-dtype")
    return model.states[0].on_gpu(asked.tp, channel, cell)


def tells_checkpoints(model: Model, asked: Asked, gpu: Gpu | None) -> bool:
    """Return whether layers can tell the state at a block's end from inside of a step.

    Mamba-2 always can; a gated delta net where its prefill is FlashInfer's
    (``_resolve_gdn_prefill_backend`` of vLLM 0.33.0).

    Raises
    ------
    InputError
        If the prefill that is asked for is none of vLLM's.
    """
    if asked.gdn_prefill not in (None, *PREFILLS):
        raise InputError(
            f"--gdn-prefill-backend: {shown(asked.gdn_prefill)}; allowed: {', '.join(PREFILLS)}"
        )
    key = model.states[0].key
    if key is None:
        return True
    if asked.gdn_prefill not in (None, "flashinfer"):
        return False
    return gpu is None or gpu.source == "given" or gpu.delta_keys in (0, key)


def raised_block(model: Model, asked: Asked, gpu: Gpu | None, block: int, token_bytes: int) -> int:
    """Return the tokens of a block of attention that is as large as a state.

    Parameters
    ----------
    model : Model
        A model with states.
    asked : Asked
        How it is served.
    gpu : Gpu or None
        The GPU, as of `kept_state`.
    block : int
        Tokens of a block as given, or vLLM's default.
    token_bytes : int
        Bytes of a token's keys and values in a layer, on one GPU.
    """
    size = state_bytes(model, asked)
    if asked.is_raised and block * token_bytes >= size:
        return block
    step = max(KERNEL_BLOCK, block)
    if asked.prefix_caching and model.states[0].key and tells_checkpoints(model, asked, gpu):
        step = lcm(step, DELTA_CHUNK)
    needed = step * cdiv(size, step * token_bytes)
    return max(block, KERNEL_BLOCK * cdiv(needed, KERNEL_BLOCK))
