"""What no command of vLLM says, and is known otherwise."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT, OWN_LOG = "vLLM's default", "the server's own log"
"""Who decides what no option does."""


@dataclass(frozen=True)
class Known:
    """What no command says.

    Attributes
    ----------
    gpu : str or None
        As of ``kvsweep blocks``; None where everything is known that follows from it.
    model : str or None
        ``config.json`` of the model, or a name that is known; None: that of the command.
    acceptance : tuple of float
        Of drafts: one number, or shares by position; empty: not known.
    blocks, block_size, tokens : int or None
        ``num_gpu_blocks``, ``block_size`` and ``max_num_batched_tokens`` that the server itself
        told.
    block_by : str
        Who says so of `block_size`.
    synchronous : bool
        Whether the server itself told that scheduling is not asynchronous.
    gdn_prefill : str or None
        What the server itself told of the prefill of gated delta nets.
    blocks_set : bool
        Whether ``--set`` says how many blocks there are.
    times_set : bool
        Whether ``--set`` says how long steps take.
    gpu_by : str
        Who says which GPU it is.
    """

    gpu: str | None = None
    model: str | None = None
    acceptance: tuple[float, ...] = ()
    blocks: int | None = None
    block_size: int | None = None
    tokens: int | None = None
    block_by: str = OWN_LOG
    synchronous: bool = False
    gdn_prefill: str | None = None
    blocks_set: bool = False
    times_set: bool = False
    gpu_by: str = "--gpu"
