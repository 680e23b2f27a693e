"""The naive twin where clients wait for answers and give up; numbers worked by hand.

Unless said otherwise a step takes 10 us, queueing takes no time, and nothing shares content.
"""

import random
from collections import Counter

import naive
import pytest
from hypothesis import given
from strategies import random_trace, traces
from test_naive import check_history


def simulate(requests, alpha=(0, 0, 0), cache=None, cluster=None, **engine):
    """Run requests given as (arrival, prompt tokens, output tokens[, more keys])."""
    rows = [
        {"id": i, "arrival_us": arrival, "prompt": [[i, prompt]], "output": [1000 + i, output]}
        | (more[0] if more else {})
        for i, (arrival, prompt, output, *more) in enumerate(requests)
    ]
    scenario = {
        "engine": engine,
        "cache": {"block_size": 4, "gpu_blocks": 100} | (cache or {}),
        "cluster": cluster or {},
        "latency": {"alpha": list(alpha), "beta": [10]},
    }
    return naive.simulate({"scenario": scenario, "requests": rows}, check=True)


def column(result, name):
    return [getattr(request, name) for request in result.requests]


def after(index, think_us=0, **more):
    return {"after": index, "think_us": think_us} | more


def patient(patience_us, **more):
    return {"patience_us": patience_us} | more


def test_the_next_round_comes_when_the_answer_was_seen_and_thought_about():
    cluster = {"admission_latency_us": 100, "routing_latency_us": 1000}
    result = simulate([(7, 5, 3), (7, 5, 1, after(0, 50))], alpha=(3, 2, 6.9), cluster=cluster)
    first, second = result.requests
    assert first.finish_us == 7 + 100 + 1000 + (3 + 10) + 30
    assert second.arrival_us == first.finish_us + 6 + 50
    assert second.queued_us == second.arrival_us + 100 + 1000 + (3 + 10)
    assert second.scheduled_us == second.queued_us


def test_without_a_pause_the_next_round_is_in_the_step_that_follows():
    result = simulate([(0, 3, 2), (0, 3, 1, after(0)), (0, 3, 9)])
    assert column(result, "arrival_us") == [0, 20, 0]
    assert column(result, "scheduled_us") == [0, 20, 0]


def test_the_next_round_does_not_see_its_own_predecessor_gone_at_the_very_same_time():
    # Request 0 ends on instance 0 at 20. The router at 20 still counts it there: one and one.
    cluster = {"instances": 2, "routing": "least-loaded"}
    at_once = [(0, 3, 2), (0, 3, 9), (0, 3, 1, after(0)), (20, 3, 1)]
    assert column(simulate(at_once, cluster=cluster), "instance") == [0, 1, 0, 1]
    later = [(0, 3, 2), (0, 3, 9), (0, 3, 1, after(0, 1)), (20, 3, 1)]
    assert column(simulate(later, cluster=cluster), "instance") == [0, 1, 0, 0]


def test_turns_go_by_time_of_routing_and_then_by_id():
    # Request 3 is made at 20, before request 4 of the trace by its id; request 2 is made at 25.
    requests = [(0, 3, 2), (0, 3, 2), (0, 3, 1, after(0, 5)), (0, 3, 1, after(1)), (20, 3, 1)]
    result = simulate(requests, cluster={"instances": 3})
    assert column(result, "arrival_us") == [0, 0, 25, 20, 20]
    assert column(result, "instance") == [0, 1, 1, 2, 0]


def test_later_rounds_of_a_session_that_breaks_off_never_arrive():
    requests = [(0, 500, 1), (0, 3, 1, after(0)), (0, 3, 1, after(1)), (0, 3, 1)]
    result = simulate(requests)
    statuses = ["dropped_unservable", "not_arrived", "not_arrived", "completed"]
    assert column(result, "status") == statuses
    assert column(result, "arrival_us") == [0, None, None, 0]
    refused = simulate(requests, cluster={"admission": "reject-all"})
    assert column(refused, "status") == ["rejected", "not_arrived", "not_arrived", "rejected"]


@pytest.mark.parametrize(("patience", "status"), [(25, "timed_out"), (26, "completed")])
def test_a_client_gives_up_later_than_its_patience(patience, status):
    # Request 0 has the only seat until 30; request 1 has waited 26 us then.
    requests = [(0, 3, 3), (4, 3, 1, patient(patience)), (4, 3, 1), (4, 3, 1, after(1))]
    result = simulate(requests, max_num_seqs=1)
    assert column(result, "status")[:3] == ["completed", status, "completed"]
    assert result.requests[3].status == ("not_arrived" if patience == 25 else "completed")
    # The next in line is tried in the same step.
    assert result.requests[2].scheduled_us == (30 if patience == 25 else 40)
    # The given up request still counts as waiting at 30.
    assert [step.wait for step in result.instances[0].steps][:4] == [1, 2, 2, 2]


