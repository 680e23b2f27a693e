"""Which keys some pool of instances reads: what all have themselves, none takes from a section."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kvsweep.config.cache_section import CAPACITIES
from kvsweep.config.fleet import InstancePool, fleet
from kvsweep.config.pools import pools_of

if TYPE_CHECKING:
    from kvsweep.config.scenario import Scenario

Reads = Callable[["Scenario", int | None], bool]
"""Whether a scenario reads a key; the number is that of the client, for keys of clients."""


def takes_from(key: str) -> Reads:
    """Return whether some pool takes a key from the section that holds for all."""

    def reads(scenario: Scenario, client: int | None) -> bool:
        return any(getattr(pool, key, None) is None for _, pool in pools_of(scenario.cluster))

    return reads


def some_pool(condition: Callable[[Scenario, InstancePool], bool]) -> Reads:
    """Return whether a condition holds of some pool, with all that it takes from the sections."""

    def reads(scenario: Scenario, client: int | None) -> bool:
        return any(condition(scenario, pool) for pool in fleet(scenario))

    return reads


takes_blocks = takes_from("gpu_blocks")
takes_tier = takes_from("cpu_blocks")
takes_times = takes_from("latency")


def takes_gpu(scenario: Scenario, client: int | None) -> bool:
    """Return whether blocks or step times of some pool follow from the GPU of the model."""
    times = "latency" not in scenario.model_fields_set and takes_times(scenario, client)
    return times or takes_blocks(scenario, client)


def takes_memory(scenario: Scenario, client: int | None) -> bool:
    """Return whether the model is on a GPU, and some pool has no blocks of its own."""
    on_gpu = scenario.model is not None and scenario.model.gpu is not None
    return on_gpu and takes_blocks(scenario, client)


def takes_size(scenario: Scenario, client: int | None) -> bool:
    """Return whether blocks of some pool follow from the memory of the model."""
    given = not scenario.cache.model_fields_set.isdisjoint(CAPACITIES)
    return takes_blocks(scenario, client) and not given


def takes_hardware(scenario: Scenario, client: int | None) -> bool:
    """Return whether blocks or step times of some pool follow from the GPU, and are not given."""
    times = "latency" not in scenario.model_fields_set and takes_times(scenario, client)
    return times or takes_size(scenario, client)


def takes_batch(key: str) -> Reads:
    """Return whether some pool takes the largest batch, or blocks that follow from it.

    What a step takes of a GPU's memory is not left for blocks.
    """
    takes = takes_from(key)

    def reads(scenario: Scenario, client: int | None) -> bool:
        memory = takes_memory(scenario, client) and takes_size(scenario, client)
        return takes(scenario, client) or memory

    return reads
