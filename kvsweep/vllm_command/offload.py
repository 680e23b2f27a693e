"""The CPU tier of a command: ``cache.cpu_blocks`` and what goes with it."""

from __future__ import annotations

import math
from typing import Any

from kvsweep.errors import clip, did_you_mean, escaped, shown
from kvsweep.sizing.capacity import cpu_chunk, cpu_copies, layout
from kvsweep.sizing.gpus import Gpu
from kvsweep.sizing.settings import Served
from kvsweep.sizing.sizes import GIB
from kvsweep.vllm_command.values import Values

SIZE, TRANSFER = "kv-offloading-size", "kv-transfer-config"
CONNECTOR = "OffloadingConnector"
_CONFIG = (
    "kv_connector", "engine_id", "kv_buffer_device", "kv_role", "kv_port",
    "kv_connector_extra_config", "kv_connector_module_path", "enable_permute_local_kv",
    "kv_load_failure_policy",
)  # fmt: skip
_ROLES = ("kv_producer", "kv_consumer", "kv_both")
# Of vLLM's connector, what changes nothing that is simulated.
_IDLE = ("canonical_layout", "lazy_offload", "max_tracker_size", "self_describing_kv_events")
Told = dict[str, tuple[Any, str]]
"""Keys of the cache, each with its value and the option that says so."""


def offload(values: Values, served: Served, gpu: Gpu | None) -> Told:
    """Return the keys of the CPU tier; none without one.

    Raises
    ------
    InputError
        If it is another one than vLLM's own.
    """
    size, table = values.number(SIZE), values.table(TRANSFER)
    option = f"--{TRANSFER}"
    backend = values.choice("kv-offloading-backend", "native", "lmcache")
    if size is not None:
        if size <= 0:
            raise values.problem(SIZE, f"{size:g} GiB; expected more than 0")
        if backend == "lmcache":
            raise values.problem("kv-offloading-backend", f"{shown(backend)} is not simulated")
        option, table = f"--{SIZE}", {"kv_connector": CONNECTOR} | (table or {})
    if table is None:
        return {}
    check_config(values, table)
    more = _extra(values, table)
    if size is not None:
        more["cpu_bytes_to_use"] = size * GIB
    told = _keys(values, served, more, option, _copies(values, served, gpu))
    if size is None and "kv_role" not in table:
        raise values.problem(TRANSFER, f"kv_role: missing; vLLM takes {', '.join(_ROLES)}")
    return told


def check_config(values: Values, table: dict[str, Any]) -> None:
    """Check that vLLM's ``KVTransferConfig`` takes a configuration.

    Parameters
    ----------
    values : Values
        Of the command.
    table : dict
        The configuration.

    Raises
    ------
    InputError
        If it has another key, no connector, or a role that there is not.
    """
    if unknown := next((key for key in table if key not in _CONFIG), None):
        hint = did_you_mean(unknown, list(_CONFIG))
        raise values.problem(TRANSFER, f"{clip(escaped(unknown))}: no key of vLLM's{hint}")
    if table.get("kv_connector") is None:
        raise values.problem(TRANSFER, "kv_connector: missing; without it vLLM has no connector")
    if (role := table.get("kv_role", _ROLES[-1])) not in _ROLES:
        raise values.problem(TRANSFER, f"kv_role: {shown(role)}; vLLM takes {', '.join(_ROLES)}")


def _extra(values: Values, table: dict[str, Any]) -> dict[str, Any]:
    """Return what the connector is told."""
    connector = table.get("kv_connector")
    if connector != CONNECTOR:
        told = f"{shown(connector)} is not simulated; {_hint(connector)}"
        raise values.problem(TRANSFER, f"{told}leave it out to go on without it")
    more = table.get("kv_connector_extra_config", {})
    if not isinstance(more, dict):
        raise values.problem(TRANSFER, f"kv_connector_extra_config: {shown(more)} is no object")
    if more.get("spec_name", "CPUOffloadingSpec") != "CPUOffloadingSpec":
        raise values.problem(TRANSFER, f"spec_name: {shown(more['spec_name'])} is not simulated")
    idle = (*_IDLE, "spec_name")
    # False and 0 are what all others have that are not given.
    kept = ("cpu_bytes_to_use", "offload_prompt_only")
    return {k: v for k, v in more.items() if k in kept or (k not in idle and v)}


def _hint(connector: Any) -> str:
    """Return what to give of prefill and decode apart, where a connector is of such."""
    apart = "prefill and decode apart are [cluster] prefill_instances and decode_instances"
    if connector in ("NixlConnector", "NixlPullConnector"):
        return f"{apart}, of a file that starts the servers of both sides; "
    one = ("P2pNcclConnector", "MooncakeConnector", "NixlPushConnector")
    return f"{apart}; " if connector in one else ""


def _keys(values: Values, served: Served, more: dict[str, Any], option: str, copies: int) -> Told:
    factor = _factor(values, served, more)
    told: Told = {"offload": ("vllm", option)}
    if factor > 1:
        told["offload_block_factor"] = (factor, option)
    if (policy := more.pop("eviction_policy", None)) is not None:
        told["offload_eviction"] = (policy, option)
    if (prompts := more.pop("offload_prompt_only", None)) is not None:
        told["offload_prompt_only"] = (prompts, option)
    if "cpu_bytes_to_use" not in more:
        raise values.problem(TRANSFER, "cpu_bytes_to_use: missing: bytes of the CPU tier")
    size = more.pop("cpu_bytes_to_use")
    if isinstance(size, bool) or not isinstance(size, int | float) or not 0 < size < math.inf:
        raise values.problem(option[2:], f"{shown(size)} bytes; expected more than 0")
    if other := next(iter(more), None):
        raise values.problem(
            TRANSFER, f"{other}: what it does is not simulated; leave it out to go on without it"
        )
    # As CPUOffloadingSpec counts: the chunks of all GPUs, each from the begin of a page.
    chunk = cpu_chunk(max(layout(served).block_bytes), copies, factor)
    if size < chunk:
        raise values.problem(option[2:], f"{size / GIB:.3g} GiB are less than a block of all GPUs")
    return {"cpu_blocks": (int(size) // chunk, option)} | told


def _copies(values: Values, served: Served, gpu: Gpu | None) -> int:
    """Return how many GPUs' parts of a block are kept: all, unless processes of a node share it."""
    tp, pp = served.asked.tp, served.asked.pp
    alone = (values.whole("data-parallel-size") or 1) == 1
    nodes = (values.whole("nnodes") or 1) if alone else 1
    if values.text("distributed-executor-backend") in (None, "mp") and nodes == 1:
        return cpu_copies(served.model, tp, pp, gpu)
    return tp * pp


def _factor(values: Values, served: Served, more: dict[str, Any]) -> int:
    """Return the GPU's blocks of a chunk."""
    blocks, tokens = more.pop("blocks_per_chunk", None), more.pop("block_size", None)
    if blocks is not None and tokens is not None:
        raise values.problem(TRANSFER, "block_size and blocks_per_chunk: vLLM takes one of the two")
    given = blocks if blocks is not None else tokens
    if given is None:
        return 1
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise values.problem(TRANSFER, f"{shown(given)}: expected a whole number from 1 on")
    if blocks is not None:
        return given
    if given % served.block_size:
        raise values.problem(
            TRANSFER, f"block_size: {given} is no multiple of the {served.block_size} tokens of a "
            "block"
        )  # fmt: skip
    return given // served.block_size
