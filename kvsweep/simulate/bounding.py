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
from ..policies import Priority, Scheduler
from ..records import BLOCK, EXTENT, LRU, NODE, PROGRESS, RUN

GIB = 2**30
_MAX_INDEX = 2**31 - 1
_MAX_AGED_US = 2**61
"""Longest time, microseconds, that priority ``age`` may give a request's level."""


def last_clocks(
    lanes: NDArray[Any], longest: NDArray[np.int64], prompt: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return ``last_clock`` of each lane, or refuse its latencies.

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
    clock: NDArray[np.int64] = last_clock(lanes, lanes["requests"], longest, np.minimum)
    step = longest_step(lanes, lanes["requests"], longest, np.minimum)
    delay = lanes["alpha0"] + lanes["alpha1"] * prompt
    worst = np.argmax(lanes["alpha2"] - clock)
    complain(step.max(), delay.max(), lanes["alpha2"][worst], clock[worst])
    return clock


def step_limits(requests: NDArray[Any], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each list a number of steps of one instance that only a livelock takes.

    Under fcfs and sjf every step computes a token of the oldest unfinished request, so the known
    tokens of all requests bound the steps. The priority scheduler can livelock: requests of equal
    priority and arrival may preempt each other in turns (found by the naive twin; it takes
    prefills over several steps, no reservation and no cache).
    """
    tokens = requests["prompt"] + requests["output"]
    limits: NDArray[np.int64] = 2 * np.add.reduceat(tokens, first) + 1000
    return limits


def check_ages(lanes: NDArray[Any], largest: NDArray[np.int64]) -> None:
    """Check that aged priorities, in microseconds, stay far inside 64 bits.

    Parameters
    ----------
    lanes : LANE (n,)
        Of scenarios.
    largest : int64 (n,)
        Largest priority, either way, of a request of each lane.

    Raises
    ------
    InputError
        If the age that makes up for a priority is too long.
    """
    by_priority = lanes["scheduler"] == Scheduler.PRIORITY
    aged = by_priority & (lanes["priority"] == Priority.AGE)
    if (largest[aged] > _MAX_AGED_US // lanes["age"][aged]).any():
        raise InputError(
            f"engine.priority_age_ms: times the largest priority ({largest[aged].max()}) it must be"
            f" at most {_MAX_AGED_US / 1000:.3g} ms"
        )


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
        "cache.cpu_blocks": ("tier", RUN.itemsize),
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
