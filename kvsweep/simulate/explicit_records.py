"""What lanes have that track blocks and requests explicitly: groups of layers, drafts, pools."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import Scenario
from ..config.choices import choices_of
from ..config.cluster_section import Cluster
from ..config.coefficients import step_fields
from ..config.fleet import InstancePool, fleet, has_pools, is_explicit
from ..config.groups import CacheGroup, attention_groups, keeps_some, state_groups
from ..config.pools import has_roles
from ..policies import INDEX, LoadFailure, Routing
from ..records import ANY_LENGTH, DECODE, GROUP, POOL, PREFILL, WHOLE
from .routers import reads_of, scorers_of

ROLES = {"both": WHOLE, "prefill": PREFILL, "decode": DECODE}


def explicit_fields(scenario: Scenario, connects: bool) -> dict[str, Any]:
    """Return the fields of LANE that the explicit engine reads; others have one group and one pool.

    Parameters
    ----------
    scenario : Scenario
        What is simulated.
    connects : bool
        Whether its CPU tier is vLLM's connector.
    """
    explicit = is_explicit(scenario)
    engine = scenario.engine
    speculative = engine.speculative
    fields: dict[str, Any] = {
        "explicit": explicit,
        "by_extents": not explicit,
        "unconnected": not explicit and not connects,
        **_moving_fields(scenario, explicit, connects),
        "more_groups": max(0, len(attention_groups(scenario.cache.groups)) - 1),
        "windows": any(group.window for group in scenario.cache.groups),
        **_state_fields(scenario.cache.groups),
        **_kept_fields(scenario),
        "stages": engine.pipeline_parallel_size if engine.pipeline_parallel_size > 1 else 0,
        "fair_share": engine.pipeline_fair_share and engine.pipeline_parallel_size > 1,
        "drafts": engine.drafts,
        "ahead": looks_ahead(scenario),
        "drops_last": _reuses_for_eagle(scenario) and _loads(scenario),
        "slot": engine.drafts > 0 and speculative is not None and speculative.method == "draft",
        "more_places": _more_places(scenario),
        "longest": engine.max_model_len or ANY_LENGTH,
        "routed": scenario.cluster.instances,
        "beta0": (scenario.latency.beta or (0.0,))[0] + engine.drafting_us,
    }
    if has_pools(scenario):
        fields |= _pool_fields(scenario)
    return fields


def _moving_fields(scenario: Scenario, explicit: bool, connects: bool) -> dict[str, Any]:
    """Return what a CPU tier as vLLM has it is like where requests are explicit."""
    found: dict[str, Any] = {"counts": explicit, "by_phase": explicit, "moves": 0}
    found |= {"bare": 0, "volatile": 0, "stores_some": 0, "stored_every": 0}
    if not explicit or not connects:
        return found
    cache, speculative = scenario.cache, scenario.engine.speculative
    interval = cache.prefix_cache_retention_interval
    eagle = speculative is not None and speculative.method == "eagle"
    return found | {
        "connects": 0,
        "counts": scenario.engine.drafts == 0,
        "by_phase": 0,
        "moves": 1,
        "tier_records": 0,
        "volatile": eagle and scenario.engine.drafts > 0,
        "stores_some": interval is not None,
        "stored_every": (interval or 0) // cache.block_size,
    }


def _more_places(scenario: Scenario) -> int:
    """Return the places of a block table beyond the full blocks of what is known.

    In flight a decode may be three times its drafts beyond that; and drafts have states.
    """
    cache, drafts = scenario.cache, scenario.engine.drafts
    states = drafts if state_groups(cache.groups) else 0
    return 3 + -(-3 * drafts // cache.block_size) + states


def _state_fields(groups: tuple[CacheGroup, ...]) -> dict[str, Any]:
    """Return what groups of states there are; they stand together, and are alike."""
    states = state_groups(groups)
    return {
        "states": len(states),
        "states_first": bool(states) and groups[0].kind == "state",
        "checkpoints": bool(states) and bool(states[0].checkpoint),
    }


def _kept_fields(scenario: Scenario) -> dict[str, Any]:
    """Return what windows and states keep in the cache (rule R12.10)."""
    cache = scenario.cache
    interval = cache.prefix_cache_retention_interval
    some = keeps_some(cache.groups) and scenario.engine.enable_prefix_caching
    if interval is None or not some:
        return {"sparse": 0, "kept_every": 0, "out_of_step": 0}
    windows = [group.window for group in cache.groups if group.window]
    ahead = scenario.engine.async_scheduling - 1
    apart = any((window + ahead) % cache.block_size for window in windows)
    return {
        "sparse": 1,
        "kept_every": interval // cache.block_size,
        "out_of_step": apart or bool(state_groups(cache.groups)),
    }


def _pool_fields(scenario: Scenario) -> dict[str, Any]:
    """Return what decides sizes and bounds: the most of all pools."""
    cluster = scenario.cluster
    threshold = cluster.pd_uncached_token_threshold
    pools = pool_records(scenario)
    terms = (f"{name}{term}" for name in ("beta", "memory") for term in range(7))
    names = ("gpu_blocks", "cpu_blocks", "max_num_seqs", "max_tokens", "reach", "experts", *terms)
    fields: dict[str, Any] = {name: max(pool[name] for pool in pools) for name in names}
    fields["pools"] = len(pools)
    if pools[0]["role"] == PREFILL:
        fields |= {
            "disaggregated": 1,
            "routed": pools[0]["instances"],
            "pull_base": cluster.kv_transfer_base_us,
            "pull_bandwidth": cluster.kv_transfer_bandwidth,
            "handoff": cluster.pd_handoff_us,
            "kv_both": cluster.prefill_kv_role == "kv_both",
            "threshold": -1 if threshold is None else threshold,
            **_lease_fields(cluster),
        }
    return fields


def _lease_fields(cluster: Cluster) -> dict[str, Any]:
    """Return what a lease is, and the heartbeats that follow from it as in vLLM (rule R14.8)."""
    lease = cluster.kv_lease_us or 0
    beats = cluster.kv_heartbeats
    return {
        "lease": lease,
        "beat_every": max(1, lease // 6) if beats else 0,
        "beat_extends": lease * 2 // 3,
        "kv_load_failure_policy": LoadFailure.from_name(cluster.kv_load_failure_policy),
    }


def looks_ahead(scenario: Scenario) -> int:
    """Return how many tokens behind a block its key covers too (rule R13.5)."""
    return int(_reuses_for_eagle(scenario) and not _loads(scenario))


def _loads(scenario: Scenario) -> bool:
    """Return whether a connector fills blocks of an explicit request."""
    return has_roles(scenario.cluster) or scenario.cache.cpu_blocks > 0


def _reuses_for_eagle(scenario: Scenario) -> bool:
    """Return whether cached blocks are used of which EAGLE has read one token more."""
    engine = scenario.engine
    if engine.speculative is None or engine.drafts == 0:
        return False
    return engine.speculative.method == "eagle" and engine.enable_prefix_caching


def pool_records(scenario: Scenario) -> list[NDArray[Any]]:
    """Return the POOL records of a scenario, each with how its instances are chosen."""
    choices = choices_of(scenario.cluster)
    records = [_pool_record(pool, scenario) for pool in fleet(scenario)]
    scorers = 0
    for number, record in enumerate(records):
        choice = choices[min(number, len(choices) - 1)]
        count = len(scorers_of(choice))
        record["routing"] = Routing.from_name(choice.routing)
        record["scorer_lo"], record["scorers"] = scorers, count
        record["indexes"] = INDEX in reads_of(choice)
        scorers += count if len(choices) > 1 else 0
    return records


def _pool_record(pool: InstancePool, scenario: Scenario) -> NDArray[Any]:
    record = np.zeros((), POOL)
    record["instances"] = pool.instances
    record["role"] = ROLES[pool.role]
    record["gpu_blocks"] = pool.gpu_blocks
    record["cpu_blocks"] = pool.cpu_blocks
    record["watermark"] = int(scenario.engine.watermark * (pool.gpu_blocks + 1))
    record["max_num_seqs"] = pool.max_num_seqs
    record["max_tokens"] = pool.max_num_batched_tokens
    for name, value in step_fields(pool).items():
        record[name] = value
    record["longest"] = ANY_LENGTH if pool.max_model_len is None else pool.max_model_len
    return record


def pool_table(scenarios: Sequence[Scenario]) -> NDArray[Any]:
    """Return POOL records, those of each scenario together; one more, so that it is not empty."""
    rows = [
        record for scenario in scenarios if has_pools(scenario) for record in pool_records(scenario)
    ]
    return np.array([*rows, np.zeros((), POOL)], POOL)


def group_table(scenarios: Sequence[Scenario]) -> NDArray[Any]:
    """Return GROUP records, those of each scenario together, and one for those without."""
    tables = [_group_records(scenario) for scenario in scenarios]
    return np.concatenate(tables)


def _group_records(scenario: Scenario) -> NDArray[Any]:
    """Return the groups of a scenario, and the order in which they are looked up (rule R12.4)."""
    windows = [group.window or 0 for group in attention_groups(scenario.cache.groups)] or [0]
    first = {window: number for number, window in reversed(list(enumerate(windows)))}
    order = sorted(range(len(windows)), key=lambda g: (windows[g] > 0, first[windows[g]], g))
    records = np.zeros(len(windows), GROUP)
    records["window"] = windows
    records["member"] = order
    looked_up = [windows[g] for g in order]
    records["member_window"] = looked_up
    records["class_end"] = [
        place + looked_up[place:].count(window) for place, window in enumerate(looked_up)
    ]
    size = scenario.cache.block_size * scenario.cache.offload_block_factor
    asked = sorted(range(len(windows)), key=lambda g: (windows[g] > 0, -windows[g] // size))
    records["asked"] = asked
    records["slides"] = [windows[g] > 0 for g in asked]
    records["head"][order[0]] = windows[order[0]] == 0
    return records
