"""The naive twin's hybrid caches, drafts, and prefill and decode apart against recordings of vLLM.

Both schedulers, the synchronous and the asynchronous one.
"""

import random
from collections import Counter

import explicit_traces
import naive
import pytest
from goldens import load, vllm_cases
from hypothesis import given, settings
from test_naive import request_row

THRESHOLD = "pd_uncached_token_threshold"
ROWS = ("adm", "sched")
GROUPS = ("vllm2/hybrid", "vllm2/state", "vllm2/spec", "vllm2/mix", "vllm2/pipeline")
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
    result = naive.simulate(case, check=not name.startswith("real"))
    for instance, recorded in zip(result.instances, expected["engines"], strict=True):
        assert instance.role == recorded["role"]
        mine = columns_of(instance, recorded["steps"])
        for column, values in recorded["steps"].items():
            assert mine[column] == values, (instance.index, column)
    assert result.transfers == expected["transfers"]
    for request, row in zip(result.requests, expected["requests"], strict=True):
        errored = {"errored": request.status == "errored"} if "errored" in row else {}
        assert role_row(request) | errored == row


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
        "vllm2/hybrid": 30,
        "vllm2/state": 32,
        "vllm2/spec": 34,
        "vllm2/mix": 11,
        "vllm2/pipeline": 46,
        "vllm2/pd": 91,
    }


@settings(max_examples=40)
@given(explicit_traces.traces(closed_loop=True))
def test_every_trace_runs_to_its_end(trace):
    try:
        result = naive.simulate(trace, check=True)
    except naive.StepLimit:
        # The one livelock known: equal requests, and nothing protects what they have computed.
        assert trace["scenario"]["engine"]["scheduler"] == "priority"
        return
    for request, row in zip(result.requests, trace["requests"], strict=True):
        if request.status == "completed":
            assert len(request.token_us) == row["output"][1]
            assert request.token_us == sorted(request.token_us)
    for instance in result.instances:
        assert instance.totals["blocks_free_at_end"] == instance.scheduler.pool.usable
        assert len(instance.scheduler.pool.free) == instance.scheduler.pool.usable


@settings(max_examples=40)
@given(explicit_traces.traces(features=explicit_traces.ROLES, closed_loop=True))
def test_blocks_are_held_on_both_sides_until_a_transfer_has_ended(trace):
    """Each prompt that goes on is pulled once; what is free and what is held make up each pool."""
    try:
        result = naive.simulate(trace, check=True)  # counts the blocks of every step
    except naive.StepLimit:
        return
    pulled = [row[0] for row in result.transfers]
    assert len(set(pulled)) == len(pulled)
    links = {}
    for number, tokens, submitted, start, end in result.transfers:
        request = result.requests[number]
        assert tokens > 0
        assert tokens % trace["scenario"]["cache"]["block_size"] == 0
        assert request.decode_queued_us <= submitted <= start < end + 1
        assert request.prefill.first_token_us <= submitted
        assert end <= request.reported_us <= request.first_token_us
        assert end <= request.prefill.reported_us
        assert start >= links.get(request.decode_instance.index, 0)
        links[request.decode_instance.index] = end
    done = {request.id for request in result.requests if request.status == "completed"}
    assert done == set(pulled)


@settings(max_examples=40)
@given(explicit_traces.traces(features=explicit_traces.ROUTED_ROLES, closed_loop=True))
def test_blocks_are_conserved_wherever_a_prompt_is_prefilled(trace):
    """Who is done was pulled once, or stayed where it is decoded and was never prefilled apart."""
    try:
        result = naive.simulate(trace, check=True)  # counts the blocks of every step
    except naive.StepLimit:
        return
    for instance in result.instances:
        assert len(instance.scheduler.pool.free) == instance.scheduler.pool.usable
        assert not instance.scheduler.held
    pulled = Counter(row[0] for row in result.transfers)
    for request in result.requests:
        if request.status == "completed":
            stayed = request.prefill.queued_us is None
            assert pulled[request.id] == (not stayed)
            assert stayed <= (trace["scenario"]["cluster"].get(THRESHOLD) is not None)


