"""A scenario: a workload, a cluster of engines, their caches and their latencies."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from kvsweep.config.base import (
    Count,
    Key,
    KeyProblem,
    Microseconds,
    Name,
    Positive,
    Real,
    Section,
    Share,
    Switch,
    Weight,
    Whole,
    not_below,
)
from kvsweep.config.bounds import check_products
from kvsweep.config.groups import CacheGroup
from kvsweep.config.latency import Latency
from kvsweep.config.pools import Pool, UnequalPool, check_pools, has_roles, in_four_keys, pools_of
from kvsweep.config.rules import check_rules
from kvsweep.config.served_model import ServedModel, from_model, times_of_model
from kvsweep.config.service_levels import ServiceLevels
from kvsweep.config.speculative import Speculative
from kvsweep.config.transfer import SPEED_KEYS, settle
from kvsweep.config.workload import Workload
from kvsweep.errors import did_you_mean
from kvsweep.limits import (
    MAX_BANDWIDTH,
    MAX_BATCHED_TOKENS,
    MAX_BLOCK_FACTOR,
    MAX_BLOCK_TOKENS,
    MAX_BLOCKS,
    MAX_BUCKET,
    MAX_GB_PER_S,
    MAX_GROUPS,
    MAX_INSTANCES,
    MAX_POOLS,
    MAX_SEQS,
    MAX_TIME_US,
    MAX_TOKEN_BYTES,
    MAX_TOKENS,
    MIN_BANDWIDTH,
    MIN_GB_PER_S,
    MIN_WEIGHT,
)
from kvsweep.policies import (
    RULES,
    Admission,
    Eviction,
    Offload,
    Priority,
    Routing,
    Scheduler,
    Scorer,
    TierEviction,
    Victim,
)

BLIS_SWITCHES = (
    "visit_evicted",
    "rollback_keeps_table",
    "step_registers",
    "min_one_new",
    "rollback_keeps_tokens",
    "e2e_is_completion",
    "last_step_occupies",
    "drop_counts_output",
    "retry_within_chunk",
    "transfer_per_block",
    "router_sees_transfers",
    "entries_keep_owner",
    "cpu_slots_exact",
    "pooled_rates",
    "recount_after_fill",
    "rollback_prepends",
    "work_conserving",
    "drop_unservable",
    "step_time_final_batch",
    "router_uses_kv_blocks",
)
"""Rules of the reference simulator that ``engine.blis`` switches: `kvsweep.replica.switches`."""


DEFAULT_BLOCKS = 2200
"""The default of ``cache.gpu_blocks``."""

DEFAULT_TOKENS = 35_200
"""What they hold in blocks of the default size, and what sweeps of the block size hold equal."""


def _fill(section: Section, **values: Any) -> None:
    """Set what follows from other keys; these do not count as given."""
    section.__dict__.update(values)


def _known(keys: tuple[str, ...], what: str, family: type[Scorer] | None = None) -> Any:
    def check(table: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        for key in table:
            if key not in keys:
                listed = list(_of_rules(family, info) if family else keys)
                hint = did_you_mean(key, listed)
                raise KeyProblem((key,), f"unknown {what}; allowed: {', '.join(listed)}{hint}")
        return table

    return AfterValidator(check)


def _member(
    family: type[
        Routing | Scheduler | Priority | Victim | Admission | Eviction | Offload | TierEviction
    ],
) -> Any:
    def check(name: str, info: ValidationInfo) -> str:
        return family.from_name(name, _of_rules(family, info)).label

    return AfterValidator(check)


def _of_rules(
    family: type[
        Routing
        | Scheduler
        | Priority
        | Victim
        | Admission
        | Eviction
        | Offload
        | TierEviction
        | Scorer
    ],
    info: ValidationInfo,
) -> tuple[str, ...]:
    """Return the names that the scenario's rule book has; all where that is not known."""
    rules = (info.context or {}).get("rules")
    return family.labels_of(rules) if rules in RULES else family.labels()


Blocks = Annotated[Whole, Field(le=MAX_BLOCKS)]
"""Blocks of one instance."""

Bucket = Annotated[Positive, Field(le=MAX_BUCKET)]
"""Tokens of a bucket, or per second."""

Bandwidth = Annotated[Positive, Field(le=MAX_BANDWIDTH), not_below(MIN_BANDWIDTH)]

"""Tokens per microsecond."""


