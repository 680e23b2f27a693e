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

FIRST, LAST = (0, 30, 0), (0, 33, 0)
_NAMES = {
    "vllm.config": "CacheConfig DeviceConfig KVTransferConfig ModelConfig SchedulerConfig "
    "SpeculativeConfig VllmConfig",
    "vllm.sampling_params": "SamplingParams",
    "vllm.utils.hashing": "sha256",
    "vllm.v1.core.kv_cache_utils": "get_request_block_hasher init_none_hash",
    "vllm.v1.core.sched.async_scheduler": "AsyncScheduler",
    "vllm.v1.core.sched.scheduler": "Scheduler",
    "vllm.v1.kv_cache_interface": "FullAttentionSpec KVCacheConfig KVCacheGroupSpec "
    "SlidingWindowSpec",
    "vllm.v1.outputs": "DraftTokenIds KVConnectorOutput ModelRunnerOutput",
    "vllm.v1.request": "Request",
    "vllm.v1.structured_output": "StructuredOutputManager",
}
_OFFLOADING = "vllm.distributed.kv_transfer.kv_connector.v1.offloading.common"


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
    aside = getattr(scheduler, "kv_holding_waiting", None)
    if aside is None:
        aside = scheduler.skipped_waiting
    return len(scheduler.waiting) + len(aside)


def cpu_blocks_in_use(scheduler: Any) -> int:
    """Return the blocks of the CPU tier that hold something."""
    manager = scheduler.connector.connector_scheduler.manager
    allocated: int = manager._num_allocated_chunks
    return allocated - len(manager._free_list)
