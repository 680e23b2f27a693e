"""Routing alone: choices equal to the naive router's and to the reference simulator's."""

import random

import goldens
import naive.routing
import numpy as np
import pytest
import routers
import strategies
import twin
from hypothesis import given
from hypothesis import strategies as st
from longer import long_but
from naive.request import BlockKeys, Request
from naive.scenario import Scenario

from kvsweep.config import parse_scenario
from kvsweep.replica import run, runner
from kvsweep.workload.traces import load_trace

FOLDER = goldens.FOLDER / "blis"
# What the router sees, by name: few values, so that there are ties, and scores beyond 0 and 1.
SEEN = {
    "load": (0, 1, 2, 5),
    "utilization": (0.0, 0.1, 1 / 3, 0.9, 1.0),
    "transfer": (0, 0, 700, 20_000),
    "thrashing": (0.0, 0.01, 0.3),
}


def naive_choices(trace, seen):
    """Yield whom the naive router chooses."""
    scenario = Scenario.of(**trace["scenario"])
    keys = BlockKeys(scenario.cache.block_size)
    router = naive.routing.Router(scenario.cluster, scenario.cache.block_size)
    for i, row in enumerate(trace["requests"]):
        request = Request.of(i, row, "constant")
        keys.extend(request.keys, request.known)
        for number, view in enumerate(router.views):
            values = [seen[name][i][number].item() for name in SEEN]
            view.load, view.utilization, view.transfer_us, view.thrashing = values
        yield router.decide(request, router.views)


def both_choices(trace, seed):
    """Return whom the kernel and the naive router choose where they see the same at random."""
    loaded = load_trace(trace)
    scenario = parse_scenario(loaded.scenario, "trace")
    shape = len(loaded.requests), scenario.cluster.instances
    rng = np.random.default_rng(seed)
    seen = {name: rng.choice(values, shape) for name, values in SEEN.items()}
    chosen = routers.choose(scenario, loaded.requests, seen, times=2)
    return chosen, list(naive_choices(trace, seen))


@given(strategies.routed_traces(), st.integers(0, 99))
def test_choices_equal_the_naive_routers(trace, seed):
    chosen, expected = both_choices(trace, seed)
    assert chosen == expected


@pytest.mark.parametrize("block", long_but(range(5), 2))
def test_choices_equal_the_naive_routers_on_longer_traces(block):
    for seed in range(60 * block, 60 * block + 60):
        chosen, expected = both_choices(strategies.random_routed_trace(random.Random(seed)), seed)
        assert chosen == expected, seed


class Recorder:
    """A routing of the replica that notes what it sees at each decision."""

    def __init__(self, routing, requests):
        self.routing = routing
        self.seen = [None] * requests

    def choose(self, request, snapshots):
        self.seen[request.index] = [
            (s.load, s.utilization, s.transfer_latency, s.thrashing_rate) for s in snapshots
        ]
        return self.routing.choose(request, snapshots)


def replay(golden, monkeypatch):
    """Run a golden on the replica; return whom the kernel chooses where it sees the same."""
    recorders = []
    build = runner.scenario.build

    def build_recording(settings, keys):
        cluster = build(settings, keys)
        cluster.routing = Recorder(cluster.routing, len(golden["requests"]))
        recorders.append(cluster.routing)
        return cluster

    monkeypatch.setattr(runner.scenario, "build", build_recording)
    run(golden["scenario"], golden["requests"])
    cluster, cache = (golden["scenario"][name] for name in ("cluster", "cache"))
    blank = [(0, 0.0, 0, 0.0)] * cluster["instances"]
    seen = np.array([views or blank for views in recorders[0].seen]).transpose(2, 0, 1)
    if cluster["routing"] == "prefix-affinity":
        cluster = cluster | {"routing": "prompt-affinity"}  # the kernel's name of it
    scenario = {"cluster": cluster, "cache": {"block_size": cache["block_size"]}}
    loaded = load_trace(golden | {"scenario": scenario})
    parsed = parse_scenario(loaded.scenario, "golden")
    return routers.choose(parsed, loaded.requests, dict(zip(SEEN, seen, strict=True)))


def cases():
    """Return the names of the goldens whose router has a choice."""
    names = sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.gz"))
    names = [name for name in names if name.split("-")[0] in ("feat", "h377", "ideas")]
    large = ("ideas-A-cfg1", "ideas-A-cfg2", "ideas-A-cfg6", "ideas-B", "ideas-C-cfg1", "h377")
    return [
        pytest.param(name, marks=pytest.mark.long if name.startswith(large) else ())
        for name in names
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", cases())
def test_choices_equal_the_references(name, monkeypatch):
    """Given the states that the reference's router saw, the kernel's chooses as it did."""
    golden = goldens.load(name, "blis")
    expected = golden["expected"]["requests"]["instance"]
    chosen = replay(golden, monkeypatch)
    arrived = [r for r, index in enumerate(expected) if index >= 0]
    assert [chosen[r] for r in arrived] == [expected[r] for r in arrived]
    if golden["scenario"]["cluster"]["admission"] == "token-bucket":
        assert chosen == expected


def finishes(trace):
    """Return where each request ran and when it ended, or None of a run that never ends."""
    single = twin.run_kernel(trace)
    progress = single.outputs.progress
    columns = [
        progress[name].tolist() for name in ("instance", "finish", "cached_tokens", "preemptions")
    ]
    return columns if single.status.label == "ok" else None


@given(strategies.traces(closed_loop=True, asynchronous=True))
def test_kv_pressure_is_kv_utilization_where_nothing_is_offloaded(trace):
    """Equal to the last bit: a penalty of 0 changes no sum."""
    scenario = trace["scenario"]
    scenario["cache"]["cpu_blocks"] = 0
    found = []
    for scorer in ("kv-utilization", "kv-pressure", "kv-pressure-slo"):
        scorers = {"prefix-affinity": 0.3, scorer: 2, "queue-depth": 0.7}
        scenario["cluster"] |= {"instances": 4, "routing": "weighted", "scorers": scorers}
        found.append(finishes(trace))
    assert found[0] == found[1] == found[2]


def test_precise_prefix_changes_nothing_but_the_routing():
    """Looking publishes what is due: with a single instance nothing else may come of it."""
    for seed in range(200):
        trace = strategies.random_trace(random.Random(seed), closed_loop=True, asynchronous=True)
        cluster = trace["scenario"]["cluster"]
        cluster |= {"instances": 1, "routing": "round-robin"}
        blind = finishes(trace)
        cluster |= {"routing": "weighted", "scorers": {"precise-prefix": 1}}
        assert finishes(trace) == blind, seed
