"""The first steps that take longer, beside groups, drafts, roles, pipelines and a tier."""

import gzip
import json
import random
from pathlib import Path

import batches
import explicit_traces
import pytest
import strategies
import twin

from kvsweep.simulate.kernel_cells import run_lanes
from kvsweep.simulate.workspace import allocate_outputs

OFFLOAD = "offload"
FEATURES = (
    *(*explicit_traces.FEATURES, *explicit_traces.PIPELINES, *explicit_traces.POOLED[:4]),
    *("routed roles", "leases", *explicit_traces.TIERED, "tier and pools", OFFLOAD),
)
TIMES = ((2500,), (900, 0, 70), (0, 0, 700), (3, 0, 20, 1000))
"""None so long that heads which preempt each other in a circle reach the limit of steps."""
LOGS = {"tally log_steps", "tally log_events", "tally log_transfers"}
APART = {"prefill_instances": 1, "decode_instances": 1, "kv_transfer_bandwidth": 1000.0}


def cold(rng, features=FEATURES, requests=30):
    """Return a random trace of features whose first steps take longer."""
    feature = rng.choice(features)
    if feature == OFFLOAD:
        trace = strategies.random_trace(rng, requests, True, asynchronous=True, offload=True)
    else:
        trace = explicit_traces.random_trace(rng, (feature,), requests, closed_loop=True)
    trace["scenario"]["latency"]["first_steps_us"] = list(rng.choice(TIMES))
    return trace


@pytest.mark.parametrize("feature", FEATURES)
def test_kernel_equals_twin(feature):
    rng = random.Random(f"cold/{feature}")
    for _ in range(10):
        assert list(twin.differences(cold(rng, (feature,)))) == []


def test_without_logs_all_times_are_the_same():
    rng = random.Random("cold/logs")
    for _ in range(10):
        traces = [cold(rng) for _ in range(5)]
        inputs, plain = batches.run(traces)
        inputs.lanes["log"] = 1
        logged = allocate_outputs(inputs, keep_requests=True)
        run_lanes(inputs, logged)
        for lane in range(len(traces)):
            pair = [batches.lane_results(inputs, each, lane) for each in (plain, logged)]
            left = {"tally itl_entries", "tally shortages", *LOGS}
            assert set(batches.differing(*pair)) <= left


def durations(engine, cluster=None):
    """Return the steps of a request of one token of prompt and six of output."""
    row = {"id": 0, "arrival_us": 0, "prompt": [[0, 1]], "output": [1, 6]}
    latency = {"beta": [1000, 0, 0], "first_steps_us": [7000, 0, 500, 20]}
    scenario = {"latency": latency, "engine": engine, "cluster": cluster or {"instances": 1}}
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": [row]}
    steps = twin.run_kernel(trace).outputs.steps
    return [steps["duration_us"][steps["instance"] == index].tolist() for index in (0, 1)]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_stages_share_what_a_first_step_takes_longer(asynchronous):
    engine = {"pipeline_parallel_size": 2, "async_scheduling": asynchronous}
    assert durations(engine)[0] == [8000, 1000, 1500, 1020, 1000, 1000]


def test_instances_that_prefill_and_that_decode_have_first_steps_of_their_own():
    """One that decodes computes the last token of the prompt once more."""
    assert durations({}, APART) == [[8000], [8000, 1000, 1500, 1020, 1000, 1000]]


def test_steps_that_only_wait_for_copies_are_none_of_the_first():
    """A second prompt awaits the store of the first one's blocks, which it takes."""
    rows = [
        {"id": k, "arrival_us": 10_000 * k, "prompt": [[k, 32]], "output": [10 + k, 2]}
        for k in range(2)
    ]
    cache = {"block_size": 16, "gpu_blocks": 3, "cpu_blocks": 9, "offload": "vllm"}
    cache |= {"transfer_bandwidth": 0.001, "transfer_base_latency_us": 0}
    latency = {"beta": [1000, 0, 0], "first_steps_us": [500, 400, 300, 200]}
    scenario = {"cache": cache, "latency": latency}
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}
    steps = twin.run_kernel(trace).outputs.steps
    computes = steps["duration_us"] - steps["stall_us"]
    assert computes[computes > 0].tolist() == [1500, 1400, 1300, 1200]
    assert steps["stall_us"].max() > 0


def test_a_prompt_that_begins_anew_until_others_are_pulled_is_no_circle():
    """It lacks blocks for 184 ms, the first step where those are pulled to: 3,210 steps."""
    file = Path(__file__).with_name("waits_to_be_pulled.json.gz")
    assert list(twin.differences(json.loads(gzip.decompress(file.read_bytes())))) == []
