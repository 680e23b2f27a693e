"""The kernel equals the naive twin, decision by decision, on traces made to provoke trouble."""

import random

import pytest
import strategies
import twin
from hypothesis import given


@given(strategies.traces(closed_loop=True))
def test_kernel_equals_twin(trace):
    assert list(twin.differences(trace)) == []


@pytest.mark.parametrize("seed", [109, 604, 2337])
def test_unservable_requests_are_dropped_before_a_router_looks(seed):
    """In closed loop, a step under way hid from the router who had been dropped meanwhile."""
    trace = strategies.random_trace(random.Random(seed), closed_loop=True)
    assert list(twin.differences(trace)) == []


@pytest.mark.parametrize("block", range(10))
def test_kernel_equals_twin_on_longer_traces(block):
    for seed in range(20 * block, 20 * block + 20):
        trace = strategies.random_trace(random.Random(seed), max_requests=60, closed_loop=True)
        assert (seed, list(twin.differences(trace))) == (seed, [])
