"""What each rule book has: a scenario that asks for more is refused, never silently reduced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvsweep.config.base import KeyProblem
from kvsweep.config.explicit_rules import check_explicit
from kvsweep.config.fleet import fleet, has_pools, key_of, longest_of
from kvsweep.errors import dotted
from kvsweep.policies import (
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

if TYPE_CHECKING:
    from kvsweep.config.scenario import Scenario
    from kvsweep.config.sessions import Sessions
    from kvsweep.config.workload import Workload

FAMILIES = (
    ("cluster", "routing", Routing),
    ("cluster", "admission", Admission),
    ("engine", "scheduler", Scheduler),
    ("engine", "priority", Priority),
    ("engine", "victim", Victim),
    ("cache", "eviction", Eviction),
    ("cache", "offload", Offload),
)

# The only value that a rule book knows for a key, and what the key would ask for.
_FIXED: dict[str, tuple[tuple[str, str, Any, str], ...]] = {
    "vllm": (
        ("engine", "blis", {}, "no switches of the reference simulator"),
        ("engine", "horizon_us", None, "no horizon: every run ends by itself"),
    ),
    "blis": (
        ("cache", "link", None, "transfer_bandwidth only"),
        ("cache", "link_gb_per_s", None, "transfer_bandwidth only"),
        ("cache", "kv_bytes_per_token", None, "transfer_bandwidth only"),
        ("cache", "transfer_overlap", False, "transfers before the computation only"),
        ("cache", "thrashing_window_us", 1_000_000, "a thrashing window of 1 ms, fixed"),
        ("cache", "offload_block_factor", 1, "a CPU tier with blocks as large as the GPU's"),
        ("cache", "offload_prompt_only", True, "no such switch"),
        (
            "cache",
            "offload_eviction",
            TierEviction.LRU.label,
            "eviction of the least recently used",
        ),
        ("cache", "groups", (), "one group with full attention"),
        ("cache", "prefix_cache_retention_interval", None, "a cache that keeps all blocks"),
        ("engine", "speculative", None, "no drafts"),
        ("engine", "max_model_len", None, "requests of any length"),
        ("cluster", "pools", (), "equal instances only"),
        ("cluster", "prefill", None, "equal instances only"),
        ("cluster", "decode", None, "equal instances only"),
        ("cluster", "prefill_instances", None, "equal instances only"),
        ("cluster", "decode_instances", None, "equal instances only"),
        ("engine", "async_scheduling", False, "synchronous scheduling only"),
        ("engine", "pipeline_parallel_size", 1, "no pipelines"),
        ("engine", "pipeline_fair_share", False, "no pipelines"),
        ("engine", "enable_prefix_caching", True, "prefix caching always on"),
        ("engine", "enable_chunked_prefill", True, "chunked prefill always on"),
        ("engine", "reserve_full_prompt", True, "no such switch"),
        ("engine", "watermark", 0.0, "no watermark"),
        ("engine", "priority_age_ms", 1000.0, "no levels of age"),
        ("engine", "preempt_for_urgent", False, "no preemption at admissions"),
        ("cluster", "router_index_blocks", 10_000, "a router's index of 10,000 blocks only"),
        ("cluster", "sticky_threshold", 0.8, "no sticky routing"),
        ("cluster", "sticky_lead_tokens", 286_704, "no sticky routing"),
        ("cluster", "count_pending", True, "a load that always counts pending requests"),
        ("cluster", "snapshot_load", False, "a load that is never stale"),
    ),
}


def only_values(rules: str) -> dict[str, dict[str, Any]]:
    """Return the only value that a rule book knows for a key, of those with one, by section."""
    found: dict[str, dict[str, Any]] = {}
    for section, key, only, _ in _FIXED[rules]:
        found.setdefault(section, {})[key] = only
    return found


# What to say of a name that the other rule book has for nearly the same.
_NAMESAKES = {
    ("vllm", "prefix-affinity"): (
        "; it is called 'prompt-affinity' here, as it follows whole prompts only: the longest "
        "common prefix is followed by routing 'weighted' with scorers = "
        "{ precise-prefix = 3, queue-depth = 2 }, or with prefix-affinity instead of precise-prefix"
    ),
    ("blis", "prompt-affinity"): "; did you mean 'prefix-affinity'?",
}


def check_rules(scenario: Scenario) -> None:
    """Check that the scenario's rule book has all that it asks for.

    Raises
    ------
    KeyProblem
        Naming the first key that asks for more, and what the rules have.
    """
    rules = scenario.engine.rules
    for section, key, family in FAMILIES:
        chosen = getattr(getattr(scenario, section), key)
        allowed = family.labels_of(rules)
        if chosen not in allowed:
            raise KeyProblem(
                (section, key),
                f"{chosen!r}: rules {rules!r} has: {', '.join(allowed)}"
                f"{_NAMESAKES.get((rules, chosen), '')}",
            )
    known = Scorer.labels_of(rules)
    for scorer in scenario.cluster.scorers:
        if scorer not in known:
            raise KeyProblem(
                ("cluster", "scorers"), f"{scorer!r}: rules {rules!r} has: {', '.join(known)}"
            )
    for section, key, only, has in _FIXED[rules]:
        if getattr(getattr(scenario, section), key) != only:
            raise KeyProblem((section, key), f"rules {rules!r} has {has}")
    if rules == "vllm":
        _check_batch_limits(scenario)
        _check_longest_request(scenario)
        _check_tier(scenario)
        _check_async(scenario)
        check_explicit(scenario)
        return
    _check_token_times(scenario)
    if scenario.workload:
        _check_arrivals_known(scenario.workload)


def _check_token_times(scenario: Scenario) -> None:
    """Refuse step times that depend on more than the numbers of tokens of a step."""
    latency = scenario.latency
    for key, given in (
        ("beta", len(latency.beta) > 3),
        ("memory", len(latency.memory) > 0),
        ("window", len(latency.window) > 0),
    ):
        if given:
            at = "model" if latency.model else key
            message = "rules 'blis' has no context terms: beta has three coefficients"
            raise KeyProblem(("latency", at), message)
    if latency.first_steps_us:
        raise KeyProblem(("latency", "first_steps_us"), "rules 'blis' has no slow first steps")


def _check_arrivals_known(workload: Workload) -> None:
    """Refuse arrivals that depend on what the engine does."""
    if workload.concurrency is not None:
        raise KeyProblem(("workload", "concurrency"), "rules 'blis' has fixed arrivals only")
    tables: list[tuple[tuple[str | int, ...], Sessions | None]] = [
        (("workload", "sessions"), workload.sessions)
    ]
    for i, client in enumerate(workload.clients):
        tables.append((("workload", "clients", i, "sessions"), client.sessions))
    for path, sessions in tables:
        if sessions and sessions.arrivals != "fixed":
            raise KeyProblem((*path, "arrivals"), "rules 'blis' has fixed arrivals only")
        if sessions and sessions.patience_s is not None:
            raise KeyProblem((*path, "patience_s"), "rules 'blis' has no impatient clients")


def _check_tier(scenario: Scenario) -> None:
    """Refuse a CPU tier that nothing could be looked up in, and what vLLM's has no rule for.

    vLLM's keeps what it stores under keys of its own, whatever the GPU keeps.
    """
    cache, engine = scenario.cache, scenario.engine
    if cache.cpu_blocks == 0:
        return
    if cache.offload != Offload.VLLM.label:
        if not engine.enable_prefix_caching:
            message = f"offload {cache.offload!r} needs engine.enable_prefix_caching = true"
            raise KeyProblem(("cache", "cpu_blocks"), message)
        return
    if engine.preempt_for_urgent:
        message = "has no rule with cache.offload = 'vllm': vLLM does not do this"
        raise KeyProblem(("engine", "preempt_for_urgent"), message)
    if cache.block_size * cache.offload_block_factor == 1:
        # The last known token is computed in any case: nothing would be left of such a load.
        message = "offload 'vllm' moves at least two tokens: needs a block_size of more than 1"
        raise KeyProblem(("cache", "offload_block_factor"), message)


def _check_async(scenario: Scenario) -> None:
    """Refuse what vLLM has no rule for under asynchronous scheduling."""
    engine = scenario.engine
    if not engine.async_scheduling:
        return
    if engine.preempt_for_urgent and engine.scheduler == Scheduler.PRIORITY.label:
        raise KeyProblem(("engine", "preempt_for_urgent"), "needs engine.async_scheduling = false")
    offload = scenario.cache.offload
    if scenario.cache.cpu_blocks > 0 and offload != Offload.VLLM.label:
        raise KeyProblem(
            ("cache", "cpu_blocks"), f"offload {offload!r} needs engine.async_scheduling = false"
        )


def _check_batch_limits(scenario: Scenario) -> None:
    """Refuse what vLLM refuses: a step must be able to decode a full batch (rule R1.2).

    The kernel relies on it: by_counts.is_countable never looks at the budget.
    """
    engine = scenario.engine
    if engine.max_num_batched_tokens >= engine.max_num_seqs or has_pools(scenario):
        return
    given = engine.model_fields_set
    key = "max_num_batched_tokens" if "max_num_batched_tokens" in given else "max_num_seqs"
    raise KeyProblem(
        ("engine", key),
        f"max_num_batched_tokens ({engine.max_num_batched_tokens}) must be at least max_num_seqs "
        f"({engine.max_num_seqs}), as in vLLM",
    )


def _check_longest_request(scenario: Scenario) -> None:
    """Refuse what vLLM refuses of its longest request, `max_model_len`.

    Without chunked prefill a step must take it whole, and a threshold must not be more than it.
    Where nobody names it, it may be anything that vLLM takes.
    """
    engine = scenario.engine
    threshold = engine.long_prefill_token_threshold
    whole, of_all = not engine.enable_chunked_prefill, engine.max_model_len
    for number, pool in enumerate(fleet(scenario)):
        budget = pool.max_num_batched_tokens
        step = f"max_num_batched_tokens ({budget}), which vLLM refuses without chunked prefill"
        longest, at = longest_of(scenario, number), key_of(scenario, number, "max_model_len")
        if longest is not None and of_all is not None and longest > of_all:
            raise KeyProblem(at, f"{longest} is more than engine.max_model_len ({of_all})")
        if whole and longest is not None and longest > budget:
            raise KeyProblem(at, f"{longest} is more than {step}")
        key = ("engine", "long_prefill_token_threshold")
        if longest is not None and threshold > longest:
            of = f"{dotted(at)} ({longest})"
            raise KeyProblem(key, f"{threshold} is more than {of}, which vLLM refuses")
        if whole and threshold > budget:
            raise KeyProblem(key, f"{threshold} is more than {step}")
