"""The first steps of an instance that take longer, beside groups, drafts, roles and pipelines."""

import random

import batches
import explicit_traces
import pytest
import twin

from kvsweep.simulate.kernel_cells import run_lanes
from kvsweep.simulate.workspace import allocate_outputs

FEATURES = (
    *(*explicit_traces.FEATURES, *explicit_traces.PIPELINES, *explicit_traces.POOLED[:4]),
    *("routed roles", "leases"),
)
TIMES = ((2500,), (900, 0, 70), (0, 0, 700), (3, 0, 20, 1000))
"""None so long that heads which preempt each other in a circle reach the limit of steps."""
LOGS = {"tally log_steps", "tally log_events", "tally log_transfers"}
APART = {"prefill_instances": 1, "decode_instances": 1, "kv_transfer_bandwidth": 1000.0}


def cold(rng, features=FEATURES, requests=30):
    """Return a random trace of features whose first steps take longer."""
    trace = explicit_traces.random_trace(rng, features, requests, closed_loop=True)
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
