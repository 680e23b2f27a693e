"""A warning of a router that remembers less than the caches it routes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis.cells import Cells
from kvsweep.analysis.warning_records import ResultWarning, Seen, seen
from kvsweep.analysis.wording import number
from kvsweep.config.choices import Choice, choices_of
from kvsweep.config.fleet import fleet
from kvsweep.policies import Routing, Scorer

if TYPE_CHECKING:
    from kvsweep.config import Scenario


def short_memory(cells: Cells) -> ResultWarning | None:
    """Warn of an index of the router that forgets prompts which the instances still have.

    On Mooncake's conversations over 8 instances the 10,000 blocks of the default find a prefix hit
    rate of 8 %, enough of them 17 to 22 %: the instances' caches hold more than the router knows.
    """
    held = cells.settings(_held)
    remembered = cells.settings(lambda scenario: scenario.cluster.router_index_blocks)
    asked = cells.settings(_asks_index)
    if held is None or remembered is None or asked is None or not asked.any():
        return None
    remembers = remembered.astype(np.int64)
    # What was evicted was cached in a full pool before; what is in use is in it too.
    peak = np.fmax.reduce(cells.number("peak_blocks"), axis=-1)  # NaN of instances it lacks
    full = (cells.number("evictions") > 0) | (peak > remembers)
    where = cells.ok & asked.astype(bool) & (held.astype(np.int64) > remembers) & full
    found = seen(cells, where, held / remembers)
    if found is None:
        return None
    few, enough = int(remembers[found.worst]), int(held[found.worst])
    return found.warning(
        "short-memory",
        f"the router remembers {number(few)} blocks of an instance that caches up to "
        f"{number(enough)}{found.share}{found.setting}: {_who(found)} misses prefixes that are "
        f"there; set cluster.router_index_blocks to {enough} or more, or score by precise-prefix",
    )


def _who(found: Seen) -> str:
    """Return what asks the router's index."""
    scenario = found.cells.scenario(found.worst)
    asking = [] if scenario is None else [c for c in choices_of(scenario.cluster) if _asks(c)]
    sticks = bool(asking) and not any(choice.is_weighted for choice in asking)
    return "sticky routing" if sticks else "prefix-affinity"


def _held(scenario: Scenario) -> int:
    """Return the blocks that an instance can keep of earlier prompts, where the index is asked."""
    if not scenario.engine.enable_prefix_caching:
        return 0
    asking = [choice.role for choice in choices_of(scenario.cluster) if _asks(choice)]
    pools = [pool.gpu_blocks + pool.cpu_blocks for pool in fleet(scenario) if pool.role in asking]
    return max(pools, default=0)


def _asks_index(scenario: Scenario) -> bool:
    """Whether requests go where the router's own index finds their prefix."""
    return any(map(_asks, choices_of(scenario.cluster)))


def _asks(choice: Choice) -> bool:
    weight = choice.scorers.get(Scorer.PREFIX_AFFINITY.label, 0.0)
    asks = (choice.is_weighted and weight > 0.0) or choice.routing == Routing.STICKY.label
    return asks and choice.instances > 1
