"""LANE records: every field of them is set here, whoever it is from.

`lane_record` sets what a scenario decides, `set_request_lists` and `set_prompt_extents` what its
request list does, and the rest what a caller asks of a batch. Without a line here a new field is 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import Latency, Scenario
from ..config.cache_section import Cache
from ..config.cluster_section import Cluster
from ..config.coefficients import step_fields
from ..config.engine_section import Engine
from ..kernel.blocks.sizes import QUOTIENT_BITS
from ..kernel.memory import TIER_RINGS
from ..kernel.time.calendar import MAX_STEPS, ROW
from ..policies import (
    Admission,
    Eviction,
    Offload,
    Priority,
    Scheduler,
    TierEviction,
    Victim,
)
from ..records import LANE, NONE
from ..workload.blocks import Extents
from .bounding import check_ages, last_clocks, step_limits
from .explicit_records import explicit_fields, group_table, pool_table
from .kept import kept
from .list_records import Prepared
from .pruning import smaller_pools
from .routers import routing_fields, scorer_table

MOST_ANEW = 20
"""So often work is done at most, or requests preempt in a circle, with victims that had got far; or
with prompts that run while others wait to be pulled."""


@dataclass(frozen=True)
class Layout:
    """The part of a batch that its scenarios decide.

    Attributes
    ----------
    lanes : LANE (n_scenarios,)
        Without what the request lists decide.
    like : int64 (n_scenarios,)
        The nearest earlier scenario that only has fewer blocks, or -1.
    scorers : SCORER
        Scorers of all scenarios.
    groups : GROUP
        Groups of layers of all scenarios.
    pools : POOL
        Pools of all scenarios that have any.
    """

    lanes: NDArray[Any]
    like: NDArray[np.int64]
    scorers: NDArray[Any]
    groups: NDArray[Any]
    pools: NDArray[Any]


@kept
def lay_out(scenarios: tuple[Scenario, ...]) -> Layout:
    """Lay out scenarios; what is returned must not be changed."""
    lanes = np.array([lane_record(item) for item in scenarios], LANE)
    lanes["scorer_lo"] = np.cumsum(lanes["scorers"]) - lanes["scorers"]
    groups = 1 + lanes["more_groups"]  # of attention
    lanes["group_lo"] = np.cumsum(groups) - groups
    lanes["pool_lo"] = np.cumsum(lanes["pools"]) - lanes["pools"]
    like, scorers = smaller_pools(scenarios), scorer_table(scenarios)
    return Layout(lanes, like, scorers, group_table(scenarios), pool_table(scenarios))


def lane_record(scenario: Scenario) -> NDArray[Any]:
    """Return the LANE record of a scenario, without its request list."""
    lane = np.zeros((), LANE)
    lane["warmup"] = scenario.workload.warmup if scenario.workload else 0
    lane["concurrency"] = (scenario.workload.concurrency or 0) if scenario.workload else 0
    _set_latency(lane, scenario.latency)
    _set_engine(lane, scenario.engine)
    _set_cache(lane, scenario.cache)
    # vLLM: int(watermark * num_gpu_blocks), which counts the null block too.
    lane["watermark"] = int(scenario.engine.watermark * (scenario.cache.gpu_blocks + 1))
    _set_cluster(lane, scenario.cluster)
    for explicit_field, value in explicit_fields(scenario, lane["connects"] != 0).items():
        lane[explicit_field] = value
    # kvsweep.config refuses less; by_counts.is_countable in the kernel does not look at it.
    assert lane["max_tokens"] >= lane["max_num_seqs"], "a budget below the seats (rule R1.2)"
    return lane


def _set_latency(lane: NDArray[Any], latency: Latency) -> None:
    for term, coefficient in enumerate(latency.alpha):
        lane[f"alpha{term}"] = coefficient
    for step_field, value in step_fields(latency).items():
        lane[step_field] = value
    lane["first_steps"] = len(latency.first_steps_us)
    for step, extra in enumerate(latency.first_steps_us):
        lane[f"first_step{step}"] = extra


def _set_engine(lane: NDArray[Any], engine: Engine) -> None:
    lane["max_num_seqs"] = engine.max_num_seqs
    lane["max_tokens"] = engine.max_num_batched_tokens
    lane["long_prefill"] = engine.long_prefill_token_threshold
    lane["scheduler"] = Scheduler.from_name(engine.scheduler)
    lane["priority"] = Priority.from_name(engine.priority)
    lane["victim"] = Victim.from_name(engine.victim)
    lane["age"] = round(1000 * engine.priority_age_ms)
    # Other schedulers do not read it, though a sweep of schedulers may have it everywhere.
    urgent_first = lane["scheduler"] == Scheduler.PRIORITY
    lane["preempt_for_urgent"] = engine.preempt_for_urgent and urgent_first
    lane["async_scheduling"] = engine.async_scheduling
    lane["prefix_caching"] = engine.enable_prefix_caching
    lane["chunked_prefill"] = engine.enable_chunked_prefill
    lane["reserve_full_prompt"] = engine.reserve_full_prompt


def _set_cache(lane: NDArray[Any], cache: Cache) -> None:
    lane["gpu_blocks"] = cache.gpu_blocks
    lane["block_size"] = cache.block_size
    lane["inverse"], lane["inverse_shift"] = block_inverse(cache.block_size)
    lane["eviction"] = Eviction.from_name(cache.eviction)
    lane["cpu_blocks"] = cache.cpu_blocks
    assert cache.offload is not None  # `Scenario` sees to it
    lane["offload"] = Offload.from_name(cache.offload)
    lane["offload_threshold"] = cache.offload_threshold
    lane["transfer_base"] = cache.transfer_base_latency_us
    lane["bandwidth"] = cache.transfer_bandwidth or 1.0  # None only where nothing is moved
    lane["thrashing_window"] = cache.thrashing_window_us
    lane["overlap"] = cache.transfer_overlap
    lane["factor"] = cache.offload_block_factor
    lane["chunk_tokens"] = cache.offload_block_factor * cache.block_size
    lane["offload_eviction"] = TierEviction.from_name(cache.offload_eviction)
    lane["prompt_only"] = cache.offload_prompt_only
    lane["connects"] = cache.cpu_blocks > 0 and lane["offload"] == Offload.VLLM
    lane["tiered"] = cache.cpu_blocks > 0 and not lane["connects"]
    # Ghosts of adaptive replacement are two more for each chunk.
    haunted = lane["connects"] and lane["offload_eviction"] == TierEviction.ARC
    lane["tier_records"] = (3 if haunted else 1) * cache.cpu_blocks + TIER_RINGS
    # An extent in one piece is evicted from its end, whatever its blocks are.
    lane["all_split"] = lane["eviction"] != Eviction.LRU
    lane["copies_each_step"] = cache.cpu_blocks > 0 and lane["offload"] == Offload.WRITE_THROUGH


def _set_cluster(lane: NDArray[Any], cluster: Cluster) -> None:
    lane["instances"] = cluster.instances
    lane["admission_latency"] = cluster.admission_latency_us
    lane["routing_latency"] = cluster.routing_latency_us
    lane["admission"] = Admission.from_name(cluster.admission)
    lane["index_blocks"] = cluster.router_index_blocks
    lane["snapshot_refresh"] = cluster.snapshot_refresh_us
    lane["bucket_capacity"] = cluster.token_bucket_capacity or 0.0
    lane["bucket_refill"] = cluster.token_bucket_refill_rate or 0.0
    for routing_field, value in routing_fields(cluster).items():
        lane[routing_field] = value
    lane["count_pending"] = cluster.count_pending
    lane["snapshot_load"] = cluster.snapshot_load


def block_inverse(size: int) -> tuple[int, int]:
    """Return the multiplier and the shift that stand for a division by `size`.

    With ``2**(b-1) < size <= 2**b`` the multiplier, ``2**(31+b) / size`` rounded up, is too large
    by less than a part in ``2**31``, so quotients of 31 bits are exact. It has at most 32 bits.
    """
    shift = QUOTIENT_BITS + (size - 1).bit_length()
    return -(-(2**shift) // size), shift


def set_request_lists(
    lanes: NDArray[Any],
    lists: Sequence[Prepared],
    chosen: NDArray[np.int64],
    requests: NDArray[Any],
    first: NDArray[np.int64],
) -> None:
    """Set what their request lists decide of lanes.

    Parameters
    ----------
    lanes : LANE (n_lanes,)
        With what their scenarios decide.
    lists : sequence of Prepared
        Distinct request lists.
    chosen : int64 (n_lanes,)
        The list of each lane.
    requests : REQUEST (requests of all lists,)
        The lists, one after the other.
    first : int64 (n_lists,)
        The first request of each list.

    Raises
    ------
    InputError
        If times or priorities are too large for the kernel to add up.
    """
    sizes = np.array([len(item.records) for item in lists])[chosen]

    def largest(values: NDArray[Any]) -> NDArray[Any]:
        """Return the largest value of each lane's list; a list is never empty."""
        most: NDArray[Any] = np.maximum.reduceat(values, first)
        return most[chosen]

    lanes["request_lo"] = first[chosen]
    lanes["requests"] = sizes
    lanes["out_lo"] = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    copies = lanes["connects"] | lanes["moves"]
    held = (copies != 0) | (lanes["disaggregated"] != 0)
    lanes["hold_places"] = held * np.minimum(sizes, lanes["gpu_blocks"])
    lanes["key_slots"] = np.array([len(item.keys) for item in lists])[chosen]
    # A store writes a chunk at least, and one more is being offered.
    lanes["jobs"] = copies * (lanes["cpu_blocks"] + 1) + lanes["hold_places"]
    lanes["places"] = _places_for(np.minimum(lanes["max_num_seqs"], sizes))
    for field in ("n_keys", "n_extents", "n_shared"):
        lanes[field] = np.array([getattr(item, field) for item in lists])[chosen]
    for flag, field in (
        ("any_shared", "shared"),
        ("any_duplicates", "duplicate"),
        ("closed_loop", "awaits"),
    ):
        lanes[flag] = largest(requests[field])
    if lanes["drafts"].any():
        lanes["most_accepted"] = np.array([item.accepted.max() for item in lists])[chosen]
    lanes["follow_ups"] = (lanes["closed_loop"] != 0) | (lanes["concurrency"] > 0)
    # Whoever hands requests over makes them enter elsewhere: from event to event too.
    lanes["closed_loop"] = lanes["follow_ups"] | lanes["disaggregated"]
    lanes["impatient"] = largest(requests["patience"]) >= 0
    # Every urgent request may make others begin anew.
    again = 1 + sizes * lanes["preempt_for_urgent"] + 3 * copies
    anew = lanes["victim"] != Victim.LAST
    # A prompt without its blocks begins again and again while others await to be pulled.
    anew |= (lanes["disaggregated"] != 0) & (lanes["reserve_full_prompt"] == 0)
    again *= np.where(anew, MOST_ANEW, 1)
    limits = np.minimum(step_limits(requests, first)[chosen], MAX_STEPS) * again
    lanes["step_limit"] = np.minimum(limits, MAX_STEPS)
    longest = largest(requests["prompt"] + requests["output"])
    lanes["last_clock"] = last_clocks(lanes, longest, largest(requests["prompt"]))
    check_ages(lanes, largest(np.abs(requests["class_priority"])))


