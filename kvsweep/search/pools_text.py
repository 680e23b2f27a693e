"""What the servers of pools are told beside a command that all have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.config.fleet import fleet
from kvsweep.config.pools import BOTH_ROLES, LEASE_S, pools_of
from kvsweep.search.tier_flags import tier_bytes, tier_connector

if TYPE_CHECKING:
    from kvsweep.config import Scenario
    from kvsweep.config.cluster_section import Cluster


def pools_notes(scenario: Scenario, folder: Path, gpus: int) -> Iterator[str]:
    """Say how each pool's servers differ, and how prefill and decode are told what they are.

    Parameters
    ----------
    scenario : Scenario
        With pools.
    folder : Path
        Where files that it names are.
    gpus : int
        GPUs whose parts of a block a CPU tier keeps.
    """
    cluster = scenario.cluster
    for number, (role, pool) in enumerate(pools_of(cluster)):
        if pool.latency is not None:
            whose = f"pool {number}" if role == BOTH_ROLES else role
            times = f" ({pool.latency.model})" if pool.latency.model else ""
            told = "as its GPUs and --tensor-parallel-size may be others than those of the command"
            yield f"{whose}: has step times of its own{times}, {told}"
    kv_roles = {"prefill": cluster.prefill_kv_role, "decode": "kv_consumer"}
    for side in fleet(scenario):
        if side.role in kv_roles:
            size = tier_bytes(scenario, folder, gpus, side.cpu_blocks)
            told = json.dumps(_connector(scenario, kv_roles[side.role], size))
            yield f"{side.role}: add --kv-transfer-config '{told}', or another connector"


def _connector(scenario: Scenario, role: str, size: int) -> dict[str, Any]:
    """Return what a server of a role has as connectors; `size`: bytes of its CPU tier, if any."""
    link = {"kv_connector": "NixlConnector", "kv_role": role, **_of_connectors(scenario.cluster)}
    if not size:
        return link
    several = {"connectors": [link, tier_connector(scenario.cache, size)]}
    both = {"kv_connector": "MultiConnector", "kv_role": role}
    if "kv_load_failure_policy" in link:
        both["kv_load_failure_policy"] = link["kv_load_failure_policy"]
    return both | {"kv_connector_extra_config": several}


def _of_connectors(cluster: Cluster) -> dict[str, Any]:
    """Return what connectors are told where it is not vLLM's default: leases and failures."""
    found: dict[str, Any] = {}
    if cluster.kv_load_failure_policy != "fail":
        found["kv_load_failure_policy"] = cluster.kv_load_failure_policy
    if cluster.kv_lease_us is not None:
        seconds = max(1, round(cluster.kv_lease_us / 1_000_000))  # vLLM takes whole ones
        if seconds != LEASE_S:
            found["kv_connector_extra_config"] = {"kv_lease_duration": seconds}
    return found
