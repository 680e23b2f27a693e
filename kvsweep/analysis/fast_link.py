"""A warning of a link from prefill to decode that is faster than any is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis.cells import Cells
from kvsweep.analysis.warning_records import ResultWarning, seen
from kvsweep.config.transfer import GIGA_PER_MICRO, pull_gb_per_s

if TYPE_CHECKING:
    from kvsweep.config import Scenario

FASTEST = 2000.0
"""GB/s of a GPU that no link reaches: NVLink has 900 one way on Blackwell, and 1,800 after it."""

USUAL = 25.0
"""GB/s of a network adapter of 200 Gbit/s, for an example."""


def fast_link(cells: Cells) -> ResultWarning | None:
    """Warn of transfers from prefill to decode that no hardware makes, as of a wrong unit.

    The key is in tokens per microsecond: who writes tokens per millisecond gets transfers that
    take no time, and results that look right.
    """
    speed = cells.settings(_speed, np.float64)
    if speed is None:
        return None
    found = seen(cells, cells.ok & (speed > FASTEST), speed)
    if found is None:
        return None
    scenario = found.cells.scenario(found.worst)
    assert scenario is not None  # as the settings are known
    bandwidth = scenario.cluster.kv_transfer_bandwidth
    assert bandwidth is not None
    token = GIGA_PER_MICRO * float(speed[found.worst]) / bandwidth
    return found.warning(
        "fast-link",
        f"each GPU sends {speed[found.worst]:,.0f} GB/s from prefill to decode{found.share}"
        f"{found.setting}: no link is that fast; cluster.kv_transfer_bandwidth is in tokens per "
        f"microsecond, 1,000 x GB/s over the {token:,.0f} bytes of a token: "
        f"{GIGA_PER_MICRO * USUAL / token:.3g} of {USUAL:g} GB/s",
    )


def _speed(scenario: Scenario) -> float:
    return pull_gb_per_s(scenario) or 0.0
