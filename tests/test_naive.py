"""The naive twin against recordings of the real scheduler, and against numbers worked by hand."""

import naive
import pytest
from goldens import load, vllm_cases

STEP_ROWS = {"adm", "sched"}


@pytest.mark.parametrize("name", vllm_cases())
def test_twin_repeats_vllm(name):
    case = load(name)
    expected = case["expected"]
    # The recorded multi-turn runs have thousands of steps with thousands of blocks.
    result = naive.simulate(case, check=not name.startswith("multiturn"))
    (instance,) = result.instances

    for column, values in expected["steps"].items():
        if column in STEP_ROWS:
            values = [[tuple(row) for row in rows] for rows in values]
        assert [getattr(step, column) for step in instance.steps] == values, column
    assert instance.totals == expected["totals"]
    for request, row in zip(result.requests, expected["requests"], strict=True):
        assert request_row(request) == row


def request_row(request):
    return {
        "queue_us": request.queued_us,
        "first_token_us": request.first_token_us,
        "finish_us": request.finish_us,
        "preemptions": request.preemptions,
        "admissions": [list(admission) for admission in request.admissions],
        "rejected": request.status == "dropped_unservable",
    }


def test_all_recorded_cases_are_here():
    assert len(vllm_cases()) == 51
