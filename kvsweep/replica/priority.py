"""Request priorities and wait-queue orders of the reference."""

from collections import deque
from collections.abc import Callable

from kvsweep.replica.request import Request

Priority = Callable[[Request, int], float]
"""Priority of a request at a time (microseconds); what it means is the scheduler's affair."""

Scheduler = Callable[[deque[Request]], deque[Request]]
"""The wait queue in the order in which it will be served."""

AGE_WEIGHT = 1e-6
SLO_PRIORITY = {"critical": 10.0, "batch": 1.0}
OTHER_SLO_PRIORITY = 5.0


def _constant(request: Request, now: int) -> float:
    """All equal."""
    return 0.0


def _slo_based(request: Request, now: int) -> float:
    """Grows with the age of the request."""
    return AGE_WEIGHT * (now - request.arrival)


def _inverted_slo(request: Request, now: int) -> float:
    """Falls with the age of the request: starves the old, on purpose."""
    return -AGE_WEIGHT * (now - request.arrival)


def _slo_class(request: Request, now: int) -> float:
    """Critical before all others before batch."""
    return SLO_PRIORITY.get(request.slo_class, OTHER_SLO_PRIORITY)


PRIORITIES: dict[str, Priority] = {
    "constant": _constant,
    "slo-based": _slo_based,
    "inverted-slo": _inverted_slo,
    "slo-class": _slo_class,
}


def _fcfs(waiting: deque[Request]) -> deque[Request]:
    """As queued; a preempted request stands in front."""
    return waiting


def _priority_fcfs(waiting: deque[Request]) -> deque[Request]:
    """Highest priority first, then by arrival."""
    return deque(sorted(waiting, key=lambda r: (-r.priority, r.arrival, r.name)))


def _reverse_priority(waiting: deque[Request]) -> deque[Request]:
    """Lowest priority first, then by arrival: a pathological order, on purpose."""
    return deque(sorted(waiting, key=lambda r: (r.priority, r.arrival, r.name)))


def _sjf(waiting: deque[Request]) -> deque[Request]:
    """Shortest prompt first, then by arrival."""
    return deque(sorted(waiting, key=lambda r: (r.prompt_tokens, r.arrival, r.name)))


SCHEDULERS: dict[str, Scheduler] = {
    "fcfs": _fcfs,
    "priority-fcfs": _priority_fcfs,
    "sjf": _sjf,
    "reverse-priority": _reverse_priority,
}
