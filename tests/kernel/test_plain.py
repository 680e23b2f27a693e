"""The plain step loop, the yardstick of the benchmarks, decides as the kernel by counts does."""

import random

import goldens
import pytest
import strategies
import twin

from kvsweep.simulate import logged


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


@pytest.mark.slow
def test_plain_loop_equals_the_twin(plain):
    for seed in range(150):
        trace = strategies.random_trace(random.Random(seed), max_requests=40, asynchronous=True)
        assert list(twin.differences(trace)) == [], seed
