"""Traces of hybrid caches, drafts, roles and unequal pools, made to provoke trouble.

They are `strategies` with what these features have, and without what they are not combined with.
"""

from hypothesis import strategies as st
from strategies import WINDOWS as STEP_WINDOWS
from strategies import _Drawn, _Random, _trace

FEATURES = (
    *("groups", "states", "drafts", "groups and drafts", "states and drafts", "roles", "pools"),
    *("roles and drafts", "roles and groups", "roles, groups and drafts"),
)
PIPELINES = (
    *("pipeline", "pipeline and groups", "pipeline and states", "pipeline and share"),
    *("pipeline and drafts", "pipeline, groups and drafts"),
)
TIERED = ("tier and groups", "tier and drafts", "tier, groups and drafts")
TIERED_STATES = ("tier and states", "tier, states and drafts", "tier, pools and states")
POOLED = (
    *("pools and groups", "pools and states", "pools and drafts", "pools, groups and drafts"),
    *("tier and pools", "tier, pools and groups", "tier, pools and drafts"),
)
ROLES = ("roles", "roles and drafts", "roles and groups", "roles, groups and drafts")
LEASES = ("leases", "leases and drafts", "leases and groups")
STATES_APART = (
    *("roles and states", "roles, states and drafts", "routed roles and states"),
    *("leases and states", "leases, states and drafts"),
)
TIERED_ROLES = (
    *("roles and tier", "roles, groups and tier", "roles, drafts and tier"),
    *("roles, groups, drafts and tier", "routed roles and tier"),
    *("leases and tier", "leases, groups and tier", "leases, drafts and tier"),
    *("roles, states and tier", "roles, states, drafts and tier", "leases, states and tier"),
    "routed roles, states and tier",
)
ROUTED_ROLES = ("routed roles", "routed roles and drafts", "routed roles and groups")
WINDOWS = (2, 3, 5, 8, 9, 16, 17, 40)
ROUTING = ("routing", "scorers", "router_index_blocks", "count_pending")
POLICIES = ("round-robin", "least-loaded", "weighted", "prompt-affinity", "always-busiest")
POLICIES += ("sticky",)
ROUTING += ("sticky_threshold", "sticky_lead_tokens")
ROUTING += ("snapshot_refresh_us", "snapshot_load")


@st.composite
def traces(draw, features=FEATURES, max_requests=12, closed_loop=False):
    """Traces (``kvsweep-trace/1``) of one of some features."""
    return _explicit(_Drawn(draw), features, max_requests, closed_loop)


def random_trace(rng, features=FEATURES, max_requests=30, closed_loop=False):
    """Return a trace of the same family as `traces`, drawn from a `random.Random`."""
    return _explicit(_Random(rng), features, max_requests, closed_loop)


def _explicit(source, features, max_requests, closed_loop):
    feature = source.pick(features)
    trace = _trace(source, max_requests, closed_loop, True, False, False)
    scenario = trace["scenario"]
    scenario["engine"]["preempt_for_urgent"] = False
    block_size, gpu_blocks = (scenario["cache"][key] for key in ("block_size", "gpu_blocks"))
    scenario["cache"] = {"block_size": block_size, "gpu_blocks": gpu_blocks}
    if "groups" in feature:
        _add_groups(source, scenario["cache"])
    if "states" in feature:
        _add_states(source, scenario)
    several = "states" in feature and "drafts" in feature
    if several:  # fewer than tokens of a block, else refused
        scenario["cache"]["block_size"] = max(6, block_size)
    if "groups" in scenario["cache"]:
        _keep_some(source, scenario["cache"])
    if "drafts" in feature:
        _add_drafts(source, trace, 60 if "long" in feature else 5)
        apart = "roles" in feature or "leases" in feature
        if apart and not _has_full(scenario["cache"]):
            scenario["engine"]["speculative"]["method"] = "draft"  # else refused
    if several:  # a step with room for a block, else refused
        engine, size = scenario["engine"], scenario["cache"]["block_size"]
        engine["max_num_batched_tokens"] += engine["max_num_batched_tokens"] == size
    if "pipeline" in feature:
        stages = source.pick((2, 2, 3, 4, 7))
        scenario["engine"]["pipeline_parallel_size"] = stages
        scenario["engine"]["pipeline_fair_share"] = "share" in feature
        if "drafts" in feature:
            scenario["engine"]["async_scheduling"] = True  # else refused
    if feature.startswith(("roles", "leases")):
        _add_roles(source, scenario)
    if feature.startswith("routed roles"):
        routing = {key: scenario["cluster"][key] for key in ROUTING}
        _add_roles(source, scenario)
        _add_routing(source, scenario["cluster"], routing)
    if feature.startswith("leases"):
        _add_leases(source, trace)
    if "pools" in feature:
        _add_pools(source, scenario)
    if "tier" in feature:
        _add_tier(source, scenario)
    if feature in TIERED_ROLES:
        _leave_out_tier(source, scenario["cluster"])
    return trace


