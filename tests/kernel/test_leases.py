"""Leases of prefills, heartbeats and failed pulls: the kernel against the twin (R14)."""

import random

import batches
import explicit_traces
import found
import naive
import pytest
import twin
from hypothesis import given, settings

import kvsweep
from kvsweep.policies import RequestStatus, Status
from kvsweep.records import LaneStatus
from kvsweep.simulate import entries

# Without compiling there is one entry, of everything.
LEASED = next(
    (each for each in entries.ENTRIES if each.name == "run_explicit"), entries.ENTRIES[-1]
)


@settings(max_examples=80)
@given(explicit_traces.traces(features=explicit_traces.LEASES, closed_loop=True))
def test_kernel_equals_twin(trace):
    assert list(twin.differences(trace)) == []


@pytest.mark.parametrize("seed", range(3))
def test_kernel_equals_twin_on_longer_traces(seed):
    rng = random.Random(f"leases/{seed}")
    for _ in range(8):
        trace = explicit_traces.random_trace(
            rng, explicit_traces.LEASES, max_requests=40, closed_loop=True
        )
        assert list(twin.differences(trace)) == []


def test_many_heartbeats_are_no_livelock():
    """One each microsecond, while transfers take hundreds: one of 3,000 random traces."""
    trace = found.trace("many-heartbeats")
    assert trace["scenario"]["cluster"]["kv_lease_us"] == 11
    assert list(twin.differences(trace)) == []


@settings(max_examples=60)
@given(explicit_traces.traces(features=explicit_traces.LEASES, closed_loop=True))
def test_blocks_are_conserved_on_both_sides_of_a_transfer(trace):
    """Whoever was prefilled has its blocks freed there, at the end of its transfer or of its lease.

    In each step what is free and what the requests there have make up a pool: the twin, whose
    numbers of free blocks the kernel has, asks for it in every step. At the end all are free.
    """
    single = twin.run_kernel(trace)
    if single.status.label != "ok":
        assert single.status.label == "step_limit"
        return
    assert (single.outputs.steps["free_blocks"] >= 0).all()
    assert (single.outputs.steps["kept"] >= 0).all()
    for row, handoff in zip(single.outputs.progress, single.outputs.handoffs, strict=True):
        if handoff["prefilled"] == twin.NO_VALUE:
            continue
        assert handoff["prefilled"] <= handoff["arrives"] <= handoff["pulled"]
        if handoff["failed"]:
            assert handoff["released"] >= handoff["lease_end"]
            assert row["status"] in (RequestStatus.ERRORED, RequestStatus.COMPLETED)
        else:
            assert handoff["released"] >= handoff["arrives"]
            assert row["status"] == RequestStatus.COMPLETED
    naive.simulate(trace, check=True)


def apart(seeds):
    """Return random traces of prefill and decode apart."""
    return [
        explicit_traces.random_trace(random.Random(f"apart/{seed}"), ("roles",), closed_loop=True)
        for seed in seeds
    ]


def test_leases_that_never_end_change_nothing():
    """With heartbeats or without, by the entry of leases or the one of lanes that have none."""
    traces = apart(range(25))
    expected = batches.run(traces)
    for heartbeats in (True, False):
        for trace in traces:
            lease = {"kv_lease_us": 10**13, "kv_heartbeats": heartbeats}
            trace["scenario"]["cluster"] |= lease
        found = batches.run(traces)
        for lane in range(len(traces)):
            assert found[1].tallies["status"][lane] == expected[1].tallies["status"][lane]
            if found[1].tallies["status"][lane] == LaneStatus.OK:
                pair = [batches.lane_results(*each, lane) for each in (expected, found)]
                # Runs of steps are shorter: they end before a hand-over, and at a heartbeat.
                assert set(batches.differing(*pair)) <= {"tally itl_entries", "tally shortages"}


def test_lanes_without_leases_decide_alike_by_the_entry_of_leases(monkeypatch):
    traces = apart(range(25, 40))
    expected = batches.run(traces)
    monkeypatch.setattr(entries, "ENTRIES", (LEASED,))
    found = batches.run(traces)
    for lane in range(len(traces)):
        pair = [batches.lane_results(*each, lane) for each in (expected, found)]
        assert batches.differing(*pair) == []


def test_a_sweep_counts_what_fails(tmp_path):
    """The higher the rate the more fails, and whoever fails at one rate does at the next."""
    path = tmp_path / "leases.toml"
    path.write_text(
        """
title = "leases"
question = "what fails?"
[workload]
requests = 60
rate = 50.0
[latency]
beta = [1000, 10, 5]
[cluster]
prefill_instances = 1
decode_instances = 1
kv_transfer_bandwidth = 1.0
kv_lease_us = 30_000_000
[grid]
"cluster.kv_load_failure_policy" = ["fail", "recompute"]
"cluster.kv_load_failure_rate" = [0.0, 0.1, 0.5]
seed = { count = 3 }
"""
    )
    found = kvsweep.run(kvsweep.load_sweep(path), out=tmp_path / "leases.zarr", workers=1)
    assert (found.status == "ok").all()
    failed = found.failed_pulls.transpose("seed", "kv_load_failure_policy", "kv_load_failure_rate")
    assert (failed.values[:, 0] == failed.values[:, 1]).all()
    assert (failed.values[..., 0] == 0).all()
    assert (failed.values[..., 1] < failed.values[..., 2]).all()
    assert (found.errored.sel(kv_load_failure_policy="recompute") == 0).all()
    ended = found.sel(kv_load_failure_policy="fail")
    assert (ended.errored == ended.failed_pulls).all()
    assert (ended.completed + ended.errored == 60).all()
    assert (found.expired_leases == found.failed_pulls).all()


