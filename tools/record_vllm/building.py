"""vLLM's scheduler for a scenario, as its engine makes it, but for a CPU and without a model."""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError
from record_vllm.adapter import (
    MEND,
    Vllm,
    cpu_blocks,
    decode_stagger,
    hash_block_size,
    known_settings,
    kv_cache_tensors,
    offloading_side,
)
from record_vllm.scenario import RETENTION, Group, Scenario, ceil_div

MODEL = Path(__file__).parent / "model"
"""Holds the config.json of a tiny Llama, which only has to be there."""
LONGEST = 1 << 20
"""Tokens of the longest sequence, far beyond any trace."""


def make_scheduler(vllm: Vllm, scenario: Scenario, blocks: int, role: str | None) -> Any:
    """Return vLLM's scheduler for a scenario, and its VllmConfig.

    Parameters
    ----------
    vllm : Vllm
        The release.
    scenario : Scenario
        What to set.
    blocks : int
        Usable blocks of the GPU; vLLM gets one more, its null block.
    role : {"prefill", "decode"} or None
        Of an instance of a disaggregated cluster.
    """
    config = _config(vllm, scenario, blocks)
    groups = _groups(vllm, scenario)
    if scenario.speculative:
        config.speculative_config = _speculation(vllm, scenario)
        config.scheduler_config.max_num_scheduled_tokens = scenario.max_num_batched_tokens
    if scenario.offload or role:
        page = sum(group.kv_cache_spec.page_size_bytes for group in groups)  # of a block
        config.kv_transfer_config = vllm.KVTransferConfig(**_connector(scenario, role, page))
    pages = {g.layer_names[0]: g.kv_cache_spec.page_size_bytes for g in groups}
    tensors = kv_cache_tensors(vllm, pages, blocks + 1)
    kept = known_settings(vllm, vllm.KVCacheConfig, {RETENTION: scenario.retention})
    make = vllm.AsyncScheduler if scenario.async_scheduling else vllm.Scheduler
    size = math.lcm(*(group.kv_cache_spec.block_size for group in groups))
    scheduler = make(
        vllm_config=config,
        kv_cache_config=vllm.KVCacheConfig(
            num_blocks=blocks + 1, kv_cache_tensors=tensors, kv_cache_groups=groups, **kept
        ),
        structured_output_manager=vllm.StructuredOutputManager(config),
        block_size=size,
        **hash_block_size(make, size),
        log_stats=True,
    )
    _check(scheduler, scenario, config)
    return scheduler, config


def _config(vllm: Vllm, scenario: Scenario, blocks: int) -> Any:
    longest = scenario.longest or LONGEST
    settings = {
        "max_num_seqs": scenario.max_num_seqs,
        "max_num_batched_tokens": scenario.max_num_batched_tokens,
        "enable_chunked_prefill": scenario.enable_chunked_prefill,
        "long_prefill_token_threshold": scenario.long_prefill_token_threshold,
        "policy": scenario.scheduler,
        "scheduler_reserve_full_isl": scenario.reserve_full_prompt,
        "watermark": scenario.watermark,
    }
    wanted = known_settings(vllm, vllm.SchedulerConfig, settings)
    config = vllm.VllmConfig(
        scheduler_config=vllm.SchedulerConfig(
            **wanted, async_scheduling=False, max_model_len=longest, is_encoder_decoder=False
        ),
        model_config=vllm.ModelConfig(
            model=str(MODEL),
            dtype="float16",
            seed=42,
            skip_tokenizer_init=True,
            max_model_len=longest,
        ),
        cache_config=vllm.CacheConfig(
            block_size=scenario.block_size,
            enable_prefix_caching=scenario.enable_prefix_caching,
            cache_dtype="auto",
        ),
        device_config=vllm.DeviceConfig(device="cpu"),
    )
    # Made for a CPU, the configuration has changed some of what it was given.
    for name, value in {**wanted, "async_scheduling": scenario.async_scheduling}.items():
        setattr(config.scheduler_config, name, value)
    # Of a GPU: else a connector would move the states of drafts, too.
    config.scheduler_config.disable_hybrid_kv_cache_manager = False
    config.parallel_config.pipeline_parallel_size = scenario.pipeline_parallel_size
    config.cache_config.block_size = scenario.block_size
    config.cache_config.enable_prefix_caching = scenario.enable_prefix_caching
    config.cache_config.num_gpu_blocks = blocks + 1
    kept = known_settings(vllm, vllm.CacheConfig, {RETENTION: scenario.retention})
    for name, value in kept.items():
        setattr(config.cache_config, name, value)
    if scenario.has_states:
        config.cache_config.mamba_cache_mode = "align" if scenario.enable_prefix_caching else "none"
    return config


def _lease(scenario: Scenario) -> dict[str, int]:
    layout = scenario.disaggregation
    return {"kv_lease_duration": layout.lease_us} if layout and layout.lease_us else {}


