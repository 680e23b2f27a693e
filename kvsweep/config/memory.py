"""Block sizes compared: at equal memory if the user says nothing of it, and whether they are."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from kvsweep.config.axes import POLICY
from kvsweep.config.cache_section import CAPACITIES, DEFAULT_TOKENS, Cache
from kvsweep.config.compose import Override
from kvsweep.config.fleet import fleet
from kvsweep.config.pools import pools_of
from kvsweep.config.schema import KeyPath

if TYPE_CHECKING:
    from kvsweep.config.scenario import Scenario
    from kvsweep.config.sweep import Sweep

BLOCK_SIZE = "cache.block_size"


def equal_memory(sweep: Sweep) -> tuple[Override, ...]:
    """Return what gives all cells the default's tokens if the block size is varied.

    Nothing where the user says how many blocks or tokens there are, in any place. An axis of one
    block size, and policies of which one is chosen, have the same cells as the sweep of them all.
    """
    origin = _origin(sweep)
    if origin is None or _says_capacity(sweep):
        return ()
    return (Override("cache.gpu_tokens", DEFAULT_TOKENS, origin),)


def _origin(sweep: Sweep) -> KeyPath | None:
    """Return the key that varies the block size, None if there is none."""
    keys = [axis.key for axis in sweep.axes]
    if BLOCK_SIZE in keys:
        return "grid", BLOCK_SIZE
    if sweep.design and BLOCK_SIZE in sweep.design.ranges:
        return "design", BLOCK_SIZE
    base = sweep.base.get("cache", {}).get("block_size", Cache().block_size)
    changes = any(policy.get(BLOCK_SIZE, base) != base for policy in sweep.policies.values())
    return ("grid", POLICY) if changes and POLICY in keys else None


def _says_capacity(sweep: Sweep) -> bool:
    def keys() -> Iterable[str]:
        yield from (f"model.{key}" for key in sweep.base.get("model", {}))
        yield from (f"cache.{key}" for key in sweep.base.get("cache", {}))
        yield from (axis.key for axis in sweep.axes)
        yield from sweep.design.ranges if sweep.design else ()
        for policy in sweep.policies.values():
            yield from policy

    said = ("model.gpu", "model.kv_gib", *(f"cache.{capacity}" for capacity in CAPACITIES))
    return any(key in said for key in keys())


def memory_varies(sweep: Sweep) -> str | None:
    """Say that block sizes are compared with as many blocks each, and so with unequal memory.

    None if they are not: equal tokens, or blocks that change along with their size.
    """
    first = sweep.first_point
    for axis in sweep.axes:
        if axis.key in (BLOCK_SIZE, POLICY):
            scenarios = [sweep.scenario(first | {axis.key: value}) for value in axis.values]
            for pair in combinations(dict.fromkeys(map(_rooms, scenarios)), 2):
                for a, b in zip(*pair, strict=False):  # a policy may have more pools
                    if a == b._replace(block_size=a.block_size) and not a.by_tokens and a != b:
                        return _unequal(a, b)
    return None


class _Room(NamedTuple):
    """The blocks of a pool, and who says how many they are."""

    blocks: int
    block_size: int
    by_tokens: bool
    own: bool


def _rooms(scenario: Scenario) -> tuple[_Room, ...]:
    """Return the room of each pool of a scenario."""
    cache = scenario.cache
    pools = zip(fleet(scenario), pools_of(scenario.cluster), strict=True)
    return tuple(
        _Room(pool.gpu_blocks, cache.block_size, cache.gpu_tokens is not None and not own, own)
        for pool, own in ((pool, given.gpu_blocks is not None) for pool, (_, given) in pools)
    )


def _unequal(a: _Room, b: _Room) -> str:
    def tokens(room: _Room) -> str:
        return f"{room.blocks * room.block_size:,} tokens at block_size {room.block_size}"

    those = "gpu_blocks of a pool" if a.own else "cache.gpu_blocks"
    return (
        f"block sizes are compared with unequal memory: {a.blocks:,} blocks hold {tokens(a)} "
        f"and {tokens(b)}; cache.gpu_tokens instead of {those} keeps it equal"
    )