def test_patience_counts_from_the_arrival_that_really_happened():
    requests = [(0, 3, 3), (0, 3, 1, after(0, 5, patience_us=0))]
    assert column(simulate(requests), "status") == ["completed", "completed"]
    # A queueing delay of 1 us is more than no patience at all.
    assert column(simulate(requests, alpha=(1, 0, 0)), "status") == ["completed", "timed_out"]


def test_patience_ends_with_the_first_admission():
    # Both need a second block in the second step: request 1 gives way and waits 30 us.
    requests = [(0, 4, 3), (0, 4, 3, patient(0))]
    result = simulate(requests, cache={"gpu_blocks": 3}, enable_prefix_caching=False)
    assert column(result, "preemptions") == [0, 1]
    assert column(result, "status") == ["completed", "completed"]


def test_nobody_gives_up_while_no_admission_is_tried():
    # One seat: request 1 is looked at when request 0 has left, at 30, and not at 10 or 20.
    result = simulate([(0, 3, 3), (1, 3, 1, patient(2))], max_num_seqs=1)
    assert [step.wait for step in result.instances[0].steps] == [1, 1, 1]
    assert column(result, "status") == ["completed", "timed_out"]


def test_a_request_behind_the_head_is_not_looked_at():
    # Request 1 does not fit beside request 0; request 2 waits behind it, beyond its patience.
    requests = [(0, 8, 5), (0, 8, 5), (0, 3, 1, patient(39))]
    result = simulate(requests, cache={"gpu_blocks": 3})
    assert column(result, "scheduled_us") == [0, 50, None]
    assert column(result, "status") == ["completed", "completed", "timed_out"]


def test_an_instance_whose_clients_have_all_given_up_stays_idle():
    requests = [(0, 3, 1, patient(0)), (0, 3, 1, patient(0)), (50, 3, 1)]
    result = simulate(requests, alpha=(1, 0, 0))
    assert column(result, "status") == ["timed_out", "timed_out", "completed"]
    assert [(step.t, step.wait) for step in result.instances[0].steps] == [(51, 1)]


def test_a_given_up_request_is_load_until_it_is_tried():
    # Instance 0 has one seat: request 2 waits there from 0 on and is dropped at 30.
    cluster = {"instances": 2, "routing": "least-loaded"}
    requests = [(0, 3, 3), (0, 3, 9), (0, 3, 1, patient(5)), (29, 3, 1), (31, 3, 1), (32, 3, 1)]
    result = simulate(requests, cluster=cluster, max_num_seqs=1)
    assert column(result, "status")[2] == "timed_out"
    # At 29 the loads are 2 and 1. At 31 request 3 waits on instance 1 (2), instance 0 is empty.
    assert column(result, "instance") == [0, 1, 0, 1, 0, 0]


@given(traces(closed_loop=True))
def test_every_closed_loop_runs_to_its_end(trace):
    try:
        result = naive.simulate(trace, check=True)
    except naive.StepLimit:
        # The livelock of equal priorities: see `test_naive.test_every_trace_runs_to_its_end`.
        assert trace["scenario"]["engine"]["scheduler"] == "priority"
        return
    for request, row in zip(result.requests, trace["requests"], strict=True):
        if request.status == "completed":
            check_history(request, row | {"arrival_us": request.arrival_us})
        else:
            assert not request.admissions
        if request.after is not None:
            before = result.requests[request.after]
            arrives = before.status == "completed"
            assert (request.status != "not_arrived") == arrives
            if arrives:
                overhead = int(trace["scenario"]["latency"]["alpha"][2])
                assert request.arrival_us == before.finish_us + overhead + request.think_us
        if request.scheduled_us is not None and request.patience_us is not None:
            assert request.scheduled_us <= request.arrival_us + request.patience_us


def test_random_closed_loops_provoke_what_they_are_for():
    seen = Counter()
    for seed in range(200):
        trace = random_trace(random.Random(seed), closed_loop=True)
        result = naive.simulate(trace)
        statuses = {r.status for r in result.requests if r.after is not None}
        seen.update(f"later round {status}" for status in statuses)
        for instance in result.instances:
            seen["preemption"] += bool(instance.totals["preemptions"])
            seen["hits"] += bool(instance.totals["hits"])
        seen["several instances"] += len(result.instances) > 1
    wanted = ["later round completed", "later round timed_out", "later round not_arrived"]
    wanted += ["preemption", "hits", "several instances"]
    assert {name: seen[name] for name in wanted if seen[name] < 20} == {}
