"""The naive twin's CPU offload against recordings of vLLM's scheduler and connector.

Both schedulers, the synchronous and the asynchronous one.
"""

import naive
import pytest
from goldens import load, vllm_cases
from test_naive import request_row

OFFLOAD = "vllm2/offload"
ROWS = ("adm", "sched")


@pytest.mark.parametrize("name", vllm_cases(OFFLOAD))
def test_twin_repeats_vllm(name):
    case = load(name, OFFLOAD)
    expected = case["expected"]
    result = naive.simulate(case, check=not name.startswith("real"))
    (instance,) = result.instances

    for column, values in expected["steps"].items():
        if column in ROWS:
            values = [[tuple(row) for row in rows] for rows in values]
        assert [getattr(step, column) for step in instance.steps] == values, column
    assert instance.totals == expected["totals"]
    assert instance.streams.log == expected["transfers"]
    for request, row in zip(result.requests, expected["requests"], strict=True):
        assert request_row(request) == row


def test_all_recorded_cases_are_here():
    assert len(vllm_cases(OFFLOAD)) == 38
