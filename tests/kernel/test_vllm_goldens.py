"""The kernel decides as vLLM 0.33.0's own scheduler did, in every recorded case."""

import batches
import goldens
import pytest
import twin

from kvsweep.records import Event

NO_VALUE = -1


ASYNC = "vllm2/async"


@pytest.mark.parametrize("name", goldens.vllm_cases())
def test_kernel_equals_recording(name):
    check_case(name, "vllm")


@pytest.mark.parametrize("name", goldens.vllm_cases(ASYNC))
def test_kernel_equals_recording_of_asynchronous_scheduling(name):
    check_case(name, ASYNC)


def check_case(name, group):
    case = goldens.load(name, group)
    single = twin.run_kernel(case)
    assert single.status.label == "ok"
    _check_requests(case["expected"], single)
    _check_steps(case["expected"]["steps"], single)
    _check_totals(case["expected"]["totals"], single)


def _check_requests(expected, single):
    progress = single.outputs.progress
    admissions = {number: [] for number in range(len(progress))}
    for row in single.outputs.events[single.outputs.events["kind"] == Event.ADMIT]:
        admissions[int(row["request"])].append([int(row["step"]), int(row["value"])])
    for number, want in enumerate(expected["requests"]):
        got = progress[number]
        assert got["queued"] == want["queue_us"]
        assert got["preemptions"] == want["preemptions"]
        assert (single.outputs.request_status[number] == 3) == want["rejected"]
        assert admissions[number] == want["admissions"]
        for mine, theirs in (("first_token", "first_token_us"), ("finish", "finish_us")):
            assert got[mine] == (NO_VALUE if want[theirs] is None else want[theirs])


def _check_steps(expected, single):
    steps = single.outputs.steps
    for column, mine in twin.STEP_COLUMNS.items():
        if column in expected:
            assert steps[mine].tolist() == expected[column], column
    events = twin.events_by_step(single, 0)
    for step in range(len(steps)):
        victims = twin.victims_of(events[step])
        assert [r for r, _ in victims] == expected["pre"][step]
        assert [r for r, _ in events[step][Event.FINISH]] == expected["fin"][step]
        admitted = [list(pair) for pair in events[step][Event.ADMIT]]
        assert admitted == [entry[:2] for entry in expected["adm"][step]]
    if "sched" in expected:
        assert list(twin.schedules(single, 0)) == expected["sched"]


def _check_totals(expected, single):
    tally = single.outputs.tallies[0]
    assert tally["steps"] == expected["steps"]
    assert tally["evictions"] == expected["evictions"]
    assert tally["query_tokens"] == expected["queries"]
    assert tally["hit_tokens"] == expected["hits"]
    assert single.outputs.preemptions.sum() == expected["preemptions"]
    assert tally["makespan"] == expected["end_us"]
    if "preempted_in_flight" in expected:
        events = single.outputs.events
        victims = events["value"][events["kind"] == Event.PREEMPT]
        # With 2 more for those of schedules that computed nothing.
        assert (victims % 2).sum() == expected["preempted_in_flight"]


TOTALS = {"evictions": "evictions", "hits": "hit_tokens", "stores": "stores", "loads": "loads"}
GROUPS = ("vllm", *sorted(f"vllm2/{path.name}" for path in (goldens.FOLDER / "vllm2").iterdir()))


@pytest.mark.parametrize("group", GROUPS)
def test_without_logs_runs_end_as_recorded(group):
    """As in sweeps: what the tests of single steps have logged is then taken at once, mostly."""
    names = goldens.vllm_cases(group)
    cases = [goldens.load(name, group) for name in names]
    inputs, outputs = batches.run(cases)
    for lane, (name, case) in enumerate(zip(names, cases, strict=True)):
        found = batches.lane_results(inputs, outputs, lane)
        requests, totals = case["expected"]["requests"], case["expected"]["totals"]
        for mine, theirs in (("first_token", "first_token_us"), ("finish", "finish_us")):
            times = [NO_VALUE if row[theirs] is None else row[theirs] for row in requests]
            assert found[mine].tolist() == times, (name, mine)
        for total, field in TOTALS.items():
            if total in totals:
                assert found[f"tally {field}"] == totals[total], (name, total)
