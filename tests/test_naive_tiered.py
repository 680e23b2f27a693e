"""The naive twin's CPU offload beside groups of layers or drafts, against recordings of vLLM."""

import naive
import pytest
from goldens import load, vllm_cases
from test_naive import request_row
from test_naive_explicit import columns_of

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
