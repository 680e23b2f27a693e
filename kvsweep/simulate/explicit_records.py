"""What lanes have that track blocks and requests explicitly: groups of layers, drafts, pools."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import Scenario
from ..config.fleet import InstancePool, fleet, has_pools, is_explicit
from ..records import ANY_LENGTH, DECODE, GROUP, POOL, PREFILL, WHOLE

ROLES = {"both": WHOLE, "prefill": PREFILL, "decode": DECODE}


def set_explicit(lane: NDArray[Any], scenario: Scenario) -> None:
    """Set what the explicit engine reads of a lane; the others have one group and one pool."""
    lane["explicit"] = is_explicit(scenario)
    lane["by_extents"] = not lane["explicit"]
    lane["unconnected"] = lane["by_extents"] and not lane["connects"]
    lane["groups"] = max(1, len(scenario.cache.groups))
    lane["drafts"] = scenario.engine.drafts
    lane["beta0"] += scenario.engine.drafting_us
    lane["ahead"] = looks_ahead(scenario)
    speculative = scenario.engine.speculative
    lane["slot"] = lane["drafts"] > 0 and speculative is not None and speculative.method == "draft"
    # In flight a decode may be three times its drafts beyond what is known.
    lane["more_places"] = 3 + -(-3 * scenario.engine.drafts // scenario.cache.block_size)
    lane["longest"] = ANY_LENGTH
    lane["routed"] = scenario.cluster.instances
    if has_pools(scenario):
        _set_pools(lane, scenario)


def _set_pools(lane: NDArray[Any], scenario: Scenario) -> None:
    """Set what decides sizes and bounds: the most of all pools."""
    cluster = scenario.cluster
    pools = [pool_record(pool, scenario) for pool in fleet(scenario)]
    lane["pools"] = len(pools)
    terms = (f"{name}{term}" for name in ("beta", "memory") for term in range(5))
    for name in ("gpu_blocks", "max_num_seqs", "max_tokens", *terms):
        lane[name] = max(pool[name] for pool in pools)
    if pools[0]["role"] == PREFILL:
        lane["disaggregated"] = 1
        lane["routed"] = pools[0]["instances"]
        lane["pull_base"] = cluster.kv_transfer_base_us
        lane["pull_bandwidth"] = cluster.kv_transfer_bandwidth
        lane["handoff"] = cluster.pd_handoff_us


def looks_ahead(scenario: Scenario) -> int:
    """Return how many tokens behind a block its key covers too (rule R13.5)."""
    engine = scenario.engine
    if engine.speculative is None or engine.drafts == 0:
        return 0
    return int(engine.speculative.method == "eagle" and engine.enable_prefix_caching)


def pool_record(pool: InstancePool, scenario: Scenario) -> NDArray[Any]:
    """Return the POOL record of a pool."""
    record = np.zeros((), POOL)
    record["instances"] = pool.instances
    record["role"] = ROLES[pool.role]
    record["gpu_blocks"] = pool.gpu_blocks
    record["watermark"] = int(scenario.engine.watermark * (pool.gpu_blocks + 1))
    record["max_num_seqs"] = pool.max_num_seqs
    record["max_tokens"] = pool.max_num_batched_tokens
    for name, terms in (("beta", pool.beta), ("memory", pool.memory)):
        for term, coefficient in enumerate(terms):
            record[f"{name}{term}"] = coefficient
    record["longest"] = ANY_LENGTH if pool.max_model_len is None else pool.max_model_len
    record["roofline"] = len(pool.memory) > 0
    record["context"] = record["roofline"] or any(pool.beta[3:])
    return record


def pool_table(scenarios: Sequence[Scenario]) -> NDArray[Any]:
    """Return POOL records, those of each scenario together; one more, so that it is not empty."""
    rows = [
        pool_record(pool, scenario)
        for scenario in scenarios
        if has_pools(scenario)
        for pool in fleet(scenario)
    ]
    return np.array([*rows, np.zeros((), POOL)], POOL)


def group_table(scenarios: Sequence[Scenario]) -> NDArray[Any]:
    """Return GROUP records, those of each scenario together, and one for those without."""
    tables = [_group_records(scenario) for scenario in scenarios]
    return np.concatenate(tables)


def _group_records(scenario: Scenario) -> NDArray[Any]:
    """Return the groups of a scenario, and the order in which they are looked up (rule R12.4)."""
    windows = [group.window or 0 for group in scenario.cache.groups] or [0]
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
    return records