class Cluster(Section):
    """Instances, and what stands in front of them.

    Attributes
    ----------
    instances : int
        Engines, all alike.
    pools : tuple of UnequalPool
        Instead of `instances`: pools of instances that differ; they are numbered in this order.
    prefill, decode : Pool or None
        Instead of `instances`: those that only prefill, and those that pull the blocks of a prompt
        from them and decode (vLLM's NixlConnector).
    prefill_instances, decode_instances, prefill_gpu_blocks, decode_gpu_blocks : int or None
        The same in four keys, as traces have them.
    kv_transfer_base_us, kv_transfer_bandwidth : int, float or None
        A pull takes this plus its tokens over the bandwidth, tokens per microsecond; each decode
        instance has one link.
    pd_handoff_us : int
        From the end of a prefill to the entry into the queue of a decode instance.
    routing : str
        One of `kvsweep.policies.Routing`.
    scorers : dict
        Weights of weighted routing, by scorer (`kvsweep.policies.Scorer`); their ratios count.
    router_index_blocks : int
        Prompt blocks that the router's own index remembers of each instance.
    count_pending : bool
        Count requests that are routed and still on their way into the queue as load.
    admission : str
        One of `kvsweep.policies.Admission`.
    token_bucket_capacity, token_bucket_refill_rate : float or None
        Tokens, and tokens per second; needed by token-bucket, not read otherwise.
    admission_latency_us, routing_latency_us : int
        Time that each decision takes.
    snapshot_refresh_us : int
        Age up to which the router works with old figures of cache use; 0: always fresh.
    snapshot_load : bool
        Let the load be as old as those figures; with `count_pending`, plus what was routed since.
    """

    instances: Annotated[Count, Field(le=MAX_INSTANCES), Key("1", "engine instances")] = 1
    routing: Annotated[str, _member(Routing), Key("1", "routing of requests to instances")] = (
        "round-robin"
    )
    scorers: Annotated[
        dict[str, Weight],
        _known(Scorer.labels(), "scorer", Scorer),
        Key("1", "weight in weighted routing"),
    ] = Field(default={"prefix-affinity": 3.0, "queue-depth": 2.0, "kv-utilization": 2.0})
    router_index_blocks: Annotated[
        Count, Field(le=MAX_BLOCKS), Key("block", "blocks the router remembers of each instance")
    ] = 10_000
    count_pending: Annotated[
        Switch, Key("1", "whether requests on their way to an instance count as its load")
    ] = True
    admission: Annotated[
        str, _member(Admission), Key("1", "admission of requests to the cluster")
    ] = "always"
    token_bucket_capacity: Annotated[
        Bucket | None, Key("token", "prompt tokens that the bucket holds")
    ] = None
    token_bucket_refill_rate: Annotated[
        Bucket | None, Key("token/s", "rate at which the bucket fills")
    ] = None
    admission_latency_us: Annotated[Microseconds, Key("us", "time that each admission takes")] = 0
    routing_latency_us: Annotated[Microseconds, Key("us", "time that each routing takes")] = 0
    snapshot_refresh_us: Annotated[
        Microseconds, Key("us", "age of the router's figures, at most")
    ] = 0
    snapshot_load: Annotated[
        Switch, Key("1", "whether the router's figures of the load age too")
    ] = False
    pools: Annotated[tuple[UnequalPool, ...], Field(max_length=MAX_POOLS), Key("1", "pool")] = ()
    prefill: Annotated[Pool | None, Key("1", "prefill pool")] = None
    decode: Annotated[Pool | None, Key("1", "decode pool")] = None
    prefill_instances: Annotated[
        Annotated[Count, Field(le=MAX_INSTANCES)] | None, Key("1", "instances that only prefill")
    ] = None
    decode_instances: Annotated[
        Annotated[Count, Field(le=MAX_INSTANCES)] | None, Key("1", "instances that only decode")
    ] = None
    prefill_gpu_blocks: Annotated[
        Annotated[Count, Field(le=MAX_BLOCKS)] | None,
        Key("block", "usable KV blocks per prefill instance"),
    ] = None
    decode_gpu_blocks: Annotated[
        Annotated[Count, Field(le=MAX_BLOCKS)] | None,
        Key("block", "usable KV blocks per decode instance"),
    ] = None
    kv_transfer_base_us: Annotated[
        Microseconds, Key("us", "fixed part of a transfer from prefill to decode")
    ] = 100
    kv_transfer_bandwidth: Annotated[
        Bandwidth | None, Key("token/us", "tokens moved from prefill to decode")
    ] = None
    pd_handoff_us: Annotated[
        Microseconds, Key("us", "end of a prefill to the queue of its decode instance")
    ] = 0

    @model_validator(mode="after")
    def _complete(self) -> Self:
        check_pools(self)
        _fill(self, instances=sum(pool.instances for _, pool in pools_of(self)))
        if self.admission == "token-bucket":
            for key in ("token_bucket_capacity", "token_bucket_refill_rate"):
                if getattr(self, key) is None:
                    raise KeyProblem((key,), "missing; admission 'token-bucket' needs it")
        if self.routing == "weighted" and max(self.scorers.values(), default=0.0) < MIN_WEIGHT:
            raise KeyProblem(("scorers",), "routing 'weighted' needs a weight above 0")
        return self