def _groups(vllm: Vllm, scenario: Scenario) -> list[Any]:
    shape = {
        "block_size": scenario.block_size,
        "num_kv_heads": 1,
        "head_size": 1,
        "dtype": vllm.torch.float32,
    }
    groups = []
    for i, group in enumerate(scenario.groups):
        if group.kind == "state":
            spec = _state(vllm, scenario, group)
        elif group.window is None:
            spec = vllm.FullAttentionSpec(**shape)
        else:
            spec = vllm.SlidingWindowSpec(sliding_window=group.window, **shape)
        groups.append(vllm.KVCacheGroupSpec([f"layer{i}"], spec))
    if scenario.head is not None and scenario.connects:
        groups[scenario.head].is_eagle_group = True  # as its planning does; the connector asks
    return groups


def _state(vllm: Vllm, scenario: Scenario, group: Group) -> Any:
    """Return the group of layers whose state fills a block, as vLLM makes it for hybrid models.

    With prefix caching states are kept where blocks end (`align`); without it a request has one.
    """
    caches = scenario.enable_prefix_caching
    return vllm.MambaSpec(
        block_size=scenario.block_size if caches else LONGEST,
        shapes=((2 * scenario.block_size,),),  # as many bytes as a block of keys and values
        dtypes=(vllm.torch.float32,),
        mamba_cache_mode="align" if caches else "none",
        num_speculative_blocks=scenario.drafts,
        num_prefill_checkpoint_blocks=int(group.checkpoint),
        prefill_checkpoint_alignment=1 if group.checkpoint else None,
    )


def _speculation(vllm: Vllm, scenario: Scenario) -> Any:
    """Return vLLM's own class with its own methods, without the config of a drafting model."""
    assert scenario.speculative
    config = object.__new__(vllm.SpeculativeConfig)
    for name, field in vllm.SpeculativeConfig.__dataclass_fields__.items():
        missing = type(field.default).__name__ in ("_MISSING_TYPE", "FieldInfo")
        object.__setattr__(config, name, None if missing else field.default)
    config.method = {"draft": "draft_model", "eagle": "eagle"}[scenario.speculative.method]
    config.num_speculative_tokens = scenario.drafts
    for name in (
        "parallel_drafting",
        "disable_eagle_block_drop",
        "disable_lookahead_block_hashes",
    ):
        object.__setattr__(config, name, False)
    for name in ("num_speculative_tokens_per_batch_size", "draft_model_config"):
        object.__setattr__(config, name, None)
    return config


def _connector(scenario: Scenario, role: str | None, page: int) -> dict[str, Any]:
    """Return the settings of a connector, or of both: who pulls is asked before the tier."""
    tier = {"engine_id": role or "e0"} | _offloading(scenario, page) if scenario.offload else {}
    if role is None:
        return tier
    nixl = {
        "kv_connector": "NixlConnector",
        "kv_role": _kv_role(scenario, role),
        "kv_load_failure_policy": scenario.load_failure_policy,
        "kv_connector_extra_config": _lease(scenario),
    }
    if not tier:
        return nixl | {"engine_id": role}
    del tier["engine_id"]  # that of both
    several = {"connectors": [nixl, tier]}
    both = {"kv_connector": "MultiConnector", "kv_connector_extra_config": several}
    return nixl | both | {"engine_id": role}


def _kv_role(scenario: Scenario, role: str) -> str:
    assert scenario.disaggregation
    return scenario.disaggregation.prefill_kv_role if role == "prefill" else "kv_consumer"


def _offloading(scenario: Scenario, page: int) -> dict[str, Any]:
    assert scenario.offload
    chunk = ceil_div(page * scenario.offload.block_factor, mmap.PAGESIZE) * mmap.PAGESIZE
    return {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "cpu_bytes_to_use": chunk * scenario.offload.cpu_blocks,
            "blocks_per_chunk": scenario.offload.block_factor,
            "eviction_policy": scenario.offload.eviction,
            "offload_prompt_only": scenario.offload.prompt_only,
        },
    }


def _check(scheduler: Any, scenario: Scenario, config: Any) -> None:
    """See that vLLM took the settings: a release may name them otherwise and go on."""
    found = {
        "max_num_seqs": (scheduler.max_num_running_reqs, scenario.max_num_seqs),
        "max_num_batched_tokens": (
            scheduler.max_num_scheduled_tokens,
            scenario.max_num_batched_tokens,
        ),
        "speculative.tokens": (scheduler.num_spec_tokens, scenario.drafts),
    }
    if scenario.longest is not None:
        found["max_model_len"] = (scheduler.max_model_len, scenario.longest)
    stages = scenario.pipeline_parallel_size
    if stages > 1:
        found["pipeline_parallel_size: steps in flight"] = (
            getattr(config, "max_concurrent_batches", None),
            scenario.steps_in_flight,
        )
        if scenario.async_scheduling:
            found["pipeline_parallel_size: steps between decodes"] = (
                decode_stagger(scheduler),
                stages,
            )
    if scenario.offload:
        side = offloading_side(scheduler).connector_scheduler
        found["cpu_blocks"] = (cpu_blocks(scheduler), scenario.offload.cpu_blocks)
        found["offload_prompt_only"] = (
            side.config.offload_prompt_only,
            scenario.offload.prompt_only,
        )
    for key, (taken, wanted) in found.items():
        if taken != wanted:
            raise InputError(f"{key}: vLLM took {taken} for {wanted}: {MEND}")
