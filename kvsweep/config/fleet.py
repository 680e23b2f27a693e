"""What each pool of instances of a scenario has, with all that it takes from the sections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvsweep.config.groups import is_hybrid
from kvsweep.config.pools import BOTH_ROLES, OF_BLOCKS, Pool, RolePool, UnequalPool, pools_of
from kvsweep.config.schema import KeyPath

if TYPE_CHECKING:
    from kvsweep.config.cache_section import Cache
    from kvsweep.config.scenario import Scenario


@dataclass(frozen=True)
class InstancePool:
    """Instances that are alike; `kvsweep.config.pools.Pool` with nothing left out.

    Attributes
    ----------
    role : str
        ``both``, ``prefill`` or ``decode``.
    instances : int
        How many; they are numbered through all pools, in order.
    gpu_blocks, max_num_seqs, max_num_batched_tokens : int
        Of each: usable blocks, requests in a batch, tokens in a step.
    cpu_blocks : int
        Of each: blocks of the CPU tier, 0: there is none.
    beta, memory, experts, window : tuple of float
        Step times, as in `kvsweep.config.latency.Latency`; the time of drafting is in the first.
    max_model_len : int or None
        For routing by length: the longest request of the pool's own, tokens; None: it names none
        (see `longest_of`).
    """

    role: str
    instances: int
    gpu_blocks: int
    cpu_blocks: int
    max_num_seqs: int
    max_num_batched_tokens: int
    beta: tuple[float, ...]
    memory: tuple[float, ...]
    experts: tuple[float, ...]
    window: tuple[float, ...]
    max_model_len: int | None = None


def fleet(scenario: Scenario) -> tuple[InstancePool, ...]:
    """Return the pools of a scenario, those that prefill before those that decode."""
    engine, cache = scenario.engine, scenario.cache
    found = []
    for role, pool in pools_of(scenario.cluster):
        times = pool.latency or scenario.latency
        found.append(
            InstancePool(
                role=role,
                instances=pool.instances,
                gpu_blocks=pool.gpu_blocks or cache.gpu_blocks,
                cpu_blocks=_cpu_blocks(pool, cache),
                max_num_seqs=pool.max_num_seqs or engine.max_num_seqs,
                max_num_batched_tokens=(
                    pool.max_num_batched_tokens or engine.max_num_batched_tokens
                ),
                beta=(times.beta[0] + engine.drafting_us, *times.beta[1:]),
                memory=times.memory,
                experts=times.experts,
                window=times.window,
                max_model_len=pool.max_model_len if isinstance(pool, UnequalPool) else None,
            )
        )
    return tuple(found)


def _cpu_blocks(pool: Pool, cache: Cache) -> int:
    own = pool.cpu_blocks if isinstance(pool, RolePool) else None
    return cache.cpu_blocks if own is None else own


def key_of(scenario: Scenario, number: int, key: str) -> KeyPath:
    """Return where a pool has a key from: its own, or that of the section for all.

    Parameters
    ----------
    scenario : Scenario
        The pools' scenario.
    number : int
        The pool, as of `fleet`.
    key : str
        ``gpu_blocks``, ``cpu_blocks``, ``max_num_seqs``, ``max_num_batched_tokens`` or
        ``max_model_len``.
    """
    cluster = scenario.cluster
    role, pool = pools_of(cluster)[number]
    if getattr(pool, key, None) is None:
        return ("cache" if key in OF_BLOCKS else "engine", key)
    if cluster.pools:
        return ("cluster", "pools", number, key)
    short = f"{role}_{key}"
    is_short = getattr(cluster, short, None) is not None
    return ("cluster", short) if is_short else ("cluster", role, key)


def longest_of(scenario: Scenario, number: int) -> int | None:
    """Return the longest request that a pool serves, tokens: its own or that of all; None: any."""
    own = fleet(scenario)[number].max_model_len
    return scenario.engine.max_model_len if own is None else own


def has_pools(scenario: Scenario) -> bool:
    """Return whether the instances of a cluster are not all alike, or do not all do the same."""
    return bool(scenario.cluster.pools) or fleet(scenario)[0].role != BOTH_ROLES


def is_explicit(scenario: Scenario) -> bool:
    """Return whether only the explicit engine has the rules of a scenario.

    That is with several or sliding groups of the cache, with drafts, with roles, with pools, and
    with pipelines.
    """
    engine, hybrid = scenario.engine, is_hybrid(scenario.cache.groups)
    piped = engine.pipeline_parallel_size > 1
    return hybrid or engine.drafts > 0 or piped or has_pools(scenario)
