"""The cluster: admission, routing, and the run of a whole trace."""

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
    keys = BlockKeys(scenario.cache.block_size)
    requests = [
        Request.of(i, row, scenario.engine.priority) for i, row in enumerate(trace["requests"])
    ]
    # Runs that end take about one step per token at most.
    max_steps = 20 * sum(r.longest for r in requests) + 1000
    instances = [
        Instance(i, scenario, keys, max_steps, check) for i in range(scenario.cluster.instances)
    ]
    # The latencies before routing are the same for all, so routing keeps the order of arrival.
    order = sorted(requests, key=lambda r: (r.arrival_us, r.id))
    if scenario.cluster.admission == "reject-all":
        for request in order:
            request.status = "rejected"
    else:
        _route_all(order, instances, scenario)
    for instance in instances:
        instance.advance(before=inf)
    assert all(request.status for request in requests)
    return Result(requests, instances)


def _route_all(order, instances, scenario):
    """Route each request, seeing what happened strictly earlier than its routing time."""
    cluster = scenario.cluster
    for turn, request in enumerate(order):
        routed_us = request.arrival_us + cluster.admission_latency_us + cluster.routing_latency_us
        for instance in instances:
            instance.advance(before=routed_us)
        if cluster.routing == "round-robin":
            chosen = instances[turn % len(instances)]
        else:
            # min() returns the first of equals.
            chosen = min(instances, key=lambda instance: instance.load)
        queueing_us = scenario.latency.queueing_us(request.prompt_tokens)
        chosen.expect(request, routed_us + queueing_us)
