"""What can be found, the key that is searched for it, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvsweep.config.axes import RATES
from kvsweep.config.effects_of_keys import unread
from kvsweep.errors import InputError, clip
from kvsweep.search.problem import is_whole

if TYPE_CHECKING:
    from kvsweep.config import Sweep

FACTOR = 16
"""Without an axis it is looked so many times below and above what the sweep has."""

INSTANCES = (1, 64)

Values = tuple[int | float, int | float]


@dataclass(frozen=True)
class Kind:
    """What can be found: keys of the scenario, of which the first that fits is taken."""

    goal: str
    keys: tuple[str, ...]
    generous_high: bool


KINDS = {
    "blocks": Kind("smallest", ("cache.gpu_blocks",), generous_high=True),
    "instances": Kind("smallest", ("cluster.instances",), generous_high=True),
    "rate": Kind("highest", RATES, generous_high=False),
}


def find_key(sweep: Sweep, kind: Kind, find: str) -> str:
    """Return the key that is searched; of a trace the rate is a factor.

    Raises
    ------
    InputError
        If there is no rate, or factors of traces beside rates.
    """
    for key in kind.keys:
        if any(axis.key == key for axis in sweep.axes):
            return key
    workloads = [scenario.workload for scenario in sweep.probes()]
    of_trace = [bool(workload and workload.trace) for workload in workloads]
    if find != "rate" or not any(of_trace):
        if find == "rate" and any(w is None or w.rate is None for w in workloads):
            raise InputError(
                f"{sweep.source.label}: --find rate: the workload has no rate, but a concurrency"
            )
        return kind.keys[0]
    if not all(of_trace):
        raise InputError(
            f"{sweep.source.label}: --find rate: some workloads are traces, others are drawn; "
            "search them apart (--set policy=...)"
        )
    return kind.keys[1]


def check_read(sweep: Sweep, key: str, find: str) -> None:
    """Refuse to search along a factor of a rate that some scenario has not.

    Raises
    ------
    InputError
        Saying what the scenario lacks.
    """
    rules = (unread(scenario, ("workload", "scale")) for scenario in sweep.probes())
    if key == "workload.scale" and (rule := next(filter(None, rules), None)):
        raise InputError(
            f"{sweep.source.label}: --find {find}: {key}: has no effect: needs {rule.needs}"
        )


def find_range(sweep: Sweep, key: str, between: str | None) -> Values:
    """Return the ends of the range: those given, of the axis, or wide around what the sweep has.

    Raises
    ------
    InputError
        If what is given is no range.
    """
    whole = is_whole(key)
    if between is not None:
        return _parse_range(between, whole)
    axis = next((a for a in sweep.axes if a.key == key), None)
    if axis is not None:
        return min(axis.values), max(axis.values)
    if key == "cluster.instances":
        return INSTANCES
    section, name = key.split(".")
    own = [getattr(getattr(scenario, section), name) for scenario in sweep.probes()]
    low, high = min(own) / FACTOR, max(own) * FACTOR
    return (max(1, round(low)), round(high)) if whole else (float(low), float(high))


def _parse_range(text: str, whole: bool) -> Values:
    low, colon, high = text.partition(":")
    kind = int if whole else float
    try:
        values = kind(low), kind(high)
    except ValueError:
        values = (0, 0)
    largest = 2.0**53
    if not colon or not 0 < values[0] < values[1] < largest:
        numbers = "whole numbers" if whole else "numbers"
        raise InputError(
            f"--between {clip(text)}: expected LOW:HIGH, two {numbers} above 0, the lower first, "
            "as in 1:64"
        )
    return values
