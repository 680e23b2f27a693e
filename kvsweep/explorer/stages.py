"""What is simulated next: few sizes and seeds first, then more until the answer is narrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

COARSE = 20
"""Points of the first answer, evenly chosen."""

FIRST_SEEDS = 10
"""Seeds of the first answer."""

QUICK = (7, 3)
"""Points and seeds of an answer before that, where `FIRST_SEEDS` take longer than `SOON`."""

SOON = 0.12
"""Seconds within which a first answer is wanted."""

MOST_POINTS = 101
"""Points of an axis that are looked at; of a longer one so many, evenly chosen."""

MOST_SEEDS = 128
"""Seeds with which refining ends, if the sweep has not more; as a search's `--max-seeds`."""

NARROW = 0.01
"""Half width of an interval, relative to its cliff, that is narrow; as a search's `--tolerance`."""


@dataclass(frozen=True)
class Stage:
    """Points of the axis, by position, and how many seeds each is to have."""

    points: tuple[int, ...]
    seeds: int


def spread(count: int, wanted: int) -> tuple[int, ...]:
    """Return at most so many positions of `count`, evenly, with both ends."""
    return tuple(np.unique(np.linspace(0, count - 1, min(count, wanted)).round()).astype(int))


def stages(points: int, seeds: int, cost: float | None) -> Iterator[Stage]:
    """Yield what to simulate, each stage with all that the one before had.

    Parameters
    ----------
    points : int
        Points of the axis.
    seeds : int
        Most seeds.
    cost : float or None
        Seconds of a simulation, as the last ones took; None: not known.
    """
    coarse, full = spread(points, COARSE), tuple(range(points))
    first = min(FIRST_SEEDS, seeds)
    if cost is None or cost * len(coarse) * first > SOON:
        yield Stage(spread_within(coarse, QUICK[0]), min(QUICK[1], seeds))
        yield Stage(coarse, min(QUICK[1], seeds))
    count = first
    yield Stage(coarse, count)
    yield Stage(full, count)
    while count < seeds:
        count = min(2 * count, seeds)
        yield Stage(full, count)


def spread_within(points: tuple[int, ...], wanted: int) -> tuple[int, ...]:
    """Return at most so many of some points, evenly, with both ends."""
    return tuple(points[place] for place in spread(len(points), wanted))
