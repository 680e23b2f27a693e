"""vLLM's names, and what differs between its releases: all that a new release may need is here.

`FIRST` to `LAST` are the releases with which goldens were recorded. For any other one the recorder
tries, and says so.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import sys
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError
from record_vllm.scenario import Scenario

FIRST, LAST = (0, 28, 0), (0, 33, 0)
_NAMES = {
    "vllm.config": "CacheConfig DeviceConfig KVTransferConfig ModelConfig SchedulerConfig "
    "SpeculativeConfig VllmConfig",
    "vllm.sampling_params": "SamplingParams",
    "vllm.utils.hashing": "sha256",
    "vllm.v1.core.kv_cache_utils": "get_request_block_hasher init_none_hash",
    "vllm.v1.core.sched.async_scheduler": "AsyncScheduler",
    "vllm.v1.core.sched.scheduler": "Scheduler",
    "vllm.v1.kv_cache_interface": "FullAttentionSpec KVCacheConfig KVCacheGroupSpec KVCacheTensor "
    "MambaSpec SlidingWindowSpec",
    "vllm.v1.outputs": "DraftTokenIds KVConnectorOutput ModelRunnerOutput",
    "vllm.v1.request": "Request",
    "vllm.v1.structured_output": "StructuredOutputManager",
}
# What a release without a setting does: watermarks came with 0.24.
_ABSENT = {"watermark": 0.0}
_CONNECTORS = "vllm.distributed.kv_transfer.kv_connector.v1"
_OFFLOADING = f"{_CONNECTORS}.offloading.common"


class Vllm:
    """One installed vLLM: its names as attributes, its `version` and `release` (a tuple)."""

    def __init__(self, site: Path) -> None:
        if not (site / "vllm" / "__init__.py").is_file():
            raise InputError(f"{site}: has no vllm/__init__.py; make it with the command setup")
        sys.path.insert(0, str(site))
        # vLLM looks at models in a process of its own, which must find it, too.
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(site), os.environ.get("PYTHONPATH")))
        )
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        self.version = _version(site)
        self.release = release_of(self.version)
        self.torch: Any = importlib.import_module("torch")
        for module, names in _NAMES.items():
            self._take(module, names.split())
        logging.disable(logging.CRITICAL)
        self.init_none_hash(self.sha256)

    def __getattr__(self, name: str) -> Any:
        raise InputError(f"vLLM {self.version}: has no {name} for the recorder: {MEND}")

    def _take(self, module: str, names: list[str]) -> None:
        found = importlib.import_module(module)
        for name in names:
            if hasattr(found, name):
                setattr(self, name, getattr(found, name))

    def block_hasher(self, scenario: Scenario, config: Any) -> Any:
        """Return the function that hashes the blocks of a request, None where nobody asks."""
        if not (scenario.enable_prefix_caching or scenario.offload or scenario.disaggregation):
            return None
        make = self.get_request_block_hasher
        # 0.33 may look at tokens beyond a block, for drafts of EAGLE.
        lookahead = getattr(config, "num_hash_lookahead_tokens", 0)
        more = [lookahead] if len(inspect.signature(make).parameters) > 2 else []
        return make(scenario.block_size, self.sha256, *more)

    def completed(self, jobs: list[int]) -> Any:
        """Return what the offloading worker reports of completed transfers."""
        report = importlib.import_module(_OFFLOADING).OffloadingWorkerMetadata()
        for job in jobs:
            report.mark_completed(job)
        return report

    def of_both(self, report: Any) -> Any:
        """Return what the workers of both connectors report: that of the pulls has nothing."""
        module = importlib.import_module(f"{_CONNECTORS}.multi_connector")
        return module.MultiKVConnectorWorkerMetadata(metadata=(None, report))


def nixl_module(name: str) -> Any:
    """Return a module of NixlConnector, which has leases and heartbeats."""
    try:
        return importlib.import_module(f"{_CONNECTORS}.nixl.{name}")
    except ImportError:
        raise InputError(f"this release has no {name} of NixlConnector: {MEND}") from None


MEND = "this release needs a change in tools/record_vllm/adapter.py"


def _version(site: Path) -> str:
    folders = sorted(site.glob("vllm-*.dist-info"))
    if not folders:
        raise InputError(f"{site}: has no vllm-*.dist-info: unpack the whole wheel there")
    return folders[-1].name.removeprefix("vllm-").removesuffix(".dist-info")


def release_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: (0, 33, 0) of ``0.33.0rc1+cpu``."""
    numbers = []
    for part in version.split("+")[0].split(".")[:3]:
        digits = "".join(c for c in part if c.isdigit()) if part.isdigit() else part.split("rc")[0]
        if not digits.isdigit():
            break
        numbers.append(int(digits))
    return tuple(numbers)


