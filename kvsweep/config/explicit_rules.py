"""What hybrid caches, drafts, roles, pipelines and unequal pools cannot be combined with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvsweep.config.base import KeyProblem
from kvsweep.config.fleet import fleet, has_pools, is_explicit, key_of
from kvsweep.config.groups import is_hybrid, keeps_some, state_groups
from kvsweep.config.pools import has_roles
from kvsweep.config.served_model import key_of_stages
from kvsweep.errors import dotted
from kvsweep.policies import Eviction, Offload, Victim

if TYPE_CHECKING:
    from kvsweep.config.cache_section import Cache
    from kvsweep.config.scenario import Scenario


def check_explicit(scenario: Scenario) -> None:
    """Refuse what the recorded rules of these features do not have, and what vLLM refuses.

    Raises
    ------
    KeyProblem
        Naming the first key of such a combination, and what it needs.
    """
    if not is_explicit(scenario):
        return
    what = ", ".join(_features(scenario))
    _check_common(scenario, what)
    if scenario.engine.enable_prefix_caching and keeps_some(scenario.cache.groups):
        _check_kept(scenario.cache)
    if scenario.cache.cpu_blocks > 0:
        _check_tier(scenario, what)
    _check_drafts(scenario)
    if state_groups(scenario.cache.groups):
        _check_states(scenario)
    if is_hybrid(scenario.cache.groups) and scenario.cache.gpu_tokens is not None:
        message = "with several groups tokens do not say how many blocks there are: give gpu_blocks"
        raise KeyProblem(("cache", "gpu_tokens"), message)
    if has_roles(scenario.cluster):
        _check_roles(scenario)
        _check_sides(scenario)
    if scenario.engine.drafts and scenario.engine.pipeline_parallel_size > 1:
        _check_staged_drafts(scenario)
    _check_batches(scenario)


def _features(scenario: Scenario) -> Iterator[str]:
    """Yield the keys that ask for these rules."""
    if is_hybrid(scenario.cache.groups):
        yield "the groups of this model" if _of_model(scenario) else "cache.groups"
    if scenario.engine.drafts:
        yield "engine.speculative"
    if scenario.engine.pipeline_parallel_size > 1:
        yield _stages(scenario)
    if has_roles(scenario.cluster):
        yield "prefill and decode apart"
    if scenario.cluster.pools:
        yield "cluster.pools"


def _stages(scenario: Scenario) -> str:
    """Return what asks for a pipeline: the key of the engine, or of the model that it follows."""
    key = dotted(key_of_stages(scenario))
    of_model = key.startswith("model.")
    return f"{key} = {scenario.engine.pipeline_parallel_size}" if of_model else key


def _check_staged_drafts(scenario: Scenario) -> None:
    """Refuse drafts in a pipeline but those that were recorded."""
    stages = _stages(scenario)
    if not scenario.engine.async_scheduling:
        message = f"false, but of drafts with {stages} only asynchronous scheduling was recorded"
        raise KeyProblem(("engine", "async_scheduling"), message)
    if state_groups(scenario.cache.groups):
        message = f"not with {stages} and groups of states: no rule was recorded"
        raise KeyProblem(("engine", "speculative"), message)


def _of_model(scenario: Scenario) -> bool:
    """Return whether the groups of the cache follow from the model that is served."""
    cache = scenario.cache
    return is_hybrid(cache.groups) and "groups" not in cache.model_fields_set


def _check_common(scenario: Scenario, what: str) -> None:
    cache, engine = scenario.cache, scenario.engine
    refused = (
        ("cache", "eviction", cache.eviction != Eviction.LRU.label, "eviction 'lru'"),
        ("engine", "victim", engine.victim != Victim.LAST.label, "victim 'last'"),
        ("engine", "preempt_for_urgent", engine.preempt_for_urgent, "preempt_for_urgent = false"),
    )
    for section, key, asked, only in refused:
        if asked:
            message = f"with {what} there is only {only}{_hint(scenario)}"
            raise KeyProblem((section, key), message)


def _check_tier(scenario: Scenario, what: str) -> None:
    """Refuse CPU tiers but those of vLLM that were recorded."""
    cache, engine = scenario.cache, scenario.engine
    for asked, named in (
        (engine.pipeline_parallel_size > 1, _stages(scenario)),
        (_recomputes(scenario), "cluster.kv_load_failure_policy = 'recompute'"),
    ):
        if asked:
            message = f"with {named} there is only cpu_blocks = 0{_hint(scenario)}"
            raise KeyProblem(("cache", "cpu_blocks"), message)
    if cache.offload != Offload.VLLM.label:
        message = f"with {what} there is only offload = 'vllm'{_hint(scenario)}"
        raise KeyProblem(("cache", "offload"), message)
    _check_head(scenario, "cpu_blocks")
    if state_groups(cache.groups) and not engine.enable_prefix_caching:
        message = "false, but with cpu_blocks and groups of states vLLM does not start without it"
        raise KeyProblem(("engine", "enable_prefix_caching"), message)
    _check_kept_chunks(cache)


def _recomputes(scenario: Scenario) -> bool:
    cluster = scenario.cluster
    return cluster.kv_lease_us is not None and cluster.kv_load_failure_policy == "recompute"


def _check_head(scenario: Scenario, beside: str) -> None:
    """Refuse an EAGLE head whose layers are in no group, where its own group hits a block less."""
    speculative, groups = scenario.engine.speculative, scenario.cache.groups
    eagle = speculative is not None and speculative.method == "eagle"
    full = any(group.kind == "full" for group in groups)
    if eagle and scenario.engine.drafts and is_hybrid(groups) and not full:
        message = (
            f"'eagle', but with {beside} the layers of its head, which attend in full, must be in "
            "one of cache.groups, and none is of kind 'full'"
        )
        raise KeyProblem(("engine", "speculative", "method"), message)


def _check_kept(cache: Cache) -> None:
    """Refuse an interval that fits the blocks of the file, but not those that hold a state."""
    interval = cache.prefix_cache_retention_interval or 0
    if interval % cache.block_size:
        message = (
            f"{interval} is no multiple of a block, of {cache.block_size} tokens to hold a state, "
            "as vLLM needs it; 0: only where prompts end"
        )
        raise KeyProblem(("cache", "prefix_cache_retention_interval"), message)


def _check_kept_chunks(cache: Cache) -> None:
    """Refuse what vLLM refuses: of windows and states a tier keeps chunks at each interval."""
    interval = cache.prefix_cache_retention_interval or 0
    chunk = cache.block_size * cache.offload_block_factor
    if interval % chunk and keeps_some(cache.groups):
        message = (
            f"{interval} is no multiple of a chunk of the CPU tier (block_size x "
            f"offload_block_factor = {chunk} tokens), as vLLM needs it beside windows or states"
        )
        raise KeyProblem(("cache", "prefix_cache_retention_interval"), message)


def _hint(scenario: Scenario) -> str:
    """Return how to do without the groups of a model."""
    text = "; cache.groups = [{ kind = 'full' }] takes it for full attention"
    return text if _of_model(scenario) else ""


def _check_drafts(scenario: Scenario) -> None:
    """Refuse drafts that a step has no room for: their requests would wait for ever."""
    engine = scenario.engine
    drafts = engine.drafts
    if not drafts:
        return
    assert engine.speculative is not None
    drawn = scenario.workload is not None and scenario.workload.trace is None
    if drawn and engine.speculative.acceptance is None:
        raise KeyProblem(
            ("engine", "speculative", "acceptance"),
            "missing; a number, or the share of verifications that accept the draft, by position",
        )
    if 0 < engine.long_prefill_token_threshold <= drafts:
        raise KeyProblem(
            ("engine", "long_prefill_token_threshold"),
            f"{engine.long_prefill_token_threshold} cuts a decode with {drafts} drafts, which vLLM "
            f"refuses: at least {drafts + 1}, or 0 for none",
        )
    slot = 1 if engine.speculative.method == "draft" else 0
    for pool in fleet(scenario):
        if pool.max_num_batched_tokens < 1 + drafts + slot:
            raise KeyProblem(
                ("engine", "speculative", "tokens"),
                f"a decode with {drafts} drafts takes {1 + drafts + slot} tokens of a step, and "
                f"max_num_batched_tokens is {pool.max_num_batched_tokens}",
            )


def _check_states(scenario: Scenario) -> None:
    """Refuse what vLLM does not make beside recurrent states, or what was never recorded."""
    groups, where = scenario.cache.groups, ("cache", "groups")
    states = [group.kind == "state" for group in groups]
    if all(states):
        raise KeyProblem(where, "only states: there must be a group of kind 'full', too")
    if any(group.kind == "sliding" for group in groups):
        raise KeyProblem(where, "states beside sliding windows: no rule was recorded")
    if sum(a != b for a, b in itertools.pairwise(states)) > 1:
        raise KeyProblem(where, "groups of states stand together, as vLLM makes them")
    if len({bool(group.checkpoint) for group in state_groups(groups)}) > 1:
        raise KeyProblem(where, "checkpoint must be the same in all groups of states")
    if scenario.engine.drafts >= scenario.cache.block_size:
        message = (
            f"{scenario.engine.drafts} fill a block of states, at which vLLM can stop: take fewer"
        )
        raise KeyProblem(("engine", "speculative", "tokens"), message)
    _check_chunks(scenario)
    if not scenario.engine.enable_chunked_prefill:
        message = "false, but vLLM needs chunks beside states"
        raise KeyProblem(("engine", "enable_chunked_prefill"), message)


def _check_chunks(scenario: Scenario) -> None:
    """Refuse steps in which a draft model leaves no room for a block, which chunks end with."""
    engine, size = scenario.engine, scenario.cache.block_size
    slot = engine.speculative is not None and engine.drafts and engine.speculative.method == "draft"
    if not slot or not engine.enable_prefix_caching:
        return
    if 0 < engine.long_prefill_token_threshold < size:
        return  # then chunks end within blocks, too
    for pool in fleet(scenario):
        if pool.max_num_batched_tokens == size:
            raise KeyProblem(
                ("engine", "max_num_batched_tokens"),
                f"{size} is a block of states, and a draft model takes one of a step: no prompt of "
                f"a block would ever begin; at least {size + 1}",
            )


def _check_roles(scenario: Scenario) -> None:
    """Refuse what was never recorded of prefill and decode apart."""
    apart = "prefill and decode apart"
    _check_head(scenario, apart)
    if scenario.engine.pipeline_parallel_size > 1:
        raise KeyProblem(key_of_stages(scenario), f"not with {apart}: no rule was recorded")


def _check_sides(scenario: Scenario) -> None:
    """Refuse tiers of one side that nobody tells the kind of, and a tier that no side has."""
    blocks = [pool.cpu_blocks for pool in fleet(scenario)]
    if scenario.cache.cpu_blocks == 0 and max(blocks) > 0:
        where = key_of(scenario, blocks.index(max(blocks)), "cpu_blocks")
        message = (
            f"{max(blocks)} needs cache.cpu_blocks of more than 0 and what goes with it: offload "
            "and the link of the tier; a side without a tier has cpu_blocks = 0"
        )
        raise KeyProblem(where, message)
    if scenario.cache.cpu_blocks > 0 and max(blocks) == 0:
        where = key_of(scenario, 0, "cpu_blocks")
        raise KeyProblem(where, "0 on both sides: cache.cpu_blocks = 0 is no tier")


def _check_batches(scenario: Scenario) -> None:
    """Refuse a pool that vLLM would not start: a step must be able to decode a full batch."""
    if not has_pools(scenario):
        return
    for number, pool in enumerate(fleet(scenario)):
        if pool.max_num_batched_tokens < pool.max_num_seqs:
            pools: tuple[str | int, ...] = ("pools", number)
            raise KeyProblem(
                ("cluster", *(pools if pool.role == "both" else (pool.role,))),
                f"max_num_batched_tokens ({pool.max_num_batched_tokens}) must be at least "
                f"max_num_seqs ({pool.max_num_seqs}), as in vLLM",
            )
