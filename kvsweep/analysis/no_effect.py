"""Warnings of settings that decide nothing: sizes above any need, equal seeds, an idle tier."""

from __future__ import annotations

import numpy as np

from kvsweep.analysis.cells import SEED, Cells
from kvsweep.analysis.warning_records import ResultWarning, Seen, seen
from kvsweep.analysis.wording import number
from kvsweep.config.fleet import fleet
from kvsweep.config.pools import has_roles

# What differs at once where anything does: looked at before every variable is read.
FIRST = ("steps", "makespan_s")
# How a cell came about, which is no result.
NO_RESULT = "pruned"

BLOCKS = "gpu_blocks"


def never_full(cells: Cells) -> ResultWarning | None:
    """Warn of sizes of the cache that are all larger than what is ever in use."""
    if not _all_equal(cells, BLOCKS):
        return None
    sizes, peak = cells.axes[BLOCKS], np.fmax.reduce(cells.number("peak_blocks"), axis=None)
    # Where no request fits, none is in use: other warnings say so.
    found = seen(cells, cells.ok & (peak > 0) & (peak < min(sizes)), cells.ok)
    if found is None:
        return None
    return found.warning(
        "never-full",
        f"gpu_blocks from {number(min(sizes))} to {number(max(sizes))} makes no difference: the "
        f"caches never fill (at most {number(peak)} blocks are in use), so that nothing is said "
        "about where they would; sweep smaller ones",
    )


def equal_seeds(cells: Cells) -> ResultWarning | None:
    """Warn of seeds that are no repetitions, as with a trace or constant lengths and gaps."""
    if not _all_equal(cells, SEED):
        return None
    found = seen(cells, cells.ok, cells.ok)
    assert found is not None  # as all are ok
    return found.warning(
        "equal-seeds",
        f"all {len(cells.axes[SEED]):,} seeds give the same numbers: nothing in the workload is "
        "drawn, so that intervals over seeds have no width and say nothing; take one seed",
    )


def _all_equal(cells: Cells, axis: str) -> bool:
    """Tell whether every number of every cell is the same along an axis."""
    if len(cells.axes.get(axis, ())) < 2 or not cells.ok.all():
        return False
    names = [*FIRST, *(n for n in cells.names if n not in (*FIRST, NO_RESULT))]
    return all(_constant(cells, name, axis) for name in names)


def _constant(cells: Cells, name: str, axis: str) -> bool:
    array = cells.number(name)
    first = array.take([0], axis=list(cells.axes).index(axis))
    return bool(((array == first) | (np.isnan(array) & np.isnan(first))).all())


def idle_tier(cells: Cells) -> ResultWarning | None:
    """Warn of CPU tiers from which no block ever comes back."""
    sizes = cells.settings(lambda scenario: scenario.cache.cpu_blocks)
    if sizes is None:
        return None
    tiers = cells.ok & (sizes.astype(np.int64) > 0)
    if not (cells.number("reloads")[tiers] == 0).all():
        return None
    found = seen(cells, tiers, cells.number("offloads"))
    if found is None:
        return None
    moved = found.value("offloads")
    there = f"at most {number(moved)} go there" if moved > 0 else "none goes there"
    return found.warning(
        "idle-tier",
        f"no block ever comes back from the CPU tier{found.share} ({there}): "
        f"these cells say nothing of its worth; take {_used_tier(found)}",
    )


def _used_tier(found: Seen) -> str:
    """Tell what gives a tier something to do, but not what is so already."""
    scenario = found.cells.scenario(found.worst)
    if scenario and has_roles(scenario.cluster) and fleet(scenario)[0].cpu_blocks == 0:
        return "a tier of the prefill side, as a decode instance pulls before it loads"
    if scenario and scenario.cache.offload == "watermark":
        return "fewer gpu_blocks, prompts that recur, or cache.offload = 'write-through'"
    return "fewer gpu_blocks or prompts that recur"
