"""What the recorder says of two recordings."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_vllm.comparing import compare


def recording():
    return {
        "steps": {
            "t": [0, 100, 200, 300],
            "pf": [5, 5, 0, 0],
            "free": [9, 8, 8, 8],
            "adm": [[[0, 0, 0]], [[1, 4, 0]], [], []],
        },
        "requests": [
            {"first_token_us": 100, "preemptions": 0},
            {"first_token_us": 200, "preemptions": 1},
        ],
        "totals": {"steps": 4, "preemptions": 1},
    }


def test_equal_recordings_are_equal():
    assert compare(recording(), recording()).equal


def test_first_step_that_differs_is_told_with_its_decisions_first():
    after = recording()
    after["steps"]["free"][1] = 7
    after["steps"]["adm"][1] = [[1, 0, 0]]
    after["steps"]["pf"][3] = 1
    found = compare(recording(), after)
    assert found.columns == ["adm", "free", "pf"]
    assert [d.where for d in found.first] == ["step 1", "step 1"]
    assert str(found.first[0]) == (
        "step 1 (100 us): admissions [request, cached tokens, 1 if preempted before]: "
        "[[1, 4, 0]] recorded, [[1, 0, 0]] now"
    )


def test_a_recording_that_ends_earlier_differs_where_it_ends():
    after = recording()
    for values in after["steps"].values():
        values.pop()
    (first, *_) = compare(recording(), after).first
    assert first.where == "step 3"
    assert first.after is None
    assert str(first).endswith("nothing now")


def test_without_a_difference_in_steps_the_first_request_is_told():
    after = recording()
    after["requests"][1]["preemptions"] = 2
    after["totals"]["preemptions"] = 2
    found = compare(recording(), after)
    assert found.columns == ["requests.preemptions", "totals.preemptions"]
    assert found.first[0].where == "request 1"


def test_columns_of_one_recording_only_are_told_and_not_compared():
    after = recording()
    after["steps"]["hashed"] = [1, 2, 3, 4]
    after["totals"]["evictions"] = 0
    found = compare(recording(), after)
    assert found.equal
    assert found.left_out == ["hashed", "totals.evictions"]


def test_engines_of_a_cluster_are_named_and_the_earliest_comes_first():
    def cluster():
        engines = [
            {"role": role, "instance": 0, "steps": recording()["steps"]}
            for role in ("prefill", "decode")
        ]
        return {"engines": engines, "requests": [], "transfers": [[0, 16, 1, 2, 3]], "totals": {}}

    after = cluster()
    after["engines"][0]["steps"]["pf"][2] = 1
    after["engines"][1]["steps"]["pf"][1] = 1
    after["transfers"].append([1, 16, 1, 2, 3])
    found = compare(cluster(), after)
    assert found.columns == ["pf", "transfers"]
    assert [d.where for d in found.first] == ["decode 0, step 1"]


@given(
    column=st.sampled_from(["t", "pf", "free", "adm"]),
    step=st.integers(0, 3),
    value=st.integers(-5, -1),
)
def test_any_changed_value_is_found_in_its_place(column, step, value):
    after = copy.deepcopy(recording())
    after["steps"][column][step] = value
    found = compare(recording(), after)
    assert found.columns == [column]
    assert [(d.where, d.after) for d in found.first] == [(f"step {step}", value)]


@pytest.mark.parametrize("missing", ["before", "after"])
def test_a_list_of_transfers_on_one_side_only_is_not_compared(missing):
    sides = {"before": recording(), "after": recording()}
    for side in sides:
        if side != missing:
            sides[side]["transfers"] = []
    found = compare(sides["before"], sides["after"])
    assert found.equal
    assert found.left_out == ["transfers"]
