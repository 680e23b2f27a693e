"""NixlConnector of a command: a server of a cluster in which prefill and decode are apart."""

from __future__ import annotations

from typing import Any

from kvsweep.config.pools import LEASE_S
from kvsweep.errors import clip, escaped, shown
from kvsweep.vllm_command.connectors import link_of
from kvsweep.vllm_command.offload import SIZE, TRANSFER, check_config
from kvsweep.vllm_command.values import Values
from kvsweep.vllm_command.words import Command

_ROLES = {"kv_producer": "prefill", "kv_consumer": "decode"}
_BOTH = "kv_both"
# What changes nothing that is simulated: who listens, how often is tried, what pulls to a prefill
# instance take, of which there are none.
_IDLE = (
    "backends", "decoder_kv_blocks_ttl", "enforce_handshake_compat", "engine_ttl",
    "kv_recompute_threshold", "num_threads", "push_registration_timeout",
)  # fmt: skip
_LEASE = "kv_lease_duration"
_MOST_S = 10_000_000


def is_apart(command: Command) -> bool:
    """Return whether a server hands its blocks on, or pulls another's.

    Parameters
    ----------
    command : Command
        What starts it.

    Raises
    ------
    InputError
        If its connector cannot be read.
    """
    values = Values(command)
    if values.given(SIZE) or not values.given(TRANSFER):
        return False
    return link_of(values) is not None


def role_told(command: Command) -> str | None:
    """Return the role that the connector of a server has; None: both, or it is not told."""
    values = Values(command)
    told = [each.get("kv_role") for each in (link_of(values), values.table(TRANSFER)) if each]
    return next((_ROLES[role] for role in told if role in _ROLES), None)


def keys_of_connector(command: Command) -> dict[str, tuple[Any, str]]:
    """Return the keys of ``[cluster]`` that a connector decides, each with who says so.

    Parameters
    ----------
    command : Command
        Of a server that `is_apart`.

    Raises
    ------
    InputError
        If it is told what is not simulated.
    """
    values = Values(command)
    table, link = values.table(TRANSFER) or {}, link_of(values) or {}
    check_config(values, table)
    if "kv_role" not in table or "kv_role" not in link:
        told = "vLLM takes kv_producer where it prefills, kv_consumer where it decodes, or kv_both"
        raise values.problem(TRANSFER, f"kv_role: missing; {told}")
    more = link.get("kv_connector_extra_config", {})
    if not isinstance(more, dict):
        raise values.problem(TRANSFER, f"kv_connector_extra_config: {shown(more)} is no object")
    lease = more.get(_LEASE, LEASE_S)
    if isinstance(lease, bool) or not isinstance(lease, int) or not 1 <= lease <= _MOST_S:
        raise values.problem(
            TRANSFER, f"{_LEASE}: {shown(lease)}: expected whole seconds, 1 or more"
        )
    if other := next((key for key in more if more[key] and key not in (*_IDLE, _LEASE)), None):
        told = "what it does is not simulated; leave it out to go on without it"
        raise values.problem(TRANSFER, f"{clip(escaped(other))}: {told}")
    told = f"--{TRANSFER}, seconds there" if _LEASE in more else "vLLM's default"
    found: dict[str, tuple[Any, str]] = {"kv_lease_us": (lease * 1_000_000, told)}
    if table["kv_role"] == _BOTH:  # what its scheduler reads, of both connectors
        found["prefill_kv_role"] = (_BOTH, f"--{TRANSFER}")
    if "kv_load_failure_policy" in table:
        found["kv_load_failure_policy"] = (table["kv_load_failure_policy"], f"--{TRANSFER}")
    return found


def notes_of_connector(command: Command) -> list[str]:
    """Say what a connector does that is not in the numbers."""
    device = (link_of(Values(command)) or {}).get("kv_buffer_device")
    return ["blocks go through the host's memory (kv_buffer_device cpu)"] if device == "cpu" else []
