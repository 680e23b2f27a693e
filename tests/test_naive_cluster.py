"""The naive twin around the engine: clock, routing, dropping, orders; numbers worked by hand.

Unless said otherwise a step takes 10 us, queueing takes no time, and outputs are one token.
"""

import naive
import pytest


def simulate(requests, alpha=(0, 0, 0), beta=(10, 0, 0), cache=None, cluster=None, **engine):
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
        "latency": {"alpha": list(alpha), "beta": list(beta)},
    }
    return naive.simulate({"scenario": scenario, "requests": rows}, check=True)


def column(result, name):
    return [getattr(request, name) for request in result.requests]


def least_loaded(instances=2, **more):
    return {"instances": instances, "routing": "least-loaded"} | more


def test_round_robin_takes_turns_in_order_of_arrival():
    result = simulate([(0, 3, 2), (0, 3, 2), (5, 3, 2)], cluster={"instances": 2})
    assert column(result, "instance") == [0, 1, 0]
    assert column(result, "token_us") == [[10, 20], [10, 20], [20, 30]]


def test_least_loaded_prefers_the_first_of_equals():
    result = simulate([(0, 3, 9)] * 5, cluster=least_loaded(3))
    assert column(result, "instance") == [0, 1, 2, 0, 1]


def test_outputs_at_the_very_routing_time_are_not_seen():
    # Request 1 finishes on instance 1 at 10: the router at 10 still counts it, the one at 11 not.
    result = simulate([(0, 3, 9), (0, 3, 1), (10, 3, 9), (11, 3, 9)], cluster=least_loaded())
    assert result.requests[1].finish_us == 10
    assert column(result, "instance") == [0, 1, 0, 1]


def test_requests_on_their_way_count_as_load():
    result = simulate([(0, 3, 1), (1, 3, 1), (2, 3, 1)], alpha=(99, 0, 0), cluster=least_loaded())
    assert column(result, "instance") == [0, 1, 0]
    assert column(result, "queued_us") == [99, 100, 101]


def test_an_unservable_request_is_load_until_its_entry_has_passed():
    # It enters, and is dropped, at 50: the router at 50 still counts it, the one at 51 not.
    requests = [(0, 500, 1), (50, 3, 9), (51, 3, 9)]
    result = simulate(requests, alpha=(50, 0, 0), cluster=least_loaded())
    assert column(result, "status") == ["dropped_unservable", "completed", "completed"]
    assert column(result, "queued_us") == [50, 100, 101]
    assert column(result, "instance") == [0, 1, 0]


def test_latencies_add_up_before_the_queue():
    cluster = {"admission_latency_us": 100, "routing_latency_us": 1000}
    result = simulate([(7, 5, 1)], alpha=(3, 0.5, 70), cluster=cluster)
    (request,) = result.requests
    assert request.queued_us == 7 + 100 + 1000 + int(3 + 0.5 * 5)
    assert request.scheduled_us == request.queued_us
    assert request.first_token_us == request.finish_us == request.queued_us + 10


def test_an_entry_at_the_start_of_a_step_is_in_it():
    result = simulate([(0, 3, 3), (10, 3, 1), (11, 3, 1)])
    assert column(result, "scheduled_us") == [0, 10, 20]
    assert [step.wait for step in result.instances[0].steps] == [1, 1, 1]


def test_entries_may_overtake_and_ties_follow_the_trace():
    # Queueing takes 10 us per prompt token: entries at 50, 20, 50, 50.
    requests = [(0, 5, 1), (10, 1, 1), (20, 3, 1), (30, 2, 1)]
    result = simulate(requests, alpha=(0, 10, 0), max_num_seqs=1)
    assert column(result, "queued_us") == [50, 20, 50, 50]
    assert column(result, "scheduled_us") == [50, 20, 60, 70]


def test_requests_out_of_order_in_the_trace_are_routed_by_arrival():
    result = simulate([(5, 3, 1), (0, 3, 1)], cluster={"instances": 2})
    assert column(result, "instance") == [1, 0]


