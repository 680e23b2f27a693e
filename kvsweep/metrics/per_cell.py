"""The variables of a cell: names, units, meanings.

*Measured* requests are all but the first ``workload.warmup`` ones.
"""

from kvsweep.metrics.variable import Variable
from kvsweep.policies import BOTH, VLLM


def _latency(name: str, meaning: str) -> tuple[Variable, ...]:
    return (
        Variable(f"{name}_mean_ms", (), "float64", "ms", f"mean {meaning}"),
        Variable(f"{name}_ms", ("quantile",), "float64", "ms", f"quantile of {meaning}"),
    )


def _counts(*rows: tuple[str, str, str], rules: tuple[str, ...] = BOTH) -> tuple[Variable, ...]:
    return tuple(Variable(name, (), "int64", units, doc, rules) for name, units, doc in rows)


def _reals(*rows: tuple[str, str, str], rules: tuple[str, ...] = BOTH) -> tuple[Variable, ...]:
    return tuple(Variable(name, (), "float64", units, doc, rules) for name, units, doc in rows)


CELL_VARIABLES = (
    *_latency("ttft", "time to first token seen by the client"),
    *_latency("e2e", "time to last token seen by the client"),
    *_latency("itl", "time between consecutive tokens of a request"),
    *_latency("tpot", "time per output token after the first, of each request"),
    *_latency("scheduling_delay", "time from arrival to the first step that computes the request"),
    *_reals(
        ("throughput_rps", "request/s", "throughput of requests"),
        ("output_tokens_per_s", "token/s", "output tokens of completed requests per second"),
    ),
    *_counts(("preemptions", "1", "preemptions of measured requests")),
    *_reals(
        ("preemption_rate", "1", "preemptions per completed request"),
        ("preempted_fraction", "1", "share of injected requests preempted at least once"),
        ("block_hit_rate", "1", "blocks reused / blocks reused or newly taken, decode included"),
        ("prefix_hit_rate", "1", "prompt tokens found cached / prompt tokens looked up"),
    ),
    *_counts(
        ("recomputed_tokens", "token", "tokens computed again that a preemption had made stale"),
        rules=VLLM,
    ),
    *_reals(
        ("recompute_share", "1", "recomputed tokens / computed tokens of measured requests"),
        ("cpu_hit_rate", "1", "prompt tokens loaded from the CPU tier / prompt tokens looked up"),
        rules=VLLM,
    ),
    *_counts(
        ("injected", "request", "measured requests of the request list that arrived"),
        ("completed", "request", "requests that sampled all their output"),
        ("queued", "request", "requests still waiting at the end"),
        ("running", "request", "requests still running at the end"),
        ("dropped_unservable", "request", "requests that can never fit, or are too long"),
        ("rejected", "request", "requests refused by admission control"),
        ("timed_out", "request", "requests given up by their client"),
    ),
    *_counts(
        ("errored", "request", "requests whose prompt could not be pulled from its prefill"),
        rules=VLLM,
    ),
    Variable("peak_blocks", ("instance",), "int64", "block", "most blocks in use at any time"),
    *_reals(
        ("mean_blocks", "block", "blocks in use per instance, mean over the makespan"),
        (
            "mean_waiting",
            "request",
            "measured requests per instance until first step or given up, mean",
        ),
        (
            "mean_running",
            "request",
            "measured requests per instance from first step to completion, mean",
        ),
    ),
    *_counts(
        ("evictions", "block", "cached blocks evicted, warm-up included"),
        ("offloads", "block", "blocks copied to the CPU tier"),
        ("reloads", "block", "blocks copied back from the CPU tier"),
    ),
    *_reals(
        ("thrashing_rate", "1", "blocks reloaded within cache.thrashing_window_us / offloads"),
    ),
    *_reals(
        ("transfer_s", "s", "steps lengthened by transfers of the CPU tier, summed over instances"),
        rules=VLLM,
    ),
    *_counts(
        ("tier_loads", "1", "transfers from a CPU tier as vLLM has it, warm-up included"),
        ("tier_stores", "1", "transfers to such a tier, warm-up included"),
        ("tier_loaded_tokens", "token", "tokens loaded from it"),
        ("tier_stored_tokens", "token", "tokens stored in it"),
        ("tier_evictions", "block", "blocks of it that made room"),
        ("tier_refused", "1", "times that blocks were not stored for lack of room in it"),
        ("tier_deferred", "1", "times that a request had to ask for its load again"),
        ("window_freed", "block", "blocks given back as they left their sliding window"),
        ("draft_tokens", "token", "drafts verified, warm-up included"),
        ("accepted_tokens", "token", "drafts accepted"),
        ("pulls", "1", "prompts pulled from prefill to decode instances, warm-up included"),
        ("pulled_tokens", "token", "tokens that these moved, of each group of layers"),
        ("failed_pulls", "1", "of these pulls, those that failed"),
        ("expired_leases", "1", "leases of prefills that ended before their blocks were pulled"),
        rules=VLLM,
    ),
    *_reals(
        ("draft_acceptance", "1", "drafts accepted / verified"),
        ("pull_wait_mean_ms", "ms", "mean time from the end of a prefill to its blocks' arrival"),
        ("kept_mean_ms", "ms", "mean time that a prefill kept its blocks after its end"),
        rules=VLLM,
    ),
    *_counts(
        ("priority_inversions", "1", "first admissions while a more urgent request waited there"),
    ),
    *_reals(
        ("priority_inversion_rate", "1", "priority inversions per first admission"),
        ("fairness_classes", "1", "Jain index over SLO classes of their mean speed"),
        ("fairness_instances", "1", "Jain index over instances of the requests completed"),
    ),
    *_counts(("steps", "step", "engine steps of all instances, warm-up included")),
    *_counts(("pruned", "1", "1 if copied from a smaller pool where blocks never ran short")),
    *_reals(
        ("makespan_s", "s", "end of the last step, from time zero"),
        ("arrivals_s", "s", "first to last arrival of the list, closed loops have none"),
        ("queue_growth", "1", "share of the later half of all arrivals by which queues grew then"),
    ),
)


