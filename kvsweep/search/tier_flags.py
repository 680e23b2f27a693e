"""A CPU tier as flags of ``vllm serve``, and what of it no flag has."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.config.pools import has_roles
from kvsweep.config.transfer import known_token_bytes, sharing_groups
from kvsweep.policies import Offload, TierEviction
from kvsweep.sizing.capacity import cpu_chunk
from kvsweep.sizing.sizes import GIB

if TYPE_CHECKING:
    from kvsweep.config import Scenario
    from kvsweep.config.cache_section import Cache

# Keys of the cache that vLLM's connector takes from its own configuration.
_SIZE = ("--kv-offloading-size", "OffloadingConnector with cpu_bytes_to_use")
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
    size = tier_bytes(scenario, folder, gpus, scenario.cache.cpu_blocks)
    if size and not has_roles(scenario.cluster):  # there the flag would take the place of the link
        # Rounded up by less than a chunk, so that all of them fit.
        yield "--kv-offloading-size", f"{ceil(size / GIB * 1e6) / 1e6:.12g}"
        yield "--kv-offloading-backend", "native"


def tier_bytes(scenario: Scenario, folder: Path, gpus: int, blocks: int) -> int:
    """Return the bytes of so many chunks of vLLM's tier; 0 without one, or if nothing tells them.

    Parameters
    ----------
    scenario, folder, gpus
        As `tier_flags` has them.
    blocks : int
        ``cpu_blocks`` of an instance.
    """
    cache, bytes_per_token = scenario.cache, known_token_bytes(scenario, folder)
    if not blocks or cache.offload != Offload.VLLM.label or not bytes_per_token:
        return 0
    # The bytes are those of one GPU; vLLM takes the size of all.
    block = round(cache.block_size * bytes_per_token / sharing_groups(cache))
    return blocks * cpu_chunk(block, gpus, cache.offload_block_factor)


def tier_connector(cache: Cache, size: int) -> dict[str, Any]:
    """Return vLLM's ``KVTransferConfig`` of a tier of so many bytes, beside another connector."""
    more: dict[str, Any] = {"cpu_bytes_to_use": size}
    if cache.offload_block_factor > 1:
        more["blocks_per_chunk"] = cache.offload_block_factor
    if not cache.offload_prompt_only:
        more["offload_prompt_only"] = False
    if cache.offload_eviction != TierEviction.LRU.label:
        more["eviction_policy"] = cache.offload_eviction
    connector = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}
    return connector | {"kv_connector_extra_config": more}


def tier_notes(scenario: Scenario, folder: Path) -> Iterator[str]:
    """Yield what of a CPU tier no flag has, a line each."""
    cache = scenario.cache
    if cache.cpu_blocks and cache.offload != Offload.VLLM.label:
        yield f"cache.offload = {cache.offload!r}: vLLM has no such tier"
    elif cache.cpu_blocks:
        if known_token_bytes(scenario, folder) is None:
            yield (
                f"cache.cpu_blocks = {cache.cpu_blocks}: nothing tells the bytes of a token, so "
                f"{_SIZE[has_roles(scenario.cluster)]}, without which there is no tier, is left out"
            )
        others = [key for key in CONNECTOR if key in cache.model_fields_set]
        if others and not has_roles(scenario.cluster):
            keys = ", ".join(f"cache.{key}" for key in others)
            yield f"{keys}: to be set in kv_connector_extra_config of --kv-transfer-config"
