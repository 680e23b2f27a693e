"""Leases of prefills, heartbeats and failed pulls: the kernel against the twin (R14)."""

import random

import explicit_traces
import pytest
import twin
from hypothesis import given, settings

FEATURES = ("leases",)


@settings(max_examples=80)
@given(explicit_traces.traces(features=FEATURES, closed_loop=True))
def test_kernel_equals_twin(trace):
    assert list(twin.differences(trace)) == []


@pytest.mark.parametrize("seed", range(3))
def test_kernel_equals_twin_on_longer_traces(seed):
    rng = random.Random(f"leases/{seed}")
    for _ in range(8):
        trace = explicit_traces.random_trace(rng, FEATURES, max_requests=40, closed_loop=True)
        assert list(twin.differences(trace)) == []