def test_reject_all_admits_nobody():
    result = simulate([(0, 3, 1), (4, 3, 1)], cluster={"admission": "reject-all"})
    assert column(result, "status") == ["rejected", "rejected"]
    assert column(result, "instance") == column(result, "queued_us") == [None, None]
    assert result.instances[0].steps == []


def test_the_last_output_token_needs_no_block():
    result = simulate([(0, 6, 3), (0, 6, 4)], cache={"gpu_blocks": 2})
    assert column(result, "status") == ["completed", "dropped_unservable"]


def test_without_chunked_prefill_a_sequence_must_fit_into_a_step():
    settings = {"max_num_seqs": 4, "max_num_batched_tokens": 8}
    requests = [(0, 6, 2), (0, 6, 3)]
    whole = simulate(requests, enable_chunked_prefill=False, **settings)
    assert column(whole, "status") == ["completed", "dropped_unservable"]
    assert column(simulate(requests, **settings), "status") == ["completed", "completed"]


def test_fewer_tokens_than_sequences_is_an_error():
    with pytest.raises(ValueError, match="max_num_batched_tokens"):
        simulate([(0, 3, 1)], max_num_seqs=8, max_num_batched_tokens=7)


def test_sjf_orders_by_prompt_then_arrival_then_id():
    # Request 0 keeps the single seat until 20; the others have queued by then. The output, long
    # for the shortest prompt, plays no part.
    requests = [(0, 9, 2), (3, 5, 1), (2, 5, 1), (2, 5, 1), (4, 4, 7)]
    result = simulate(requests, scheduler="sjf", max_num_seqs=1)
    assert column(result, "scheduled_us") == [0, 110, 90, 100, 20]


@pytest.mark.parametrize(
    ("scheduler", "prompt", "order"),
    [("sjf", 4, [1, 2]), ("sjf", 2, [2, 1]), ("fcfs", 2, [1, 2])],
)
def test_a_preempted_request_goes_back_by_the_queues_order(scheduler, prompt, order):
    # Requests 0 and 1 both need a second block in the third step, and one is left. Request 1
    # gives way with 5 known tokens; sjf still counts its prompt of 3.
    requests = [(0, 3, 5), (0, 3, 5), (5, prompt, 1)]
    result = simulate(requests, scheduler=scheduler, max_num_seqs=2, cache={"gpu_blocks": 3})
    steps = result.instances[0].steps
    assert [step.pre for step in steps[:3]] == [[], [], [1]]
    assert [row[0] for step in steps[1:] for row in step.adm] == order


def test_slo_classes_make_priorities_only_for_requests_without_one():
    requests = [
        (0, 3, 2),
        (1, 3, 1, {"slo_class": "background"}),
        (2, 3, 1, {"slo_class": "gold"}),
        (3, 3, 1, {"slo_class": "batch"}),
        (4, 3, 1, {"slo_class": "critical"}),
        (5, 3, 1, {"slo_class": "background", "priority": 4}),
    ]
    settings = {"scheduler": "priority", "max_num_seqs": 1}
    result = simulate(requests, priority="slo-class", **settings)
    assert column(result, "scheduled_us") == [0, 60, 40, 50, 20, 30]
    # Otherwise a request without a priority has 0: more urgent than the 4 of the last one.
    result = simulate(requests, **settings)
    assert column(result, "scheduled_us") == [0, 20, 30, 40, 50, 60]


def test_priorities_that_age_gain_a_level_per_age():
    requests = [
        (0, 3, 20, {"slo_class": "critical"}),
        (1, 3, 1, {"slo_class": "batch"}),
        (90, 3, 1, {"slo_class": "critical"}),
        (110, 3, 1, {"slo_class": "critical"}),
        (100, 3, 1, {"priority": 0}),
    ]
    settings = {"scheduler": "priority", "max_num_seqs": 1}
    # The ten levels of the batch request are worth 100 us: it stands as if it came at 101.
    result = simulate(requests, priority="age", priority_age_ms=0.01, **settings)
    assert column(result, "scheduled_us") == [0, 220, 200, 230, 210]
    result = simulate(requests, priority="slo-class", **settings)
    assert column(result, "scheduled_us") == [0, 230, 200, 220, 210]


