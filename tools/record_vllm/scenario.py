"""The scenario of a trace, as far as the recorder hands it to vLLM, with vLLM's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvsweep.errors import InputError
from kvsweep.limits import MAX_BLOCK_TOKENS, MAX_BLOCKS, MAX_SEQS, MAX_TIME_US, MAX_TOKENS
from record_vllm.sections import REQUIRED, Section

RETENTION = "prefix_cache_retention_interval"
"""Of vLLM's cache, and of a scenario's; vLLM's own default is 0 from 0.29 on."""
MOST_DRAFTS = 64
MOST_INSTANCES = 64
MOST_STAGES = 64
MOST_BANDWIDTH = 1e9
"""Tokens per microsecond of a transfer."""


@dataclass(frozen=True)
class Group:
    """A group of layers: full attention, a sliding window of so many tokens, or recurrent states.

    With `checkpoint` the last state but one of a chunk can be kept, too.
    """

    kind: str = "full"
    window: int | None = None
    checkpoint: bool = False

    def blocks_left(self, tokens: int, block_size: int) -> int:
        """Return the leading blocks that its window has left once `tokens` are computed."""
        return max(0, tokens - self.window + 1) // block_size if self.window else 0


@dataclass(frozen=True)
class Speculation:
    """Draft tokens per step, and who drafts them: ``draft`` (a model) or ``eagle``."""

    tokens: int
    method: str


@dataclass(frozen=True)
class Link:
    """A link of transfers: microseconds each, and tokens per microsecond."""

    base_us: int
    bandwidth: float


@dataclass(frozen=True)
class Offload:
    """vLLM's OffloadingConnector: blocks of the CPU tier, and what it stores there."""

    cpu_blocks: int
    block_factor: int
    prompt_only: bool
    eviction: str
    link: Link


@dataclass(frozen=True)
class Disaggregation:
    """Prefill and decode instances, their blocks, and the link between them.

    Those whose CPU tier has no blocks have no tier.

    With a lease, pulls may fail: then the decode instance recomputes the prompt, or it ends the
    request.
    """

    prefill_instances: int
    decode_instances: int
    prefill_blocks: int
    decode_blocks: int
    prefill_cpu_blocks: int
    decode_cpu_blocks: int
    link: Link
    handoff_us: int
    prefill_kv_role: str
    lease_us: int | None
    heartbeats: bool
    recomputes: bool


