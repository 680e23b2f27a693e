"""The kernel equals the naive twin, decision by decision, on traces made to provoke trouble."""

import random

import explicit_traces
import pytest
import strategies
import twin
from hypothesis import given

from kvsweep.policies import (
    Admission,
    Eviction,
    Offload,
    Priority,
    RequestStatus,
    Routing,
    Scheduler,
    Scorer,
    TierEviction,
    Victim,
)


def test_the_random_traces_have_every_policy():
    traces = [strategies.random_trace(random.Random(seed)) for seed in range(300)]
    drawn = [trace["scenario"]["cluster"] for trace in traces]
    assert {cluster["routing"] for cluster in drawn} == set(Routing.labels_of("vllm"))
    assert {cluster["admission"] for cluster in drawn} == set(Admission.labels_of("vllm"))
    caches = [trace["scenario"]["cache"] for trace in traces]
    evictions = {cache["eviction"] for cache in caches if "eviction" in cache}
    assert evictions == set(Eviction.labels_of("vllm"))
    scorers = {name for cluster in drawn for name in cluster["scorers"]}
    assert scorers == set(Scorer.labels_of("vllm"))


def test_the_random_traces_have_every_policy_of_engines_and_tiers():
    drawn = []
    for seed in range(300):
        options = {"asynchronous": seed % 2, "beyond": True, "offload": seed % 3 == 0}
        drawn.append(strategies.random_trace(random.Random(seed), **options)["scenario"])
    for key, family in (("scheduler", Scheduler), ("priority", Priority), ("victim", Victim)):
        found = {each["engine"][key] for each in drawn if key in each["engine"]}
        assert found | {"fcfs", "constant", "last"} >= set(family.labels_of("vllm")), key
    for key, family in (("offload", Offload), ("offload_eviction", TierEviction)):
        found = {each["cache"][key] for each in drawn if key in each["cache"]}
        assert found >= set(family.labels_of("vllm")), key


@given(strategies.traces(closed_loop=True, asynchronous=True, beyond=True))
def test_kernel_equals_twin(trace):
    assert list(twin.differences(trace)) == []


def test_unservable_requests_are_dropped_before_a_router_looks():
    """In closed loop, a step under way hid from the router who had been dropped meanwhile."""
    # Request 3 enters instance 1, and is dropped, at 25: request 4 goes there and not to 0.
    prompts = [(0, 3), (0, 3), (1, 3), (20, 500), (50, 3)]
    rows = [
        {"id": i, "arrival_us": at, "prompt": [[i, tokens]], "output": [9 + i, 5]}
        for i, (at, tokens) in enumerate(prompts)
    ]
    rows.append({"id": 5, "arrival_us": 50, "prompt": [[5, 3]], "output": [20, 1], "after": 0})
    cluster = {"instances": 2, "routing": "least-loaded"}
    latency = {"alpha": [5, 0, 0], "beta": [100, 0, 0]}
    scenario = {"cluster": cluster, "latency": latency, "cache": {"gpu_blocks": 8}}
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}
    assert list(twin.differences(trace)) == []
    progress = twin.run_kernel(trace).outputs.progress
    assert progress["instance"].tolist() == [0, 1, 0, 1, 1, 0]


def test_a_request_that_begins_to_decode_wakes_a_refused_head():
    """A head that lacks blocks is not tried again until a request may fill a block that it hits.

    Request 1 continues the answer that request 0 is about to decode, and is refused while that one
    still prefills. It fits once enough of the answer is there. One random trace in a thousand
    shows this.
    """
    prompts = [[[0, 12]], [[0, 12], [1, 33], [2, 1]]]
    rows = [
        {"id": i, "arrival_us": 0, "prompt": prompt, "output": output}
        for i, (prompt, output) in enumerate(zip(prompts, ([1, 33], [3, 2]), strict=True))
    ]
    cache = {"block_size": 8, "gpu_blocks": 6}
    scenario = {"cache": cache, "latency": {"beta": [1000, 0, 0]}}
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}
    assert list(twin.differences(trace)) == []
    progress = twin.run_kernel(trace).outputs.progress
    assert progress["scheduled"][1] < progress["finish"][0]


