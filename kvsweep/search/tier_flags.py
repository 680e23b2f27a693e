"""A CPU tier as flags of ``vllm serve``, and what of it no flag has."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from kvsweep.config.transfer import known_token_bytes, sharing_groups
from kvsweep.policies import Offload
from kvsweep.sizing.capacity import cpu_chunk
from kvsweep.sizing.sizes import GIB

if TYPE_CHECKING:
    from kvsweep.config import Scenario

# Keys of the cache that vLLM's connector takes from its own configuration.
CONNECTOR = ("offload_block_factor", "offload_prompt_only", "offload_eviction")


def tier_flags(scenario: Scenario, folder: Path, gpus: int) -> Iterator[tuple[str, str]]:
    """Yield what starts vLLM's tier, if a scenario has one and the bytes of a token are known.

    Parameters
    ----------
    scenario : Scenario
        What a server runs.
    folder : Path
        Where files that it names are.
    gpus : int
        GPUs whose parts of a block the tier keeps.

    Yields
    ------
    flag, value : str
    """
    cache, bytes_per_token = scenario.cache, known_token_bytes(scenario, folder)
    if cache.cpu_blocks and cache.offload == Offload.VLLM.label and bytes_per_token:
        # The bytes are those of one GPU; vLLM takes the size of all.
        block = round(cache.block_size * bytes_per_token / sharing_groups(cache))
        size = cache.cpu_blocks * cpu_chunk(block, gpus, cache.offload_block_factor)
        # Rounded up by less than a chunk, so that all of them fit.
        yield "--kv-offloading-size", f"{ceil(size / GIB * 1e6) / 1e6:.12g}"
        yield "--kv-offloading-backend", "native"


def tier_notes(scenario: Scenario, folder: Path) -> Iterator[str]:
    """Yield what of a CPU tier no flag has, a line each."""
    cache = scenario.cache
    if cache.cpu_blocks and cache.offload != Offload.VLLM.label:
        yield f"cache.offload = {cache.offload!r}: vLLM has no such tier"
    elif cache.cpu_blocks:
        if known_token_bytes(scenario, folder) is None:
            yield (
                f"cache.cpu_blocks = {cache.cpu_blocks}: nothing tells the bytes of a token, so "
                "--kv-offloading-size, without which there is no tier, is left out"
            )
        others = [key for key in CONNECTOR if key in cache.model_fields_set]
        if others:
            keys = ", ".join(f"cache.{key}" for key in others)
            yield f"{keys}: to be set in kv_connector_extra_config of --kv-transfer-config"
