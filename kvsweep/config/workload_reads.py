"""What scenarios read of the keys of their workload, its clients and its sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kvsweep.config.lengths import Constant, Empirical
from kvsweep.config.pool_reads import Reads

if TYPE_CHECKING:
    from kvsweep.config.scenario import Scenario
    from kvsweep.config.sessions import Sessions

_SHAPED = ("gamma", "weibull")


def clients_of(scenario: Scenario) -> Any:
    """Return the clients of a workload; none if it has none."""
    return scenario.workload.clients if scenario.workload else ()


def taken_from_workload(key: str) -> Reads:
    """Return whether somebody takes a key from the workload that clients may have themselves."""

    def reads(scenario: Scenario, client: int | None) -> bool:
        clients = clients_of(scenario)
        return not clients or any(getattr(c, key) is None for c in clients)

    return reads


def spreads(scenario: Scenario) -> bool:
    """Return whether gaps between arrivals matter: not the order of one sender's requests."""
    workload = scenario.workload
    return workload is None or workload.rate is not None or len(workload.clients) > 1


def takes_arrivals(scenario: Scenario, client: int | None) -> bool:
    """Return whether somebody takes the arrivals of the workload, and gaps between them matter."""
    return spreads(scenario) and taken_from_workload("arrivals")(scenario, client)


def takes_cv(scenario: Scenario, client: int | None) -> bool:
    """Return whether somebody takes the spread of gaps of the workload, and has such gaps."""
    workload = scenario.workload
    if not spreads(scenario):
        return False
    if workload is None or not workload.clients:
        return workload is None or workload.arrivals in _SHAPED
    inheriting = [c for c in workload.clients if c.cv is None]
    return any((c.arrivals or workload.arrivals) in _SHAPED for c in inheriting)


def has_cv(scenario: Scenario, client: int | None) -> bool:
    """Return whether a client's gaps have a spread of their own."""
    workload = scenario.workload
    assert workload is not None
    assert client is not None
    process = workload.clients[client].arrivals or workload.arrivals
    return process in _SHAPED and spreads(scenario)


def _owner(scenario: Scenario, client: int | None) -> Any:
    """Return the client of this number, or the workload."""
    return scenario.workload if client is None else clients_of(scenario)[client]


def clamps(lengths: str, bound: str) -> Reads:
    """Return whether a bound changes any length of a distribution with known values."""

    def reads(scenario: Scenario, client: int | None) -> bool:
        drawn = getattr(_owner(scenario, client), lengths)
        if isinstance(drawn, Constant | Empirical):
            values = (drawn.value,) if isinstance(drawn, Constant) else drawn.values
            limit = getattr(drawn, bound)
            return limit is None or (min(values) < limit if bound == "min" else limit < max(values))
        return True

    return reads


def in_sessions(condition: Callable[[Sessions], bool]) -> Reads:
    """Return whether there are sessions of several rounds of which a condition holds."""

    def reads(scenario: Scenario, client: int | None) -> bool:
        sessions = getattr(_owner(scenario, client), "sessions", None)
        return sessions is not None and sessions.rounds > 1 and condition(sessions)

    return reads


def is_thoughtless(scenario: Scenario, client: int | None) -> bool:
    """Return whether nobody thinks between rounds."""
    sessions = getattr(_owner(scenario, client), "sessions", None)
    return sessions is None or sessions.think_time_s == 0


def copies(scenario: Scenario, client: int | None) -> bool:
    """Return whether a trace's requests are copied."""
    workload = scenario.workload
    return workload is not None and (workload.repeat > 1 or workload.loop > 1)


def repeats(scenario: Scenario, client: int | None) -> bool:
    """Return whether a trace is there several times at once."""
    return scenario.workload is not None and scenario.workload.repeat > 1


def has_times(scenario: Scenario, client: int | None) -> bool:
    """Return whether a trace's requests, or sessions, have times, as far as settings tell."""
    read = None if scenario.workload is None else scenario.workload.read
    return read is None or (read.arrivals != "at-once" and read.lanes is None)


def scales(scenario: Scenario, client: int | None) -> bool:
    """Return whether requests of a trace arrive at several times, as far as settings tell."""
    workload = scenario.workload
    spread = workload is not None and workload.repeat_spread_s > 0
    return has_times(scenario, client) or (repeats(scenario, client) and spread)