def test_heartbeats_are_sent_among_steps_that_no_log_tells_of():
    """Request 1 waits while 0 decodes alone. Its pull fails: the last lease tells of heartbeats."""
    cluster = {"prefill_instances": 1, "decode_instances": 1, "kv_transfer_bandwidth": 1.0}
    scenario = {
        "cluster": cluster | {"decode_gpu_blocks": 6, "kv_lease_us": 6000},
        "cache": {"block_size": 16},
        "latency": {"beta": [300]},
    }
    requests = [
        {"id": i, "arrival_us": 0, "prompt": [[i, 48 + 16 * i]], "output": [9 + i, 39 - 38 * i]}
        for i in range(2)
    ]
    requests[1]["pull_fails"] = True
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": requests}
    assert list(twin.differences(trace)) == []
    _, outputs = batches.run([trace])
    released = [request.prefill.reported_us for request in naive.simulate(trace).requests]
    assert outputs.handoffs["released"].tolist() == released


SLOW_LINK = {"kv_transfer_bandwidth": 0.1, "pd_handoff_us": 5000, "kv_lease_us": 6000}
SLOW_LINK |= {"kv_heartbeats": False, "decode_gpu_blocks": 8}
FULL_POOL = {"kv_transfer_bandwidth": 1000.0, "pd_handoff_us": 2000, "kv_lease_us": 3000}
FULL_POOL |= {"decode_gpu_blocks": 6}


@pytest.mark.parametrize(
    ("cluster", "beta", "requests"),
    [
        (SLOW_LINK, [1000], [(0, 48, 1), (1000, 64, 40), (10_000, 16, 40)]),
        (FULL_POOL, [3000, 100], [(0, 64, 40), (1000, 48, 40), (10_000, 48, 20)]),
    ],
    ids=["to be told of a pull", "to renew some"],
)
def test_who_decodes_ahead_waits_where_leases_may_have_ended(cluster, beta, requests):
    """It passes a prefill on its way; that learns of the end of a lease only with its outputs."""
    scenario = {
        "cluster": {"prefill_instances": 1, "decode_instances": 1} | cluster,
        "cache": {"block_size": 16},
        "latency": {"beta": beta},
    }
    rows = [
        {"id": i, "arrival_us": arrival, "prompt": [[i, prompt]], "output": [9 + i, output]}
        for i, (arrival, prompt, output) in enumerate(requests)
    ]
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}
    assert list(twin.differences(trace)) == []


def test_beside_windows_requests_whose_pulls_failed_can_wait_for_each_other_for_ever():
    """As vLLM 0.33.0's scheduler does: to compute a prompt takes more blocks than to pull it."""
    sliding = [{"kind": "sliding", "window": window} for window in (3, 2)]
    lease = {"kv_lease_us": 1_000_000, "kv_heartbeats": False}
    link = {"kv_transfer_base_us": 1000, "kv_transfer_bandwidth": 0.1}
    roles = {"prefill_instances": 1, "decode_instances": 1, "prefill_gpu_blocks": 90}
    scenario = {
        "engine": {"max_num_seqs": 4, "max_num_batched_tokens": 7},
        "cache": {"block_size": 1, "gpu_blocks": 30, "groups": [{"kind": "full"}, *sliding]},
        "cluster": roles | link | lease | {"kv_load_failure_policy": "recompute"},
        "latency": {"beta": [10, 1, 1]},
    }
    rows = [
        {"id": i, "arrival_us": i, "prompt": [[i, tokens]], "output": [9 + i, 2]}
        for i, tokens in enumerate((6, 6, 4, 3))
    ]
    rows = [row | {"pull_fails": True} for row in rows]
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}
    single = twin.run_kernel(trace)
    assert single.status is Status.STEP_LIMIT
    assert "requests whose pulls failed can wait for each other's blocks" in single.detail
    assert list(twin.differences(trace)) == []  # nor does the twin end


def test_heartbeats_for_who_waits_for_ever_end():
    """Two whose pulls failed hold what a third needs, whose lease is renewed each microsecond."""
    trace = found.trace("heartbeats-for-ever")
    assert trace["scenario"]["cluster"]["kv_lease_us"] == 2
    single = twin.run_kernel(trace)
    assert single.status.label == "step_limit"
    assert "can wait for each other's blocks for ever" in single.detail
    with pytest.raises(naive.StepLimit, match="nothing happens but heartbeats"):
        naive.simulate(trace)