def _add_groups(source, cache):
    """One or several groups, windows from two tokens to more than any prompt; pools to match."""
    kinds = source.pick(("fs", "s", "fss", "sf", "ffs", "sfs", "ss"))
    same = source.pick(WINDOWS)
    alike = source.chance(40)
    cache["groups"] = [
        {"kind": "full"}
        if kind == "f"
        else {"kind": "sliding", "window": same if alike else source.pick(WINDOWS)}
        for kind in kinds
    ]
    cache["gpu_blocks"] *= source.pick((len(kinds), 1))


def _keep_some(source, cache):
    """Let windows or states keep but some blocks in the cache, or all."""
    if source.chance(60):
        interval = cache["block_size"] * source.pick((0, 0, 0, 1, 2, 3, 5))
        cache["prefix_cache_retention_interval"] = interval


def _add_states(source, scenario):
    """Groups of states on either side of one or two of full attention; pools to match."""
    state = {"kind": "state"}
    if source.chance(50):
        state["checkpoint"] = source.chance(80)
    kinds = source.pick(("fs", "sf", "fsss", "ssf", "ffs", "sff"))
    cache = scenario["cache"]
    cache["groups"] = [{"kind": "full"} if kind == "f" else state for kind in kinds]
    cache["gpu_blocks"] *= source.pick((len(kinds), 1))
    scenario["engine"]["enable_chunked_prefill"] = True  # else refused


