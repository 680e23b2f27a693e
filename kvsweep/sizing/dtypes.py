"""Data types of keys and values, by vLLM's names."""

from __future__ import annotations

from kvsweep.errors import InputError, did_you_mean, shown

BYTES = {
    "bfloat16": 2,
    "float16": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}
"""Bytes of an element (``STR_DTYPE_TO_TORCH_DTYPE``)."""

ALIASES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "float8": "fp8"}

SPARSE_MLA = "fp8_ds_mla"
"""The format of DeepSeek-V3.2's latent vector: 512 of 8 bits, their scales, 64 of 16 bits."""

SPARSE_MLA_BYTES = 656
"""Bytes of a token in that format (``mla_attention.py``)."""

MODEL_DTYPES = ("bfloat16", "float16", "float32")
"""What a ``config.json`` may name; vLLM runs float32 checkpoints in 16 bits unless told."""


def cache_dtype(name: str, model_dtype: str, kept: str | None = None) -> str:
    """Return the data type of the KV cache.

    Parameters
    ----------
    name : str
        vLLM's ``--kv-cache-dtype``; ``auto``: that of the model.
    model_dtype : str
        ``torch_dtype`` of the model.
    kept : str or None
        What its checkpoint wants for keys and values where `name` is ``auto``.

    Raises
    ------
    InputError
        If its bytes are not known.
    """
    if name == "auto" and kept is not None:
        if kept not in BYTES:
            raise InputError(
                f"--dtype: auto is {kept} of this checkpoint, which is not computed here; give "
                f"another: {', '.join(BYTES)}"
            )
        return kept
    if name == "auto":
        return "bfloat16" if model_dtype == "float32" else model_dtype
    found = ALIASES.get(name, name)
    known = ["auto", *BYTES, SPARSE_MLA]
    if found not in known:
        raise InputError(
            f"--dtype: {shown(name)} is not known; allowed: {', '.join(known)}"
            f"{did_you_mean(name, known)}"
        )
    return found
