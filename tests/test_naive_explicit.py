"""The naive twin's hybrid caches, drafts, and prefill and decode apart against recordings of vLLM.

Both schedulers, the synchronous and the asynchronous one.
"""

import naive
import pytest
from goldens import load, vllm_cases
from test_naive import request_row

ROWS = ("adm", "sched")
GROUPS = ("vllm2/hybrid", "vllm2/spec", "vllm2/mix")
PD = "vllm2/pd"
CASES = [(group, name) for group in GROUPS for name in vllm_cases(group)]


def columns_of(instance, columns):
    """Return columns of an instance's steps as recordings have them."""
    found = {name: [getattr(step, name) for step in instance.steps] for name in columns}
    for name in ROWS:
        if name in found:
            found[name] = [[list(row) for row in rows] for rows in found[name]]
    return found


@pytest.mark.parametrize(("group", "name"), CASES)
def test_twin_repeats_vllm(group, name):
    case = load(name, group)
    expected = case["expected"]
    result = naive.simulate(case, check=not name.startswith("real"))
    (instance,) = result.instances
    mine = columns_of(instance, expected["steps"])
    for column, values in expected["steps"].items():
        assert mine[column] == values, column
    assert instance.totals == expected["totals"]
    for request, row in zip(result.requests, expected["requests"], strict=True):
        assert request_row(request) == row


@pytest.mark.parametrize("name", vllm_cases(PD))
def test_twin_repeats_vllm_with_prefill_and_decode_apart(name):
    case = load(name, PD)
    expected = case["expected"]
    result = naive.simulate(case, check=True)
    for instance, recorded in zip(result.instances, expected["engines"], strict=True):
        assert instance.role == recorded["role"]
        mine = columns_of(instance, recorded["steps"])
        for column, values in recorded["steps"].items():
            assert mine[column] == values, (instance.index, column)
    assert result.transfers == expected["transfers"]
    for request, row in zip(result.requests, expected["requests"], strict=True):
        assert role_row(request) == row


def role_row(request):
    prefill = request.prefill
    return {
        "queue_us": request.queued_us,
        "prefilled_us": prefill.first_token_us,
        "decode_queue_us": request.decode_queued_us,
        "pulled_us": request.reported_us,
        "released_us": prefill.reported_us,
        "first_token_us": request.first_token_us,
        "finish_us": request.finish_us,
        "rejected": request.status == "dropped_unservable",
        "prefill": {
            "preemptions": prefill.preemptions,
            "admissions": [list(row) for row in prefill.admissions],
        },
        "decode": {
            "preemptions": request.decode_preemptions,
            "admissions": [list(row) for row in request.decode_admissions],
        },
    }


def test_all_recorded_cases_are_here():
    assert {group: len(vllm_cases(group)) for group in (*GROUPS, PD)} == {
        "vllm2/hybrid": 22,
        "vllm2/spec": 18,
        "vllm2/mix": 6,
        "vllm2/pd": 14,
    }