def _add_drafts(source, trace, longest):
    """Draw what verifications accept, `longest` at most of each request, used in a circle."""
    engine = trace["scenario"]["engine"]
    tokens = source.pick((1, 2, 3, 5))
    engine["speculative"] = {"tokens": tokens, "method": source.pick(("draft", "eagle"))}
    if source.chance(30):
        engine["speculative"]["draft_us"] = source.pick((1.0, 2.5, 30.0))
    # A request must have room for its drafts and as many more.
    size = trace["scenario"]["cache"]["block_size"]
    trace["scenario"]["cache"]["gpu_blocks"] += source.pick((-(-2 * tokens // size), 0))
    engine["max_num_batched_tokens"] = max(engine["max_num_batched_tokens"], tokens + 2)
    if 0 < engine["long_prefill_token_threshold"] <= tokens:
        engine["long_prefill_token_threshold"] = tokens + source.pick((1, 2))
    for row in trace["requests"]:
        most = source.pick((tokens, tokens, 0, 1))
        count = source.integer(1, longest)
        row["accepted"] = [source.integer(0, most) for _ in range(count)]
    if source.chance(40):
        _add_longest(source, trace, tokens)


def _add_longest(source, trace, drafts):
    """Let the engine take requests as long as one of the trace, or a little longer."""
    engine = trace["scenario"]["engine"]
    row = source.pick(trace["requests"])
    tokens = sum(count for _, count in row["prompt"]) + row["output"][1]
    longest = tokens + source.pick((0, 0, 1, drafts, 2 * drafts))
    engine["max_model_len"] = max(longest, engine["long_prefill_token_threshold"])
    if not engine["enable_chunked_prefill"]:
        budget = max(engine["max_num_batched_tokens"], engine["max_model_len"])
        engine["max_num_batched_tokens"] = budget


def _add_roles(source, scenario):
    del scenario["cluster"]["instances"]
    for key in ROUTING:
        del scenario["cluster"][key]
    step_us = int(scenario["latency"]["beta"][0])
    blocks = scenario["cache"]["gpu_blocks"]
    scenario["cluster"] |= {
        "prefill_instances": source.pick((1, 1, 2)),
        "decode_instances": source.pick((1, 1, 2, 3)),
        "prefill_gpu_blocks": source.pick((blocks, 2 * blocks, blocks // 2 + 1)),
        "kv_transfer_base_us": source.pick((0, 1, step_us, 10 * step_us)),
        "kv_transfer_bandwidth": source.pick((1.0, 0.1, 7.0, 1000.0)),
        "pd_handoff_us": source.pick((0, 0, step_us, 3)),
    }
    if scenario["engine"].get("async_scheduling") and source.chance(50):
        scenario["cluster"]["prefill_kv_role"] = "kv_both"


def _add_leases(source, trace):
    """Leases of some steps, or of many; pulls that fail; links that are often too slow for them."""
    cluster, latency = trace["scenario"]["cluster"], trace["scenario"]["latency"]
    step_us = max(1, int(latency["beta"][0]))
    cluster["kv_lease_us"] = step_us * source.pick((1, 3, 10, 30, 100)) + source.pick((0, 1, 5))
    cluster["kv_load_failure_policy"] = source.pick(("fail", "recompute"))
    if source.chance(50):
        cluster["kv_heartbeats"] = source.chance(50)
    failing = source.pick((0, 20, 100))
    for row in trace["requests"]:
        row["pull_fails"] = source.chance(failing)


def _add_routing(source, cluster, routing):
    """Routers that look, maybe other ones for each role, and a decider."""
    cluster |= routing
    for role in ("prefill", "decode"):
        pool = {"instances": cluster.pop(f"{role}_instances") + source.pick((0, 0, 1))}
        blocks = cluster.pop(f"{role}_gpu_blocks", None)
        if blocks is not None:
            pool["gpu_blocks"] = blocks
        if source.chance(50):
            pool["routing"] = source.pick(POLICIES)
        if source.chance(30):
            scorers = source.pick((("load-balance", 1), ("prefix-affinity", 2), ("queue-depth", 1)))
            pool["scorers"] = {scorers[0]: scorers[1], "kv-utilization": 1}
        cluster[role] = pool
    if source.chance(60):
        cluster["pd_uncached_token_threshold"] = source.integer(0, source.pick((8, 20, 60)))


def _add_lengths(source, engine, pools):
    """Let each pool serve longer requests than the one before it, the last maybe any.

    None is shorter than a threshold or, without chunked prefill, longer than a step: else refused.
    """
    longest = engine["long_prefill_token_threshold"]
    for pool in pools:
        longest += source.integer(1, 60)
        pool["max_model_len"] = longest
        if not engine["enable_chunked_prefill"]:
            budget = pool.get("max_num_batched_tokens", engine["max_num_batched_tokens"])
            pool["max_num_batched_tokens"] = max(budget, longest)
    if source.chance(50):
        del pools[-1]["max_model_len"]


def _add_pools(source, scenario):
    cluster = scenario["cluster"]
    engine = scenario["engine"]
    cluster["pools"] = []
    del cluster["instances"]
    for _ in range(source.pick((1, 2, 3))):
        pool = {"instances": source.pick((1, 2))}
        if source.chance(70):
            pool["gpu_blocks"] = source.integer(2, 2 * scenario["cache"]["gpu_blocks"])
        if source.chance(50):
            pool["max_num_seqs"] = source.integer(1, engine["max_num_seqs"])
        if source.chance(50):
            more = source.pick((0, 1, 7, 60))
            pool["max_num_batched_tokens"] = engine["max_num_batched_tokens"] + more
        if source.chance(60):
            pool["latency"] = {"beta": list(source.pick(((10, 10, 10), (7, 0, 0), (25, 1, 3))))}
            if source.chance(30):
                pool["latency"]["window"] = list(source.pick(STEP_WINDOWS[:2]))
        cluster["pools"].append(pool)
    if engine.get("max_model_len") is None and source.chance(50):
        _add_lengths(source, engine, cluster["pools"])


def _has_full(cache):
    """Whether a group attends in full, as the layers of an EAGLE head do."""
    return any(group["kind"] == "full" for group in cache.get("groups", [{"kind": "full"}]))


def _add_tier(source, scenario):
    """A CPU tier of vLLM's kind, mostly too small, over a link that is mostly too slow."""
    cache = scenario["cache"]
    cache |= {
        "offload": "vllm",
        "cpu_blocks": source.integer(1, 2 * cache["gpu_blocks"]),
        "offload_block_factor": source.pick((1, 1, 2, 3) if cache["block_size"] > 1 else (2, 3)),
        "offload_prompt_only": source.chance(50),
        "offload_eviction": source.pick(("lru", "arc")),
        "transfer_bandwidth": source.pick((0.03, 0.1, 0.3, 1.0, 1000.0)),
        "transfer_base_latency_us": source.pick((0, 1, 10, 200)),
    }
    if cache.get("prefix_cache_retention_interval"):
        cache["prefix_cache_retention_interval"] *= cache["offload_block_factor"]  # else refused
    if "speculative" in scenario["engine"] and not _has_full(cache):
        scenario["engine"]["speculative"]["method"] = "draft"  # else refused
    if any(group["kind"] == "state" for group in cache.get("groups", ())):
        scenario["engine"]["enable_prefix_caching"] = True  # else refused


def _leave_out_tier(source, cluster):
    """Let one side have no tier, or a larger one, or both have the same."""
    if cluster.get("kv_load_failure_policy"):
        cluster["kv_load_failure_policy"] = "fail"  # else refused
    side = source.pick((None, "prefill", "decode"))
    blocks = source.pick((0, 0, 300))
    if side and isinstance(cluster.get(side), dict):
        cluster[side]["cpu_blocks"] = blocks
    elif side:
        cluster[f"{side}_cpu_blocks"] = blocks