def asking(number, arrival_us, segment, tokens):
    """Return a request with one segment of prompt and so many tokens of output."""
    output = [100 + number, tokens]
    return {"id": number, "arrival_us": arrival_us, "prompt": [segment], "output": output}


def routed(requests, **cluster):
    """Run requests on two instances of each role; return what was routed to which, and pulled."""
    apart = {"prefill": {"instances": 2}, "decode": {"instances": 2}, "kv_transfer_base_us": 0}
    latency = {"beta": [100]}
    found = naive.simulate(
        {"scenario": {"cluster": apart | cluster, "latency": latency}, "requests": requests}
    )
    where = [(r.prefill.instance, r.decode_instance.index) for r in found.requests]
    return where, [row[0] for row in found.transfers]


def test_a_prompt_goes_away_if_more_of_it_than_the_threshold_is_uncached():
    rows = [
        asking(0, 0, [1, 40], 1),
        asking(1, 0, [2, 16], 1),
        asking(2, 0, [3, 17], 1),
        asking(3, 0, [4, 15], 1),
        asking(4, 9000, [1, 40], 1),  # decode instance 2 has two blocks of it
        asking(5, 9000, [1, 40], 1),  # decode instance 3 has none
    ]
    where, pulled = routed(rows, **{THRESHOLD: 16})
    assert where == [(0, 2), (None, 3), (1, 2), (None, 3), (None, 2), (0, 3)]
    assert pulled == [0, 2, 5]


def test_the_load_of_a_decode_instance_counts_what_is_prefilled_for_it():
    rows = [asking(i, i, [i, 100], 9) for i in range(4)]
    least = {"routing": "least-loaded"}
    assert routed(rows, **least)[0] == [(0, 2), (1, 3), (0, 2), (1, 3)]
    unseen = least | {"count_pending": False}
    assert routed(rows, **unseen)[0] == [(0, 2), (1, 2), (0, 2), (1, 2)]


def test_each_role_has_a_routing_of_its_own():
    rows = [asking(i, 9000 * i, [i % 2, 64], 2) for i in (0, 1, 2, 3)]
    rows[3]["prompt"] = [[0, 64]]
    affine = {"prefill": {"instances": 2, "routing": "prompt-affinity"}}
    assert routed(rows, **affine)[0] == [(0, 2), (0, 3), (0, 2), (0, 3)]
    pools = {"scorers": {"precise-prefix": 1}, "routing": "weighted"}
    where = routed(rows, decode={"instances": 2} | pools, prefill={"instances": 2})[0]
    assert where == [(0, 2), (1, 2), (0, 2), (1, 2)]


@pytest.mark.slow
def test_random_traces_provoke_what_they_are_for():
    seen = Counter()
    for seed in range(300):
        trace = explicit_traces.random_trace(random.Random(seed), closed_loop=True)
        try:
            result = naive.simulate(trace)
        except naive.StepLimit:
            continue
        seen.update({request.status: 1 for request in result.requests})
        seen["transfers"] += bool(result.transfers)
        seen["waits for its link"] += any(start > at for _, _, at, start, _ in result.transfers)
        for instance in result.instances:
            seen.update({name: 1 for name, total in instance.totals.items() if total})
            seen["held"] += any(getattr(step, "held", 0) for step in instance.steps)
    wanted = ("completed", "dropped_unservable", "timed_out", "preemptions", "evictions", "hits")
    wanted += ("preempted_hits", "preempted_in_flight", "window_freed", "draft_tokens")
    wanted += ("accepted_tokens", "transfers", "waits for its link", "held")
    assert {name: seen[name] for name in wanted if seen[name] < 5} == {}
