"""The cluster: arrivals, admission and routing over several instances, and the run of a trace.

Clients that wait for an answer before they go on (closed loop): a request that comes *after*
another arrives when the client has seen that one's last token, which is the end of the step that
sampled it plus ``int(alpha[2])``, and has thought about it for ``think_us``. If the other request
is dropped, rejected or given up, this one never arrives, nor does what comes after it.

What a step finishes is certain when it starts, and so are the arrivals that it makes. All arrivals,
those of the trace and those made, are routed in order of (routing time, id): `round-robin` takes
its turns in that order, and each sees what happened strictly earlier than its routing time.

A client gives up (``timed_out``) when its request is about to be tried for its first admission in a
step that starts later than its arrival + ``patience_us``; in the same step the next request is
tried. That is looked at only where an admission may be tried at all: there is budget and a seat
left, and nobody was preempted. Until then the request waits, and counts as load and as waiting,
also for the rule that a request alone is not capped by ``long_prefill_token_threshold``. A step
that would have nothing else to do does not take place.
"""

import heapq
from dataclasses import dataclass
from math import inf

from .instance import Instance
from .request import BlockKeys, Request
from .scenario import Scenario


@dataclass
class Result:
    """Requests in trace order, instances in the order of their indices."""

    requests: list
    instances: list


def simulate(trace, check=False):
    """Run a trace (``kvsweep-trace/1``) under the rules of vLLM.

    Parameters
    ----------
    trace : dict
        Only ``scenario`` and ``requests`` are read.
    check : bool
        Assert the invariants of `checks` after every step of every instance.

    Returns
    -------
    Result
        Lists of `request.Request` and `instance.Instance`; times in integer microseconds.

    Raises
    ------
    StepLimit
        The rules allow a livelock: under the priority scheduler, requests with equal priority and
        arrival preempt the one that has got furthest, in turns. It needs prefills over several
        steps, and blocks that neither the reservation nor the cache protects.
    """
    scenario = Scenario.of(**trace.get("scenario", {}))
    requests = [
        Request.of(i, row, scenario.engine.priority) for i, row in enumerate(trace["requests"])
    ]
    return Cluster(requests, scenario, check).run()


class Cluster:
    """Instances, and the requests on their way to them.

    Attributes
    ----------
    routings : heap of (routing time, id, request)
        Arrivals that are known and not yet routed.
    turn : int
        Requests routed so far.
    """

    def __init__(self, requests, scenario, check):
        keys = BlockKeys(scenario.cache.block_size)
        # Runs that end take about one step per token at most; where urgent requests make others
        # begin anew, a few (the kernel's limit is wider there, for long lists).
        max_steps = 20 * sum(r.longest for r in requests) + 1000
        self.cluster, self.latency = scenario.cluster, scenario.latency
        self.requests = requests
        self.followers = {r.after: r for r in requests if r.after is not None}
        self.instances = [
            Instance(i, scenario, keys, max_steps, check) for i in range(self.cluster.instances)
        ]
        self.routings = []
        self.turn = 0
        for request in requests:
            if request.after is None:
                self._arrive(request, request.arrival_us)

    def run(self):
        """Do everything in order of time, routings first; return the result."""
        while True:
            instance = min(self.instances, key=Instance.next_event)
            routed_us = self.routings[0][0] if self.routings else inf
            if min(routed_us, instance.next_event()) == inf:
                break
            if routed_us <= instance.next_event():
                self._route(*heapq.heappop(self.routings))
                continue
            instance.proceed()
            for finish_us, request in instance.finishing:
                self._answer(request, finish_us)
        for request in self.requests:
            if request.arrival_us is None:
                request.status = "not_arrived"
        assert all(request.status for request in self.requests)
        return Result(self.requests, self.instances)

    def _arrive(self, request, arrival_us):
        request.arrival_us = arrival_us
        routed_us = arrival_us + self.cluster.admission_latency_us + self.cluster.routing_latency_us
        heapq.heappush(self.routings, (routed_us, request.id, request))

    def _answer(self, request, finish_us):
        """Let the request arrive that its client sends after this one."""
        follower = self.followers.get(request.id)
        if follower:
            self._arrive(follower, finish_us + self.latency.overhead_us + follower.think_us)

    def _route(self, routed_us, _, request):
        if self.cluster.admission == "reject-all":
            request.status = "rejected"
            return
        if self.cluster.routing == "round-robin":
            chosen = self.instances[self.turn % len(self.instances)]
        else:
            # min() returns the first of equals.
            chosen = min(self.instances, key=lambda instance: instance.load)
        self.turn += 1
        chosen.expect(request, routed_us + self.latency.queueing_us(request.prompt_tokens))