def _by_group(dim: str, by: str) -> tuple[Variable, ...]:
    """Return the measures of a group of requests; `by` ends their names and meanings."""
    rows = (
        (f"injected_{by}", "int64", "request", "arrived requests"),
        (f"completed_{by}", "int64", "request", "completed requests"),
        (f"dropped_unservable_{by}", "int64", "request", "requests that can never fit"),
        (f"timed_out_{by}", "int64", "request", "requests given up by their client"),
        (f"preemptions_{by}", "int64", "1", "preemptions"),
        (f"prefix_hit_rate_{by}", "float64", "1", "prompt tokens found cached / looked up"),
        (f"ttft_{by}_mean_ms", "float64", "ms", "mean time to first token seen by the client"),
        (f"e2e_{by}_mean_ms", "float64", "ms", "mean time to last token seen by the client"),
        (f"tpot_{by}_mean_ms", "float64", "ms", "mean time per output token after the first"),
        (f"scheduling_delay_{by}_mean_ms", "float64", "ms", "mean time from arrival to first step"),
    )
    words = by.replace("_", " ")
    return tuple(Variable(n, (dim,), kind, units, f"{doc} {words}") for n, kind, units, doc in rows)


GROUP_VARIABLES = (
    *_by_group("round", "by_round"),
    *_by_group("slo_class", "by_class"),
    *(
        Variable(
            f"{name}_by_class_ms",
            ("slo_class", "quantile"),
            "float64",
            "ms",
            f"quantile of {name}_ms by class",
        )
        for name in ("ttft", "e2e", "tpot", "scheduling_delay")
    ),
)
"""Measures by round or class: of sweeps whose requests have rounds or classes."""
