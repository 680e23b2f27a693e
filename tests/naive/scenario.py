"""The settings of a trace's scenario, with their defaults; an unknown key is a TypeError."""

import math
from dataclasses import dataclass, field, replace
from math import inf

from .victims import SCORES

SLO_PRIORITY = {"critical": 0, "standard": 5, "batch": 10, "background": 15}
ROUTINGS = (
    *("round-robin", "least-loaded", "weighted", "prompt-affinity", "always-busiest"),
    "sticky",
)
LOAD_FAILURES = ("fail", "recompute")
SCORERS = (
    "prefix-affinity",
    "precise-prefix",
    "queue-depth",
    "load-balance",
    "kv-utilization",
    "kv-pressure",
    "kv-pressure-slo",
)


@dataclass(frozen=True)
class Engine:
    rules: str = "vllm"
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    long_prefill_token_threshold: int = 0
    scheduler: str = "fcfs"
    priority: str = "constant"
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    reserve_full_prompt: bool = True
    watermark: float = 0.0
    victim: str = "last"
    priority_age_ms: float = 1000.0
    preempt_for_urgent: bool = False
    async_scheduling: bool = False
    pipeline_parallel_size: int = 1
    pipeline_fair_share: bool = False
    speculative: dict | None = None
    max_model_len: int | None = None

    def __post_init__(self):
        _one_of("engine.rules", self.rules, ("vllm",))
        _one_of("engine.scheduler", self.scheduler, ("fcfs", "priority", "sjf"))
        _one_of("engine.victim", self.victim, SCORES)
        _one_of("engine.priority", self.priority, ("constant", "slo-class", "age"))
        if self.scheduler != "priority" and (self.priority == "age" or self.preempt_for_urgent):
            raise ValueError("engine.scheduler: aging and urgent preemption need 'priority'")
        if self.async_scheduling and self.preempt_for_urgent:
            raise ValueError("engine.async_scheduling: no rule for urgent preemption")
        if self.drafts and self.pipeline_parallel_size > 1 and not self.async_scheduling:
            raise ValueError("engine.speculative: no rule for a synchronous pipeline")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError("engine.max_num_batched_tokens is less than engine.max_num_seqs")
        if (self.max_model_len or 0) > self.longest:
            raise ValueError("engine.max_model_len does not fit into a step")
        if self.long_prefill_token_threshold > self.longest:
            raise ValueError("engine.long_prefill_token_threshold is more than a longest request")

    @property
    def longest(self):
        """Tokens of the longest request, output included; without chunks it fits into a step."""
        step = inf if self.enable_chunked_prefill else self.max_num_batched_tokens
        return min(self.max_model_len or inf, step)

    @property
    def depth(self):
        """Batches on their way at once."""
        return self.pipeline_parallel_size + self.async_scheduling

    @property
    def drafts(self):
        """Draft tokens of a decode."""
        return self.speculative["tokens"] if self.speculative else 0

    @property
    def drafting_us(self):
        """What drafting makes a step longer."""
        return self.drafts * self.speculative.get("draft_us", 0.0) if self.drafts else 0.0

    @property
    def draft_slot(self):
        """Input slots that a request takes beside those of its tokens: a draft model's."""
        return int(self.drafts > 0 and self.speculative["method"] == "draft")

    @property
    def verification(self):
        """Places that a verification of drafts and those that follow it take."""
        return 1 + 2 * self.drafts if self.drafts else 0

    @property
    def eagle(self):
        """Whether an EAGLE head drafts tokens."""
        return self.drafts > 0 and self.speculative["method"] == "eagle"

    @property
    def looks_ahead(self):
        """Whether keys of blocks have a token of the next block in them."""
        return self.eagle and self.enable_prefix_caching

    @property
    def age_us(self):
        return round(1000 * self.priority_age_ms)