def test_aging_also_chooses_the_victim():
    # Both need a block at 10, and there is one. Level 1 is older by more than the age.
    requests = [(0, 4, 3, {"priority": 1}), (8, 4, 3, {"priority": 0})]
    settings = {"scheduler": "priority", "cache": {"gpu_blocks": 3}, "beta": (20, 0, 0)}
    for age, victim in ((0.005, 1), (0.02, 0)):
        result = simulate(requests, priority="age", priority_age_ms=age, **settings)
        assert [r.preemptions for r in result.requests] == [int(victim == 0), int(victim == 1)]


URGENT = {"scheduler": "priority", "preempt_for_urgent": True, "enable_prefix_caching": False}


def test_an_urgent_request_takes_a_seat():
    requests = [(0, 4, 3, {"priority": 5}), (5, 4, 1, {"priority": 4})]
    result = simulate(requests, max_num_seqs=1, **URGENT)
    steps = result.instances[0].steps
    # At 10 request 0 gets its token, and gives it back.
    assert [(step.pre, step.adm) for step in steps[:3]] == [
        ([], [(0, 0, 0)]), ([0], [(1, 0, 0)]), ([], [(0, 0, 1)]),
    ]  # fmt: skip
    assert [step.sched for step in steps] == [[(0, 4)], [(1, 4)], [(0, 5)], [(0, 1)]]
    assert (steps[1].pf, steps[1].dc) == (4, 0)
    assert column(result, "token_us") == [[10, 30, 40], [20]]
    equal = [(0, 4, 3, {"priority": 4}), requests[1]]
    assert column(simulate(equal, max_num_seqs=1, **URGENT), "scheduled_us") == [0, 30]


def test_an_urgent_request_takes_blocks_of_as_many_as_it_needs():
    requests = [(0, 8, 9, {"priority": p}) for p in (7, 8, 9)] + [(5, 16, 1, {"priority": 1})]
    result = simulate(requests, cache={"gpu_blocks": 9}, **URGENT)
    # Three blocks each at 10; the head needs four: the two least urgent go.
    assert [step.pre for step in result.instances[0].steps[:2]] == [[], [2, 1]]
    assert result.requests[3].scheduled_us == 10


def test_victims_of_a_head_that_must_wait_anyway_wait_behind_it():
    requests = [(0, 8, 4, {"priority": 0}), (0, 4, 4, {"priority": 9}),
                (5, 12, 1, {"priority": 1})]  # fmt: skip
    result = simulate(requests, cache={"gpu_blocks": 5}, **URGENT)
    steps = result.instances[0].steps
    assert [step.pre for step in steps[:2]] == [[], [1]]
    assert steps[1].adm == []
    assert column(result, "scheduled_us") == [0, 0, 40]
    assert [row[0] for step in steps[1:] for row in step.adm] == [2, 1]


def test_a_victim_may_come_back_in_the_same_step_behind_the_head():
    # Without a reservation it starts over with the four tokens that the head leaves.
    requests = [(0, 16, 5, {"priority": 5}), (15, 4, 1, {"priority": 1})]
    settings = URGENT | {"reserve_full_prompt": False, "max_num_batched_tokens": 8}
    result = simulate(requests, cache={"gpu_blocks": 5}, max_num_seqs=2, **settings)
    third = result.instances[0].steps[2]
    assert (third.pre, third.adm) == ([0], [(1, 0, 0), (0, 0, 1)])
    assert third.sched == [(1, 4), (0, 4)]


