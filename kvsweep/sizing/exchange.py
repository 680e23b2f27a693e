"""What GPUs of tensor parallelism exchange in a step: a stated model, as one GPU cannot measure it.

Every layer ends its attention and its feed-forward part with an all-reduce of a token's hidden
vector, and the embedding with one more; of layers that keep states `kvsweep.sizing.state_work` has
how many. An all-reduce of `b` bytes among `n` GPUs takes
``latency + 2 (n - 1) / n * b / bandwidth``, where the factor is that of NCCL's "bus bandwidth"
(NVIDIA/nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

from typing import NamedTuple

from kvsweep.sizing.gpus import figures

LATENCY_US = 10.0
"""Microseconds of an all-reduce of next to nothing."""

REACHED = 0.75
"""Share of a link's bandwidth that a large all-reduce reaches."""

HIDDEN_BYTES = 2
"""Of a channel of the hidden vector, which is in 16 bits."""


NODE = 8
"""GPUs of a node; more of them exchange by slower links, which are not known."""


class Reduces(NamedTuple):
    """All-reduces of a step: of the hidden vector of its tokens, and of one number of each."""

    vectors: int
    numbers: int = 0


def linked_gpus() -> list[str]:
    """Return the GPUs whose links to each other are known."""
    return [name for name, gpu in figures()["gpus"].items() if "peer_bandwidth" in gpu]


def reached_bandwidth(gpu: str, tp: int) -> float | None:
    """Return the bytes/s that a large all-reduce among `tp` GPUs of one node reaches.

    None if their links are not known. Without a switch a GPU has a link to each other one, and uses
    those of its group.

    Examples
    --------
    >>> [reached_bandwidth(gpu, 2) for gpu in ("h100", "mi300x", "l40s")]
    [337500000000.0, 48000000000.0, None]
    """
    about = figures()["gpus"].get(gpu, {})
    if "peer_bandwidth" not in about:
        return None
    links = about.get("peer_links")
    share = min(1.0, (tp - 1) / links) if links else 1.0
    return REACHED * float(about["peer_bandwidth"]) * share


def all_reduces(layers: int) -> Reduces:
    """Return the all-reduces of a step, of layers with attention and a feed-forward part."""
    return Reduces(2 * layers + 1)


def exchange_times(
    reduces: Reduces, hidden: int, tp: int, bandwidth: float | None, latency_us: float = LATENCY_US
) -> tuple[float, float]:
    """Return what a step takes longer, microseconds: once, and for each of its tokens.

    Parameters
    ----------
    reduces : Reduces
        All-reduces of a step.
    hidden, tp : int
        Width of the hidden vector, GPUs that share the model.
    bandwidth : float or None
        That an all-reduce reaches, bytes/s; None: not known, and left out.
    latency_us : float
        Of an all-reduce of next to nothing.
    """
    if tp == 1 or bandwidth is None:
        return 0.0, 0.0
    moved = 2 * (tp - 1) / tp * hidden * HIDDEN_BYTES
    return sum(reduces) * latency_us, reduces.vectors * moved / (bandwidth / 1e6)
