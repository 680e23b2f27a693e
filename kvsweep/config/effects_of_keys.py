"""Which keys only some scenarios read: one table, so that no setting is silently without effect.

A key that is not in the table is read by every scenario. Rules of a table of keys hold for what is
in it as well. (A weight of 0, a distribution's parameters that must be given although its
`mix_weight` is 0 or 1, and a refill that never matters are values, not keys: they are allowed.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kvsweep.config.bending import Slice
from kvsweep.config.choices import Choice, choices_of
from kvsweep.config.lengths import Constant, Empirical
from kvsweep.config.pool_reads import (
    Reads,
    some_pool,
    takes_batch,
    takes_blocks,
    takes_gpu,
    takes_hardware,
    takes_memory,
    takes_size,
    takes_times,
)
from kvsweep.config.pools import ROLES
from kvsweep.config.schema import KeyPath
from kvsweep.policies import CACHE, INDEX, LOAD, Offload, Priority, Routing, Scheduler, Scorer

if TYPE_CHECKING:
    from kvsweep.config.cluster_section import Cluster
    from kvsweep.config.scenario import Scenario
    from kvsweep.config.sessions import Sessions

_URGENT_FIRST = (Scheduler.PRIORITY, Scheduler.PRIORITY_FCFS, Scheduler.REVERSE_PRIORITY)
_SHAPED = ("gamma", "weibull")


class Rule(NamedTuple):
    """When a key is read, and what it needs, in words."""

    reads: Reads
    needs: str


def unread(scenario: Scenario, path: KeyPath) -> Rule | None:
    """Return the rule by which a scenario does not read a key, or None if it does."""
    numbers = (part for part in path if isinstance(part, int))
    client = next(numbers, None) if "clients" in path else None
    names = [str(part) for part in path if not isinstance(part, int)]
    if client is not None and client >= len(_clients(scenario)):
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


def _is_urgent_first(scenario: Scenario) -> bool:
    return scenario.engine.scheduler in [item.label for item in _URGENT_FIRST]


def _clients(scenario: Scenario) -> Any:
    return scenario.workload.clients if scenario.workload else ()


def _takes(key: str) -> Reads:
    """Return whether somebody takes a key from the workload that clients may have themselves."""

    def reads(scenario: Scenario, client: int | None) -> bool:
        clients = _clients(scenario)
        return not clients or any(getattr(c, key) is None for c in clients)

    return reads


def _spreads(scenario: Scenario) -> bool:
    """Return whether gaps between arrivals matter: not the order of one sender's requests."""
    workload = scenario.workload
    return workload is None or workload.rate is not None or len(workload.clients) > 1


def _takes_arrivals(scenario: Scenario, client: int | None) -> bool:
    return _spreads(scenario) and _takes("arrivals")(scenario, client)


def _takes_cv(scenario: Scenario, client: int | None) -> bool:
    workload = scenario.workload
    if not _spreads(scenario):
        return False
    if workload is None or not workload.clients:
        return workload is None or workload.arrivals in _SHAPED
    inheriting = [c for c in workload.clients if c.cv is None]
    return any((c.arrivals or workload.arrivals) in _SHAPED for c in inheriting)


def _has_cv(scenario: Scenario, client: int | None) -> bool:
    workload = scenario.workload
    assert workload is not None
    assert client is not None
    process = workload.clients[client].arrivals or workload.arrivals
    return process in _SHAPED and _spreads(scenario)


def _owner(scenario: Scenario, client: int | None) -> Any:
    """Return the client of this number, or the workload."""
    return scenario.workload if client is None else _clients(scenario)[client]


def _clamps(lengths: str, bound: str) -> Reads:
    """Return whether a bound changes any length of a distribution with known values."""

    def reads(scenario: Scenario, client: int | None) -> bool:
        drawn = getattr(_owner(scenario, client), lengths)
        if isinstance(drawn, Constant | Empirical):
            values = (drawn.value,) if isinstance(drawn, Constant) else drawn.values
            limit = getattr(drawn, bound)
            return limit is None or (min(values) < limit if bound == "min" else limit < max(values))
        return True

    return reads


def _in_sessions(condition: Callable[[Sessions], bool]) -> Reads:
    def reads(scenario: Scenario, client: int | None) -> bool:
        sessions = getattr(_owner(scenario, client), "sessions", None)
        return sessions is not None and sessions.rounds > 1 and condition(sessions)

    return reads


def _thoughtless(scenario: Scenario, client: int | None) -> bool:
    sessions = getattr(_owner(scenario, client), "sessions", None)
    return sessions is None or sessions.think_time_s == 0


def _has_tier(scenario: Scenario, client: int | None) -> bool:
    return scenario.cache.cpu_blocks > 0


def _connects(scenario: Scenario, client: int | None) -> bool:
    return _has_tier(scenario, client) and scenario.cache.offload == Offload.VLLM.label


