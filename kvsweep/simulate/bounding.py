"""Bounds of lanes: no time, sum or index of the kernel leaves its integers, no memory the machine.

See `kvsweep.config.bounds` for the arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config.bounds import complain, last_clock, longest_step
from ..errors import InputError
from ..limits import MAX_WORKSPACE_BYTES
from ..records import BLOCK, EXTENT, LRU, NODE, PROGRESS, TIER

GIB = 2**30
_MAX_INDEX = 2**31 - 1


def bound_times(lanes: NDArray[Any], longest: NDArray[np.int64], prompt: NDArray[np.int64]) -> None:
    """Set ``last_clock`` of each lane, or refuse its latencies.

    Parameters
    ----------
    lanes : LANE (n,)
        Complete but for that.
    longest, prompt : int64 (n,)
        Tokens of the longest request of each lane, and of its longest prompt.

    Raises
    ------
    InputError
        If a step, a queueing delay or an overhead is too long.
    """
    clock = last_clock(lanes, lanes["requests"], longest, np.minimum)
    lanes["last_clock"] = clock
    step = longest_step(lanes, lanes["requests"], longest, np.minimum)
    delay = lanes["alpha0"] + lanes["alpha1"] * prompt
    worst = np.argmax(lanes["alpha2"] - clock)
    complain(step.max(), delay.max(), lanes["alpha2"][worst], clock[worst])


def check_workspace(sizes: Mapping[str, int]) -> None:
    """Refuse lanes that need more memory than a machine has, or indices of more than 31 bits.

    Parameters
    ----------
    sizes : dict of str to int
        What the largest lane needs of each array, as of `kernel.memory.workspace_sizes`.

    Raises
    ------
    InputError
        With the memory and what takes most of it.
    """
    entries = {
        "cache.gpu_blocks": ("blocks", BLOCK.itemsize + LRU.itemsize),
        "cache.cpu_blocks": ("tier", TIER.itemsize),
        "contents in the cache": ("extents", EXTENT.itemsize + LRU.itemsize),
        "blocks of content on each instance": ("prefix", 8),
        "contents in the router's index": ("nodes", NODE.itemsize),
        "engine.max_num_seqs": ("running", 12),
        "cache.block_size": ("phases", 8),
        "waiting requests on each instance": ("heap", 8),
        "requests": ("progress", PROGRESS.itemsize),
    }
    memory = {what: sizes[name] * each for what, (name, each) in entries.items()}
    total = sum(memory.values())
    numbered = max(sizes["lru"], sizes["tier"], sizes["nodes"])
    if total > MAX_WORKSPACE_BYTES or numbered > _MAX_INDEX:
        most = max(memory, key=memory.__getitem__)
        raise InputError(
            f"cluster.instances: a simulation would take about {total / GIB:,.0f} GiB, at most "
            f"{MAX_WORKSPACE_BYTES / GIB:,.0f} GiB and {_MAX_INDEX:,} blocks are possible; most of "
            f"it for {most}"
        )
