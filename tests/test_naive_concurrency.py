"""The naive twin with a limit on the requests under way; numbers worked by hand.

A step takes 10 us, queueing takes no time, and nothing shares content.
"""

import naive
import pytest


def simulate(requests, concurrency, alpha=(0, 0, 0), cluster=None, gpu_blocks=100):
    """Run requests given as (time at which it is ready, prompt tokens, output tokens)."""
    rows = [
        {"id": i, "arrival_us": ready, "prompt": [[i, prompt]], "output": [1000 + i, output]}
        for i, (ready, prompt, output) in enumerate(requests)
    ]
    scenario = {
        "workload": {"concurrency": concurrency},
        "cache": {"block_size": 4, "gpu_blocks": gpu_blocks},
        "cluster": cluster or {},
        "latency": {"alpha": list(alpha), "beta": [10]},
    }
    return naive.simulate({"scenario": scenario, "requests": rows}, check=True)


def arrivals(result):
    return [request.arrival_us for request in result.requests]


def test_a_request_is_sent_when_one_under_way_is_over_whoever_that_is():
    # Request 1 is over at 20, request 2 (sent at 20, 1 token) at 30, request 0 at 50.
    result = simulate([(0, 3, 5), (0, 3, 2), (0, 3, 1), (0, 3, 9), (0, 3, 1)], concurrency=2)
    assert arrivals(result) == [0, 0, 20, 30, 50]
    assert [request.scheduled_us for request in result.requests] == [0, 0, 20, 30, 50]


def test_a_rate_delays_a_request_and_the_limit_delays_it_further():
    result = simulate([(0, 3, 3), (5, 3, 1), (100, 3, 1), (100, 3, 1)], concurrency=1)
    # 0 to 30; 1 was ready at 5 and is sent at 30, over at 40; 2 is not ready before 100.
    assert arrivals(result) == [0, 30, 100, 110]


def test_times_count_from_the_sending_and_an_answer_is_over_when_it_is_seen():
    result = simulate([(0, 3, 2), (0, 3, 1)], concurrency=1, alpha=(3, 0, 6.9))
    first, second = result.requests
    assert first.finish_us == 3 + 20
    assert second.arrival_us == first.finish_us + 6
    assert second.queued_us == second.arrival_us + 3


@pytest.mark.parametrize("concurrency", [4, 5, 1000])
def test_a_limit_that_does_not_bind_changes_nothing(concurrency):
    requests = [(0, 3, 3), (5, 3, 1), (7, 3, 4), (9, 3, 1)]
    assert arrivals(simulate(requests, concurrency)) == [0, 5, 7, 9]


def test_answers_of_several_instances_come_in_the_order_of_time_not_of_steps():
    """The step that begins first ends last: its answer is the third, not the second."""
    rows = [
        {"id": i, "arrival_us": 0, "prompt": [[i, prompt]], "output": [1000 + i, output]}
        for i, (prompt, output) in enumerate([(9, 1), (1, 3), (1, 1), (1, 1)])
    ]
    scenario = {
        "workload": {"concurrency": 2},
        "cluster": {"instances": 3},
        "latency": {"beta": [1, 10, 10]},
    }
    result = naive.simulate({"scenario": scenario, "requests": rows}, check=True)
    # Request 0 takes 91 us, request 1 three steps of 11 us; request 2 is over at 44.
    assert arrivals(result) == [0, 0, 33, 44]
    assert [request.instance for request in result.requests] == [0, 1, 2, 0]


def test_who_is_rejected_or_can_never_fit_makes_room_for_the_next():
    # 500 tokens never fit into 100 blocks of 4; the drop is at the queue entry, 5 us later.
    result = simulate([(0, 500, 1), (0, 3, 1), (0, 3, 1)], concurrency=1, alpha=(5, 0, 0))
    assert result.requests[0].status == "dropped_unservable"
    assert arrivals(result) == [0, 5, 5 + 5 + 10]
    cluster = {"admission": "reject-all", "admission_latency_us": 7, "routing_latency_us": 100}
    result = simulate([(0, 3, 1)] * 3, concurrency=1, cluster=cluster)
    assert {request.status for request in result.requests} == {"rejected"}
    assert arrivals(result) == [0, 7, 14]