def test_nobody_gives_way_where_the_budget_is_used_up():
    requests = [(0, 12, 2, {"priority": 5}), (5, 4, 1, {"priority": 1})]
    settings = URGENT | {"max_num_seqs": 1, "max_num_batched_tokens": 4}
    result = simulate(requests, **settings)
    # The prefill of request 0 takes all tokens of three steps; its decode leaves some.
    assert [step.pre for step in result.instances[0].steps[:4]] == [[], [], [], [0]]


def test_with_aging_the_victim_must_stand_behind_the_head():
    requests = [(0, 4, 9, {"priority": 1}), (25, 4, 1, {"priority": 0})]
    settings = URGENT | {"max_num_seqs": 1, "priority": "age"}
    assert column(simulate(requests, priority_age_ms=0.03, **settings), "scheduled_us") == [0, 30]
    assert column(simulate(requests, priority_age_ms=0.02, **settings), "scheduled_us") == [0, 90]


def test_a_client_may_give_up_without_a_seat_where_one_may_be_taken():
    requests = [(0, 4, 5), (0, 4, 1, {"patience_us": 15})]
    for urgent, waiting in ((False, [2, 1, 1, 1, 1]), (True, [2, 1, 1, 0, 0])):
        settings = URGENT | {"max_num_seqs": 1, "preempt_for_urgent": urgent}
        result = simulate(requests, **settings)
        assert result.requests[1].status == "timed_out"
        assert [step.wait for step in result.instances[0].steps] == waiting


@pytest.mark.parametrize("more", [{"priority": "age"}, {"preempt_for_urgent": True}])
def test_only_the_priority_scheduler_knows_urgency(more):
    with pytest.raises(ValueError, match="need 'priority'"):
        simulate([(0, 3, 1)], **more)


def test_ids_break_ties_as_numbers():
    result = simulate([(0, 3, 1)] * 11, scheduler="priority", max_num_seqs=1)
    assert column(result, "scheduled_us") == [10 * i for i in range(11)]


def test_blocks_in_use_are_integrated_over_busy_time_only():
    # Blocks held in the three steps: 1 for the prompt, then 2 (tokens 5 and 6).
    result = simulate([(0, 4, 3), (1000, 4, 3)])
    (instance,) = result.instances
    assert instance.block_us == 2 * 10 * (1 + 2 + 2)
    assert instance.peak_blocks == 2
    assert instance.blocks_taken == 4
    assert instance.blocks_reused == 0
    assert instance.totals["end_us"] == 1030


def test_a_preempted_request_keeps_its_tokens_and_their_times():
    # Both need a second block in the second step, and there is one: request 1 waits for the end
    # of request 0, recomputes its prompt and its output, and goes on.
    result = simulate([(0, 4, 3), (0, 4, 3)], cache={"gpu_blocks": 3}, enable_prefix_caching=False)
    assert column(result, "token_us") == [[10, 20, 30], [10, 40, 50]]
    steps = result.instances[0].steps
    assert [step.pre for step in steps] == [[], [1], [], [], []]
    assert [(step.pf, step.dc) for step in steps] == [(8, 0), (0, 1), (0, 1), (5, 0), (0, 1)]


def test_equal_requests_may_preempt_each_other_for_ever():
    """With a cap on prefills, the one that has got furthest is the victim, in turns."""
    settings = {
        "scheduler": "priority",
        "long_prefill_token_threshold": 1,
        "enable_prefix_caching": False,
        "cache": {"block_size": 1, "gpu_blocks": 5},
    }
    with pytest.raises(naive.StepLimit, match="instance 0"):
        simulate([(0, 5, 1), (0, 5, 1)], reserve_full_prompt=False, **settings)
    for ends in (
        simulate([(0, 5, 1), (0, 5, 1)], reserve_full_prompt=True, **settings),
        simulate([(0, 5, 1), (1, 5, 1)], reserve_full_prompt=False, **settings),
    ):
        assert column(ends, "status") == ["completed", "completed"]
