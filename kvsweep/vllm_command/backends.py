"""The tokens of a block as the attention that is chosen takes them, unless they are given."""

from __future__ import annotations

from dataclasses import replace

from kvsweep.sizing.defaults import AITER_BLOCK, BLOCK_SIZE
from kvsweep.sizing.gpus import Gpu
from kvsweep.sizing.model import Model
from kvsweep.sizing.settings import usual_block
from kvsweep.vllm_command.known import DEFAULT, Known
from kvsweep.vllm_command.offload import SIZE, TRANSFER
from kvsweep.vllm_command.step_limits import is_text_only
from kvsweep.vllm_command.values import Values

BACKEND, CONFIG = "attention-backend", "attention-config"
_BLOCKS = {
    "B12X": 128,
    "HPC_ATTN": 64,
    "ROCM_AITER_UNIFIED_ATTN": AITER_BLOCK,
    "TRITON_FLASHINFER": 64,
    "ULTRAQUANT": 64,
}
"""``get_preferred_block_size`` of vLLM 0.33.0's backends, where it is not that of all others."""

_FLASH = ("FLASH_ATTN", "TRITON_FLASH_ATTN")

_WIDE = 256
"""Channels of heads for which FlashAttention 4 on Blackwell takes pages of 128 tokens, if it can
(``_get_fa4_hd256_block_size``)."""


def with_block(known: Known, values: Values, model: Model, gpu: Gpu | None) -> Known:
    """Return what is known, with the tokens of a block that follow from the attention.

    Of latent attention they are asked for where its backend is chosen.

    Parameters
    ----------
    known : Known
        What no option says.
    values : Values
        Of the options.
    model : Model
        What is served.
    gpu : Gpu or None
        The GPU.

    Raises
    ------
    InputError
        If it depends on more than the backend, or groups of layers have backends of their own,
        whose blocks are not those of others.
    """
    if model.is_latent or known.block_size is not None or values.given("block-size"):
        return known
    config = values.table(CONFIG) or {}
    by_kind = config.get("backend_per_kind")
    if isinstance(by_kind, dict) and any(_name(each) in _BLOCKS for each in by_kind.values()):
        told = "backend_per_kind: the size of blocks follows from it: give --block-size"
        raise values.problem(CONFIG, told)
    option = BACKEND if values.given(BACKEND) else CONFIG
    name = _name(values.text(BACKEND) or config.get("backend"))
    wide = any(each.key == _WIDE for each in model.attention)
    if name == "FLASH_ATTN" and wide and gpu is not None and gpu.name == "b200":
        told = f"{name}: the size of blocks follows from it, with heads of {_WIDE} channels on b200"
        raise values.problem(
            option, f"{told}: give --block-size (128, or 16 with FlashAttention 2)"
        )
    if name in _FLASH and gpu is not None and gpu.wide_block_8bit != BLOCK_SIZE:
        return known  # by the width of heads, as where no backend is chosen
    if name != "AUTO":
        by = f"--{option} {name}"
        return replace(known, block_size=_BLOCKS.get(name, BLOCK_SIZE), block_by=by)
    if gpu is not None and gpu.whole_block != BLOCK_SIZE and is_text_only(values, model):
        return replace(known, block_size=BLOCK_SIZE, block_by=DEFAULT)
    if gpu is not None and (values.given(SIZE) or values.given(TRANSFER)):
        size, why = usual_block(model, gpu, model.dtype, connector=True)
        if size != BLOCK_SIZE:
            return replace(known, block_size=size, block_by=why)
    return known


def _name(backend: object) -> str:
    return "AUTO" if backend is None else str(backend).upper()
