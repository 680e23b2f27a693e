"""Block sizes compared: at equal memory if the user says nothing of it, and whether they are."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import TYPE_CHECKING, Any

from kvsweep.config.axes import POLICY, SEED
from kvsweep.config.cache_section import DEFAULT_TOKENS, Cache
from kvsweep.config.compose import Override
from kvsweep.config.schema import KeyPath

if TYPE_CHECKING:
    from kvsweep.config.sweep import Sweep

BLOCK_SIZE = "cache.block_size"
CAPACITIES = ("gpu_blocks", "gpu_tokens")


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
    first = {axis.key: axis.values[0] for axis in sweep.axes if axis.key != SEED}
    for axis in sweep.axes:
        if axis.key in (BLOCK_SIZE, POLICY):
            caches = [sweep.scenario(first | {axis.key: value}).cache for value in axis.values]
            distinct = {(c.gpu_blocks, c.block_size): c for c in caches}.values()
            for a, b in combinations(distinct, 2):
                if a.gpu_blocks == b.gpu_blocks and a.gpu_tokens is b.gpu_tokens is None:
                    return _unequal(a, b)
    return None


def _unequal(a: Cache, b: Cache) -> str:
    def tokens(cache: Any) -> str:
        return f"{cache.gpu_blocks * cache.block_size:,} tokens at block_size {cache.block_size}"

    return (
        f"block sizes are compared with unequal memory: {a.gpu_blocks:,} blocks hold {tokens(a)} "
        f"and {tokens(b)}; cache.gpu_tokens instead of cache.gpu_blocks keeps it equal"
    )
