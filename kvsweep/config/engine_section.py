"""The section ``engine``: how an instance schedules."""

from typing import Annotated, Literal

from pydantic import Field

from kvsweep.config.base import Count, Key, Real, Section, Switch, Tokens, Whole
from kvsweep.config.members import known_keys, member
from kvsweep.config.speculative import Speculative
from kvsweep.limits import MAX_BATCHED_TOKENS, MAX_LAYERS, MAX_SEQS, MAX_TIME_US, MAX_TOKENS
from kvsweep.policies import Priority, Scheduler, Victim

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
    max_model_len : int or None
        Tokens of the longest request, prompt and output: a longer one is refused when it arrives.
        With `speculative` no draft reaches beyond it. None: any; without chunked prefill a step's.
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
    pipeline_parallel_size : int
        Stages of an instance's pipeline, each with a part of the layers, as in vLLM: as many steps
        are under way, asynchronously one more. 1: no pipeline.
    pipeline_fair_share : bool
        In a pipeline: a step schedules at most its share of the requests that are not over. An
        experiment: vLLM does not do this (vllm#50410 proposes it).
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
    max_model_len: Annotated[
        Tokens | None, Key("token", "longest request, prompt and output; longer ones are refused")
    ] = None
    long_prefill_token_threshold: Annotated[
        Whole, Field(le=MAX_TOKENS), Key("token", "tokens of one request in a step, at most")
    ] = 0
    scheduler: Annotated[
        str, member(Scheduler), Key("1", "order in which waiting requests are admitted")
    ] = "fcfs"
    priority: Annotated[
        str, member(Priority), Key("1", "priority of requests without one of their own")
    ] = "constant"
    victim: Annotated[str, member(Victim), Key("1", "who is preempted when blocks run short")] = (
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
    pipeline_parallel_size: Annotated[
        Count, Field(le=MAX_LAYERS), Key("1", "stages of the pipeline of an instance")
    ] = 1
    pipeline_fair_share: Annotated[
        Switch, Key("1", "whether a step of a pipeline takes its share of the requests at most")
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
        known_keys(BLIS_SWITCHES, "switch"),
        Key("1", "switch of the reference simulator"),
    ] = Field(default={})
    horizon_us: Annotated[
        Annotated[Count, Field(le=MAX_TIME_US)] | None, Key("us", "end of the simulation")
    ] = None

    @property
    def steps_on_way(self) -> int:
        """Steps that are scheduled and not over, at most (vLLM's ``max_concurrent_batches``)."""
        return self.pipeline_parallel_size + self.async_scheduling

    @property
    def drafts(self) -> int:
        """Draft tokens that each decode verifies, 0 without speculation."""
        return self.speculative.tokens if self.speculative else 0

    @property
    def drafting_us(self) -> float:
        """What drafting makes each step longer, microseconds."""
        return self.drafts * self.speculative.draft_us if self.speculative else 0.0
