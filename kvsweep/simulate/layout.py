"""LANE records of scenarios: the part that does not depend on the requests.

A sweep asks for the same scenarios again and again, so the records of the last few are kept.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..config import Latency, Scenario
from ..errors import InputError
from ..kernel.sizes import QUOTIENT_BITS
from ..policies import Offload, Priority, Scheduler
from ..records import LANE, NONE
from .routers import scorer_table, sees_cache, set_router

_KEPT = 4
"""Batches of scenarios that are remembered. The tasks of a sweep take a few in turns."""

_T = TypeVar("_T")


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
    """

    lanes: NDArray[Any]
    like: NDArray[np.int64]
    scorers: NDArray[Any]


def kept(
    function: Callable[[tuple[Scenario, ...]], _T],
) -> Callable[[tuple[Scenario, ...]], _T]:
    """Remember what a function of scenarios, told by their identity, returned for the last few.

    Scenarios cannot change, and what is remembered holds them, so an identity stays theirs.
    """
    known: OrderedDict[tuple[int, ...], tuple[tuple[Scenario, ...], _T]] = OrderedDict()

    @wraps(function)
    def remembering(scenarios: tuple[Scenario, ...]) -> _T:
        key = tuple(map(id, scenarios))
        entry = known.get(key)
        if entry is None:
            entry = known[key] = scenarios, function(scenarios)
            while len(known) > _KEPT:
                known.popitem(last=False)
        return entry[1]

    return remembering


@kept
def lay_out(scenarios: tuple[Scenario, ...]) -> Layout:
    """Lay out scenarios; what is returned must not be changed."""
    lanes = np.array([lane_record(item) for item in scenarios], LANE)
    lanes["scorer_lo"] = np.cumsum(lanes["scorers"]) - lanes["scorers"]
    return Layout(lanes, _smaller_pools(scenarios), scorer_table(scenarios))


def lane_record(scenario: Scenario) -> NDArray[Any]:
    """Return the LANE record of a scenario, without its request list."""
    engine, cache, cluster = scenario.engine, scenario.cache, scenario.cluster
    if engine.async_scheduling:
        raise InputError("engine.async_scheduling: the kernel only has synchronous scheduling yet")
    lane = np.zeros((), LANE)
    _set_latency(lane, scenario.latency)
    lane["admission_latency"] = cluster.admission_latency_us
    lane["routing_latency"] = cluster.routing_latency_us
    lane["warmup"] = scenario.workload.warmup if scenario.workload else 0
    lane["instances"] = cluster.instances
    lane["gpu_blocks"] = cache.gpu_blocks
    lane["block_size"] = cache.block_size
    lane["inverse"], lane["inverse_shift"] = block_inverse(cache.block_size)
    lane["max_num_seqs"] = engine.max_num_seqs
    lane["max_tokens"] = engine.max_num_batched_tokens
    # config/rules.py refuses less; kernel/counted.py, is_countable, does not look at the budget.
    assert lane["max_tokens"] >= lane["max_num_seqs"], "a budget below the seats (rule R1.2)"
    lane["long_prefill"] = engine.long_prefill_token_threshold
    # vLLM: int(watermark * num_gpu_blocks), which counts the null block too.
    lane["watermark"] = int(engine.watermark * (cache.gpu_blocks + 1))
    lane["scheduler"] = Scheduler.from_name(engine.scheduler)
    lane["priority"] = Priority.from_name(engine.priority)
    lane["cpu_blocks"] = cache.cpu_blocks
    assert cache.offload is not None  # `Scenario` sees to it
    lane["offload"] = Offload.from_name(cache.offload)
    lane["offload_threshold"] = cache.offload_threshold
    lane["transfer_base"] = cache.transfer_base_latency_us
    lane["bandwidth"] = cache.transfer_bandwidth or 1.0  # None only where nothing is moved
    lane["thrashing_window"] = cache.thrashing_window_us
    lane["overlap"] = cache.transfer_overlap
    lane["ids"] = cache.cpu_blocks > 0
    lane["eager"] = cache.cpu_blocks > 0 and lane["offload"] == Offload.WRITE_THROUGH
    lane["age"] = round(1000 * engine.priority_age_ms)
    # Other schedulers do not read it, though a sweep of schedulers may have it everywhere.
    urgent_first = lane["scheduler"] == Scheduler.PRIORITY
    lane["preempt_for_urgent"] = engine.preempt_for_urgent and urgent_first
    lane["prefix_caching"] = engine.enable_prefix_caching
    lane["chunked_prefill"] = engine.enable_chunked_prefill
    lane["reserve_full_prompt"] = engine.reserve_full_prompt
    set_router(lane, cluster)
    return lane


def block_inverse(size: int) -> tuple[int, int]:
    """Return the multiplier and the shift that stand for a division by `size`.

    With ``2**(b-1) < size <= 2**b`` the multiplier, ``2**(31+b) / size`` rounded up, is too large
    by less than a part in ``2**31``, so quotients of 31 bits are exact. It has at most 32 bits.
    """
    shift = QUOTIENT_BITS + (size - 1).bit_length()
    return -(-(2**shift) // size), shift


def _set_latency(lane: NDArray[Any], latency: Latency) -> None:
    for name in ("alpha", "beta", "memory"):
        for term, coefficient in enumerate(getattr(latency, name)):
            lane[f"{name}{term}"] = coefficient
    lane["roofline"] = len(latency.memory) > 0
    lane["context"] = lane["roofline"] or any(latency.beta[3:])


def _smaller_pools(scenarios: Sequence[Scenario]) -> NDArray[np.int64]:
    """Return for each scenario the nearest earlier one that only has fewer blocks, or -1.

    A watermark is a share of the blocks, and some routers look at the share in use; with those, or
    with a CPU tier, runs are not compared.
    """
    like = np.full(len(scenarios), NONE)
    latest: dict[str, int] = {}
    for number, scenario in enumerate(scenarios):
        family = scenario.model_dump_json(exclude={"cache": {"gpu_blocks", "gpu_tokens"}})
        before = latest.get(family)
        shares = scenario.engine.watermark > 0 or sees_cache(scenario.cluster)
        if before is not None and not shares and scenario.cache.cpu_blocks == 0:
            fewer = scenarios[before].cache.gpu_blocks < scenario.cache.gpu_blocks
            like[number] = before if fewer else NONE
        latest[family] = number
    return like
