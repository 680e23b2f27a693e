"""Warning of a cache whose size nobody has told, though a GPU is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis.cells import Cells
from kvsweep.analysis.warning_records import ResultWarning, seen
from kvsweep.config.cache_section import CAPACITIES
from kvsweep.config.fleet import has_pools

if TYPE_CHECKING:
    from kvsweep.config import Scenario


def assumed_blocks(cells: Cells) -> ResultWarning | None:
    """Warn of blocks that are kvsweep's default where steps are those of a real GPU."""
    assumed = cells.settings(_is_assumed, np.bool_)
    if assumed is None:
        return None
    found = seen(cells, cells.ok & assumed, cells.ok)
    if found is None:
        return None
    scenario = found.cells.scenario(found.worst)
    assert scenario is not None  # as the settings are known
    cache = scenario.cache
    tokens = cache.gpu_blocks * cache.block_size
    table = ", or a [model] table" if scenario.workload is not None else ""  # a trace has none
    return found.warning(
        "assumed-blocks",
        f"{cache.gpu_blocks:,} blocks ({tokens:,} tokens){found.share} are the default of "
        f"cache.gpu_blocks, not what the GPU of latency.model {scenario.latency.model!r} has room "
        f"for; give it, as `kvsweep blocks --model MODEL --gpu GPU` tells it{table}",
    )


def _is_assumed(scenario: Scenario) -> bool:
    given = scenario.cache.model_fields_set
    told = any(key in given for key in CAPACITIES) or scenario.model is not None
    return scenario.latency.model is not None and not told and not has_pools(scenario)
