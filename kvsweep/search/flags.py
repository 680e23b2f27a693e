"""A scenario as the command that starts its servers: the flags of ``vllm serve``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kvsweep.config.fleet import fleet, has_pools
from kvsweep.config.groups import keeps_some
from kvsweep.config.served_model import sized
from kvsweep.config.served_text import exchange_text, stages_text, states_text
from kvsweep.search.instances_text import (
    attention_text,
    block_text,
    instances_text,
    served_model,
    share_experts,
    weights_text,
)
from kvsweep.search.pools_text import pools_notes
from kvsweep.search.server_model import (
    PLACEHOLDER,
    blocks_follow,
    gpus_of,
    longest_requests,
    model_name,
    server_blocks,
)
from kvsweep.search.tier_flags import tier_flags, tier_notes
from kvsweep.sizing.capacity import cpu_copies
from kvsweep.sizing.dtypes import ALIASES
from kvsweep.sizing.gpus import find_gpu

if TYPE_CHECKING:
    from kvsweep.config import Scenario

Flag = tuple[str, str | None]

# Flags of what each pool may have itself.
_OF_POOLS: dict[str, Callable[[Scenario, Path], list[int]]] = {
    "--num-gpu-blocks-override": server_blocks,
    "--max-num-seqs": lambda scenario, _: [pool.max_num_seqs for pool in fleet(scenario)],
    "--max-num-batched-tokens": lambda scenario, _: [
        pool.max_num_batched_tokens for pool in fleet(scenario)
    ],
}


@dataclass(frozen=True)
class Served:
    """How the servers of a scenario are started.

    Attributes
    ----------
    command : str
        ``vllm serve`` with its flags, for one instance, or for all that share experts.
    instances : int
        How many such servers.
    notes : tuple of str
        What no flag says, and what to look at.
    """

    command: str
    instances: int
    notes: tuple[str, ...]


def served(scenario: Scenario, folder: Path) -> Served:
    """Return how the servers of a scenario are started.

    Parameters
    ----------
    scenario : Scenario
        Of a sweep.
    folder : Path
        Where its file names start from.
    """
    tp, pp = gpus_of(scenario, folder)
    shared = share_experts(scenario, folder)
    flags = [
        *_parallel(tp, pp, scenario.cluster.instances if shared else 1),
        *_memory(scenario, folder, _cpu_copies(scenario, folder, tp or 1, pp)),
        *_longest(scenario, folder),
        *_scheduling(scenario, folder),
    ]
    words = ["vllm", "serve", model_name(scenario, folder)]
    for name, value in flags:
        words += [name] if value is None else [name, value]
    notes = tuple(_notes(scenario, folder))
    return Served(shlex.join(words), 1 if shared else scenario.cluster.instances, notes)


def _parallel(tp: int | None, pp: int, dp: int) -> Iterator[Flag]:
    if tp and tp > 1:
        yield "--tensor-parallel-size", str(tp)
    if pp > 1:
        yield "--pipeline-parallel-size", str(pp)
    if dp > 1:
        yield "--data-parallel-size", str(dp)


def _memory(scenario: Scenario, folder: Path, gpus: int) -> Iterator[Flag]:
    model, cache = scenario.model, scenario.cache
    yield "--block-size", str(cache.block_size)
    kept = cache.prefix_cache_retention_interval  # 0: vLLM's default; a block's tokens keep all
    if kept != 0 and keeps_some(cache.groups) and scenario.engine.enable_prefix_caching:
        yield "--prefix-cache-retention-interval", str(kept or cache.block_size)
    if model is not None and model.dtype != "auto":
        yield "--kv-cache-dtype", ALIASES.get(model.dtype, model.dtype)
    if model is not None and model.gpu is not None:
        yield "--gpu-memory-utilization", f"{model.utilization:.12g}"
    if not blocks_follow(scenario):
        yield from _if_common(scenario, folder, "--num-gpu-blocks-override")
    yield from tier_flags(scenario, folder, gpus)


def _cpu_copies(scenario: Scenario, folder: Path, tp: int, pp: int) -> int:
    """Return how many GPUs' parts of a block the CPU tier keeps."""
    model, name = served_model(scenario, folder), None
    if scenario.model is not None:
        name = scenario.model.gpu
    gpu = None if name is None else find_gpu(name)
    return tp * pp if model is None else cpu_copies(model, tp, pp, gpu)


def _if_common(scenario: Scenario, folder: Path, flag: str) -> Iterator[Flag]:
    """Yield a flag that is the same for all pools."""
    values = _OF_POOLS[flag](scenario, folder)
    if len(set(values)) == 1:
        yield flag, str(values[0])


