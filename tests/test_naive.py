"""The naive twin against recordings of the real scheduler, and against numbers worked by hand."""

import random
from collections import Counter

import naive
import pytest
from goldens import load, vllm_cases
from hypothesis import given
from longer import long_but
from strategies import random_trace, traces

STEP_ROWS = {"adm", "sched"}


ASYNC = "vllm2/async"
# Of the cases of a second each, the shortest of each kind; the kernel repeats them all.
SHORT = (
    *("shared_s18_b300_thr128", "shared_s19_b300_nocache", "shared_s20_b300_priority"),
    "h8_s42_b2000",
)


@pytest.mark.parametrize(
    "name",
    long_but(vllm_cases(), *(name for name in vllm_cases() if name.startswith("fuzz")), *SHORT),
)
def test_twin_repeats_vllm(name):
    check_case(name, "vllm")


@pytest.mark.parametrize("name", vllm_cases(ASYNC))
def test_twin_repeats_vllm_when_it_schedules_asynchronously(name):
    check_case(name, ASYNC)


def check_case(name, group):
    case = load(name, group)
    expected = case["expected"]
    # These have thousands of steps with thousands of blocks.
    result = naive.simulate(case, check=not name.startswith(("multiturn", "real_served")))
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
    assert len(vllm_cases(ASYNC)) == 22


def test_worked_example():
    """The rule book's example: two requests that share two blocks with a running one.

    The second does not reuse the block that the first publishes in the same step, because its last
    known token is always recomputed, and publishes a duplicate.
    """
    shared, own = [[1, 8]], [[2, 4]]
    trace = {
        "scenario": {
            "engine": {"max_num_seqs": 4, "max_num_batched_tokens": 16},
            "cache": {"block_size": 4, "gpu_blocks": 12},
            "latency": {"beta": [6910.42, 17.67, 2.84]},
        },
        "requests": [
            {"id": 0, "arrival_us": 0, "prompt": [[1, 13]], "output": [10, 3]},
            {"id": 1, "arrival_us": 1, "prompt": shared + own, "output": [11, 1]},
            {"id": 2, "arrival_us": 1, "prompt": shared + own, "output": [12, 1]},
        ],
    }
    result = naive.simulate(trace, check=True)
    (instance,) = result.instances
    first, second, third = instance.steps
    assert (first.sched, first.adm, first.free, first.hashed) == ([(0, 13)], [(0, 0, 0)], 8, 3)
    assert second.sched == [(0, 1), (1, 4), (2, 4)]
    assert second.adm == [(1, 8, 0), (2, 8, 0)]
    assert (second.free, second.pf, second.dc, second.d) == (6, 8, 1, 7054)
    assert (second.hashed, second.fin, third.fin) == (5, [1, 2], [0])
    assert (instance.blocks_taken, instance.blocks_reused) == (6, 4)
    assert instance.totals["queries"] == 13 + 12 + 12
    assert instance.totals["hits"] == 8 + 8


@given(traces(asynchronous=True))
def test_every_trace_runs_to_its_end(trace):
    engine = trace["scenario"]["engine"]
    try:
        result = naive.simulate(trace, check=True)
    except naive.StepLimit:
        # The one livelock known: equal requests, and nothing protects what they have computed.
        assert engine["scheduler"] == "priority"
        assert not engine["reserve_full_prompt"]
        assert not engine["enable_prefix_caching"]
        return
    for request, row in zip(result.requests, trace["requests"], strict=True):
        if request.status == "completed":
            check_history(request, row)
            # Who is preempted with its last token on its way is not admitted again.
            again = request.preemptions + 1 - len(request.admissions)
            assert again == 0 or (again == 1 and engine.get("async_scheduling"))
        else:
            assert not request.admissions
            assert not request.token_us
    for instance in result.instances:
        assert instance.totals["blocks_free_at_end"] == trace["scenario"]["cache"]["gpu_blocks"]
        computed = instance.totals["prefill_tokens"] + instance.totals["decode_tokens"]
        assert computed == sum(n for step in instance.steps for _, n in step.sched)


def check_history(request, row):
    assert len(request.token_us) == row["output"][1]
    assert request.token_us == sorted(request.token_us)
    assert row["arrival_us"] <= request.queued_us <= request.scheduled_us < request.first_token_us


@pytest.mark.slow
def test_random_traces_provoke_what_they_are_for():
    seen = Counter()
    for seed in range(300):
        trace = random_trace(random.Random(seed), asynchronous=True)
        try:
            result = naive.simulate(trace)
        except naive.StepLimit:
            continue
        seen.update({r.status: 1 for r in result.requests})
        for instance in result.instances:
            seen.update({name for name, total in instance.totals.items() if total})
            seen["two victims in a step"] += any(len(step.pre) > 1 for step in instance.steps)
            seen["urgent"] += any(step.pre and step.adm for step in instance.steps)
            seen["no free block"] += any(step.free == 0 for step in instance.steps)
    wanted = ("completed", "dropped_unservable", "rejected", "preemptions", "evictions", "hits")
    wanted += ("preempted_hits", "two victims in a step", "no free block", "urgent")
    wanted += ("preempted_in_flight",)
    assert {name: seen[name] for name in wanted if seen[name] < 5} == {}
