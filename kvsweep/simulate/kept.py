"""What is remembered of scenarios between batches, as a sweep asks for the same ones again."""

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from ..config import Scenario

MOST_KEPT = 4
"""Batches of scenarios that are remembered. The tasks of a sweep take a few in turns."""

_T = TypeVar("_T")


def kept(
    function: Callable[[tuple[Scenario, ...]], _T],
) -> Callable[[tuple[Scenario, ...]], _T]:
    """Remember what a function of scenarios, told by their identity, returned for the last few.

    Scenarios cannot change, and what is remembered holds them, so an identity stays theirs.
    """
    known: OrderedDict[tuple[int, ...], tuple[tuple[Scenario, ...], _T]] = OrderedDict()

    @wraps(function)
    def remembering(scenarios: tuple[Scenario, ...]) -> _T:
        key = tuple(map(id, scenarios))
        entry = known.get(key)
        if entry is None:
            entry = known[key] = scenarios, function(scenarios)
            while len(known) > MOST_KEPT:
                known.popitem(last=False)
        return entry[1]

    return remembering
