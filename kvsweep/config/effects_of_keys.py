"""Which keys only some scenarios read: one table, so that no setting is silently without effect.

A key that is not in the table is read by every scenario. Rules of a table of keys hold for what is
in it as well. (A weight of 0, a distribution's parameters that must be given although its
`mix_weight` is 0 or 1, and a refill that never matters are values, not keys: they are allowed.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kvsweep.config.bending import Slice
from kvsweep.config.choices import Choice, choices_of
from kvsweep.config.groups import keeps_some
from kvsweep.config.pool_reads import (
    Reads,
    some_pool,
    takes_batch,
    takes_blocks,
    takes_gpu,
    takes_hardware,
    takes_memory,
    takes_size,
    takes_tier,
    takes_times,
)
from kvsweep.config.pools import ROLES
from kvsweep.config.schema import KeyPath
from kvsweep.config.workload_reads import (
    clamps,
    clients_of,
    copies,
    has_cv,
    has_times,
    in_sessions,
    is_thoughtless,
    repeats,
    scales,
    spreads,
    taken_from_workload,
    takes_arrivals,
    takes_cv,
)
from kvsweep.policies import (
    CACHE,
    INDEX,
    LOAD,
    TOKENS,
    Offload,
    Priority,
    Routing,
    Scheduler,
    Scorer,
)

if TYPE_CHECKING:
    from kvsweep.config.cluster_section import Cluster
    from kvsweep.config.scenario import Scenario

_URGENT_FIRST = (Scheduler.PRIORITY, Scheduler.PRIORITY_FCFS, Scheduler.REVERSE_PRIORITY)


class Rule(NamedTuple):
    """When a key is read, and what it needs, in words."""

    reads: Reads
    needs: str


def unread(scenario: Scenario, path: KeyPath) -> Rule | None:
    """Return the rule by which a scenario does not read a key, or None if it does."""
    numbers = (part for part in path if isinstance(part, int))
    client = next(numbers, None) if "clients" in path else None
    names = [str(part) for part in path if not isinstance(part, int)]
    if client is not None and client >= len(clients_of(scenario)):
        return None  # a cell with other clients
    for n in range(1, len(names) + 1):
        rule = RULES.get(".".join(names[:n]))
        if rule and not rule.reads(scenario, client):
            return rule
    return None


def overruled(scenario: Scenario, path: KeyPath) -> Rule | None:
    """Return the rule by which what is given has the last word over a key that is read, or None.

    That is told (`kvsweep.config.served_text`), and is no mistake but of an axis: all of its
    values would give the same.
    """
    rule = OVERRULED.get(".".join(str(part) for part in path))
    return None if rule is None or rule.reads(scenario, None) else rule


def _choices(cluster: Cluster) -> Iterator[Choice]:
    """Yield how an instance is chosen wherever there are several."""
    return (choice for choice in choices_of(cluster) if choice.instances > 1)


def _takes_routing(cluster: Cluster) -> bool:
    """Return whether some choice is made by the routing of the cluster."""
    return any("routing" not in choice.own for choice in _choices(cluster))


def _scores(choice: Choice, scenario: Scenario) -> bool:
    """Return whether scorers decide, and can tell instances apart: some look at caches alone."""
    known = (name for name, weight in choice.scorers.items() if weight > 0)
    blind = {Scorer.PRECISE_PREFIX.label} if not scenario.engine.enable_prefix_caching else set()
    return choice.is_weighted and not blind.issuperset(known)


def _takes_scorers(scenario: Scenario) -> bool:
    """Return whether the scorers of the cluster decide somewhere."""
    choices = _choices(scenario.cluster)
    return any(_scores(choice, scenario) and "scorers" not in choice.own for choice in choices)


def _of_role(role: str, *, weighted: bool) -> Reads:
    """Return whether there are several instances of a role, and whether scorers choose them."""

    def reads(scenario: Scenario, client: int | None) -> bool:
        choices = [choice for choice in _choices(scenario.cluster) if choice.role == role]
        return any(_scores(choice, scenario) or not weighted for choice in choices)

    return reads


def _reads(cluster: Cluster, what: str) -> bool:
    """Return whether routing, or a scorer that decides, reads such things."""
    return any(_choice_reads(choice, what) for choice in _choices(cluster))


def _choice_reads(choice: Choice, what: str) -> bool:
    scorers = (Scorer.from_name(name) for name, weight in choice.scorers.items() if weight > 0)
    scored = choice.is_weighted and any(what in scorer.reads for scorer in scorers)
    return scored or what in Routing.from_name(choice.routing).reads


def _refreshes(cluster: Cluster) -> bool:
    return (cluster.snapshot_load and _reads(cluster, LOAD)) or _reads(cluster, CACHE)


def is_urgent_first(scenario: Scenario) -> bool:
    """Return whether the scheduler goes by priority."""
    return scenario.engine.scheduler in [item.label for item in _URGENT_FIRST]


def _has_tier(scenario: Scenario, client: int | None) -> bool:
    return scenario.cache.cpu_blocks > 0


def _connects(scenario: Scenario, client: int | None) -> bool:
    return _has_tier(scenario, client) and scenario.cache.offload == Offload.VLLM.label


def _session_rules(prefix: str) -> Iterator[tuple[str, Rule]]:
    rounds = "sessions of several rounds"
    for key in ("context", "arrivals", "truncate"):
        yield f"{prefix}.{key}", Rule(in_sessions(lambda s: True), rounds)
    # think_time_s must be given: 0 where there is nothing to think about.
    thinks = in_sessions(lambda s: s.think_time_s > 0)
    yield (
        f"{prefix}.think_time_s",
        Rule(lambda s, c: thinks(s, c) or is_thoughtless(s, c), f"{rounds} (without: 0)"),
    )
    yield f"{prefix}.think_time", Rule(thinks, "several rounds and a think_time_s of more than 0")
    drops = in_sessions(lambda s: s.context == "accumulate" and not s.keep_reasoning)
    yield (
        f"{prefix}.reason_ratio",
        Rule(drops, "several rounds, context 'accumulate' and keep_reasoning = false"),
    )
    keeps = in_sessions(lambda s: s.context == "accumulate" and s.reason_ratio > 0)
    yield (
        f"{prefix}.keep_reasoning",
        Rule(keeps, "several rounds, context 'accumulate' and a reason_ratio of more than 0"),
    )


def _length_rules(prefix: str, key: str) -> Iterator[tuple[str, Rule]]:
    for bound, beyond in (("min", "below"), ("max", "above")):
        needs = f"a length {beyond} it, which the distribution never has"
        yield f"{prefix}.{key}.{bound}", Rule(clamps(key, bound), needs)


_DRAFTS = Rule(lambda s, c: s.engine.drafts > 0, "engine.speculative.tokens of more than 0")
_OWN_POOL = "a pool without its own"
_OWN_BLOCKS = f"{_OWN_POOL} gpu_blocks"
_TIMES = ("beta", "memory", "experts", "window")
_LEASE = Rule(lambda s, c: s.cluster.kv_lease_us is not None, "cluster.kv_lease_us")

_TIER = Rule(_has_tier, "cache.cpu_blocks of more than 0")
_GPU = Rule(takes_memory, "model.gpu, and an instance whose pool has no blocks of its own")
_CONNECTOR = Rule(_connects, "cache.cpu_blocks of more than 0 and offload 'vllm'")
_OTHER_TIER = Rule(
    lambda s, c: _has_tier(s, c) and not _connects(s, c),
    "cache.cpu_blocks of more than 0 and offload 'watermark' or 'write-through'",
)
_SEVERAL = "cluster.instances of more than 1 (or several of a role, or in cluster.pools)"
_STICKY = Rule(lambda s, c: _reads(s.cluster, TOKENS), f"routing 'sticky' and {_SEVERAL}")
_UNROUTED = (
    "cluster.instances of more than 1 (or several of a role that has no routing of its own, or in "
    "cluster.pools)"
)
_SEEING = ", and a scorer beside precise-prefix or enable_prefix_caching = true"
_NO_OWN = "a client that has none of its own"
_TIMED = "arrivals that are not all at once, nor on read.lanes as each is free"
_SPREAD = "with concurrency, a rate or several clients"

RULES: dict[str, Rule] = {
    "workload.arrivals": Rule(takes_arrivals, f"{_NO_OWN}, and {_SPREAD}"),
    "workload.clients.arrivals": Rule(lambda s, c: spreads(s), _SPREAD),
    "workload.prompt": Rule(taken_from_workload("prompt"), _NO_OWN),
    "workload.output": Rule(taken_from_workload("output"), _NO_OWN),
    "workload.sessions": Rule(taken_from_workload("sessions"), _NO_OWN),
    "workload.cv": Rule(
        takes_cv,
        f"arrivals 'gamma' or 'weibull', of a client without its own cv, and {_SPREAD}",
    ),
    "workload.clients.cv": Rule(has_cv, f"arrivals 'gamma' or 'weibull', and {_SPREAD}"),
    "workload.clients.rate_fraction": Rule(lambda s, c: len(clients_of(s)) > 1, "several clients"),
    "workload.copies": Rule(copies, "workload.repeat or workload.loop of more than 1"),
    "workload.scale": Rule(scales, _TIMED),
    **{f"workload.slice.{key}": Rule(has_times, _TIMED) for key in Slice.model_fields},
    "workload.repeat_spread_s": Rule(repeats, "workload.repeat of more than 1"),
    **dict(_session_rules("workload.sessions")),
    **dict(_session_rules("workload.clients.sessions")),
    **{
        key: rule
        for prefix in ("workload", "workload.clients")
        for lengths in ("prompt", "output")
        for key, rule in _length_rules(prefix, lengths)
    },
    "cluster.routing": Rule(lambda s, c: _takes_routing(s.cluster), _UNROUTED),
    "cluster.scorers": Rule(
        lambda s, c: _takes_scorers(s), f"routing 'weighted' and {_SEVERAL}{_SEEING}"
    ),
    **{
        f"cluster.{role}.{key}": Rule(
            _of_role(role, weighted=weighted),
            f"routing 'weighted' and several {role} instances{_SEEING}"
            if weighted
            else f"several {role} instances",
        )
        for role in ROLES
        for key, weighted in (("routing", False), ("scorers", True))
    },
    **{f"cluster.{role}{dot}cpu_blocks": _TIER for role in ROLES for dot in (".", "_")},
    "cluster.router_index_blocks": Rule(
        lambda s, c: _reads(s.cluster, INDEX),
        f"routing 'weighted' with scorer 'prefix-affinity', or 'sticky', and {_SEVERAL}",
    ),
    "cluster.sticky_threshold": _STICKY,
    "cluster.sticky_lead_tokens": _STICKY,
    "cluster.count_pending": Rule(
        lambda s, c: _reads(s.cluster, LOAD),
        f"a routing that looks at the load and {_SEVERAL}",
    ),
    "cluster.snapshot_refresh_us": Rule(
        lambda s, c: _refreshes(s.cluster),
        "routing 'weighted' with a scorer of the cache, or snapshot_load = true with a routing "
        f"that looks at the load, and {_SEVERAL}",
    ),
    "cluster.snapshot_load": Rule(
        lambda s, c: s.cluster.snapshot_refresh_us > 0 and _reads(s.cluster, LOAD),
        "snapshot_refresh_us of more than 0, a routing that looks at the load and " + _SEVERAL,
    ),
    "cluster.token_bucket_capacity": Rule(
        lambda s, c: s.cluster.admission == "token-bucket", "admission 'token-bucket'"
    ),
    "cluster.token_bucket_refill_rate": Rule(
        lambda s, c: s.cluster.admission == "token-bucket", "admission 'token-bucket'"
    ),
    "cluster.prefill_kv_role": Rule(
        lambda s, c: s.engine.async_scheduling, "engine.async_scheduling = true"
    ),
    "cluster.kv_heartbeats": _LEASE,
    "cluster.kv_load_failure_policy": _LEASE,
    "engine.speculative.method": _DRAFTS,
    "engine.speculative.acceptance": _DRAFTS,
    "engine.speculative.draft_us": _DRAFTS,
    **{
        f"engine.{key}": Rule(takes_batch(key), _OWN_POOL)
        for key in ("max_num_seqs", "max_num_batched_tokens")
    },
    "cache.gpu_blocks": Rule(takes_blocks, _OWN_POOL),
    "cache.gpu_tokens": Rule(takes_blocks, _OWN_BLOCKS),
    "model.kv_gib": Rule(takes_blocks, _OWN_BLOCKS),
    "model.gpu": Rule(takes_gpu, f"{_OWN_BLOCKS}, or without [latency] one without its own"),
    **{f"latency.{key}": Rule(takes_times, f"{_OWN_POOL} latency") for key in _TIMES},
    "engine.max_model_len": Rule(
        some_pool(lambda s, pool: pool.max_model_len is None), f"{_OWN_POOL} max_model_len"
    ),
    "engine.long_prefill_token_threshold": Rule(
        some_pool(
            lambda s, pool: s.engine.long_prefill_token_threshold < pool.max_num_batched_tokens
        ),
        "a max_num_batched_tokens that is larger",
    ),
    "engine.priority": Rule(
        lambda s, c: is_urgent_first(s),
        "scheduler 'priority' (rules 'blis': 'priority-fcfs' or 'reverse-priority')",
    ),
    "engine.priority_age_ms": Rule(
        lambda s, c: is_urgent_first(s) and s.engine.priority == Priority.AGE.label,
        "scheduler 'priority' and priority 'age'",
    ),
    "engine.pipeline_fair_share": Rule(
        lambda s, c: s.engine.pipeline_parallel_size > 1, "engine.pipeline_parallel_size above 1"
    ),
    "engine.preempt_for_urgent": Rule(
        lambda s, c: is_urgent_first(s),
        "scheduler 'priority'",
    ),
    "engine.reserve_full_prompt": Rule(
        lambda s, c: s.engine.enable_chunked_prefill or s.engine.long_prefill_token_threshold > 0,
        "enable_chunked_prefill = true or a long_prefill_token_threshold",
    ),
    "engine.watermark": Rule(
        some_pool(
            lambda s, pool: (
                s.engine.watermark == 0 or s.engine.watermark * (pool.gpu_blocks + 1) >= 1
            )
        ),
        "gpu_blocks of which the share is at least one block",
    ),
    **{f"model.{key}": _GPU for key in ("utilization", "weights_gib", "activation_gib")},
    "cache.prefix_cache_retention_interval": Rule(
        lambda s, c: s.engine.enable_prefix_caching and keeps_some(s.cache.groups),
        "enable_prefix_caching = true and a group of kind 'sliding' or 'state'",
    ),
    "cache.eviction": Rule(
        lambda s, c: s.engine.enable_prefix_caching, "enable_prefix_caching = true"
    ),
    "cache.cpu_blocks": Rule(takes_tier, _OWN_POOL),
    "cache.offload": _TIER,
    "cache.offload_threshold": Rule(
        lambda s, c: _has_tier(s, c) and s.cache.offload == Offload.WATERMARK.label,
        "cache.cpu_blocks of more than 0 and offload 'watermark'",
    ),
    "cache.offload_block_factor": _CONNECTOR,
    "cache.offload_prompt_only": _CONNECTOR,
    "cache.offload_eviction": _CONNECTOR,
    "cache.transfer_bandwidth": _TIER,
    "cache.link": _TIER,
    "cache.link_gb_per_s": _TIER,
    "cache.kv_bytes_per_token": _TIER,
    "cache.transfer_base_latency_us": _TIER,
    "cache.transfer_overlap": _OTHER_TIER,
    "cache.thrashing_window_us": _OTHER_TIER,
}
"""Keys, without the numbers of clients, that not every scenario reads."""

_NO_BLOCKS = "neither cache.gpu_blocks nor cache.gpu_tokens, which win"

OVERRULED: dict[str, Rule] = {
    **{
        f"model.{key}": Rule(takes_size, _NO_BLOCKS)
        for key in ("kv_gib", "utilization", "activation_gib")
    },
    "model.gpu": Rule(takes_hardware, f"{_NO_BLOCKS}, or no [latency]"),
}
"""Keys that decide nothing beside others that are given, but are told with them."""
