"""What GPUs of tensor parallelism exchange: a stated model, as one GPU cannot measure it.

Every layer ends its attention and its feed-forward part with an all-reduce of a token's hidden
vector, and the embedding with one more. An all-reduce of `b` bytes among `n` GPUs takes
``latency + 2 (n - 1) / n * b / bandwidth``, where the factor is that of NCCL's "bus bandwidth"
(NVIDIA/nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

from typing import NamedTuple

from kvsweep.errors import InputError
from kvsweep.gpu.shard import Shard

LATENCY_US = 10.0
"""Microseconds of an all-reduce of next to nothing."""

REACHED = 0.75
"""Share of a link's bandwidth that a large all-reduce reaches."""

SOURCE = (
    "vLLM's own benchmark on H100 (vllm-project/vllm#24111, hidden 8192, bfloat16): the fastest "
    "all-reduce of 6 GPUs takes 13 us for 0.5 MiB and 31 us for 4 MiB: 10 us, and 0.75 of NVLink's "
    "450 GB/s"
)
"""Where `LATENCY_US` and `REACHED` come from."""

LINKS_GB_S = {
    **dict.fromkeys(("a100", "a100-40gb"), 300.0),
    **dict.fromkeys(("h100", "h200"), 450.0),
    "b200": 900.0,
    "mi300x": 448.0,
}
"""GB/s of a GPU to its peers, one way, by the makers' data sheets; names as of `find_gpu`."""


class Exchange(NamedTuple):
    """What a step takes longer, microseconds: once, and for each token."""

    step_us: float
    token_us: float
    source: str


def exchange_terms(
    shard: Shard, gpu: str, latency_us: float | None = None, gb_s: float | None = None
) -> Exchange:
    """Return the terms of the exchange; zero of one GPU.

    Parameters
    ----------
    shard : Shard
        One GPU's part of a model.
    gpu : str
        Name of the GPU (`kvsweep.sizing.gpus`), or anything if both of the next are given.
    latency_us : float or None
        Of an all-reduce; None: `LATENCY_US`.
    gb_s : float or None
        Bandwidth that a large all-reduce reaches (NCCL's bus bandwidth); None: `REACHED` of
        `LINKS_GB_S`.

    Raises
    ------
    InputError
        If the links between GPUs of that name are not known.
    """
    if shard.tp == 1:
        return Exchange(0.0, 0.0, "")
    told = SOURCE if latency_us is None or gb_s is None else "given"
    if gb_s is None:
        if gpu not in LINKS_GB_S:
            raise InputError(
                f"--allreduce-gb-s: missing; the links between GPUs are known of "
                f"{', '.join(LINKS_GB_S)}, not of {gpu}"
            )
        gb_s = REACHED * LINKS_GB_S[gpu]
    latency = LATENCY_US if latency_us is None else latency_us
    count = 2 * shard.layers + 1
    moved = 2 * (shard.tp - 1) / shard.tp * shard.hidden * 2
    return Exchange(
        count * latency,
        count * moved / (gb_s * 1e3),
        f"{count} all-reduces of {latency:g} us and {gb_s:g} GB/s among {shard.tp} GPUs: {told}",
    )
