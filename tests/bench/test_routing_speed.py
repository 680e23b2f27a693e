"""What routing costs: 20,000 requests under several policies, in turns in one process."""

import numpy as np
from bench_cases import conversations, conversations_scenario, generated, h8_scenario, lanes
from measuring import times_in_turns

from kvsweep.simulate.workspace import allocate_outputs

REQUESTS = 20_000
DEFAULT = {"prefix-affinity": 3.0, "queue-depth": 2.0, "kv-utilization": 2.0}
PRECISE = {"precise-prefix": 3.0, "queue-depth": 2.0, "kv-utilization": 2.0}
POLICIES = {
    "round-robin": ("round-robin", {}),
    "least-loaded": ("least-loaded", {}),
    "weighted": ("weighted", DEFAULT),
    "weighted, precise-prefix": ("weighted", PRECISE),
    "sticky": ("sticky", {}),
}
MOST_RATIO_TO_ROUND_ROBIN = 2.0
MOST_NS_PER_SCORE = 25.0


def routed(scenario, routing, scorers, instances):
    """Return a scenario with another routing."""
    changes = {"routing": routing, "instances": instances} | (
        {"scorers": scorers} if scorers else {}
    )
    return scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update=changes)})


def ns_per_request(scenario, lists, instances, repeats):
    """Return nanoseconds per request by policy, and their ratios to the first.

    A ratio is the median of those of single turns: the speed of a shared machine changes by half
    from one second to the next.
    """
    batches = {}
    for name, policy in POLICIES.items():
        inputs = lanes(routed(scenario, *policy, instances), lists)
        batches[name] = (inputs, allocate_outputs(inputs))
    times = times_in_turns(batches, repeats)
    assert all((outputs.tallies["status"] == 0).all() for _, outputs in batches.values())
    requests = sum(len(requests) for requests in lists)
    base = next(iter(times.values()))
    ratios = {name: float(np.median(seconds / base)) for name, seconds in times.items()}
    return {name: 1e9 * seconds.min() / requests for name, seconds in times.items()}, ratios


def test_weighted_routing_against_round_robin(tables, smoke):
    count, repeats = (400, 1) if smoke else (REQUESTS, 15)
    steady = h8_scenario(5_000, requests=count, rate=80.0)
    burst = h8_scenario(5_000, requests=count, rate=2000.0)
    seeds = range(1 if smoke else 2)
    loads = {
        "80 requests/s": (steady, generated(steady, seeds)),
        "2,000 requests/s": (burst, generated(burst, seeds)),
        "conversations": (
            conversations_scenario(5_000),
            [conversations(seed, requests=count) for seed in seeds],
        ),
    }
    rows = []
    for load, (scenario, lists) in loads.items():
        times, ratios = ns_per_request(scenario, lists, 4, repeats)
        rows += [(load, name, f"{ns:.0f}", f"{ratios[name]:.2f}") for name, ns in times.items()]
        assert smoke or ratios["weighted"] <= MOST_RATIO_TO_ROUND_ROBIN
    tables.add(
        "Routing on 4 instances",
        ("load", "routing", "ns per request", "ratio"),
        rows,
        f"{count:,} requests; everything that a request costs, with the default scorers.",
    )


def test_many_instances(tables, smoke):
    count, repeats = (400, 1) if smoke else (REQUESTS, 5)
    rows = []
    for rate in (1_280.0, 20_000.0):
        scenario = h8_scenario(5_000, requests=count, rate=rate)
        lists = generated(scenario, range(1 if smoke else 2))
        times, _ = ns_per_request(scenario, lists, 64, repeats)
        for name, ns in times.items():
            scorers = len(POLICIES[name][1])
            per_score = f"{ns / 64 / scorers:.1f}" if scorers else ""
            rows.append((f"{rate:,.0f}", name, f"{ns:.0f}", per_score))
            assert smoke or not scorers or ns / 64 / scorers <= MOST_NS_PER_SCORE
    tables.add(
        "Routing on 64 instances",
        ("requests/s", "routing", "ns per request", "ns per request, instance and scorer"),
        rows,
        f"{count:,} requests; everything that a request costs, divided by 64 x 3.",
    )
