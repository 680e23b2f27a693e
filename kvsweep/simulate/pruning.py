"""Which simulation may repeat another's: the same scenario with fewer blocks, that never ran short.

The kernel runs lanes in order and copies one from a lane before it (`kernel.setup.copy_lane`), so
scenarios are run in the order of their pools.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..config import Scenario
from ..config.choices import choices_of
from ..policies import CACHE
from ..records import NONE
from .routers import reads_of


def smallest_first(scenarios: Sequence[Scenario]) -> NDArray[np.intp]:
    """Return the positions of scenarios in the order of their pools, equal ones as they stand."""
    return np.argsort([scenario.cache.gpu_blocks for scenario in scenarios], kind="stable")


def smaller_pools(scenarios: Sequence[Scenario]) -> NDArray[np.int64]:
    """Return for each scenario the nearest earlier one that only has fewer blocks, or -1.

    A watermark is a share of the blocks, and some routers look at the share in use; with those, or
    with a CPU tier, runs are not compared.
    """
    like = np.full(len(scenarios), NONE)
    latest: dict[str, int] = {}
    for number, scenario in enumerate(scenarios):
        family = scenario.model_dump_json(
            exclude={"cache": {"gpu_blocks", "gpu_tokens"}, "slo": True}
        )
        before = latest.get(family)
        shares = scenario.engine.watermark > 0 or CACHE in reads_of(*choices_of(scenario.cluster))
        if before is not None and not shares and scenario.cache.cpu_blocks == 0:
            fewer = scenarios[before].cache.gpu_blocks < scenario.cache.gpu_blocks
            like[number] = before if fewer else NONE
        latest[family] = number
    return like


def smaller_of(scenarios: Sequence[Scenario]) -> dict[int, int]:
    """Return for scenarios of a batch the one that they may be copied from, by position."""
    order = list(map(int, smallest_first(scenarios)))
    like = smaller_pools([scenarios[i] for i in order])
    return {order[i]: order[at] for i, at in enumerate(like) if at != NONE}