def unknown_release(release: tuple[int, ...]) -> str | None:
    """Return a sentence on a release that nobody has compared, None for a known one."""
    first, last = (".".join(map(str, r)) for r in (FIRST, LAST))
    if FIRST <= release <= LAST:
        return None
    age = "older" if release < FIRST else "newer"
    return (
        f"vLLM {'.'.join(map(str, release))} is {age} than what the recorder was tried with "
        f"({first} to {last}): a difference may be the recorder's own; see adapter.py"
    )


def waiting_requests(scheduler: Any) -> int:
    """Return how many requests wait, those for a transfer included."""
    # 0.31 has two lists where 0.30 had one for all requests that were passed by.
    aside = _either(scheduler, "kv_holding_waiting", "skipped_waiting")
    return len(scheduler.waiting) + len(aside)


def offloading_side(scheduler: Any) -> Any:
    """Return the OffloadingConnector of a scheduler, which may be one of several."""
    return _sub_connectors(scheduler)[-1]


def nixl_side(scheduler: Any) -> Any:
    """Return what NixlConnector has in the scheduler; it is the first of several."""
    return _sub_connectors(scheduler)[0].connector_scheduler


def _sub_connectors(scheduler: Any) -> Any:
    return getattr(scheduler.connector, "_connectors", None) or [scheduler.connector]


def cpu_blocks_in_use(scheduler: Any) -> int:
    """Return the blocks of the CPU tier that hold something."""
    manager = offloading_side(scheduler).connector_scheduler.manager
    # Chunks were called blocks until 0.29.
    allocated: int = _either(manager, "_num_allocated_chunks", "_num_allocated_blocks")
    return allocated - len(manager._free_list)


def cpu_blocks(scheduler: Any) -> int:
    """Return the blocks of the CPU tier."""
    manager = offloading_side(scheduler).connector_scheduler.manager
    blocks: int = _either(manager, "_num_chunks", "_num_blocks")
    return blocks


def has_step_in_flight(request: Any) -> bool | None:
    """Whether a step of a request has been scheduled and has not come back.

    None where nobody knows: 0.24 and before do not count it.
    """
    tokens = getattr(request, "num_in_flight_tokens", None)
    return None if tokens is None else tokens > 0


def decode_stagger(scheduler: Any) -> int:
    """Return how many steps lie between two decodes of a request, at least.

    Only an asynchronous scheduler for the second model runner keeps more than one, in a pipeline.
    """
    second = getattr(scheduler, "use_v2_model_runner", False)
    return int(getattr(scheduler, "decode_stagger", 1)) if second else 1


def window_managers(scheduler: Any) -> list[Any] | None:
    """Return what frees blocks behind windows, None where it cannot be watched: 0.24 and before."""
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    watchable = all(hasattr(manager, "_remove_blocks_in_range") for manager in managers)
    return list(managers) if watchable else None


def kv_cache_tensors(vllm: Vllm, pages: dict[str, int], blocks: int) -> list[Any]:
    """Return the tensors of a cache: pages are the bytes of a block of each layer.

    From 0.30 on the offloading connector knows the size of a block without them.
    """
    if vllm.release >= (0, 30):
        return []
    return [vllm.KVCacheTensor(page * blocks, [layer]) for layer, page in pages.items()]


def known_settings(vllm: Vllm, kind: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a class of vLLM's configuration knows.

    Raises
    ------
    InputError
        If it does not know one that is not at the value which means the same as its absence.
    """
    known = {name: value for name, value in settings.items() if name in kind.__dataclass_fields__}
    for name, value in settings.items():
        if name not in known and value != _ABSENT.get(name):
            raise InputError(f"vLLM {vllm.version}: has no setting {name}, which is {value} here")
    return known


def hash_block_size(make: Any, block_size: int) -> dict[str, int]:
    """Return the argument of a scheduler that names the block size of hashes.

    0.19 has none: there it is the block size.
    """
    known = "hash_block_size" in inspect.signature(make).parameters
    return {"hash_block_size": block_size} if known else {}


def _either(owner: Any, name: str, before: str) -> Any:
    """Return an attribute by its name, or by the one that it had before."""
    return getattr(owner, name) if hasattr(owner, name) else getattr(owner, before)
