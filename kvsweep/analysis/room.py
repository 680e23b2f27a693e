"""What the longest requests need, and what instances have: why some never fit (rule R1.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kvsweep.config.fleet import InstancePool, fleet, key_of, longest_of
from kvsweep.errors import dotted

if TYPE_CHECKING:
    from kvsweep.config import Scenario
    from kvsweep.config.groups import CacheGroup
    from kvsweep.workload.requests import Requests


class Limit(NamedTuple):
    """What an instance has of something, by the key that says so, and what it needs at most."""

    key: str
    there: int
    needed: int


def room_text(scenario: Scenario, requests: Requests | None) -> str:
    """Say what the longest request needs and which instances have less.

    Without requests all that may be too small is told: not blocks that have room for whoever is
    not too long for ``max_model_len``.

    Parameters
    ----------
    scenario : Scenario
        The one that drops requests.
    requests : Requests or None
        Its request list, if it is known.
    """
    longest = prompt = longest_of(scenario, len(fleet(scenario)) - 1) or 0
    if requests is not None:
        longest = int((requests.prompt_tokens + requests.output_tokens).max()) - 1
        prompt = int(requests.prompt_tokens.max())
    limits = list(dict.fromkeys(_limits(scenario, longest, prompt)))
    short = [limit for limit in limits if limit.there < limit.needed] or limits
    first, *others = dict.fromkeys((limit.key, limit.there) for limit in short)
    there = ", ".join([f"{first[0]} is {first[1]:,}", *(f"{k} {n:,}" for k, n in others)])
    if requests is None:
        return f"raise what is too small: {there}"
    blocks = max(_needed(scenario, pool, longest, prompt) for pool in fleet(scenario))
    return f"the longest needs {blocks:,} blocks ({longest:,} tokens), {there}"


def _limits(scenario: Scenario, longest: int, prompt: int) -> Iterator[Limit]:
    """Yield what each pool has, and what the longest request and the longest prompt need of it."""
    pools = fleet(scenario)
    for number, pool in enumerate(pools):
        tokens = prompt if pool.role == "prefill" else longest
        key = dotted(key_of(scenario, number, "gpu_blocks"))
        yield Limit(key, pool.gpu_blocks, _needed(scenario, pool, longest, prompt))
        if not scenario.engine.enable_chunked_prefill:
            key = dotted(key_of(scenario, number, "max_num_batched_tokens"))
            yield Limit(key, pool.max_num_batched_tokens, tokens + 1)
    last = len(pools) - 1
    most = longest_of(scenario, last)
    if most is not None:  # who is too long for all is dropped by the last
        yield Limit(dotted(key_of(scenario, last, "max_model_len")), most, longest + 1)


def _needed(scenario: Scenario, pool: InstancePool, longest: int, prompt: int) -> int:
    """Return the blocks that the longest request or the longest prompt needs of an instance.

    Whose prompts are pulled keeps room for verifications of drafts beside (rule R14.11).
    """
    if pool.role == "prefill":
        return _blocks(scenario, pool, prompt)
    blocks = _blocks(scenario, pool, longest)
    if pool.role == "decode" and scenario.engine.drafts:
        size = scenario.cache.block_size
        blocks = max(blocks, -(-prompt // size) + -(-(1 + 2 * scenario.engine.drafts) // size))
    return blocks


def _blocks(scenario: Scenario, pool: InstancePool, tokens: int) -> int:
    """Return the blocks that so many tokens take, of all groups of layers, at a time."""
    cache, engine = scenario.cache, scenario.engine
    blocks = -(-(tokens + 2 * engine.drafts) // cache.block_size)
    if not cache.groups:
        return blocks
    steps = pool.max_num_batched_tokens * engine.steps_on_way
    return sum(_at_a_time(scenario, group, blocks, steps) for group in cache.groups)


def _at_a_time(scenario: Scenario, group: CacheGroup, blocks: int, steps: int) -> int:
    """Return how many of its blocks a group has at a time, with `steps` tokens on their way."""
    if group.kind == "state":
        caches, drafts = scenario.engine.enable_prefix_caching, scenario.engine.drafts
        return (min(blocks, 2 + bool(group.checkpoint)) if caches else 1) + drafts
    if group.window is None:
        return blocks
    return min(blocks, -(-(group.window - 1 + steps) // scenario.cache.block_size) + 1)
