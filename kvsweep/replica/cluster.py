"""The cluster: arrivals, admission, routing, and the order of all events."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from kvsweep.replica.admission import Admission
from kvsweep.replica.instance import Instance, InstanceEvent
from kvsweep.replica.livelock import CycleDetector
from kvsweep.replica.request import Request
from kvsweep.replica.routing import Routing, Snapshot


class Stage(IntEnum):
    """Cluster events; at the same microsecond the lower stage comes first."""

    ARRIVAL = 0
    ADMISSION = 1
    ROUTING = 2


@dataclass(slots=True)
class KvView:
    """The router's view of an instance's KV cache, and when it was taken."""

    taken_us: int = 0
    utilization: float = 0.0
    transfer_latency: int = 0
    thrashing_rate: float = 0.0


@dataclass(eq=False)
class Cluster:
    """Instances behind one router. Times are microseconds.

    Attributes
    ----------
    horizon : int or None
        No event later than this happens.
    rejected : int
        Requests turned away by admission control.
    stuck : list of bool
        Instances proven to go round in circles for ever (only without a horizon).
    """

    instances: Sequence[Instance]
    admission: Admission
    routing: Routing
    admission_latency: int = 0
    routing_latency: int = 0
    snapshot_refresh: int = 0
    horizon: int | None = None
    rejected: int = 0
    stuck: list[bool] = field(init=False)
    _calendar: list[tuple[int, Stage, int, Request]] = field(default_factory=list)
    _created: int = 0

    def __post_init__(self) -> None:
        self.stuck = [False] * len(self.instances)
        self._views = [KvView() for _ in self.instances]
        self._detectors = [CycleDetector(instance) for instance in self.instances]

    def run(self, requests: Sequence[Request]) -> None:
        """Let ``requests`` arrive, and run until nothing (useful) can happen any more."""
        for request in sorted(requests, key=lambda r: r.arrival):
            self._push(request.arrival, Stage.ARRIVAL, request)
        end = float("inf") if self.horizon is None else self.horizon
        while True:
            chosen = self._next_instance()
            local = float("inf") if chosen is None else self.instances[chosen].next_time
            arriving = self._calendar[0][0] if self._calendar else float("inf")
            if min(local, arriving) > end or min(local, arriving) == float("inf"):
                return
            if arriving <= local:
                self._run_next()
            elif chosen is not None:
                self._run_instance(chosen)

    def _next_instance(self) -> int | None:
        """Return the instance with the earliest event; on a tie the first one."""
        running = [i for i, stuck in enumerate(self.stuck) if not stuck]
        return min(running, key=lambda i: self.instances[i].next_time, default=None)

    def _run_instance(self, index: int) -> None:
        """Let the next event of an instance happen, and see whether it is stuck for good."""
        instance = self.instances[index]
        event = instance.run_next()
        alone = self.horizon is None and not self._calendar and not instance.pending
        if event is InstanceEvent.STEP and alone:
            self.stuck[index] = self._detectors[index].observe()

    def _push(self, time: int, stage: Stage, request: Request) -> None:
        """Put a cluster event on the calendar."""
        heapq.heappush(self._calendar, (time, stage, self._created, request))
        self._created += 1

    def _run_next(self) -> None:
        """Let the next cluster event happen."""
        now, stage, _, request = heapq.heappop(self._calendar)
        if stage is Stage.ARRIVAL:
            self._push(now + self.admission_latency, Stage.ADMISSION, request)
        elif stage is Stage.ADMISSION:
            self._look(now)
            if self.admission.admit(request, now):
                self._push(now + self.routing_latency, Stage.ROUTING, request)
            else:
                request.state = "rejected"
                self.rejected += 1
        else:
            request.instance = self.routing.choose(request, self._look(now))
            self.instances[request.instance].route_here(request, now)

    def _look(self, now: int) -> list[Snapshot]:
        """Return what the router sees of all instances at ``now``.

        Admission looks too, whatever its policy, so it can be what refreshes the KV figures.
        """
        return [self._snapshot(i, now) for i in range(len(self.instances))]

    def _snapshot(self, index: int, now: int) -> Snapshot:
        """Return what the router sees of an instance at ``now``."""
        instance, view = self.instances[index], self._views[index]
        if self.snapshot_refresh <= 0 or now - view.taken_us >= self.snapshot_refresh:
            view.taken_us = now
            view.utilization = instance.store.utilization
            view.transfer_latency = instance.visible_transfer_us(now)
            view.thrashing_rate = instance.store.thrashing_rate
        return Snapshot(
            queued=len(instance.batcher.waiting),
            batch=len(instance.batcher.running),
            pending=instance.pending,
            utilization=view.utilization,
            transfer_latency=view.transfer_latency,
            thrashing_rate=view.thrashing_rate,
        )
