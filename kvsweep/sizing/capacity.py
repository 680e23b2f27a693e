"""Blocks, tokens and requests that fit into an amount of memory, as vLLM counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvsweep.errors import InputError
from kvsweep.limits import MAX_BLOCKS
from kvsweep.sizing.gpus import Gpu
from kvsweep.sizing.groups import Group, block_bytes, blocks_per_request, group_layers, stages
from kvsweep.sizing.layers import Limits, cdiv
from kvsweep.sizing.model import Model
from kvsweep.sizing.settings import Served


@dataclass(frozen=True)
class Layout:
    """How a served model divides the memory of its KV cache.

    Attributes
    ----------
    groups : list of Group
        Layers that share a block table.
    block_bytes : tuple of int
        Bytes of a block on a GPU, by stage of the pipeline.
    token_bytes : int
        Bytes of a token's keys and values in all layers of a GPU, of the stage with most.
    full_token_bytes : int
        Of them, those that stay as long as their request: not those of sliding windows.
    request_blocks : int
        Blocks that vLLM plans for a request of ``max_model_len`` tokens.
    limits : Limits
        Longest request, and tokens under way.
    block_size : int
        Tokens of a block of the first group.
    """

    groups: list[Group]
    block_bytes: tuple[int, ...]
    token_bytes: int
    full_token_bytes: int
    request_blocks: int
    limits: Limits
    block_size: int

    @property
    def hybrid(self) -> bool:
        """Whether several groups draw their blocks from one pool."""
        return len(self.groups) > 1

    @property
    def plain(self) -> bool:
        """Whether tokens are blocks times their size: all layers have full attention."""
        return not self.hybrid and self.groups[0].pages[0].layer.window is None

    @property
    def block_sizes(self) -> list[int]:
        """Tokens of a block of the groups with keys and values, those that differ."""
        groups = (group for group in self.groups if group.pages[0].layer.state is None)
        return sorted({group.block_size for group in groups})

    def blocks(self, memory: Sequence[int]) -> int:
        """Return the blocks that fit into the memory of every stage, the null block included."""
        fits = (size // each for size, each in zip(memory, self.block_bytes, strict=True))
        return max(0, min(fits))

    def concurrency(self, blocks: int) -> float:
        """Return how many requests of ``max_model_len`` tokens fit into `blocks`."""
        return blocks / self.request_blocks

    def logged_tokens(self, blocks: int) -> int:
        """Return what vLLM's log calls the size of the KV cache, tokens."""
        return int(self.concurrency(blocks) * self.limits.max_model_len)

    def tokens(self, blocks: int) -> int:
        """Return the tokens that `blocks` hold.

        A hybrid model's depend on the requests: then it is what vLLM logs, for requests of
        ``max_model_len`` tokens.
        """
        return blocks * self.block_size if self.plain else self.logged_tokens(blocks)

    def starts(self, blocks: int) -> bool:
        """Return whether vLLM starts: a longest request must fit beside the null block."""
        return blocks - 1 >= self.request_blocks

    def longest(self, blocks: int) -> int:
        """Return the largest ``max_model_len`` with which vLLM starts, 0 if there is none."""
        low, high = 0, self.limits.max_model_len
        while low < high:
            middle = (low + high + 1) // 2
            needed = blocks_per_request(self.groups, self.limits._replace(max_model_len=middle))
            low, high = (middle, high) if needed <= blocks - 1 else (low, middle - 1)
        return low


CPU_PAGE = 4096
"""``SharedOffloadRegion.BLOCK_SIZE_ALIGNMENT`` of vLLM 0.33.0, bytes."""


def cpu_chunk(block_bytes: int, copies: int, factor: int) -> int:
    """Return the bytes of a chunk of vLLM's CPU tier, which begins at a page of memory.

    Parameters
    ----------
    block_bytes : int
        Of a block on a GPU.
    copies : int
        GPUs' parts of a block that are kept (`cpu_copies`).
    factor : int
        The GPU's blocks of a chunk.

    Examples
    --------
    >>> cpu_chunk(3000, copies=2, factor=1)
    8192
    """
    return cdiv(block_bytes * copies * factor, CPU_PAGE) * CPU_PAGE


def cpu_copies(model: Model, tp: int, pp: int, gpu: Gpu | None) -> int:
    """Return how many GPUs' parts of a block vLLM's CPU tier keeps.

    A latent vector is the same on all GPUs, and kept once (``replicated_layout`` of vLLM 0.33.0's
    offloading, on one node), unless the GPU, if it is known, is AMD's.
    """
    alone = gpu is not None and gpu.rocm
    return 1 if model.is_latent and pp == 1 and not alone else tp * pp


def layout(served: Served) -> Layout:
    """Return how a served model divides memory.

    Raises
    ------
    InputError
        If vLLM cannot, or a stage of the pipeline has no cache.
    """
    model, tp = served.model, served.asked.tp
    caches = model.caches(tp, served.dtype, served.state)
    groups = group_layers(caches, served.block_size)
    parts = [model.caches_of(stage) for stage in stages(model.layers, served.asked.pp)]
    if not all(parts):
        raise InputError(f"--pp: {served.asked.pp}; a stage would have no layer with a cache")
    most = max(parts, key=lambda part: sum(caches[i].token_bytes for i in part))
    return Layout(
        groups,
        tuple(block_bytes(groups, frozenset(part)) for part in parts),
        sum(caches[i].token_bytes for i in most),
        sum(caches[i].token_bytes for i in most if caches[i].window is None),
        blocks_per_request(groups, served.limits),
        served.limits,
        served.block_size,
    )


def check_blocks(blocks: int, where: str) -> None:
    """Refuse numbers of blocks that nothing else here takes.

    Raises
    ------
    InputError
        If there are fewer than 1 or more than `kvsweep.limits.MAX_BLOCKS`.
    """
    if not 1 <= blocks <= MAX_BLOCKS:
        raise InputError(f"{where}: {blocks:,} blocks; allowed: 1 to {MAX_BLOCKS:,}")
