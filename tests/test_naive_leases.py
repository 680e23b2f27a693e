"""Leases of prefills, heartbeats and failed pulls in the naive twin, on traces that fit in a head.

A step takes 100 us, whatever it computes; instance 0 prefills, instance 1 decodes.
"""

import random
from collections import Counter

import explicit_traces
import naive
import pytest
from hypothesis import given, settings

APART = {
    "prefill_instances": 1,
    "decode_instances": 1,
    "kv_transfer_base_us": 0,
    "kv_transfer_bandwidth": 1.0,
}


def asking(number, arrival_us, segment, tokens, fails=False):
    """Return a request with one segment of prompt and so many tokens of output."""
    output = [100 + number, tokens]
    row = {"id": number, "arrival_us": arrival_us, "prompt": [segment], "output": output}
    return row | {"pull_fails": fails}


def run(rows, *, gpu_blocks=200, decode_gpu_blocks=None, engine=None, **cluster):
    """Run requests on an instance of each role, each step of which is checked."""
    if decode_gpu_blocks:
        cluster["decode_gpu_blocks"] = decode_gpu_blocks
    scenario = {
        "engine": engine or {},
        "cache": {"gpu_blocks": gpu_blocks},
        "cluster": APART | cluster,
        "latency": {"beta": [100]},
    }
    return naive.simulate({"scenario": scenario, "requests": rows}, check=True)


def test_without_a_lease_blocks_are_kept_until_they_are_pulled():
    found = run([asking(0, 0, [0, 1600], 1)], kv_transfer_base_us=10**9)
    (request,) = found.requests
    assert request.prefill.reported_us == 100 + 10**9 + 1600
    assert (found.expired_leases, found.failed_pulls) == (0, 0)


def test_a_lease_that_ends_before_its_blocks_are_pulled_fails_the_pull():
    """The link takes 1,600 us from 100 us on; the lease ends 1,000 us after the prefill."""
    found = run([asking(0, 0, [0, 1600], 1)], kv_lease_us=1000, kv_heartbeats=False)
    (request,) = found.requests
    assert request.prefill.reported_us == 1100
    assert request.reported_us == 1700, "all of the transfer took place"
    assert request.status == "errored"
    assert request.finish_us is None
    assert (found.expired_leases, found.failed_pulls) == (1, 1)
    assert [len(i.scheduler.pool.free) for i in found.instances] == [200, 200]


def test_heartbeats_renew_a_lease():
    """The first is sent at 100 us, with the step that asks for the blocks, then every 166 us."""
    found = run([asking(0, 0, [0, 1600], 1)], kv_lease_us=1000)
    (request,) = found.requests
    assert (request.status, found.expired_leases) == ("completed", 0)
    assert request.prefill.reported_us == 1700


def test_a_heartbeat_renews_what_waits_for_blocks_too():
    """Request 1 waits for the end of request 0: 30 steps, three times its lease."""
    rows = [asking(0, 0, [0, 160], 30), asking(1, 0, [1, 160], 1)]
    few = {"decode_gpu_blocks": 12, "kv_lease_us": 1000}
    kept = run(rows, **few)
    assert [r.status for r in kept.requests] == ["completed"] * 2
    lost = run(rows, **few, kv_heartbeats=False)
    assert [r.status for r in lost.requests] == ["completed", "errored"]
    assert lost.requests[1].prefill.reported_us == 100 + 1000


def test_a_pull_that_fails_keeps_the_blocks_for_the_rest_of_the_lease():
    """Nobody tells the prefill instance; heartbeats end with the report, at 260 us."""
    found = run([asking(0, 0, [0, 160], 1, fails=True)], kv_lease_us=1000)
    (request,) = found.requests
    assert request.reported_us == 260
    assert request.status == "errored"
    assert request.prefill.reported_us == 1100
    assert (found.expired_leases, found.failed_pulls) == (1, 1)


def test_recompute_lets_the_decode_instance_compute_the_prompt():
    recompute = {"kv_lease_us": 1000, "kv_load_failure_policy": "recompute"}
    found = run([asking(0, 0, [0, 160], 3, fails=True)], **recompute)
    (request,) = found.requests
    assert request.status == "completed"
    assert request.admissions[-1][1] == 0
    assert request.token_us == [360, 460, 560]
    assert request.executed == 160 + 160 + 2
    assert (found.expired_leases, found.failed_pulls) == (1, 1)


def test_recompute_hits_again_and_computes_the_rest():
    """Of request 1 eight blocks are in the decode instance's cache: 32 tokens are computed."""
    rows = [asking(0, 0, [0, 128], 1), asking(1, 5000, [0, 160], 1, fails=True)]
    recompute = {"kv_lease_us": 1000, "kv_load_failure_policy": "recompute"}
    found = run(rows, **recompute)
    request = found.requests[1]
    assert request.status == "completed"
    assert request.admissions[-1][1] == 128
    assert found.transfers[1][1] == 32


