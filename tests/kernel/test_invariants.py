"""What must hold in every simulation, whatever the scenario: counted from requests and logs."""

import copy
import random
from collections import Counter

import batches
import numpy as np
import pytest
import strategies
import twin
from hypothesis import assume, given

from kvsweep.policies import RequestStatus
from kvsweep.records import Event
from kvsweep.workload.traces import FORMAT

COMPLETED = RequestStatus.COMPLETED
DROPPED = RequestStatus.DROPPED_UNSERVABLE


def longest(row):
    """Tokens of a request that are ever computed: the last sampled one is not."""
    return sum(tokens for _, tokens in row["prompt"]) + row["output"][1] - 1


def blocks_for(tokens, trace):
    return -(-tokens // trace["scenario"]["cache"]["block_size"])


def run(trace):
    """Run a trace that ends well; others are no examples here: livelocks have their own test."""
    single = twin.run_kernel(trace)
    assume(single.status.label == "ok")
    return single


def changed(trace, **sections):
    """Return a copy of a trace with keys of its scenario changed."""
    other = copy.deepcopy(trace)
    for name, section in sections.items():
        other["scenario"][name] |= section
    return other


def steps_of(single, instance):
    return single.outputs.steps[single.outputs.steps["instance"] == instance]


@given(strategies.traces(asynchronous=True))
def test_every_request_is_accounted_for(trace):
    single = run(trace)
    engine, cache = trace["scenario"]["engine"], trace["scenario"]["cache"]
    most = cache["gpu_blocks"] * cache["block_size"]
    if not engine["enable_chunked_prefill"]:
        most = min(most, engine["max_num_batched_tokens"] - 1)
    for row, status in zip(trace["requests"], single.outputs.request_status, strict=True):
        admission = trace["scenario"]["cluster"]["admission"]
        if admission == "reject-all":
            assert status == RequestStatus.REJECTED
        elif admission == "always" or status != RequestStatus.REJECTED:
            assert status == (COMPLETED if longest(row) <= most else DROPPED)


@given(strategies.traces(asynchronous=True))
def test_each_token_is_computed_and_sampled_once(trace):
    """Every known token is computed or found cached, again after each preemption."""
    single = run(trace)
    progress = single.outputs.progress
    computed, missing = Counter(), Counter()
    for index in range(trace["scenario"]["cluster"]["instances"]):
        events = twin.events_by_step(single, index)
        for step, scheduled in enumerate(twin.schedules(single, index)):
            for request, tokens in scheduled:
                computed[request] += tokens
            for request, cached in events[step][Event.ADMIT]:
                missing[request] += cached
    tokens = sum(computed.values())
    steps = single.outputs.steps
    assert tokens == steps["prefill_tokens"].sum() + steps["decode_tokens"].sum()
    for number, row in enumerate(trace["requests"]):
        if single.outputs.request_status[number] != COMPLETED:
            assert computed[number] == 0
        elif progress["preemptions"][number] == 0:
            assert computed[number] + missing[number] == longest(row)
        else:
            assert computed[number] + missing[number] >= longest(row)
    done = single.outputs.request_status == COMPLETED
    gaps = sum(
        row["output"][1] - 1 for row, end in zip(trace["requests"], done, strict=True) if end
    )
    assert single.outputs.tallies[0]["itl_count"] == gaps


@pytest.mark.parametrize("beta", [[1000, 0, 0], [1000, 0, 0, 0, 0.001]])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_slow_first_steps_are_in_the_gaps_between_tokens(beta, asynchronous):
    """Also of steps that only decode, whose gaps are otherwise told by the size of their batch."""
    row = {"id": 0, "arrival_us": 0, "prompt": [[0, 1]], "output": [1, 6]}
    latency = {"beta": beta, "first_steps_us": [7000, 0, 500, 20]}
    scenario = {"latency": latency, "engine": {"async_scheduling": asynchronous}}
    single = twin.run_kernel({"format": FORMAT, "scenario": scenario, "requests": [row]})
    assert single.outputs.steps["duration_us"].tolist() == [8000, 1000, 1500, 1020, 1000, 1000]
    assert single.outputs.ttft[0] == 8000
    tally = single.outputs.tallies[0]
    assert (tally["itl_sum"], tally["itl_count"]) == (5520, 5)
    assert tally["itl_q3"] == pytest.approx(1500, abs=30)


@given(strategies.traces(asynchronous=True))
def test_free_and_held_blocks_make_up_the_pool_in_every_step(trace):
    """Exact where nothing is shared; shared blocks are held by several and counted once."""
    single = run(trace)
    usable = trace["scenario"]["cache"]["gpu_blocks"]
    for index in range(trace["scenario"]["cluster"]["instances"]):
        events = twin.events_by_step(single, index)
        shares = any(cached for found in events.values() for _, cached in found[Event.ADMIT])
        computed, finishing = {}, {}
        rows = steps_of(single, index)
        for row, scheduled in zip(rows, twin.schedules(single, index), strict=True):
            found = events[int(row["step"])]
            gone = [r for r, end in finishing.items() if end <= row["scheduled_us"]]
            for request in gone + [victim for victim, _ in found[Event.PREEMPT]]:
                # Asynchronously a victim may have its last token on its way, and leave.
                computed.pop(request, None)
                finishing.pop(request, None)
            computed |= dict(found[Event.ADMIT])
            for request, tokens in scheduled:
                computed[request] += tokens
            held = sum(blocks_for(tokens, trace) for tokens in computed.values())
            assert len(computed) == row["running"]
            if shares:
                assert usable - held <= row["free_blocks"] <= usable
            else:
                assert row["free_blocks"] + held == usable
            end = row["start_us"] + row["duration_us"]
            finishing |= {request: end for request, _ in found[Event.FINISH]}
        assert computed.keys() == finishing.keys()
        peak = usable - rows["free_blocks"].min(initial=usable)
        assert single.outputs.peak_blocks[0, index] == peak


@given(strategies.traces(asynchronous=True))
def test_time_only_goes_forward(trace):
    single = run(trace)
    for index in range(trace["scenario"]["cluster"]["instances"]):
        rows = steps_of(single, index)
        ends = rows["start_us"] + rows["duration_us"]
        assert rows["step"].tolist() == list(range(len(rows)))
        assert (rows["start_us"][1:] >= ends[:-1]).all()
        assert (rows["prefill_tokens"] + rows["decode_tokens"] > 0).all()
    done = single.outputs.request_status == COMPLETED
    progress = single.outputs.progress[done]
    arrival = np.array([row["arrival_us"] for row in trace["requests"]])[done]
    assert (arrival <= progress["queued"]).all()
    assert (progress["queued"] <= progress["scheduled"]).all()
    assert (progress["scheduled"] < progress["first_token"]).all()
    assert (progress["first_token"] <= progress["finish"]).all()
    ends = single.outputs.steps["start_us"] + single.outputs.steps["duration_us"]
    assert single.outputs.tallies[0]["makespan"] == ends.max(initial=0)


@given(strategies.traces(asynchronous=True))
def test_without_caching_nothing_is_found_or_evicted(trace):
    single = run(changed(trace, engine={"enable_prefix_caching": False}, cache={"cpu_blocks": 0}))
    tally = single.outputs.tallies[0]
    assert [tally[n] for n in ("hit_tokens", "query_tokens", "blocks_reused", "evictions")] == [
        0
    ] * 4
    assert set(single.outputs.progress["cached_tokens"].tolist()) <= {0, -1}


def roomy(trace):
    """Return the trace with a pool that it never fills, whatever it keeps for reuse.

    Its router does not look at the share of blocks in use.
    """
    size = trace["scenario"]["cache"]["block_size"]
    every = sum(longest(row) // size + 1 for row in trace["requests"])
    cache = {"gpu_blocks": 2 * every, "cpu_blocks": 0}
    scorers = trace["scenario"]["cluster"].get("scorers", {})
    blind = {name: weight for name, weight in scorers.items() if not name.startswith("kv-")}
    blind = blind if any(blind.values()) else {"load-balance": 1}
    cluster = {"scorers": blind} if scorers else {}
    return changed(trace, cache=cache, engine={"watermark": 0.0}, cluster=cluster)


@given(strategies.traces(asynchronous=True))
def test_blocks_beyond_those_ever_needed_change_nothing(trace):
    plenty = roomy(trace)
    more = changed(plenty, cache={"gpu_blocks": 7 * plenty["scenario"]["cache"]["gpu_blocks"]})
    one, other = (batches.lane_results(*batches.run([t]), 0) for t in (plenty, more))
    assert one["tally evictions"] == 0
    # Seats may run short, and urgent requests take them.
    urgent = plenty["scenario"]["engine"].get("preempt_for_urgent")
    assert urgent or one["preemptions"].sum() == 0
    assert batches.differing(one, other) == []


@given(strategies.traces(asynchronous=True))
def test_a_pool_as_large_as_the_peak_is_enough(trace):
    """Where no admission asks for more than it takes, and nothing is kept for reuse."""
    engine = {"enable_prefix_caching": False, "reserve_full_prompt": False}
    plenty = changed(roomy(trace), engine=engine)
    one = batches.lane_results(*batches.run([plenty]), 0)
    assume(one["tally steps"] > 0)
    tight = changed(plenty, cache={"gpu_blocks": int(one["peak"].max())})
    assert batches.differing(one, batches.lane_results(*batches.run([tight]), 0)) == []


@pytest.mark.parametrize("order", ["as they come", "reversed", "shuffled"])
def test_lanes_do_not_see_each_other(order):
    """A lane in a used workspace equals the same lane alone in a new one."""
    traces = batches.random_traces(range(1000, 1150))
    positions = list(range(len(traces)))
    if order == "reversed":
        positions.reverse()
    elif order == "shuffled":
        random.Random(0).shuffle(positions)
    inputs, outputs = batches.run([traces[i] for i in positions])
    for lane, position in enumerate(positions):
        alone = batches.lane_results(*batches.run([traces[position]]), 0)
        among = batches.lane_results(inputs, outputs, lane)
        assert (position, batches.differing(alone, among)) == (position, [])


def made_asynchronous(trace):
    """Return the trace scheduled asynchronously, as far as that is allowed."""
    synchronous = trace["scenario"]["engine"].get("preempt_for_urgent", False)
    synchronous = synchronous or "offload" in trace["scenario"]["cache"]
    return trace if synchronous else changed(trace, engine={"async_scheduling": True})


@pytest.mark.parametrize(
    ("first", "requests", "change"),
    [(2000, 30, lambda trace: trace), (100_000, 60, made_asynchronous)],
    ids=["as drawn", "asynchronous"],
)
def test_logging_changes_nothing(first, requests, change):
    """A lane with logs takes the same decisions as in a batch without.

    Asynchronously requests leave a step early there where nobody can tell.
    """
    traces = [change(each) for each in batches.random_traces(range(first, first + 200), requests)]
    inputs, outputs = batches.run(traces)
    logs = {"tally log_steps", "tally log_events"}
    for lane, trace in enumerate(traces):
        among = batches.lane_results(inputs, outputs, lane)
        single = twin.run_kernel(trace)
        logged = batches.lane_results(batches.inputs_of([trace]), single.outputs, 0)
        assert set(batches.differing(logged, among)) <= logs
