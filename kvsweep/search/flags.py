"""A scenario as the command that starts its servers: the flags of ``vllm serve``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kvsweep.config.fleet import fleet, has_pools
from kvsweep.config.preset import load_preset
from kvsweep.config.served_model import CAPACITIES, sized
from kvsweep.policies import Offload
from kvsweep.sizing.shapes import published_name
from kvsweep.sizing.sizes import GIB

if TYPE_CHECKING:
    from kvsweep.config import Scenario

PLACEHOLDER = "MODEL"
# Keys of the cache that vLLM's connector takes from its own configuration.
CONNECTOR = ("offload_block_factor", "offload_prompt_only", "offload_eviction")

Flag = tuple[str, str | None]


@dataclass(frozen=True)
class Served:
    """How the servers of a scenario are started.

    Attributes
    ----------
    command : str
        ``vllm serve`` with its flags, for one instance.
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
    tp, pp = _gpus(scenario, folder)
    flags = [*_parallel(tp, pp), *_memory(scenario, (tp or 1) * pp), *_scheduling(scenario)]
    words = ["vllm", "serve", _model(scenario)]
    for name, value in flags:
        words += [name] if value is None else [name, value]
    notes = tuple(_notes(scenario, folder))
    return Served(shlex.join(words), scenario.cluster.instances, notes)


def _model(scenario: Scenario) -> str:
    model = scenario.model
    if model is not None:
        if model.preset is None:
            return str(Path(str(model.config)).parent)
        return published_name(model.preset)
    named = scenario.latency.model
    if named is None or named.endswith(".toml"):
        return PLACEHOLDER
    return published_name(named.split("/")[0])


def _parallel(tp: int | None, pp: int) -> Iterator[Flag]:
    if tp and tp > 1:
        yield "--tensor-parallel-size", str(tp)
    if pp > 1:
        yield "--pipeline-parallel-size", str(pp)


def _gpus(scenario: Scenario, folder: Path) -> tuple[int | None, int]:
    """Return the GPUs of tensor and of pipeline parallelism; None where nothing tells."""
    if scenario.model is not None:
        return scenario.model.tp, scenario.model.pp
    if scenario.latency.model is None:
        return None, 1
    preset = load_preset(scenario.latency.model, folder)
    return (preset.device.tp if preset.device is not None else preset.tp), 1


def _memory(scenario: Scenario, gpus: int) -> Iterator[Flag]:
    model, cache = scenario.model, scenario.cache
    yield "--block-size", str(cache.block_size)
    if model is not None and model.dtype != "auto":
        yield "--kv-cache-dtype", model.dtype
    if model is not None and model.gpu is not None:
        yield "--gpu-memory-utilization", f"{model.utilization:g}"
    if not _follows_from_gpu(scenario):
        # vLLM counts its null block too.
        yield "--num-gpu-blocks-override", str(cache.gpu_blocks + 1)
    bytes_per_token = cache.kv_bytes_per_token
    if cache.cpu_blocks and cache.offload == Offload.VLLM.label and bytes_per_token:
        # The bytes are those of one GPU; vLLM takes the size of all.
        size = cache.cpu_blocks * cache.block_size * cache.offload_block_factor * bytes_per_token
        yield "--kv-offloading-size", f"{size * gpus / GIB:.4g}"
        yield "--kv-offloading-backend", "native"


def _follows_from_gpu(scenario: Scenario) -> bool:
    """Whether the server finds the blocks by itself, from the GPU."""
    model = scenario.model
    given = scenario.cache.model_fields_set
    return model is not None and model.gpu is not None and given.isdisjoint(CAPACITIES)


def _scheduling(scenario: Scenario) -> Iterator[Flag]:
    engine = scenario.engine
    yield "--max-num-seqs", str(engine.max_num_seqs)
    yield "--max-num-batched-tokens", str(engine.max_num_batched_tokens)
    if engine.long_prefill_token_threshold:
        yield "--long-prefill-token-threshold", str(engine.long_prefill_token_threshold)
    if engine.scheduler == "priority":
        yield "--scheduling-policy", "priority"
    if not engine.enable_prefix_caching:
        yield "--no-enable-prefix-caching", None
    if not engine.enable_chunked_prefill:
        yield "--no-enable-chunked-prefill", None
    if not engine.reserve_full_prompt:
        yield "--no-scheduler-reserve-full-isl", None
    yield ("--async-scheduling" if engine.async_scheduling else "--no-async-scheduling"), None
    if engine.speculative is not None and engine.drafts:
        speculative: dict[str, object] = {"num_speculative_tokens": engine.drafts}
        if engine.speculative.method == "eagle":
            speculative = {"method": "eagle", **speculative}
        yield "--speculative-config", json.dumps(speculative)


def _notes(scenario: Scenario, folder: Path) -> Iterator[str]:
    cluster, engine, cache = scenario.cluster, scenario.engine, scenario.cache
    if _model(scenario) == PLACEHOLDER:
        yield f"{PLACEHOLDER}: the sweep does not name what it serves"
    if cluster.instances > 1 and not has_pools(scenario):
        yield (
            f"{cluster.instances} such servers behind a router (here {cluster.routing}); one "
            f"command with --data-parallel-size {cluster.instances} balances as vLLM does"
        )
    if _gpus(scenario, folder)[0] is None:
        yield "nothing tells the number of GPUs of a server: --tensor-parallel-size is left out"
    if has_pools(scenario):
        roles = " and ".join(f"{pool.instances} of role {pool.role}" for pool in fleet(scenario))
        yield f"{roles}: the command has the settings that all have in common, not those of a pool"
    if engine.drafts:
        yield "--speculative-config: add the draft model, under 'model'"
    if engine.scheduler not in ("fcfs", "priority"):
        yield f"engine.scheduler = {engine.scheduler!r}: vLLM has no such policy"
    if engine.victim != "last":
        yield f"engine.victim = {engine.victim!r}: vLLM preempts the last"
    if engine.watermark:
        yield f"engine.watermark = {engine.watermark:g}: to be set in its scheduler configuration"
    if cache.cpu_blocks and cache.offload != Offload.VLLM.label:
        yield f"cache.offload = {cache.offload!r}: vLLM has no such tier"
    elif cache.cpu_blocks:
        others = [key for key in CONNECTOR if key in cache.model_fields_set]
        if others:
            keys = ", ".join(f"cache.{key}" for key in others)
            yield f"{keys}: to be set in kv_connector_extra_config of --kv-transfer-config"
    model = scenario.model
    if model is not None and model.gpu is not None and not _follows_from_gpu(scenario):
        there = sized(scenario, folder).blocks - 1
        verb = "has" if there >= cache.gpu_blocks else "has only"
        yield f"{model.gpu} {verb} about {there:,} usable blocks for {cache.gpu_blocks:,}"
