"""What GPUs of tensor parallelism exchange, added to layers that were timed on one of them.

`kvsweep.sizing.exchange` has the model.
"""

from __future__ import annotations

from typing import NamedTuple

from kvsweep.errors import InputError
from kvsweep.gpu.shard import Shard
from kvsweep.sizing.exchange import (
    LATENCY_US,
    NODE,
    exchange_times,
    linked_gpus,
    reached_bandwidth,
)

SOURCE = (
    "vLLM's own benchmark on H100 (vllm-project/vllm#24111, hidden 8192, bfloat16): the fastest "
    "all-reduce of 6 GPUs takes 13 us for 0.5 MiB and 31 us for 4 MiB: 10 us, and 0.75 of NVLink's "
    "450 GB/s"
)
"""Where the latency and the share of the links come from."""


def is_short(tp: int, gb_s: float | None) -> bool:
    """Whether the exchange is taken for that of one node, which has fewer GPUs.

    Parameters
    ----------
    tp : int
        GPUs that share the model.
    gb_s : float or None
        Bandwidth that was given, as for `exchange_terms`.
    """
    return gb_s is None and tp > NODE


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
        Bandwidth that a large all-reduce reaches (NCCL's bus bandwidth); None: by the GPU's links.

    Raises
    ------
    InputError
        If the links between GPUs of that name are not known, or one GPU is to exchange something.
    """
    if shard.tp == 1:
        for option, value in (("us", latency_us), ("gb-s", gb_s)):
            if value is not None:
                raise InputError(f"--allreduce-{option}: has no effect with --tp 1")
        return Exchange(0.0, 0.0, "")
    told = SOURCE if latency_us is None or gb_s is None else "given"
    if is_short(shard.tp, gb_s):
        told += f"; as if they were in one node, which has {NODE}: too short"
    if gb_s is None:
        reached = reached_bandwidth(gpu, shard.tp)
        if reached is None:
            raise InputError(
                f"--allreduce-gb-s: missing; the links between GPUs are known of "
                f"{', '.join(linked_gpus())}, not of {gpu}"
            )
        gb_s = reached / 1e9
    latency = LATENCY_US if latency_us is None else latency_us
    return Exchange(
        *exchange_times(shard.reduces, shard.hidden, shard.tp, gb_s * 1e9, latency),
        f"{sum(shard.reduces)} all-reduces of {latency:g} us and {gb_s:g} GB/s among "
        f"{shard.tp} GPUs: {told}",
    )
