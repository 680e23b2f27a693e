"""The section ``cache``: blocks, and the tier behind them."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from kvsweep.config.base import (
    Bandwidth,
    Count,
    Key,
    KeyProblem,
    Microseconds,
    Name,
    Real,
    Section,
    Share,
    Switch,
    Whole,
    fill,
)
from kvsweep.config.groups import CacheGroup
from kvsweep.config.members import member
from kvsweep.limits import (
    MAX_BLOCK_FACTOR,
    MAX_BLOCK_TOKENS,
    MAX_BLOCKS,
    MAX_GB_PER_S,
    MAX_GROUPS,
    MAX_TOKEN_BYTES,
    MAX_TOKENS,
    MIN_GB_PER_S,
)
from kvsweep.policies import Eviction, Offload, TierEviction

DEFAULT_BLOCKS = 2200
"""The default of ``cache.gpu_blocks``."""

DEFAULT_TOKENS = 35_200
"""What they hold in blocks of the default size, and what sweeps of the block size hold equal."""

CAPACITIES = ("gpu_blocks", "gpu_tokens")
"""The keys that say how much a cache holds, of which one is given at most."""

Blocks = Annotated[Whole, Field(le=MAX_BLOCKS)]
"""Blocks of one instance."""


class Cache(Section):
    """The KV cache of each instance.

    Attributes
    ----------
    block_size : int
        Tokens per block.
    gpu_blocks : int
        Usable blocks; vLLM's ``num_gpu_blocks`` counts one more, its null block.
    gpu_tokens : int or None
        Instead of `gpu_blocks`: tokens that fit, in as many whole blocks as they make.
    groups : tuple of CacheGroup
        Groups of layers with a table of blocks each, of one pool; none: one with full attention.
    prefix_cache_retention_interval : int or None
        As vLLM's option: tokens between the places at which groups with windows or states keep
        what a hit needs that ends there, a multiple of `block_size`; 0, vLLM's default from 0.29
        on: only where prompts end, and where others go on. None: they keep all, as interval
        `block_size` does; of groups that follow from a model it is 0.
    eviction : str
        Which cached block that nobody uses is evicted first: one of `kvsweep.policies.Eviction`.
    cpu_blocks : int
        Blocks of the CPU tier, with offload ``vllm`` each as large as `offload_block_factor` of the
        GPU's; 0: none.
    offload : str
        One of `kvsweep.policies.Offload`: ``watermark`` (above `offload_threshold`; the default of
        rules ``blis``), ``write-through`` (each full block is copied, and loads lengthen the step;
        the default of rules ``vllm``) or ``vllm`` (the OffloadingConnector of vLLM 0.33.0).
    offload_threshold : float
        Watermark: share of blocks in use after a release above which cached free blocks move.
    offload_block_factor : int
        Offload ``vllm``: blocks of the GPU that are stored and loaded as one.
    offload_prompt_only : bool
        Offload ``vllm``: store no output.
    offload_eviction : str
        Offload ``vllm``: one of `kvsweep.policies.TierEviction`.
    transfer_bandwidth : float or None
        Tokens per microsecond between the tiers, each direction; None: from the next three, or 100
        under rules ``blis``. `Scenario` fills in what follows from them and from the preset.
    link : str or None
        What each GPU is linked to its CPU's memory by: one of `kvsweep.config.transfer.links`;
        None: that of the preset of latencies.
    link_gb_per_s : float or None
        Instead of `link`: what it moves, 10^9 bytes per second.
    kv_bytes_per_token : float or None
        Bytes of a token's keys and values on one GPU, of all groups of attention together; None:
        those of the model or the preset.
    transfer_base_latency_us : int
        Fixed part of a transfer.
    transfer_overlap : bool
        Transfers go on beside the computation of their step, instead of before it; with offload
        ``vllm`` they always do.
    thrashing_window_us : int
        A block that comes back from the CPU sooner counts as thrashing; not with offload ``vllm``.
        Rules ``blis`` take 1,000 instead, and refuse any other value than the default.
    """

    block_size: Annotated[Count, Field(le=MAX_BLOCK_TOKENS), Key("token", "tokens per block")] = 16
    gpu_blocks: Annotated[Blocks, Field(ge=1), Key("block", "usable KV blocks per instance")] = (
        DEFAULT_BLOCKS
    )
    gpu_tokens: Annotated[
        Count | None, Key("token", "tokens that fit into the KV cache of an instance")
    ] = None
    groups: Annotated[
        tuple[CacheGroup, ...], Field(max_length=MAX_GROUPS), Key("1", "group of the cache")
    ] = ()
    prefix_cache_retention_interval: Annotated[
        Annotated[Whole, Field(le=MAX_TOKENS)] | None,
        Key("token", "tokens between what windows and states keep in the cache"),
    ] = None
    eviction: Annotated[
        str, member(Eviction), Key("1", "which cached block that nobody uses is evicted first")
    ] = "lru"
    cpu_blocks: Annotated[Blocks, Key("block", "blocks of the CPU tier per instance")] = 0
    offload: Annotated[
        Annotated[str, member(Offload)] | None, Key("1", "how blocks come to the CPU tier")
    ] = None
    offload_threshold: Annotated[
        Share, Key("1", "share of blocks in use above which cached ones move")
    ] = 0.8
    offload_block_factor: Annotated[
        Count, Field(le=MAX_BLOCK_FACTOR), Key("block", "GPU blocks stored and loaded as one")
    ] = 1
    offload_prompt_only: Annotated[Switch, Key("1", "whether no output is stored")] = True
    offload_eviction: Annotated[
        str, member(TierEviction), Key("1", "which blocks of the CPU tier make room")
    ] = "lru"
    transfer_bandwidth: Annotated[
        Bandwidth | None, Key("token/us", "tokens moved between GPU and CPU")
    ] = None
    link: Annotated[Name | None, Key("1", "link between GPU and CPU")] = None
    link_gb_per_s: Annotated[
        Annotated[Real, Field(ge=MIN_GB_PER_S, le=MAX_GB_PER_S)] | None,
        Key("GB/s", "link between GPU and CPU, each direction"),
    ] = None
    kv_bytes_per_token: Annotated[
        Annotated[Real, Field(ge=1.0, le=MAX_TOKEN_BYTES)] | None,
        Key("byte", "bytes of a token's keys and values on one GPU"),
    ] = None
    transfer_base_latency_us: Annotated[Microseconds, Key("us", "fixed part of a transfer")] = 10
    transfer_overlap: Annotated[
        Switch, Key("1", "whether transfers go on beside the computation of their step")
    ] = False
    thrashing_window_us: Annotated[
        Microseconds, Key("us", "a block back from the CPU sooner is thrashing")
    ] = 1_000_000

    @model_validator(mode="after")
    def _count_blocks(self) -> Self:
        if self.gpu_tokens is not None:
            if "gpu_blocks" in self.model_fields_set:
                raise KeyProblem(("gpu_tokens",), "give either gpu_blocks or gpu_tokens")
            blocks = self.gpu_tokens // self.block_size
            if not 1 <= blocks <= MAX_BLOCKS:
                made = f"{self.gpu_tokens} tokens make {blocks or 'no'} blocks of {self.block_size}"
                raise KeyProblem(("gpu_tokens",), f"{made}; allowed: 1 to {MAX_BLOCKS}")
            fill(self, gpu_blocks=blocks)
        self._check_retention()
        return self

    def _check_retention(self) -> None:
        interval = self.prefix_cache_retention_interval
        if interval is not None and interval % self.block_size:
            raise KeyProblem(
                ("prefix_cache_retention_interval",),
                f"{interval} is no multiple of block_size ({self.block_size}), as vLLM needs it; "
                "0: only where prompts end",
            )
