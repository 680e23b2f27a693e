"""How a model is served, as far as the size of its KV cache goes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvsweep.errors import InputError
from kvsweep.limits import MAX_BATCHED_TOKENS, MAX_BLOCK_TOKENS, MAX_LAYERS, MAX_SEQS, MAX_TOKENS
from kvsweep.sizing.architectures import KNOWN, WHOLE
from kvsweep.sizing.defaults import AITER_BLOCK, BLOCK_SIZE, SPARSE_BLOCK, UTILIZATION
from kvsweep.sizing.dtypes import ALIASES, BYTES, SPARSE_MLA, cache_dtype
from kvsweep.sizing.gpus import Defaults, Gpu
from kvsweep.sizing.layers import Limits, State, concurrent_batches
from kvsweep.sizing.model import Model
from kvsweep.sizing.raising import KERNEL_BLOCK, kept_state, raised_block


@dataclass(frozen=True)
class Asked:
    """What the user says; None: as vLLM decides.

    Attributes
    ----------
    tp, pp : int
        GPUs of tensor and of pipeline parallelism.
    dtype : str
        vLLM's ``--kv-cache-dtype``.
    block_size : int or None
        Tokens of a block.
    utilization : float
        ``gpu_memory_utilization``.
    max_model_len, max_num_batched_tokens, max_num_seqs : int or None
        vLLM's options of these names.
    async_scheduling : bool
        Whether the next step is scheduled while one is computed.
    prefix_caching : bool
        Whether blocks, and with them states, are kept for other requests.
    gdn_prefill, mamba_dtype, mamba_ssm_dtype : str or None
        vLLM's ``--gdn-prefill-backend``, ``--mamba-cache-dtype`` and ``--mamba-ssm-cache-dtype``.
    is_raised : bool
        Whether the block size is one that a server has raised already, as its log tells it.
    """

    tp: int = 1
    pp: int = 1
    dtype: str = "auto"
    block_size: int | None = None
    utilization: float = UTILIZATION
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    async_scheduling: bool = True
    prefix_caching: bool = True
    gdn_prefill: str | None = None
    mamba_dtype: str | None = None
    mamba_ssm_dtype: str | None = None
    is_raised: bool = False

    def check(self) -> None:
        """Check the ranges of all numbers.

        Raises
        ------
        InputError
            Naming the first that is out of its range.
        """
        for option, value, most in (
            ("tp", self.tp, MAX_LAYERS),
            ("pp", self.pp, MAX_LAYERS),
            ("block-size", self.block_size, MAX_BLOCK_TOKENS),
            ("max-model-len", self.max_model_len, MAX_TOKENS),
            ("max-num-batched-tokens", self.max_num_batched_tokens, MAX_BATCHED_TOKENS),
            ("max-num-seqs", self.max_num_seqs, MAX_SEQS),
        ):
            if value is not None and not 1 <= value <= most:
                raise InputError(f"--{option}: {value:,}; allowed: 1 to {most:,}")
        if not 0 < self.utilization <= 1:
            raise InputError(
                f"--utilization: {self.utilization:g}; allowed: above 0, at most 1, as 0.92"
            )


@dataclass(frozen=True)
class Served:
    """A model with all settings decided.

    Attributes
    ----------
    model : Model
        The model.
    asked : Asked
        What was asked.
    dtype : str
        Data type of keys and values.
    block_size : int
        Tokens of a block.
    block_size_from : str
        Who says so.
    limits : Limits
        Longest request, and tokens under way.
    defaults : Defaults
        Requests and tokens of a step.
    state : State or None
        What layers without keys and values keep of a request; None: there are none.
    raised_from : int or None
        Tokens of a block before vLLM raised it to hold a state; None: it did not.
    """

    model: Model
    asked: Asked
    dtype: str
    block_size: int
    block_size_from: str
    limits: Limits
    defaults: Defaults
    state: State | None = None
    raised_from: int | None = None


def usual_step(model: Model, gpu: Gpu | None) -> Defaults:
    """Return what ``vllm serve`` takes for requests and tokens of a step unless told.

    A step has room for the largest picture or video of a model that sees it as a whole.
    """
    usual = gpu.defaults() if gpu else Defaults(256, 2048)
    return replace(
        usual, max_num_batched_tokens=max(usual.max_num_batched_tokens, model.item_tokens)
    )


def serve(model: Model, asked: Asked, gpu: Gpu | None) -> Served:
    """Decide the settings that are not given, as vLLM does.

    Raises
    ------
    InputError
        If vLLM refuses the settings.
    """
    asked.check()
    _check_parallel(model, asked)
    if asked.max_model_len is not None and asked.max_model_len > model.max_model_len:
        raise InputError(
            f"--max-model-len: {asked.max_model_len:,}; vLLM takes at most the "
            f"{model.max_model_len:,} tokens of {model.name} (max_position_embeddings), unless "
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN is set, which is not read; for that give a config.json "
            "that has more as --model"
        )
    usual = usual_step(model, gpu)
    longest = asked.max_model_len or model.usual_model_len or model.max_model_len
    most = (asked.max_num_seqs or usual.max_num_seqs) * longest
    tokens = asked.max_num_batched_tokens or min(usual.max_num_batched_tokens, most)
    seqs = asked.max_num_seqs or min(usual.max_num_seqs, tokens)
    if seqs > tokens:
        raise InputError(
            f"--max-num-seqs: {seqs:,}; vLLM takes at most max_num_batched_tokens, here {tokens:,}"
        )
    dtype = _dtype(model, asked, gpu)
    size, source = _block_size(model, asked, gpu, dtype)
    batches = concurrent_batches(asked.pp, asked.async_scheduling)
    limits, steps = Limits(longest, batches * tokens), Defaults(seqs, tokens)
    if not model.states:
        return Served(model, asked, dtype, size, source, limits, steps)
    token = model.attention[0].on_gpu(asked.tp, dtype).token_bytes
    block = raised_block(model, asked, gpu, size, token)
    if block > MAX_BLOCK_TOKENS:
        raise InputError(
            f"--model: a block of {model.name} has {block:,} tokens to hold a state; allowed: at "
            f"most {MAX_BLOCK_TOKENS:,}"
        )
    state = kept_state(model, asked, gpu, block, longest)
    if block == size:
        return Served(model, asked, dtype, size, source, limits, steps, state)
    source = f"raised from {size} to hold a state"
    return Served(model, asked, dtype, block, source, limits, steps, state, size)


def _check_parallel(model: Model, asked: Asked) -> None:
    if not model.takes(asked.tp):
        fitting = ", ".join(str(n) for n in range(1, 65) if model.takes(n))
        raise InputError(f"--tp: {asked.tp}; vLLM wants {_indivisible(model, asked.tp)}: {fitting}")
    if asked.pp > model.layers:
        raise InputError(f"--pp: {asked.pp}; {model.name} has {model.layers} layers")
    if asked.pp > 1 and model.architecture in WHOLE:
        raise InputError(f"--pp: {asked.pp}; vLLM 0.33.0 has no pipelines of {model.architecture}")


def _indivisible(model: Model, tp: int) -> str:
    """Say what of a model so many GPUs cannot have divided among them."""
    if model.heads % tp:
        return f"the {model.heads} attention heads of {model.name} to be divisible by it"
    if not model.takes_heads(tp):
        return f"the key-value heads of {model.name} to be divisible by it, or it by them"
    if not model.takes_states(tp):
        return f"the heads and channels of the states of {model.name} to be divisible by it"
    blocks = f" in blocks of {model.inner_block}" if model.inner_block > 1 else ""
    return f"the intermediate_size of {model.name}, {model.inner:,}, to be divisible by it{blocks}"


def _dtype(model: Model, asked: Asked, gpu: Gpu | None) -> str:
    """Return the data type of keys and values; sparse MLA may have a format of its own."""
    name = ALIASES.get(asked.dtype, asked.dtype)
    if name == "auto" and model.kept_dtype is not None:
        name = model.kept_dtype
    if gpu is not None and model.is_sparse and name in gpu.packed:
        return SPARSE_MLA
    if name == SPARSE_MLA and not model.is_sparse:
        raise InputError(f"--dtype: {SPARSE_MLA} is a format of sparse MLA only (DeepSeek-V3.2)")
    own = cache_dtype("auto", model.dtype)
    if asked.dtype != "auto" and name != own and BYTES.get(name, 1) > 1:
        raise InputError(f"--dtype: {name}; of {model.name} vLLM takes {own} or auto, or 8 bits")
    return cache_dtype(asked.dtype, model.dtype, model.kept_dtype)


def _block_size(model: Model, asked: Asked, gpu: Gpu | None, dtype: str) -> tuple[int, str]:
    size, source = usual_block(model, gpu, dtype)
    if asked.block_size is None:
        return size, source
    if model.is_sparse and asked.block_size % size:
        raise InputError(
            f"--block-size: {asked.block_size}; the indexer of {model.name} takes {size} tokens, "
            "or a multiple"
        )
    return asked.block_size, "given"


def unsupported_block(served: Served, gpu: Gpu | None) -> str | None:
    """Say that no attention of vLLM's takes the blocks of a server; None if one does.

    Those of AITER for MLA on AMD's GPUs take any.

    Parameters
    ----------
    served : Served
        What is served.
    gpu : Gpu or None
        The GPU; None: one of NVIDIA's.
    """
    return refused_block(served.block_size, served.model.is_latent, gpu)


def refused_block(block_size: int, latent: bool, gpu: Gpu | None) -> str | None:
    """Say the same of so many tokens a block, with attention that is MLA's or is not."""
    if block_size % KERNEL_BLOCK == 0 or (gpu is not None and gpu.rocm and latent):
        return None
    told = f"blocks of {KERNEL_BLOCK} tokens, or of a multiple, not of {block_size}"
    return f"vLLM does not start: its attention takes {told}"