@dataclass(frozen=True)
class Cache:
    block_size: int = 16
    gpu_blocks: int = 2200
    eviction: str = "lru"
    cpu_blocks: int = 0
    offload: str = "write-through"
    offload_threshold: float = 0.8
    transfer_bandwidth: float | None = None
    transfer_base_latency_us: int = 10
    transfer_overlap: bool = False
    thrashing_window_us: int = 1_000_000
    offload_block_factor: int = 1
    offload_prompt_only: bool = True
    offload_eviction: str = "lru"
    groups: tuple = ()
    prefix_cache_retention_interval: int | None = None

    def __post_init__(self):
        _one_of("cache.eviction", self.eviction, ("lru", "lfu"))
        _one_of("cache.offload", self.offload, ("watermark", "write-through", "vllm"))
        _one_of("cache.offload_eviction", self.offload_eviction, ("lru", "arc"))

    @property
    def windows(self):
        """Per group its window, None for full attention."""
        return [group.get("window") for group in self.groups or ({"kind": "full"},)]

    @property
    def has_states(self):
        """Whether a group of layers keeps recurrent states."""
        return any(group["kind"] == "state" for group in self.groups)

    @property
    def connects(self):
        """Whether there is a CPU tier as vLLM's connector has it."""
        return self.cpu_blocks > 0 and self.offload == "vllm"


@dataclass(frozen=True)
class Cluster:
    instances: int = 1
    routing: str = "round-robin"
    scorers: dict = field(
        default_factory=lambda: {"prefix-affinity": 3, "queue-depth": 2, "kv-utilization": 2}
    )
    router_index_blocks: int = 10_000
    sticky_threshold: float = 0.8
    sticky_lead_tokens: int = 286_704
    count_pending: bool = True
    snapshot_refresh_us: int = 0
    snapshot_load: bool = False
    admission: str = "always"
    token_bucket_capacity: float | None = None
    token_bucket_refill_rate: float | None = None
    admission_latency_us: int = 0
    routing_latency_us: int = 0
    pools: tuple = ()
    prefill: dict | None = None
    decode: dict | None = None
    prefill_instances: int | None = None
    decode_instances: int | None = None
    prefill_gpu_blocks: int | None = None
    decode_gpu_blocks: int | None = None
    prefill_cpu_blocks: int | None = None
    decode_cpu_blocks: int | None = None
    kv_transfer_base_us: int = 100
    kv_transfer_bandwidth: float = 1.0
    pd_handoff_us: int = 0
    prefill_kv_role: str = "kv_producer"
    pd_uncached_token_threshold: int | None = None
    kv_lease_us: int | None = None
    kv_heartbeats: bool = True
    kv_load_failure_policy: str = "fail"

    def __post_init__(self):
        _one_of("cluster.prefill_kv_role", self.prefill_kv_role, ("kv_producer", "kv_both"))
        _one_of("cluster.kv_load_failure_policy", self.kv_load_failure_policy, LOAD_FAILURES)
        _one_of("cluster.routing", self.routing, ROUTINGS)
        _one_of("cluster.admission", self.admission, ("always", "token-bucket", "reject-all"))
        for scorer in self.scorers:
            _one_of("cluster.scorers", scorer, SCORERS)

    def of_role(self, role):
        """Return the pool of instances that prefill, or that decode; None if there is none."""
        instances = getattr(self, f"{role}_instances")
        if instances is None:
            return getattr(self, role)
        blocks = {key: getattr(self, f"{role}_{key}") for key in ("gpu_blocks", "cpu_blocks")}
        return {"instances": instances} | blocks

    def routed_to(self, role):
        """Return the settings of a router that chooses among the instances of a role."""
        pool = self.of_role(role)
        own = {key: pool[key] for key in ("routing", "scorers") if pool.get(key) is not None}
        return replace(self, instances=pool["instances"], **own)


