"""The naive twin's CPU offload beside groups of layers or drafts, against recordings of vLLM."""

import explicit_traces
import naive
import pytest
from goldens import load, vllm_cases
from hypothesis import given, settings
from test_naive import request_row
from test_naive_explicit import columns_of, role_row

TIERED = "vllm2/tiered"


@pytest.mark.parametrize("name", vllm_cases(TIERED))
def test_twin_repeats_vllm(name):
    case = load(name, TIERED)
    expected = case["expected"]
    result = naive.simulate(case, check=True)
    (instance,) = result.instances
    mine = columns_of(instance, expected["steps"])
    for column, values in expected["steps"].items():
        assert mine[column] == values, column
    assert instance.totals == expected["totals"]
    assert instance.streams.log == expected["transfers"]
    for request, row in zip(result.requests, expected["requests"], strict=True):
        assert request_row(request) == row


def test_all_recorded_cases_are_here():
    assert len(vllm_cases(TIERED)) == 47


APART = "vllm2/pd-tiered"


@pytest.mark.parametrize("name", vllm_cases(APART))
def test_twin_repeats_vllm_with_prefill_and_decode_apart(name):
    case = load(name, APART)
    expected = case["expected"]
    result = naive.simulate(case, check=True)
    for instance, recorded in zip(result.instances, expected["engines"], strict=True):
        assert instance.role == recorded["role"]
        mine = columns_of(instance, recorded["steps"])
        for column, values in recorded["steps"].items():
            assert mine[column] == values, (instance.index, column)
        copies = instance.streams.log if "stall" in recorded["steps"] else []
        assert copies == recorded["copies"]
    assert result.transfers == expected["transfers"]
    for request, row in zip(result.requests, expected["requests"], strict=True):
        errored = {"errored": request.status == "errored"} if "errored" in row else {}
        assert role_row(request) | errored == row


def test_all_cases_with_a_tier_apart_are_here():
    assert len(vllm_cases(APART)) == 15


@settings(max_examples=40)
@given(explicit_traces.traces(features=explicit_traces.TIERED_ROLES, closed_loop=True))
def test_both_sides_give_all_blocks_back_whatever_they_copy(trace):
    """What is free, used, held, pulled and loaded makes up each pool, in every step."""
    try:
        result = naive.simulate(trace, check=True)
    except naive.StepLimit:
        return  # who holds loaded blocks may wait for those of another for ever, as in vLLM
    for instance in result.instances:
        assert len(instance.scheduler.pool.free) == instance.scheduler.pool.usable