def _session_rules(prefix: str) -> Iterator[tuple[str, Rule]]:
    rounds = "sessions of several rounds"
    for key in ("context", "arrivals", "truncate"):
        yield f"{prefix}.{key}", Rule(_in_sessions(lambda s: True), rounds)
    # think_time_s must be given: 0 where there is nothing to think about.
    thinks = _in_sessions(lambda s: s.think_time_s > 0)
    yield (
        f"{prefix}.think_time_s",
        Rule(lambda s, c: thinks(s, c) or _thoughtless(s, c), f"{rounds} (without: 0)"),
    )
    yield f"{prefix}.think_time", Rule(thinks, "several rounds and a think_time_s of more than 0")
    drops = _in_sessions(lambda s: s.context == "accumulate" and not s.keep_reasoning)
    yield (
        f"{prefix}.reason_ratio",
        Rule(drops, "several rounds, context 'accumulate' and keep_reasoning = false"),
    )
    keeps = _in_sessions(lambda s: s.context == "accumulate" and s.reason_ratio > 0)
    yield (
        f"{prefix}.keep_reasoning",
        Rule(keeps, "several rounds, context 'accumulate' and a reason_ratio of more than 0"),
    )


def _length_rules(prefix: str, key: str) -> Iterator[tuple[str, Rule]]:
    for bound, beyond in (("min", "below"), ("max", "above")):
        needs = f"a length {beyond} it, which the distribution never has"
        yield f"{prefix}.{key}.{bound}", Rule(_clamps(key, bound), needs)


def _copies(scenario: Scenario, client: int | None) -> bool:
    """Return whether a trace's requests are copied."""
    workload = scenario.workload
    return workload is not None and (workload.repeat > 1 or workload.loop > 1)


def _repeats(scenario: Scenario, client: int | None) -> bool:
    return scenario.workload is not None and scenario.workload.repeat > 1


def _has_times(scenario: Scenario, client: int | None) -> bool:
    """Return whether a trace's requests, or sessions, have times, as far as settings tell."""
    read = None if scenario.workload is None else scenario.workload.read
    return read is None or (read.arrivals != "at-once" and read.lanes is None)


def _scales(scenario: Scenario, client: int | None) -> bool:
    """Return whether requests of a trace arrive at several times, as far as settings tell."""
    workload = scenario.workload
    spread = workload is not None and workload.repeat_spread_s > 0
    return _has_times(scenario, client) or (_repeats(scenario, client) and spread)


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
_SEVERAL = "cluster.instances of more than 1"
_SEEING = ", and a scorer beside precise-prefix or enable_prefix_caching = true"
_NO_OWN = "a client that has none of its own"
_TIMED = "arrivals that are not all at once, nor on read.lanes as each is free"
_SPREAD = "with concurrency, a rate or several clients"

RULES: dict[str, Rule] = {
    "workload.arrivals": Rule(_takes_arrivals, f"{_NO_OWN}, and {_SPREAD}"),
    "workload.clients.arrivals": Rule(lambda s, c: _spreads(s), _SPREAD),
    "workload.prompt": Rule(_takes("prompt"), _NO_OWN),
    "workload.output": Rule(_takes("output"), _NO_OWN),
    "workload.sessions": Rule(_takes("sessions"), _NO_OWN),
    "workload.cv": Rule(
        _takes_cv,
        f"arrivals 'gamma' or 'weibull', of a client without its own cv, and {_SPREAD}",
    ),
    "workload.clients.cv": Rule(_has_cv, f"arrivals 'gamma' or 'weibull', and {_SPREAD}"),
    "workload.clients.rate_fraction": Rule(lambda s, c: len(_clients(s)) > 1, "several clients"),
    "workload.copies": Rule(_copies, "workload.repeat or workload.loop of more than 1"),
    "workload.scale": Rule(_scales, _TIMED),
    **{f"workload.slice.{key}": Rule(_has_times, _TIMED) for key in Slice.model_fields},
    "workload.repeat_spread_s": Rule(_repeats, "workload.repeat of more than 1"),
    **dict(_session_rules("workload.sessions")),
    **dict(_session_rules("workload.clients.sessions")),
    **{
        key: rule
        for prefix in ("workload", "workload.clients")
        for lengths in ("prompt", "output")
        for key, rule in _length_rules(prefix, lengths)
    },
    "cluster.routing": Rule(lambda s, c: _takes_routing(s.cluster), _SEVERAL),
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
    "cluster.router_index_blocks": Rule(
        lambda s, c: _reads(s.cluster, INDEX),
        f"routing 'weighted' with scorer 'prefix-affinity' and {_SEVERAL}",
    ),
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
        lambda s, c: _is_urgent_first(s),
        "scheduler 'priority' (rules 'blis': 'priority-fcfs' or 'reverse-priority')",
    ),
    "engine.priority_age_ms": Rule(
        lambda s, c: _is_urgent_first(s) and s.engine.priority == Priority.AGE.label,
        "scheduler 'priority' and priority 'age'",
    ),
    "engine.pipeline_fair_share": Rule(
        lambda s, c: s.engine.pipeline_parallel_size > 1, "engine.pipeline_parallel_size above 1"
    ),
    "engine.preempt_for_urgent": Rule(
        lambda s, c: _is_urgent_first(s),
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
    "cache.eviction": Rule(
        lambda s, c: s.engine.enable_prefix_caching, "enable_prefix_caching = true"
    ),
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