@dataclass(frozen=True)
class Scenario:
    """What the recorder knows of a scenario; times are microseconds, see docs of the trace."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int | None
    long_prefill_token_threshold: int
    enable_chunked_prefill: bool
    enable_prefix_caching: bool
    scheduler: str
    reserve_full_prompt: bool
    watermark: float
    async_scheduling: bool
    pipeline_parallel_size: int
    speculative: Speculation | None
    block_size: int
    gpu_blocks: int
    groups: tuple[Group, ...]
    retention: int | None
    offload: Offload | None
    disaggregation: Disaggregation | None
    alpha: tuple[float, ...]
    beta: tuple[float, ...]

    @property
    def drafts(self) -> int:
        """Draft tokens per step."""
        return self.speculative.tokens if self.speculative else 0

    @property
    def head(self) -> int | None:
        """The group with the layers of an EAGLE head, which attend in full: the first such one."""
        if self.speculative is None or self.speculative.method != "eagle":
            return None
        full = (place for place, group in enumerate(self.groups) if group.kind == "full")
        return next(full, None)

    @property
    def connects(self) -> bool:
        """Whether there is a connector: to a CPU tier, or between prefill and decode."""
        return self.offload is not None or self.disaggregation is not None

    def of_role(self, role: str) -> Scenario:
        """Return what an instance that prefills, or decodes, has of a CPU tier."""
        layout, offload = self.disaggregation, self.offload
        if layout is None or offload is None:
            return self
        blocks = layout.prefill_cpu_blocks if role == "prefill" else layout.decode_cpu_blocks
        return replace(self, offload=replace(offload, cpu_blocks=blocks) if blocks else None)

    @property
    def has_states(self) -> bool:
        """Whether a group of layers keeps recurrent states."""
        return any(group.kind == "state" for group in self.groups)

    def handed_tokens(self, prompt_tokens: int) -> int:
        """Tokens of a prompt that a prefill instance computes for another, which has the rest."""
        return max(prompt_tokens - self.has_states, 1)

    @property
    def load_failure_policy(self) -> str:
        """What vLLM does about a pull that fails."""
        return "recompute" if self.disaggregation and self.disaggregation.recomputes else "fail"

    @property
    def has_windows(self) -> bool:
        """Whether there are several groups of layers, or one with a sliding window."""
        return len(self.groups) > 1 or self.groups[0].window is not None

    @property
    def steps_in_flight(self) -> int:
        """Steps that are scheduled before the first of them has ended."""
        return self.pipeline_parallel_size + self.async_scheduling

    @property
    def preempts_in_flight(self) -> bool:
        """Whether a request can be preempted while a step of it has not come back."""
        return self.steps_in_flight > 1

    def queue_us(self, arrival_us: int, prompt_tokens: int) -> int:
        """When a request enters the waiting list."""
        return arrival_us + int(self.alpha[0] + self.alpha[1] * prompt_tokens)

    def step_us(self, prefill_tokens: int, decode_tokens: int) -> int:
        """How long a step of some tokens takes."""
        constant, prefill, decode = self.beta
        return int(constant + prefill * prefill_tokens + decode * decode_tokens)

    def can_ever_run(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether a request would fit into an empty engine; the others are refused on entry."""
        if not self.is_short_enough(prompt_tokens, output_tokens):
            return False
        tokens = prompt_tokens + output_tokens - 1 + 2 * self.drafts
        tokens = min(tokens, self.longest or tokens)
        needed = sum(self._blocks_of(group, tokens) for group in self.groups)
        return needed <= self.gpu_blocks

    def is_short_enough(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether a request is no longer than vLLM's limit: without chunks, a step."""
        return self.longest is None or prompt_tokens + output_tokens <= self.longest

    @property
    def longest(self) -> int | None:
        """Tokens of the longest request; without chunks those of a step, if nothing is given."""
        whole = None if self.enable_chunked_prefill else self.max_num_batched_tokens
        return self.max_model_len or whole

    def _blocks_of(self, group: Group, tokens: int) -> int:
        blocks = ceil_div(tokens, self.block_size)
        if group.kind == "state":
            more = 2 + group.checkpoint if self.enable_prefix_caching else 1
            return min(blocks, more) + self.drafts
        if group.window is None:
            return blocks
        in_flight = self.steps_in_flight * self.max_num_batched_tokens
        return min(blocks, ceil_div(group.window - 1 + in_flight, self.block_size) + 1)


def ceil_div(a: int, b: int) -> int:
    """Return a / b, rounded up."""
    return -(-a // b)


def read_scenario(values: Any, where: str) -> Scenario:
    """Check the ``scenario`` of a trace and fill in the defaults.

    Raises
    ------
    InputError
        If a key is unknown to the recorder, which would otherwise ignore it, or its value wrong.
    """
    try:
        top = Section("scenario", values)
        engine, cache, cluster, latency = (
            Section(f"scenario.{name}", top.get(name, {}))
            for name in ("engine", "cache", "cluster", "latency")
        )
        top.close()
        gpu_blocks = cache.integer("gpu_blocks", REQUIRED, 1, MAX_BLOCKS)
        parts = _cache(cache)
        scenario = Scenario(
            **_engine(engine),
            gpu_blocks=gpu_blocks,
            **parts,
            disaggregation=_cluster(cluster, gpu_blocks, parts["offload"]),
            alpha=latency.numbers("alpha", 3, MAX_TIME_US),
            beta=latency.numbers("beta", 3, MAX_TIME_US),
        )
        for section in (engine, cache, cluster, latency):
            section.close()
        _check_combination(scenario)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return scenario


def _engine(engine: Section) -> dict[str, Any]:
    engine.choice("rules", "vllm", ["vllm"])
    drafting = engine.get("speculative", None)
    speculative = None
    if drafting is not None:
        section = Section("scenario.engine.speculative", drafting)
        tokens = section.integer("tokens", REQUIRED, 1, MOST_DRAFTS)
        speculative = Speculation(tokens, section.choice("method", REQUIRED, ["draft", "eagle"]))
        section.close()
    longest = engine.get("max_model_len", None)
    if longest is not None:
        longest = engine.integer("max_model_len", REQUIRED, 1, MAX_TOKENS)
    return {
        "max_num_seqs": engine.integer("max_num_seqs", 256, 1, MAX_SEQS),
        "max_num_batched_tokens": engine.integer("max_num_batched_tokens", 2048, 1, MAX_TOKENS),
        "max_model_len": longest,
        "long_prefill_token_threshold": engine.integer(
            "long_prefill_token_threshold", 0, 0, MAX_TOKENS
        ),
        "enable_chunked_prefill": engine.flag("enable_chunked_prefill", True),
        "enable_prefix_caching": engine.flag("enable_prefix_caching", True),
        "scheduler": engine.choice("scheduler", "fcfs", ["fcfs", "priority"]),
        "reserve_full_prompt": engine.flag("reserve_full_prompt", True),
        "watermark": engine.number("watermark", 0.0, 0.0, 1.0),
        "async_scheduling": engine.flag("async_scheduling", False),
        "pipeline_parallel_size": engine.integer("pipeline_parallel_size", 1, 1, MOST_STAGES),
        "speculative": speculative,
    }


def _cache(cache: Section) -> dict[str, Any]:
    kinds = cache.get("groups", None) or [{"kind": "full"}]
    if not isinstance(kinds, list):
        raise InputError("scenario.cache.groups: expected a list of objects")
    groups = []
    for number, values in enumerate(kinds):
        section = Section(f"scenario.cache.groups[{number}]", values)
        kind = section.choice("kind", REQUIRED, ["full", "sliding", "state"])
        window = section.integer("window", REQUIRED, 1, MAX_TOKENS) if kind == "sliding" else None
        checkpoint = kind == "state" and section.flag("checkpoint", False)
        groups.append(Group(kind, window, checkpoint))
        section.close()
    offload = None
    if cache.get("offload", None) is not None:
        cache.choice("offload", REQUIRED, ["vllm"])
        offload = Offload(
            cache.integer("cpu_blocks", REQUIRED, 1, MAX_BLOCKS),
            cache.integer("offload_block_factor", 1, 1, MAX_BLOCKS),
            cache.flag("offload_prompt_only", True),
            cache.choice("offload_eviction", "lru", ["lru", "arc"]),
            Link(
                cache.integer("transfer_base_latency_us", 10, 0, MAX_TIME_US),
                cache.number("transfer_bandwidth", 100.0, 1e-9, MOST_BANDWIDTH),
            ),
        )
    block_size = cache.integer("block_size", 16, 1, MAX_BLOCK_TOKENS)
    return {
        "block_size": block_size,
        "groups": tuple(groups),
        "retention": _retention(cache, block_size),
        "offload": offload,
    }


def _retention(cache: Section, block_size: int) -> int | None:
    """Return the tokens between what windows and states keep in the cache, None: they keep all."""
    if cache.get(RETENTION, None) is None:
        return None
    interval = cache.integer(RETENTION, REQUIRED, 0, MAX_TOKENS)
    if interval % block_size:
        raise InputError(
            f"scenario.cache.{RETENTION}: {interval} is no multiple of block_size, {block_size}"
        )
    return interval


def _cluster(cluster: Section, gpu_blocks: int, offload: Offload | None) -> Disaggregation | None:
    cluster.integer("instances", 1, 1, 1)
    if cluster.get("prefill_instances", None) is None:
        return None
    cpu_blocks, most = (offload.cpu_blocks, MAX_BLOCKS) if offload else (0, 0)
    return Disaggregation(
        cluster.integer("prefill_instances", REQUIRED, 1, MOST_INSTANCES),
        cluster.integer("decode_instances", REQUIRED, 1, MOST_INSTANCES),
        cluster.integer("prefill_gpu_blocks", gpu_blocks, 1, MAX_BLOCKS),
        cluster.integer("decode_gpu_blocks", gpu_blocks, 1, MAX_BLOCKS),
        cluster.integer("prefill_cpu_blocks", cpu_blocks, 0, most),
        cluster.integer("decode_cpu_blocks", cpu_blocks, 0, most),
        Link(
            cluster.integer("kv_transfer_base_us", 100, 0, MAX_TIME_US),
            cluster.number("kv_transfer_bandwidth", 1.0, 1e-9, MOST_BANDWIDTH),
        ),
        cluster.integer("pd_handoff_us", 0, 0, MAX_TIME_US),
        cluster.choice("prefill_kv_role", "kv_producer", ["kv_producer", "kv_both"]),
        _lease(cluster),
        cluster.flag("kv_heartbeats", True),
        cluster.choice("kv_load_failure_policy", "fail", ["fail", "recompute"]) == "recompute",
    )


def _lease(cluster: Section) -> int | None:
    if cluster.get("kv_lease_us", None) is None:
        return None
    return cluster.integer("kv_lease_us", REQUIRED, 1, MAX_TIME_US)


def _check_combination(scenario: Scenario) -> None:
    if scenario.max_num_batched_tokens < scenario.max_num_seqs:
        raise InputError(
            f"scenario.engine.max_num_batched_tokens: {scenario.max_num_batched_tokens} is less "
            f"than max_num_seqs, {scenario.max_num_seqs}"
        )
    longest = scenario.longest
    if not scenario.enable_chunked_prefill and (longest or 0) > scenario.max_num_batched_tokens:
        raise InputError(
            f"scenario.engine.max_model_len: {longest} is more than max_num_batched_tokens, "
            "which vLLM refuses without chunked prefill"
        )
    eagle = scenario.speculative is not None and scenario.speculative.method == "eagle"
    if scenario.connects and eagle and scenario.head is None:
        raise InputError(
            "scenario.engine.speculative.method: 'eagle', beside a connector and windows alone: no "
            "group is of the kind of the head's layers, which attend in full"
        )
    if scenario.has_states and not scenario.enable_chunked_prefill:
        raise InputError("scenario.engine.enable_chunked_prefill: false, beside groups of states")
    others: Mapping[str, object] = {
        "engine.speculative": scenario.speculative and not scenario.async_scheduling,
        "cache.offload": scenario.offload,
        "cluster.prefill_instances": scenario.disaggregation,
    }
    for key, value in others.items():
        if scenario.pipeline_parallel_size > 1 and value:
            raise InputError(
                f"scenario.{key}: not with engine.pipeline_parallel_size: the recorder has no "
                "stages for it"
            )