def test_what_was_lost_is_looked_for_again():
    """Request 1 asked for its blocks before request 0, which is alike, had any in the cache."""
    rows = [asking(0, 0, [0, 160], 1), asking(1, 1, [0, 160], 1, fails=True)]
    recompute = {"kv_lease_us": 1000, "kv_load_failure_policy": "recompute"}
    found = run(rows, **recompute, engine={"max_num_seqs": 1, "max_num_batched_tokens": 160})
    request = found.requests[1]
    assert request.status == "completed"
    assert request.admissions[-1][1] == 144


def test_the_next_round_of_a_conversation_never_comes_after_a_failure():
    rows = [asking(0, 0, [0, 160], 1, fails=True), asking(1, 0, [1, 16], 1)]
    rows[1] |= {"after": 0, "think_us": 5}
    found = run(rows, kv_lease_us=1000)
    assert [r.status for r in found.requests] == ["errored", "not_arrived"]


def test_who_waits_to_be_sent_is_sent_when_another_fails():
    rows = [asking(0, 0, [0, 160], 1, fails=True), asking(1, 0, [1, 16], 1)]
    scenario = {"cluster": APART | {"kv_lease_us": 1000}, "latency": {"beta": [100]}}
    scenario["workload"] = {"concurrency": 1}
    found = naive.simulate({"scenario": scenario, "requests": rows}, check=True)
    assert [r.status for r in found.requests] == ["errored", "completed"]
    assert found.requests[1].arrival_us == found.requests[0].reported_us == 260


@settings(max_examples=60)
@given(explicit_traces.traces(features=explicit_traces.LEASES, closed_loop=True))
def test_invariants_hold_in_every_step(trace):
    """`naive.explicit.checks`: what is free, used, kept and pulled makes up each pool."""
    try:
        found = naive.simulate(trace, check=True)
    except naive.StepLimit:
        return
    for instance in found.instances:
        assert len(instance.scheduler.pool.free) == instance.scheduler.pool.usable
        assert not instance.scheduler.held
        assert not instance.leases.ends
    failed = [r for r in found.requests if r.status == "errored"]
    assert all(r.pull_fails and r.pulled and not r.token_us for r in failed)
    assert len(failed) <= found.failed_pulls <= len(found.transfers)


@pytest.mark.long
@pytest.mark.slow
def test_random_traces_provoke_what_they_are_for():
    seen = Counter()
    for seed in range(200):
        trace = explicit_traces.random_trace(random.Random(seed), ("leases",), closed_loop=True)
        try:
            found = naive.simulate(trace)
        except naive.StepLimit:
            continue
        recomputes = trace["scenario"]["cluster"]["kv_load_failure_policy"] == "recompute"
        size = trace["scenario"]["cache"]["block_size"]
        tokens = {number: count for number, count, *_ in found.transfers}
        seen["expired"] += found.expired_leases > 0
        seen["expired, and not as drawn"] += any(
            r.pull_fails and not row["pull_fails"]
            for r, row in zip(found.requests, trace["requests"], strict=True)
        )
        seen["failed"] += any(r.status == "errored" for r in found.requests)
        seen["recomputed"] += recomputes and found.failed_pulls > 0
        seen["hit, and failed"] += any(
            r.pull_fails and r.reported_us and tokens[r.id] <= r.prompt_tokens - size
            for r in found.requests
        )
        seen["pulled"] += len(found.transfers) > found.failed_pulls
    assert {name: count for name, count in seen.items() if count < 5} == {}
    assert len(seen) == 6


@pytest.mark.parametrize(("busy", "released"), [(True, 700 + 400), (False, 650 + 400)])
def test_a_heartbeat_counts_from_the_step_that_hears_it(busy, released):
    """Sent at 150, 250, ... 650 us; the pull ends at 710 us and fails, so the lease ends by itself.

    Beside another prompt the last one is heard at 700 us, as that ends; asleep at once.
    """
    rows = [asking(0, 0, [0, 16], 1, fails=True)]
    rows += [asking(1, 0, [1, 144 + 6 * 160], 1)] if busy else []
    slow = {"kv_transfer_base_us": 544, "pd_handoff_us": 50, "kv_lease_us": 600}
    found = run(rows, **slow, engine={"max_num_batched_tokens": 160, "max_num_seqs": 8})
    assert found.requests[0].reported_us == 710
    assert found.requests[0].prefill.reported_us == released
    assert found.expired_leases == 1
