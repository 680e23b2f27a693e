"""Warnings of links between roles, or to a CPU tier, that are faster than any is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis.cells import Cells
from kvsweep.analysis.warning_records import ResultWarning, Seen, seen
from kvsweep.config.transfer import GIGA_PER_MICRO, pull_gb_per_s, tier_gb_per_s

if TYPE_CHECKING:
    from kvsweep.config import Scenario

FASTEST = 2000.0
"""GB/s of a GPU that no link reaches: NVLink has 900 one way on Blackwell, and 1,800 after it."""

ADAPTER = 25.0
"""GB/s of a network adapter of 200 Gbit/s, for an example."""

PCIE = 24.8
"""GB/s of PCIe 4 as measured (``links.toml``), for another."""


def fast_link(cells: Cells) -> ResultWarning | None:
    """Warn of transfers from prefill to decode that no hardware makes, as of a wrong unit.

    The key is in tokens per microsecond: who writes tokens per millisecond gets transfers that
    take no time, and results that look right.
    """
    found = _too_fast(cells, pull_gb_per_s)
    if found is None:
        return None
    bandwidth = _worst(found).cluster.kv_transfer_bandwidth
    assert bandwidth is not None
    return found.warning(
        "fast-link",
        f"each GPU sends {_speed(found, pull_gb_per_s):,.0f} GB/s from prefill to decode"
        f"{found.share}{found.setting}: no link is that fast; cluster.kv_transfer_bandwidth"
        f"{_unit(_speed(found, pull_gb_per_s), bandwidth, ADAPTER)}",
    )


def fast_tier(cells: Cells) -> ResultWarning | None:
    """Warn of a CPU tier that is as near as no memory of a CPU is: its key has the same unit.

    Not under rules ``blis``, whose default is that of the reference.
    """
    found = _too_fast(cells, _of_tier)
    if found is None:
        return None
    cache, speed = _worst(found).cache, _speed(found, _of_tier)
    assert cache.transfer_bandwidth is not None
    remedy = (
        f"cache.transfer_bandwidth{_unit(speed, cache.transfer_bandwidth, PCIE)}"
        if cache.link_gb_per_s is None
        else "cache.link_gb_per_s is in 10^9 bytes per second"
    )
    return found.warning(
        "fast-tier",
        f"each GPU moves {speed:,.0f} GB/s to and from the memory of its CPU{found.share}"
        f"{found.setting}: no link is that fast; {remedy}",
    )


def _of_tier(scenario: Scenario) -> float | None:
    return None if scenario.engine.rules == "blis" else tier_gb_per_s(scenario)


def _too_fast(cells: Cells, speed_of: Callable[[Scenario], float | None]) -> Seen | None:
    """Return the cells with links faster than any, the fastest as the worst."""
    speed = cells.settings(lambda scenario: speed_of(scenario) or 0.0, np.float64)
    return None if speed is None else seen(cells, cells.ok & (speed > FASTEST), speed)


def _worst(found: Seen) -> Scenario:
    scenario = found.cells.scenario(found.worst)
    assert scenario is not None  # as the settings are known
    return scenario


def _speed(found: Seen, speed_of: Callable[[Scenario], float | None]) -> float:
    return speed_of(_worst(found)) or 0.0


def _unit(speed: float, bandwidth: float, usual: float) -> str:
    """Say what unit a key has, with what a `usual` link of so many GB/s is in it."""
    token = GIGA_PER_MICRO * speed / bandwidth
    return (
        f" is in tokens per microsecond, 1,000 x GB/s over the {token:,.0f} bytes of a token: "
        f"{GIGA_PER_MICRO * usual / token:.3g} of {usual:g} GB/s"
    )