def test_a_head_that_gives_up_wakes_the_next_one():
    """No random trace shows this.

    Request 2 is refused for blocks, and gives up at 3 ms. Request 3 is then tried, and refused for
    the budget: it may not be split. At 6 ms request 0 fills a block that it hits, so it fits.
    """
    rows = [
        {"id": 0, "arrival_us": 0, "prompt": [[0, 2]], "output": [1, 10]},
        {"id": 1, "arrival_us": 0, "prompt": [[6, 2]], "output": [7, 10]},
        {"id": 2, "arrival_us": 0, "prompt": [[2, 11]], "output": [3, 1], "patience_us": 2500},
        {"id": 3, "arrival_us": 0, "prompt": [[0, 2], [1, 8], [4, 2]], "output": [5, 1]},
    ]
    engine = {"enable_chunked_prefill": False, "max_num_batched_tokens": 13, "max_num_seqs": 4}
    cache = {"block_size": 8, "gpu_blocks": 3}
    scenario = {"engine": engine, "cache": cache, "latency": {"beta": [1000, 0, 0]}}
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}
    assert list(twin.differences(trace)) == []
    assert twin.run_kernel(trace).outputs.progress["scheduled"].tolist() == [0, 0, -1, 6000]


@pytest.mark.parametrize("block", range(10))
def test_kernel_equals_twin_on_longer_traces(block):
    for seed in range(20 * block, 20 * block + 20):
        trace = strategies.random_trace(
            random.Random(seed), 60, closed_loop=True, asynchronous=True, beyond=True
        )
        assert (seed, list(twin.differences(trace))) == (seed, [])


def limited(trace, rng):
    """Let the engine of a trace refuse its longest requests."""
    engine = trace["scenario"]["engine"]
    pools = trace["scenario"]["cluster"].get("pools", [])
    totals = [sum(n for _, n in row["prompt"]) + row["output"][1] for row in trace["requests"]]
    own = [pool.get("max_model_len", 1) for pool in pools]
    least = max(engine["long_prefill_token_threshold"], *own, 1)
    engine["max_model_len"] = max(rng.choice(totals) + rng.choice([0, -1]), least)
    if not engine["enable_chunked_prefill"]:
        for step in [engine, *pools]:
            if "max_num_batched_tokens" in step:
                budget = max(step["max_num_batched_tokens"], engine["max_model_len"])
                step["max_num_batched_tokens"] = budget
    return trace


FAMILIES = {
    "plain": lambda rng: strategies.random_trace(rng, 20, closed_loop=True, beyond=True),
    "async": lambda rng: strategies.random_trace(rng, 20, asynchronous=True),
    "vLLM's tier": lambda rng: strategies.random_trace(rng, 20, offload=True, asynchronous=True),
    "groups": lambda rng: explicit_traces.random_trace(rng, ("groups",), 20, closed_loop=True),
    "pools": lambda rng: explicit_traces.random_trace(rng, ("pools",), 20),
    "roles": lambda rng: explicit_traces.random_trace(rng, ("roles",), 20),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_requests_longer_than_the_engine_takes_are_dropped(family):
    dropped = 0
    for seed in range(40):
        rng = random.Random(f"{family}/{seed}")
        trace = limited(FAMILIES[family](rng), rng)
        assert (seed, list(twin.differences(trace))) == (seed, [])
        longest = trace["scenario"]["engine"]["max_model_len"]
        status = twin.run_kernel(trace).outputs.request_status
        for number, row in enumerate(trace["requests"]):
            if sum(n for _, n in row["prompt"]) + row["output"][1] > longest:
                assert status[number] != RequestStatus.COMPLETED
                dropped += status[number] == RequestStatus.DROPPED_UNSERVABLE
    assert dropped > 40