def _longest(scenario: Scenario, folder: Path) -> Iterator[Flag]:
    """Yield the longest request of all pools, where one of the model's own would not fit."""
    lengths = set(longest_requests(scenario, folder))
    if len(lengths) == 1 and (length := lengths.pop()):
        yield "--max-model-len", str(length)


def _holds_somebody(scenario: Scenario, folder: Path) -> bool:
    """Return whether a request may be longer than the threshold of a prefill, as vLLM wants it."""
    told = [length for length in longest_requests(scenario, folder) if length]
    threshold = scenario.engine.long_prefill_token_threshold
    return threshold > 0 and (not told or threshold <= max(told))


def _scheduling(scenario: Scenario, folder: Path) -> Iterator[Flag]:
    engine = scenario.engine
    yield from _if_common(scenario, folder, "--max-num-seqs")
    yield from _if_common(scenario, folder, "--max-num-batched-tokens")
    if _holds_somebody(scenario, folder):
        yield "--long-prefill-token-threshold", str(engine.long_prefill_token_threshold)
    if engine.scheduler == "priority":
        yield "--scheduling-policy", "priority"
    if not engine.enable_prefix_caching:
        yield "--no-enable-prefix-caching", None
    if not engine.enable_chunked_prefill:
        yield "--no-enable-chunked-prefill", None
    if not engine.reserve_full_prompt:
        yield "--no-scheduler-reserve-full-isl", None
    if engine.watermark:
        yield "--watermark", f"{engine.watermark:.12g}"
    yield ("--async-scheduling" if engine.async_scheduling else "--no-async-scheduling"), None
    if engine.speculative is not None and engine.drafts:
        speculative: dict[str, object] = {"num_speculative_tokens": engine.drafts}
        method = "eagle" if engine.speculative.method == "eagle" else "draft_model"
        speculative = {"method": method, **speculative}
        yield "--speculative-config", json.dumps(speculative)


def _notes(scenario: Scenario, folder: Path) -> Iterator[str]:
    cluster, engine = scenario.cluster, scenario.engine
    if model_name(scenario, folder) == PLACEHOLDER:
        yield _unnamed(scenario)
    if cluster.instances > 1 and not has_pools(scenario):
        yield instances_text(scenario, folder)
    if gpus_of(scenario, folder)[0] is None:
        yield "nothing tells the number of GPUs of a server: --tensor-parallel-size is left out"
    if has_pools(scenario):
        roles = " and ".join(f"{pool.instances} of role {pool.role}" for pool in fleet(scenario))
        yield f"{roles}: the command has the settings that all have in common, not those of a pool"
        yield from _unlike(scenario, folder)
        tp, pp = gpus_of(scenario, folder)
        yield from pools_notes(scenario, folder, _cpu_copies(scenario, folder, tp or 1, pp))
    told = (block_text, attention_text, weights_text, states_text, stages_text, exchange_text)
    for write in told:
        if said := write(scenario, folder):
            yield said
    if 0 in longest_requests(scenario, folder):
        yield "vLLM does not start with so few blocks, whatever --max-model-len is"
    if engine.drafts:
        yield "--speculative-config: add the draft model, under 'model'"
    if engine.scheduler not in ("fcfs", "priority"):
        yield f"engine.scheduler = {engine.scheduler!r}: vLLM has no such policy"
    if engine.victim != "last":
        yield f"engine.victim = {engine.victim!r}: vLLM preempts the last"
    for key in ("preempt_for_urgent", "pipeline_fair_share"):
        if getattr(engine, key):
            yield f"engine.{key} = true: vLLM does not do this"
    yield from tier_notes(scenario, folder)
    model = scenario.model
    if model is not None and model.gpu is not None and not blocks_follow(scenario):
        there = max(0, sized(scenario, folder).blocks - 1)
        most = max(server_blocks(scenario, folder)) - 1
        verb = "has" if there >= most else "has only"
        yield f"{model.gpu} {verb} about {there:,} usable blocks for {most:,}"


def _unnamed(scenario: Scenario) -> str:
    """Say why a placeholder stands for the model."""
    if scenario.model is None:
        return f"{PLACEHOLDER}: the sweep does not name what it serves"
    return f"{PLACEHOLDER}: the model's folder, which has {scenario.model.config} as config.json"


def _unlike(scenario: Scenario, folder: Path) -> Iterator[str]:
    """Say what each pool has of the flags that are not the same for all."""
    for flag in _OF_POOLS:
        values = _OF_POOLS[flag](scenario, folder)
        if len(set(values)) > 1:
            yield f"{flag}: {', '.join(map(str, values))}, in the order of the pools"
    lengths = longest_requests(scenario, folder)
    if len(set(lengths)) > 1:
        told = ", ".join("as it is" if length is None else str(length) for length in lengths)
        yield f"--max-model-len: {told}, in the order of the pools"
