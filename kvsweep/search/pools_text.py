"""What the servers of pools are told beside a command that all have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvsweep.config.pools import BOTH_ROLES, LEASE_S, pools_of

if TYPE_CHECKING:
    from kvsweep.config.cluster_section import Cluster

_ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}


def pools_notes(cluster: Cluster) -> Iterator[str]:
    """Say how each pool's servers differ, and how prefill and decode are told what they are.

    Parameters
    ----------
    cluster : Cluster
        Of a scenario with pools.
    """
    for number, (role, pool) in enumerate(pools_of(cluster)):
        if pool.latency is not None:
            whose = f"pool {number}" if role == BOTH_ROLES else role
            times = f" ({pool.latency.model})" if pool.latency.model else ""
            told = "as its GPUs and --tensor-parallel-size may be others than those of the command"
            yield f"{whose}: has step times of its own{times}, {told}"
    more = _of_connectors(cluster)
    for role, _ in pools_of(cluster):
        if role in _ROLES:
            told = json.dumps({"kv_connector": "NixlConnector", "kv_role": _ROLES[role], **more})
            yield f"{role}: add --kv-transfer-config '{told}', or another connector"


def _of_connectors(cluster: Cluster) -> dict[str, object]:
    """Return what connectors are told where it is not vLLM's default: leases and failures."""
    found: dict[str, object] = {}
    if cluster.kv_load_failure_policy != "fail":
        found["kv_load_failure_policy"] = cluster.kv_load_failure_policy
    if cluster.kv_lease_us is not None:
        seconds = max(1, round(cluster.kv_lease_us / 1_000_000))  # vLLM takes whole ones
        if seconds != LEASE_S:
            found["kv_connector_extra_config"] = {"kv_lease_duration": seconds}
    return found
