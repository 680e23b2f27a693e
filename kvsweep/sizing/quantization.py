"""What a checkpoint says of its quantization, of weights and of keys and values."""

from __future__ import annotations

from kvsweep.errors import InputError
from kvsweep.sizing.config_values import Values

MODELOPT = "modelopt"
MODELOPT_CACHES = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}
"""Formats of keys and values by ModelOpt's names (``MODELOPT_TO_VLLM_KV_CACHE_DTYPE_MAP``)."""


def quantization(whole: Values, text: Values) -> Values | None:
    """Return the table on quantization of a ``config.json``, where vLLM looks for it.

    Parameters
    ----------
    whole, text : Values
        The file, and its text model.
    """
    for key in ("quantization_config", "compression_config"):
        for place in (whole, text):
            found = place.section(key)
            if found is not None and found.table:  # an empty one says nothing, as in vLLM
                return found
    return None


def method(about: Values) -> str:
    """Return who quantized, by vLLM's name; empty if nothing says it."""
    name = (about.word("quant_method") or "").lower().replace("_tensors", "-tensors")
    producer = about.section("producer")
    made = producer is not None and producer.word("name") == MODELOPT
    return MODELOPT if made else name


def scale_block(about: Values | None) -> int:
    """Return the rows of a weight in FP8 that share a scale and stay on one GPU."""
    if about is None or method(about) != "fp8":
        return 1
    block = about.table.get("weight_block_size")
    rows = block[0] if isinstance(block, list) and block else None
    return rows if type(rows) is int and rows > 0 else 1


def kept_dtype(about: Values | None, latent: bool) -> str | None:
    """Return the data type that a checkpoint wants for keys and values, None if it has no wish.

    As vLLM's ``resolve_kv_cache_dtype_string`` and its `Attention` layer, not that of MLA, do it
    where ``--kv-cache-dtype`` is ``auto``.

    Raises
    ------
    InputError
        If it is one that vLLM refuses.
    """
    if about is None:
        return None
    by = method(about)
    if by.startswith(MODELOPT):
        return _modelopt(about)
    if by != "compressed-tensors" or latent or (scheme := about.section("kv_cache_scheme")) is None:
        return None
    if (scheme.table.get("type"), scheme.table.get("num_bits")) != ("float", 8):
        raise InputError(f"{scheme.where}: vLLM takes floats of 8 bits only")
    return "fp8"


def _modelopt(about: Values) -> str | None:
    inner = about.section("quantization") or about
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        for place in (inner, about):
            wanted = place.table.get(key)
            if isinstance(wanted, dict):
                return _modelopt_scheme(wanted)
            if isinstance(wanted, str):
                return MODELOPT_CACHES.get(wanted.lower())
    return None


def _modelopt_scheme(scheme: dict[str, object]) -> str | None:
    bits = scheme.get("num_bits") if scheme.get("type") == "float" else None
    if bits == 8 and scheme.get("dynamic") is False:
        return MODELOPT_CACHES["fp8"]
    return "nvfp4" if bits == 4 else None
