"""The cluster: arrivals, admission and routing over several instances, and the run of a trace.

Clients that wait for an answer before they go on (closed loop): a request that comes *after*
another arrives when the client has seen that one's last token, which is the end of the step that
sampled it plus ``int(alpha[2])``, and has thought about it for ``think_us``. If the other request
is dropped, rejected or given up, this one never arrives, nor does what comes after it.

What a step finishes is certain when it starts, and so are the arrivals that it makes. Of all
arrivals, those of the trace and those made, admission is decided ``admission_latency_us`` later,
and whoever is let in is routed ``routing_latency_us`` after that. At equal times admissions come
first, then routings, each by id, then what happens at the instances: a router sees what happened
strictly earlier. Whoever is rejected is not routed and takes no turn of `round-robin`.

With a `concurrency` of N at most N requests are under way. Requests are sent in the order of the
trace: each at its ``arrival_us`` or, if that is later, as soon as one of those under way is over.
That is when its last token is seen, or when it is rejected, or dropped (an error is answered too).
The arrival is the sending. As for the closed loop, these times are certain beforehand.

A client gives up (``timed_out``) when its request is about to be tried for its first admission in a
step that starts later than its arrival + ``patience_us``; in the same step the next request is
tried. That is looked at only where an admission may be tried at all: there is budget and a seat
left, and nobody was preempted. Until then the request waits, and counts as load and as waiting,
also for the rule that a request alone is not capped by ``long_prefill_token_threshold``. A step
that would have nothing else to do does not take place.
"""

import heapq
from dataclasses import dataclass, field, replace
from math import inf

from .admission import admission
from .explicit.instance import ExplicitInstance
from .explicit.request import KeysAhead
from .instance import Instance, StepLimit
from .offload import OffloadInstance
from .request import BlockKeys
from .routing import Router
from .tiered import TieredInstance

ADMISSION, ROUTING = 0, 1


@dataclass
class Result:
    """Requests in trace order, instances in the order of their indices.

    `transfers` from prefill to decode instances are [id, tokens, submitted, start, end]; of these
    `failed_pulls` failed, and `expired_leases` ended before their blocks were pulled.
    """

    requests: list
    instances: list
    transfers: list = field(default_factory=list)
    expired_leases: int = 0
    failed_pulls: int = 0


class Cluster:
    """Instances, and the requests on their way to them.

    Attributes
    ----------
    calendar : heap of (time, ADMISSION or ROUTING, id, request)
        Decisions to come about arrivals that are known.
    """

    def __init__(self, requests, scenario, check):
        # With a connector vLLM keeps the keys of other engines, and hits a block less.
        connects = scenario.cluster.of_role("prefill") is not None or scenario.cache.connects
        ahead = scenario.engine.looks_ahead and not connects
        self.keys = (KeysAhead if ahead else BlockKeys)(scenario.cache.block_size)
        # Runs that end take about one step per token at most; where urgent requests make others
        # begin anew, a few (the kernel's limit is wider there, for long lists).
        max_steps = 20 * sum(r.longest for r in requests) + 1000
        self.cluster, self.latency = scenario.cluster, scenario.latency
        self.requests = requests
        self.followers = {r.after: r for r in requests if r.after is not None}
        self.max_steps, self.check = max_steps, check
        self.instances = self._instances(scenario)
        self.admission = admission(self.cluster)
        self.router = Router(self._routed(), scenario.cache.block_size)
        self.calendar = []
        # Times at which a request may be sent: places among those under way that are, or get, free.
        self.places = [0] * (scenario.concurrency or len(requests))
        self.limited = scenario.concurrency is not None
        self.unsent = [r for r in requests if r.after is None]

    def _instances(self, scenario):
        connects = scenario.cache.connects
        engine = OffloadInstance if connects else Instance
        if scenario.is_explicit:
            engine = TieredInstance if connects else ExplicitInstance
        settings = [
            scenario.of_pool(pool)
            for pool in self.cluster.pools or [{"instances": self.cluster.instances}]
            for _ in range(pool["instances"])
        ]
        return [
            engine(i, one, self.keys, self.max_steps, self.check) for i, one in enumerate(settings)
        ]

    def _routed(self):
        """Return the settings of the cluster with the instances among which a router chooses."""
        return replace(self.cluster, instances=len(self.instances))

    def _send(self):
        """Let those requests arrive that are sent before anything else happens, in their order."""
        while self.unsent and self.places:
            sent_us = max(self.unsent[0].arrival_us, self.places[0])
            instance, decided_us = self._next()
            if sent_us > min(decided_us, instance.next_event()):
                break
            heapq.heappop(self.places)
            self._arrive(self.unsent.pop(0), sent_us)

    def _over(self, time):
        """Let another request be sent from `time` on."""
        if self.limited:
            heapq.heappush(self.places, time)

    def _next(self):
        """Return the instance that does something next, and the time of the next decision."""
        instance = min(self.instances, key=lambda each: each.turn())
        return instance, self.calendar[0][0] if self.calendar else inf

    def run(self):
        """Do everything in order of time, admissions and routings first; return the result."""
        while True:
            self._send()
            instance, decided_us = self._next()
            if min(decided_us, instance.next_event()) == inf:
                break
            if decided_us <= instance.next_event():
                now, stage, _, request = heapq.heappop(self.calendar)
                if stage == ADMISSION:
                    self._admit(request, now)
                else:
                    self._route(request, now)
                continue
            instance.proceed()
            self._after(instance)
            for finish_us, request in instance.finishing:
                self._answer(request, finish_us)
        self._conclude()
        for request in self.requests:
            if request.arrival_us is None:
                request.status = "not_arrived"
            elif request.status is None:
                raise StepLimit(f"request {request.id} waits for ever")
        assert all(request.status for request in self.requests)
        return Result(self.requests, self.instances)

    def _after(self, instance):
        """Let what an instance has just done reach other instances: here nothing does."""

    def _conclude(self):
        """Once nothing happens any more, settle what became of the requests: it is settled."""

    def _arrive(self, request, arrival_us):
        request.arrival_us = arrival_us
        self._decide(ADMISSION, request, arrival_us + self.cluster.admission_latency_us)

    def _decide(self, stage, request, time):
        heapq.heappush(self.calendar, (time, stage, request.id, request))

    def _answer(self, request, finish_us):
        """Let the request arrive that its client sends after this one."""
        self._over(finish_us + self.latency.overhead_us)
        follower = self.followers.get(request.id)
        if follower:
            self._arrive(follower, finish_us + self.latency.overhead_us + follower.think_us)

    def _admit(self, request, now):
        if self.admission.admit(request, now):
            self._decide(ROUTING, request, now + self.cluster.routing_latency_us)
        else:
            request.status = "rejected"
            self._over(now)

    def _route(self, request, now):
        self.keys.extend(request.keys, request.known)
        chosen = self.router.choose(request, self.instances, now)
        entry_us = now + self.latency.queueing_us(request.prompt_tokens)
        self.instances[chosen].expect(request, entry_us)
        if not self.instances[chosen].scheduler.servable(request):
            self._over(entry_us)