@dataclass(frozen=True)
class Latency:
    """Latencies, microseconds; missing coefficients are 0.

    ``alpha[2]`` delays what a client sees: it never touches the clock, but a client's next request.
    A step takes the sum of what it counts, weighted by `beta`; with `memory`, ``beta[0]`` and the
    larger of two such sums, the second weighted by `memory`; with `experts` to that one comes the
    time of reading all experts, times the share that any token of the step is sent to. With
    `window` (its tokens, and four weights) to either sum come its own weights of the tokens that
    are inside a window. The first steps of an instance take longer, by `first_steps_us`.
    """

    alpha: list[float] = field(default_factory=list)
    beta: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    experts: list[float] = field(default_factory=list)
    window: list[float] = field(default_factory=list)
    first_steps_us: list[int] = field(default_factory=list)

    def __post_init__(self):
        if len(self.alpha) > 3 or len(self.beta) > 5 or len(self.memory) > 5:
            raise ValueError("the twin knows three alphas, five betas and five of memory")

    def queueing_us(self, prompt_tokens):
        a0, a1, _ = _padded(self.alpha, 3)
        return int(a0 + a1 * prompt_tokens)

    def drafting(self, more_us):
        """Return the same with steps that are so much longer."""
        return replace(self, beta=[_padded(self.beta, 1)[0] + more_us, *self.beta[1:]])

    @property
    def overhead_us(self):
        return int(_padded(self.alpha, 3)[2])

    def cold_us(self, step):
        """Return what the step of this index takes longer than in an instance that is warm."""
        return self.first_steps_us[step] if step < len(self.first_steps_us) else 0

    def step_us(self, prefilled, decoded):
        """Return the duration of a step of tokens, each given by the number of tokens before it."""
        prefill_tokens, decode_tokens = len(prefilled), len(decoded)
        size, *own = _padded(self.window, 5)
        sums = [prefill_tokens, decode_tokens, sum(decoded), sum(prefilled)]
        sums += [sum(min(before, size - 1) for before in tokens) for tokens in (decoded, prefilled)]
        constant, *weights = [*_padded(self.beta, 5), *own[:2]]
        if not self.memory:
            return int(_weighted(constant, weights, sums))
        least, *moves = [*_padded(self.memory, 5), *own[2:]]
        if self.experts:
            read, share = self.experts
            least -= read * math.expm1(math.log1p(-share) * (prefill_tokens + decode_tokens))
        return int(constant + max(_weighted(0.0, weights, sums), _weighted(least, moves, sums)))


@dataclass(frozen=True)
class Scenario:
    """All settings; `concurrency`: requests that may be under way at once, None: any number."""

    engine: Engine
    cache: Cache
    cluster: Cluster
    latency: Latency
    concurrency: int | None = None

    @classmethod
    def of(cls, engine=None, cache=None, cluster=None, latency=None, workload=None):
        """Make a scenario from the tables of a trace, and of the workload its concurrency."""
        made = Engine(**(engine or {})), Cache(**(cache or {}))
        if made[0].async_scheduling and made[1].cpu_blocks and not made[1].connects:
            raise ValueError("engine.async_scheduling: no rule for this CPU tier")
        if made[1].connects and made[1].block_size * made[1].offload_block_factor == 1:
            raise ValueError("cache.offload: chunks of one token are loaded for ever")
        if made[0].pipeline_parallel_size > 1 and made[1].cpu_blocks:
            raise ValueError("engine.pipeline_parallel_size: no rule for a CPU tier")
        if made[0].preempt_for_urgent and made[1].connects:
            raise ValueError("cache.offload: no rule for urgent preemption")
        return cls(
            *made,
            Cluster(**(cluster or {})),
            Latency(**(latency or {})).drafting(made[0].drafting_us),
            **(workload or {}),
        )

    def of_pool(self, pool):
        """Return the settings of a pool's instances, which has its own or takes the common ones."""
        own = {key: value for key, value in pool.items() if value is not None}
        engine = {k: own[k] for k in ("max_num_seqs", "max_num_batched_tokens") if k in own}
        if "max_model_len" in own:
            engine["max_model_len"] = own["max_model_len"]
        cache = {key: own[key] for key in ("gpu_blocks", "cpu_blocks") if key in own}
        return replace(
            self,
            engine=replace(self.engine, **engine),
            cache=replace(self.cache, **cache),
            latency=replace(
                self.latency, **({"memory": [], "experts": [], "window": []} | own["latency"])
            ).drafting(self.engine.drafting_us)
            if "latency" in own
            else self.latency,
        )

    @property
    def is_explicit(self):
        """Whether the rules of several tables, windows, drafts or a pipeline are needed."""
        piped = self.engine.pipeline_parallel_size > 1
        return self.cache.windows != [None] or self.engine.drafts > 0 or piped


def _padded(coefficients, count):
    return [*coefficients, 0, 0, 0, 0, 0][:count]


def _weighted(total, weights, sums):
    """Add up from left to right: float64 sums depend on the order."""
    for weight, value in zip(weights, sums, strict=True):
        total += weight * value
    return total


def _one_of(key, value, allowed):
    if value not in allowed:
        raise ValueError(f"{key}: {value!r}, the twin knows {', '.join(allowed)}")