def usual_block(
    model: Model, gpu: Gpu | None, dtype: str, connector: bool = False
) -> tuple[int, str]:
    """Return the tokens of a block that vLLM takes unless told, and why.

    Parameters
    ----------
    model : Model
        The model.
    gpu : Gpu or None
        The GPU; None: one of NVIDIA's.
    dtype : str
        Data type of keys and values.
    connector : bool
        Whether a connector takes them elsewhere too, as to memory of the CPU. AMD's own attention
        has neither one nor sinks; then the next one is AITER's, which vLLM's images have, unless
        Triton's alone serves the model.
    """
    if model.is_sparse:
        return (SPARSE_BLOCK if gpu is None else gpu.sparse_block), "its indexer's"
    if model.is_latent and gpu is not None:
        size = gpu.mla_block if BYTES[dtype] > 1 else gpu.mla_block_8bit
        if size != BLOCK_SIZE:
            return size, f"vLLM's first backend for MLA on {gpu.name}"
    elif gpu is not None and gpu.rocm and _takes_aiter(model, connector):
        beside = "a connector" if connector else "attention sinks"
        return AITER_BLOCK, f"AITER's attention, which vLLM takes for {beside} on {gpu.name}"
    elif gpu is not None and (wide := _wide_block(model, gpu, dtype)):
        return wide
    return BLOCK_SIZE, "vLLM's default"


def _wide_block(model: Model, gpu: Gpu, dtype: str) -> tuple[int, str] | None:
    """Return the tokens of a block by the width of heads, and why; None: it does not decide."""
    widest = max(shape.key for shape in model.attention)
    if model.whole_items and widest in WHOLE_HEADS and gpu.whole_block != BLOCK_SIZE:
        why = f"TRITON_FLASHINFER's, which vLLM takes for images on {gpu.name}"
        return gpu.whole_block, why
    packed = dtype in ("fp8", "fp8_e4m3") and widest == max(WHOLE_HEADS)
    if packed and gpu.wide_block_8bit != BLOCK_SIZE:
        return gpu.wide_block_8bit, f"FlashAttention 4's in FP8, with heads of {widest} channels"
    return None


WHOLE_HEADS = 256, 512
"""Channels of heads with which images are given to an attention of their own."""

_TRITON = ("Gemma3ForConditionalGeneration", "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration")
"""Models with attention to all of an image, or heads of several sizes."""


def _takes_aiter(model: Model, connector: bool) -> bool:
    needed = connector or KNOWN[model.architecture].all_bias
    return needed and model.architecture not in _TRITON