class Engine(Section):
    """How an instance schedules; the names are vLLM's.

    Attributes
    ----------
    rules : str
        ``vllm``: the compiled kernel. ``blis``: the replica of the reference simulator.
    max_num_seqs : int
        Requests in one batch, at most.
    max_num_batched_tokens : int
        Tokens computed in one step, at most.
    long_prefill_token_threshold : int
        Tokens of one request in one step, at most; 0: no such limit.
    scheduler, priority : str
        One of `kvsweep.policies.Scheduler`, `kvsweep.policies.Priority`.
    victim : str
        Who is preempted when blocks run short: one of `kvsweep.policies.Victim`. Under scheduler
        ``priority`` it chooses among the least urgent.
    priority_age_ms : float
        For priority ``age``: the age that makes a request one level more urgent.
    preempt_for_urgent : bool
        For scheduler ``priority``: a waiting request that lacks blocks or a seat takes those of
        running requests with a larger priority. An experiment: vLLM does not do this.
    async_scheduling : bool
        As in vLLM, where it is on by default: schedule a step while the one before is computed,
        without the tokens that it will sample.
    speculative : Speculative or None
        Drafts that each decode verifies; None: none.
    enable_prefix_caching, enable_chunked_prefill : bool
        As in vLLM.
    reserve_full_prompt : bool
        Admit a request only if all its known tokens fit (vLLM's ``scheduler_reserve_full_isl``).
    watermark : float
        Share of the blocks kept free at admissions, 0 to below 1.
    blis : dict
        For rules ``blis``: switches by name (`BLIS_SWITCHES`); absent ones are as shipped.
    horizon_us : int or None
        For rules ``blis``: when the simulation stops; None: when all is done.
    """

    rules: Annotated[Literal["vllm", "blis"], Key("1", "rule book of the engine")] = "vllm"
    max_num_seqs: Annotated[Count, Field(le=MAX_SEQS), Key("request", "largest batch")] = 256
    max_num_batched_tokens: Annotated[
        Count, Field(le=MAX_BATCHED_TOKENS), Key("token", "token budget of a step")
    ] = 2048
    long_prefill_token_threshold: Annotated[
        Whole, Field(le=MAX_TOKENS), Key("token", "tokens of one request in a step, at most")
    ] = 0
    scheduler: Annotated[
        str, _member(Scheduler), Key("1", "order in which waiting requests are admitted")
    ] = "fcfs"
    priority: Annotated[
        str, _member(Priority), Key("1", "priority of requests without one of their own")
    ] = "constant"
    victim: Annotated[str, _member(Victim), Key("1", "who is preempted when blocks run short")] = (
        "last"
    )
    priority_age_ms: Annotated[
        Real, Field(ge=0.001, le=1e9), Key("ms", "age that makes a request one level more urgent")
    ] = 1000.0
    preempt_for_urgent: Annotated[
        Switch, Key("1", "whether urgent requests preempt others at admission")
    ] = False
    async_scheduling: Annotated[
        Switch, Key("1", "whether a step is scheduled while the one before is computed")
    ] = False
    speculative: Annotated[Speculative | None, Key("1", "speculative decoding")] = None
    enable_prefix_caching: Annotated[
        Switch, Key("1", "whether full blocks are cached for other requests")
    ] = True
    enable_chunked_prefill: Annotated[
        Switch, Key("1", "whether prefills are cut to the rest of the token budget")
    ] = True
    reserve_full_prompt: Annotated[
        Switch, Key("1", "whether a request is admitted only if all its tokens fit")
    ] = True
    watermark: Annotated[
        Real, Field(lt=1.0), Key("1", "share of the blocks kept free at admissions")
    ] = 0.0
    blis: Annotated[
        dict[str, Switch],
        _known(BLIS_SWITCHES, "switch"),
        Key("1", "switch of the reference simulator"),
    ] = Field(default={})
    horizon_us: Annotated[
        Annotated[Count, Field(le=MAX_TIME_US)] | None, Key("us", "end of the simulation")
    ] = None

    @property
    def drafts(self) -> int:
        """Draft tokens that each decode verifies, 0 without speculation."""
        return self.speculative.tokens if self.speculative else 0

    @property
    def drafting_us(self) -> float:
        """What drafting makes each step longer, microseconds."""
        return self.drafts * self.speculative.draft_us if self.speculative else 0.0


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
        Bytes of a token's keys and values on one GPU; None: those of the preset.
    transfer_base_latency_us : int
        Fixed part of a transfer.
    transfer_overlap : bool
        Transfers go on beside the computation of their step, instead of before it; with offload
        ``vllm`` they always do.
    thrashing_window_us : int
        A block that comes back from the CPU sooner counts as thrashing; not with offload ``vllm``.
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
    eviction: Annotated[
        str, _member(Eviction), Key("1", "which cached block that nobody uses is evicted first")
    ] = "lru"
    cpu_blocks: Annotated[Blocks, Key("block", "blocks of the CPU tier per instance")] = 0
    offload: Annotated[
        Annotated[str, _member(Offload)] | None, Key("1", "how blocks come to the CPU tier")
    ] = None
    offload_threshold: Annotated[
        Share, Key("1", "share of blocks in use above which cached ones move")
    ] = 0.8
    offload_block_factor: Annotated[
        Count, Field(le=MAX_BLOCK_FACTOR), Key("block", "GPU blocks stored and loaded as one")
    ] = 1
    offload_prompt_only: Annotated[Switch, Key("1", "whether no output is stored")] = True
    offload_eviction: Annotated[
        str, _member(TierEviction), Key("1", "which blocks of the CPU tier make room")
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
            _fill(self, gpu_blocks=blocks)
        return self


class Scenario(Section):
    """Everything that one simulation depends on but the seed.

    Attributes
    ----------
    workload : Workload or None
        None where the requests come from elsewhere, as in a replay.
    cluster, engine, cache, latency
        The other sections, with their defaults.
    model : ServedModel or None
        What is served: where it says the memory, it decides the blocks of the cache unless given.
    slo : ServiceLevels or None
        How long a request may take to count as a good one; it changes no simulation.
    """

    workload: Workload | None = None
    cluster: Cluster = Cluster()
    engine: Engine = Engine()
    cache: Cache = Cache()
    latency: Latency = Latency()
    model: ServedModel | None = None
    slo: ServiceLevels | None = None

    @model_validator(mode="after")
    def _fits_rules(self, info: ValidationInfo) -> Self:
        folder = (info.context or {}).get("base_dir", Path())
        if self.model is not None:
            self._settle_cache(from_model(self, folder))
            self._settle_latency(folder)
        self._settle_cache(settle(self, folder))
        check_rules(self)
        check_products(self)
        return self

    def _settle_latency(self, folder: Path) -> None:
        assert self.model is not None
        if not self.latency.model_fields_set and self.model.gpu is not None:
            _fill(self, latency=Latency.model_validate(times_of_model(self, folder)))

    def _settle_cache(self, settled: dict[str, Any]) -> None:
        cache = self.cache.model_copy()
        _fill(cache, **settled)
        _fill(self, cache=cache)

    def to_trace(self) -> dict[str, Any]:
        """Return the ``scenario`` of a trace: no workload, coefficients in place, no defaults."""
        dumped: dict[str, Any] = self.model_dump(
            mode="json",
            exclude={
                "workload": True,
                "model": True,
                "slo": True,
                "latency": {"model"},
                "cache": self._unwritten(),
                "cluster": self._unwritten_of_cluster(),
            },
            exclude_defaults=True,
        )
        if not dumped.get("cache", True):
            del dumped["cache"]
        if self.engine.speculative and self.engine.drafts == 0:
            del dumped["engine"]["speculative"]
        dumped["cluster"] = in_four_keys(dumped.get("cluster", {}))
        for section in ("engine", "cluster"):
            if not dumped.get(section, True):
                del dumped[section]
        if self.latency.model_fields_set:  # latencies of zero are told apart from none
            times = {"alpha": list(self.latency.alpha), "beta": list(self.latency.beta)}
            dumped["latency"] = times | dumped.get("latency", {})
        return dumped

    def _unwritten(self) -> set[str]:
        """Return the keys of the cache that others stand for: blocks, and tokens per microsecond.

        Without a CPU tier nothing of it is written that the user did not give.
        """
        keys = {"gpu_tokens", *SPEED_KEYS}
        if self.cache.cpu_blocks == 0:
            keys |= {"offload", "transfer_bandwidth"} - self.cache.model_fields_set
        return keys

    def _unwritten_of_cluster(self) -> set[str]:
        """Return the keys of the cluster that its pools stand for."""
        return {"instances"} if self.cluster.pools or has_roles(self.cluster) else set()


def validate(data: Any, base_dir: Path) -> Scenario:
    """Return the scenario in `data`; file names in it are relative to `base_dir`.

    Raises
    ------
    pydantic.ValidationError
        If it is none.
    """
    engine = data.get("engine") if isinstance(data, dict) else None
    rules = engine.get("rules", "vllm") if isinstance(engine, dict) else "vllm"
    return Scenario.model_validate(data, context={"base_dir": base_dir, "rules": rules})
