"""The plain step loop, the yardstick of the benchmarks, decides as the kernel by counts does."""

import random

import batches
import goldens
import pytest
import strategies
import twin

from kvsweep.simulate import logged
from kvsweep.simulate.kernel_cells import run_lanes
from kvsweep.simulate.workspace import allocate_outputs

SESSIONS = {"rounds": 2, "think_time_s": 0.1, "arrivals": "closed-loop"}
IMPATIENT = {"sessions": SESSIONS | {"patience_s": 0.3}}
SHORT = {"requests": 8, "rate": 1e6, "output": {"dist": "uniform", "min": 1, "max": 9}}
SLOW_AT_FIRST = {"first_steps_us": [9000, 7000, 5000, 3000]}


@pytest.fixture
def plain(monkeypatch):
    """Let every simulation visit every running request in every step."""
    build = logged.build_inputs

    def build_plain(*arguments, **options):
        inputs = build(*arguments, **options)
        inputs.lanes["visit_all"] = 1
        return inputs

    monkeypatch.setattr(logged, "build_inputs", build_plain)


@pytest.mark.parametrize("name", [n for n in goldens.vllm_cases() if "s42" in n or "shared" in n])
def test_plain_loop_equals_recordings(name, plain):
    case = goldens.load(name)
    outputs = twin.run_kernel(case).outputs
    for number, want in enumerate(case["expected"]["requests"]):
        assert outputs.progress[number]["finish"] == want["finish_us"]
    assert outputs.steps["free_blocks"].tolist() == case["expected"]["steps"]["free"]


@pytest.mark.parametrize("name", goldens.vllm_cases("vllm2/async")[:4])
def test_plain_loop_equals_asynchronous_recordings(name, plain):
    case = goldens.load(name, "vllm2/async")
    assert list(twin.differences(case)) == []
    assert (
        twin.run_kernel(case).outputs.steps["free_blocks"].tolist()
        == (case["expected"]["steps"]["free"])
    )


def bursts(changes, seeds, visits):
    """Return inputs and outputs of crowded asynchronous lanes without logs."""
    scenario = batches.scenario({"engine": {"async_scheduling": True}}, *changes)
    inputs = batches.lanes_of(scenario, seeds)
    inputs.lanes["visit_all"] = visits
    outputs = allocate_outputs(inputs, keep_requests=True)
    run_lanes(inputs, outputs)
    return inputs, outputs


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cache": {"gpu_blocks": 60}},
        {"cache": {"gpu_blocks": 500}},
        {"engine": {"async_scheduling": True, "max_num_seqs": 6}},
        {"workload": {"concurrency": 20}},
        {"cluster": {"routing": "least-loaded"}},
        {"cache": {"gpu_blocks": 60}, "workload": IMPATIENT},
        {"cache": {"gpu_blocks": 60}, "engine": {"async_scheduling": True, "victim": "random"}},
        {"cache": {"gpu_blocks": 500}, "workload": SHORT, "latency": SLOW_AT_FIRST},
    ],
    ids=[
        *("burst", "few blocks", "ample", "few seats", "concurrency", "looks", "impatient"),
        *("victims", "slow first steps"),
    ],
)
def test_crowded_asynchronous_lanes_equal_the_plain_loop(changes):
    """Where many wait and evict, requests leave a step early by counts, and never if all visit."""
    fast = bursts([changes], range(40), 0)
    plain = bursts([changes], range(40), 1)
    tries = {"tally shortages"}  # the plain loop tries a refused head in each step
    for lane in range(40):
        differing = batches.differing(
            batches.lane_results(*fast, lane), batches.lane_results(*plain, lane)
        )
        assert set(differing) <= tries, lane


@pytest.mark.slow
def test_plain_loop_equals_the_twin(plain):
    for seed in range(150):
        trace = strategies.random_trace(random.Random(seed), max_requests=40, asynchronous=True)
        assert list(twin.differences(trace)) == [], seed
