"""The section ``cluster``: instances, and what stands in front of them."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kvsweep.config.base import (
    Bandwidth,
    Count,
    Key,
    KeyProblem,
    Microseconds,
    Positive,
    Section,
    Share,
    Switch,
    Weight,
    Whole,
    fill,
)
from kvsweep.config.choices import check_weights
from kvsweep.config.members import known_keys, member
from kvsweep.config.pools import RolePool, TierBlocks, UnequalPool, check_pools, pools_of
from kvsweep.limits import (
    MAX_BLOCKS,
    MAX_BUCKET,
    MAX_INSTANCES,
    MAX_LEAD_TOKENS,
    MAX_POOLS,
    MAX_TIME_US,
    MAX_TOKENS,
)
from kvsweep.policies import Admission, LoadFailure, Routing, Scorer

Bucket = Annotated[Positive, Field(le=MAX_BUCKET)]
"""Tokens of a bucket, or per second."""


class Cluster(Section):
    """Instances, and what stands in front of them.

    Attributes
    ----------
    instances : int
        Engines, all alike.
    pools : tuple of UnequalPool
        Instead of `instances`: pools of instances that differ; they are numbered in this order.
    prefill, decode : RolePool or None
        Instead of `instances`: those that only prefill, and those that pull the blocks of a prompt
        from them and decode (vLLM's NixlConnector).
    prefill_instances, decode_instances, prefill_gpu_blocks, decode_gpu_blocks : int or None
        The same in four keys, as traces have them.
    kv_transfer_base_us, kv_transfer_bandwidth : int, float or None
        A pull takes this plus its tokens over the bandwidth, tokens per microsecond; each decode
        instance has one link.
    pd_handoff_us : int
        From the end of a prefill to the entry into the queue of a decode instance.
    prefill_kv_role : str
        vLLM's ``kv_role`` of the prefill instances. With ``kv_both`` they too protect the blocks
        that a step on its way writes to: asynchronously nobody in flight is preempted there.
    pd_uncached_token_threshold : int or None
        A prompt of which the cache of its decode instance lacks no more than so many tokens is
        prefilled there; None: none is.
    kv_lease_us : int or None
        How long a prefill instance keeps the blocks of a finished request for its decode instance
        (vLLM's ``kv_lease_duration``, there 30 s); None: until they are pulled.
    kv_heartbeats : bool
        Let decode instances renew the leases of what they wait for (vLLM from 0.22 on); else a
        lease is what ``VLLM_NIXL_ABORT_REQUEST_TIMEOUT`` was.
    kv_load_failure_rate : float
        Probability that a pull fails; drawn for each request beforehand.
    kv_load_failure_policy : str
        One of `kvsweep.policies.LoadFailure`, for pulls that fail or whose lease has ended.
    routing : str
        One of `kvsweep.policies.Routing`.
    scorers : dict
        Weights of weighted routing, by scorer (`kvsweep.policies.Scorer`); their ratios count.
    router_index_blocks : int
        Prompt blocks that the router's own index remembers of each instance.
    sticky_threshold : float
        Routing ``sticky``: share of a prompt's full blocks that the router must have sent to an
        instance to keep it there (llm-d's ``affinityThreshold``).
    sticky_lead_tokens : int
        It does as long as the least tokens in flight of such instances are no more than so many
        above those of the others; 0: always. The default is llm-d's: 18 s of 15,928 tokens/s.
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
    routing: Annotated[str, member(Routing), Key("1", "routing of requests to instances")] = (
        "round-robin"
    )
    scorers: Annotated[
        dict[str, Weight],
        known_keys(Scorer.labels(), "scorer", Scorer),
        Key("1", "weight in weighted routing"),
    ] = Field(default={"prefix-affinity": 3.0, "queue-depth": 2.0, "kv-utilization": 2.0})
    router_index_blocks: Annotated[
        Count, Field(le=MAX_BLOCKS), Key("block", "blocks the router remembers of each instance")
    ] = 10_000
    sticky_threshold: Annotated[
        Annotated[Share, Field(gt=0.0)],
        Key("1", "share of a prompt that sticky routing's instances must know"),
    ] = 0.8
    sticky_lead_tokens: Annotated[
        Annotated[Whole, Field(le=MAX_LEAD_TOKENS)],
        Key("token", "lead in tokens in flight up to which sticky routing keeps to them"),
    ] = 286_704
    count_pending: Annotated[
        Switch, Key("1", "whether requests on their way to an instance count as its load")
    ] = True
    admission: Annotated[
        str, member(Admission), Key("1", "admission of requests to the cluster")
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
    prefill: Annotated[RolePool | None, Key("1", "prefill pool")] = None
    decode: Annotated[RolePool | None, Key("1", "decode pool")] = None
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
    prefill_cpu_blocks: Annotated[
        TierBlocks | None,
        Key("block", "blocks of the CPU tier per prefill instance"),
    ] = None
    decode_cpu_blocks: Annotated[
        TierBlocks | None,
        Key("block", "blocks of the CPU tier per decode instance"),
    ] = None
    kv_transfer_base_us: Annotated[
        Microseconds, Key("us", "fixed part of a transfer from prefill to decode")
    ] = 100
    kv_transfer_bandwidth: Annotated[
        Bandwidth | None,
        Key("token/us", "tokens moved from prefill to decode, per group of layers"),
    ] = None
    pd_handoff_us: Annotated[
        Microseconds, Key("us", "end of a prefill to the queue of its decode instance")
    ] = 0
    prefill_kv_role: Annotated[
        Literal["kv_producer", "kv_both"], Key("1", "vLLM's kv_role of the prefill instances")
    ] = "kv_producer"
    pd_uncached_token_threshold: Annotated[
        Annotated[Whole, Field(le=MAX_TOKENS)] | None,
        Key("token", "uncached tokens up to which a prompt is prefilled where it is decoded"),
    ] = None
    kv_lease_us: Annotated[
        Annotated[Count, Field(le=MAX_TIME_US)] | None,
        Key("us", "time that a prefill keeps its blocks for its decode instance"),
    ] = None
    kv_heartbeats: Annotated[
        Switch, Key("1", "whether decode instances renew the leases of what they wait for")
    ] = True
    kv_load_failure_rate: Annotated[Share, Key("1", "probability that a pull fails")] = 0.0
    kv_load_failure_policy: Annotated[
        str, member(LoadFailure), Key("1", "what becomes of a request whose pull fails")
    ] = "fail"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        check_pools(self)
        fill(self, instances=sum(pool.instances for _, pool in pools_of(self)))
        if self.admission == "token-bucket":
            for key in ("token_bucket_capacity", "token_bucket_refill_rate"):
                if getattr(self, key) is None:
                    raise KeyProblem((key,), "missing; admission 'token-bucket' needs it")
        check_weights(self)
        return self