def _places_for(seats: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places to keep for running lists: those behind the end move with it."""
    rows: NDArray[np.int64] = -(-seats // ROW) + 1
    return rows * ROW


def set_smaller_pools(
    lanes: NDArray[Any], like: NDArray[np.int64], which: NDArray[np.int64]
) -> None:
    """Let lanes repeat the run of one with fewer blocks and the same requests.

    Parameters
    ----------
    lanes : LANE (n_seeds * n_scenarios,)
        Lane ``s * n_scenarios + v`` is of scenario ``v``.
    like : int64 (n_scenarios,)
        As of `Layout`.
    which : int64 (n_seeds, n_scenarios)
        The request list of each lane.
    """
    starts = np.arange(len(which))[:, None] * len(like)
    # Equal scenarios may have different requests: a trace's name can depend on the policy.
    known = (like != NONE) & (which == which[:, like])
    lanes["smaller_pool"] = np.where(known, like + starts, NONE).ravel()


def set_prompt_extents(lanes: NDArray[Any], readers: NDArray[np.bool_], extents: Extents) -> None:
    """Set how many extents the prompts of a list have, for the lanes whose router reads them."""
    lanes["n_prompt"][readers] = extents.count
    lanes["prompt_shared"][readers] = extents.shared


def set_step_times(
    lanes: NDArray[Any],
    beta: NDArray[np.float64],
    memory: NDArray[np.float64] | None,
    experts: NDArray[np.float64] | None,
    window: NDArray[np.float64] | None,
) -> None:
    """Set the coefficients of step times, a row for each lane: for fits, whose scenario is one."""
    lanes["reach"] = 0
    if window is not None:
        lanes["reach"] = window[:, 0] - 1
        for place, inside in enumerate(("beta5", "beta6", "memory5", "memory6")):
            lanes[inside] = window[:, place + 1]
    lanes["context"] = 1
    lanes["roofline"] = memory is not None
    lanes["experts"] = 0.0
    if experts is not None:
        lanes["experts"], lanes["missed"] = experts[:, 0], np.log1p(-experts[:, 1])
    for name, values in (("beta", beta), ("memory", memory)):
        if values is not None:
            for term in range(values.shape[1]):
                lanes[f"{name}{term}"] = values[:, term]


def keep_logs(lanes: NDArray[Any]) -> None:
    """Let lanes log their steps and events."""
    lanes["log"] = 1
