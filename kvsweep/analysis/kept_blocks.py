"""A warning of caches that keep more of windows and states than vLLM does today."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis.cells import Cells
from kvsweep.analysis.warning_records import ResultWarning, seen
from kvsweep.config.groups import keeps_some

if TYPE_CHECKING:
    from kvsweep.config import Scenario


def all_kept(cells: Cells) -> ResultWarning | None:
    """Warn of prefix hits in caches of hybrid models that are not told what to keep."""
    where = cells.settings(_keeps_all, np.bool_)
    if where is None:
        return None
    hits = cells.number("prefix_hit_rate")
    found = seen(cells, cells.ok & where & (hits > 0), hits)
    if found is None:
        return None
    scenario = found.cells.scenario(found.worst)
    size = "cache.block_size" if scenario is None else f"{scenario.cache.block_size}"
    return found.warning(
        "all-kept",
        f"windows and states keep all their blocks in the prefix cache{found.share}, as in vLLM "
        "before 0.29; now it keeps what a hit at the end of a prompt needs, and hits less of what "
        "prompts have in common: give cache.prefix_cache_retention_interval, 0 as vLLM does or "
        f"{size} to keep all",
    )


def _keeps_all(scenario: Scenario) -> bool:
    cache = scenario.cache
    told = cache.prefix_cache_retention_interval is not None
    return keeps_some(cache.groups) and scenario.engine.enable_prefix_caching and not told
