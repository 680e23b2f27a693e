"""CPU offload as vLLM does it: the kernel against the recordings and against the naive twin."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import batches
import found
import naive
import pytest
import strategies
import twin
from goldens import load, vllm_cases
from hypothesis import given

from kvsweep.records import LaneStatus

OFFLOAD = "vllm2/offload"


@pytest.mark.parametrize("name", vllm_cases(OFFLOAD))
def test_kernel_repeats_vllm(name):
    case = load(name, OFFLOAD)
    expected = case["expected"]
    single = twin.run_kernel(case)
    columns = expected["steps"]
    steps = [
        SimpleNamespace(**dict(zip(columns, row, strict=True)))
        for row in zip(*columns.values(), strict=True)
    ]
    for column, mine in twin.STEP_COLUMNS.items():
        if column in columns:
            assert single.outputs.steps[mine].tolist() == columns[column], column
    if "sched" in columns:
        assert list(twin.schedules(single, 0)) == columns["sched"]
    assert list(twin.copy_differences(single, 0, steps, expected["transfers"])) == []
    progress = single.outputs.progress
    for number, row in enumerate(expected["requests"]):
        for field, want in (("first_token", "first_token_us"), ("finish", "finish_us")):
            assert progress[number][field] == (-1 if row[want] is None else row[want])
        assert progress[number]["preemptions"] == row["preemptions"]
    tally = single.outputs.tallies[0]
    for mine, theirs in twin.COPY_TOTALS.items():
        assert tally[mine] == expected["totals"][theirs], mine
    assert tally["evictions"] == expected["totals"]["evictions"]


@given(strategies.traces(max_requests=20, closed_loop=True, asynchronous=True, offload=True))
def test_kernel_equals_twin(trace):
    assert list(twin.differences(trace)) == []


@pytest.mark.parametrize("seed", range(4))
def test_kernel_equals_twin_on_longer_traces(seed):
    rng = random.Random(f"offload/{seed}")
    for _ in range(10):
        trace = strategies.random_trace(
            rng, max_requests=60, closed_loop=True, asynchronous=True, offload=True
        )
        assert list(twin.differences(trace)) == []


@pytest.mark.parametrize(
    "name",
    [
        # Asynchronously a step hits a block that the one before filled and awaited a store for.
        "hit-awaits-a-store",
        # A request with its load caches what another fills by decoding, in the order of vLLM.
        "filled-by-decoding",
    ],
)
def test_kernel_equals_twin_where_it_did_not(name):
    assert list(twin.differences(found.trace(name))) == []


def victims_trace(requests, engine, cache):
    """Return a trace whose step gives blocks to a request, then preempts it for another one."""
    engine = {"rules": "vllm", "scheduler": "priority", "reserve_full_prompt": False} | engine
    cache = {"offload": "vllm", "offload_eviction": "arc", "cpu_blocks": 100} | cache
    rows = [
        {"id": i, "arrival_us": at, "priority": priority, "prompt": prompt, "output": [100 + i, n]}
        for i, (at, priority, prompt, n) in enumerate(requests)
    ]
    scenario = {"engine": engine, "cache": cache, "latency": {"alpha": [0], "beta": [10]}}
    return {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}


def awaited(trace):
    return [step.flush for step in naive.simulate(trace).instances[0].steps if step.flush]


def test_what_a_victim_was_given_in_the_same_step_is_not_taken_up():
    """Of two stores only that is awaited whose block goes on to the request that lacked it.

    The third is of the victim.
    """
    rows = [(0, 0, [[1, 4]], 1), (0, 0, [[2, 4]], 1), (100, 5, [[3, 30]], 1), (105, 0, [[4, 4]], 6)]
    engine = {"max_num_seqs": 4, "max_num_batched_tokens": 12, "long_prefill_token_threshold": 8}
    cache = {"block_size": 4, "gpu_blocks": 8, "transfer_bandwidth": 0.001}
    trace = victims_trace(rows, engine, cache)
    assert awaited(trace) == [3, 1]
    assert list(twin.differences(trace)) == []


def test_asynchronously_the_next_step_takes_up_what_a_victim_was_given():
    rows = [
        (0, 2, [[0, 2], [10, 1], [20, 7]], 3),
        (27, 2, [[0, 2], [21, 6]], 5),
        (72, 0, [[0, 1], [22, 7]], 1),
        (72, 0, [[0, 1], [22, 7], [102, 1], [23, 3]], 1),
        (72, 0, [[1, 2], [12, 2], [24, 9]], 1),
        (72, 0, [[1, 1], [13, 2]], 1),
        (82, 1, [[1, 2], [26, 11]], 1),
    ]
    engine = {
        "max_num_seqs": 8,
        "max_num_batched_tokens": 17,
        "long_prefill_token_threshold": 2,
        "watermark": 0.15,
        "async_scheduling": True,
    }
    cache = {
        "block_size": 1,
        "gpu_blocks": 12,
        "offload_block_factor": 3,
        "offload_prompt_only": False,
        "transfer_bandwidth": 0.03,
        "transfer_base_latency_us": 200,
    }
    trace = victims_trace(rows, engine, cache)
    assert awaited(trace) == [2, 1, 3, 1, 2, 1, 2]
    assert list(twin.differences(trace)) == []


def test_an_eviction_lets_a_refused_head_look_for_a_chunk_that_is_being_loaded():
    """Request 2 decodes alone, and evicts what the head (1) hits, up to what 0 loads meanwhile."""
    rows = [
        (0, 0, [[0, 1]], 24),
        (0, 0, [[0, 1], [100, 38]], 1),
        (0, 0, [[0, 1]], 15),
        (2, -1, [[0, 1], [100, 1], [8, 4]], 10),
    ]
    engine = {"reserve_full_prompt": True, "long_prefill_token_threshold": 1}
    cache = {"block_size": 2, "gpu_blocks": 20, "transfer_bandwidth": 0.03}
    trace = victims_trace(rows, engine, cache)
    (instance,) = naive.simulate(trace).instances
    assert [1] in [step.later for step in instance.steps]
    assert list(twin.differences(trace)) == []


def decoding_trace(rng):
    """Return a trace in which outputs are stored while many steps are run at once."""
    trace = strategies.random_trace(
        rng, max_requests=40, closed_loop=True, asynchronous=True, offload=True
    )
    scenario = trace["scenario"]
    scenario["cache"] |= {
        "block_size": max(2, scenario["cache"]["block_size"]),
        "cpu_blocks": rng.choice((1, 20, 100, 400)),
        "offload_prompt_only": False,
        "offload_block_factor": 1,
        "offload_eviction": rng.choice(("lru", "lru", "arc")),
        "transfer_bandwidth": rng.choice((0.3, 1.0, 7.0)),
    }
    scenario["latency"]["beta"] = scenario["latency"]["beta"][:3]  # steps of one duration
    scenario["latency"].pop("memory", None)
    scenario["latency"].pop("experts", None)
    scenario["latency"].pop("window", None)
    return trace


def check_runs_of_steps(traces):
    """A lane with logs runs step by step; all else must be the same without."""
    inputs, outputs = batches.run(traces)
    logs = {"tally log_steps", "tally log_events", "tally log_transfers"}
    for lane, trace in enumerate(traces):
        among = batches.lane_results(inputs, outputs, lane)
        if among["tally status"] == LaneStatus.OK:
            single = twin.run_kernel(trace)
            logged = batches.lane_results(batches.inputs_of([trace]), single.outputs, 0)
            assert set(batches.differing(logged, among)) <= logs, lane


@pytest.mark.parametrize("seed", range(3))
def test_stores_of_many_steps_at_once_are_those_of_single_steps(seed):
    rng = random.Random(f"runs of steps/{seed}")
    check_runs_of_steps([decoding_trace(rng) for _ in range(40)])


def test_stores_may_concern_a_head_that_shares_nothing_on_the_gpu():
    """Without prefix caching the head of the waiting list was not told to ask later."""
    trace = found.trace("head-asks-later")
    assert not trace["scenario"]["engine"]["enable_prefix_caching"]
    check_runs_of_steps([trace])


def test_a_chunk_that_two_fill_without_prefix_caching_is_stored_once():
    path = Path(__file__).with_name("stored_twice.json.gz")
    check_runs_of_steps(json.loads(gzip.decompress(path.read_bytes())))


def test_a_head_asks_later_for_what_was_refused_before():
    path = Path(__file__).with_name("offered_again.json.gz")
    check_runs_of_steps(json.loads(gzip.decompress(path.read_bytes())))


def test_who_offers_its_first_chunk_earlier_in_a_run_has_the_lower_rank():
    path = Path(__file__).with_name("first_offers.json.gz")
    check_runs_of_steps(json.loads(gzip.decompress(path.read_bytes())))


@pytest.mark.parametrize("seed", range(3))
def test_steps_run_at_once_while_requests_wait_for_loads(seed):
    """Loads of many steps, and blocks that lack for who has its load."""
    rng = random.Random(f"loads/{seed}")
    traces = [decoding_trace(rng) for _ in range(40)]
    for trace in traces:
        trace["scenario"]["cache"] |= {
            "offload_prompt_only": True,
            "transfer_bandwidth": rng.choice((0.03, 0.1, 0.3, 1.0)),
        }
    check_runs_of_steps(traces)


@pytest.mark.long
@pytest.mark.slow
def test_random_traces_provoke_what_they_are_for():
    seen = Counter()
    for seed in range(300):
        trace = strategies.random_trace(
            random.Random(seed), closed_loop=True, asynchronous=True, offload=True
        )
        try:
            result = naive.simulate(trace)
        except naive.StepLimit:
            continue
        for instance in result.instances:
            seen.update({name for name, total in instance.totals.items() if total})
            for name in ("later", "nostore", "stall"):
                seen[name] += any(getattr(step, name) for step in instance.steps)
            seen["came back by a load"] += any(
                kind == "load" and result.requests[r].preemptions
                for kind, r, *_ in instance.streams.log
            )
            seen["ghosts"] += bool(
                getattr(instance.scheduler.connector.manager.policy, "target", 0)
            )
    wanted = ("loads", "stores", "cpu_evictions", "later", "nostore", "stall", "preemptions")
    wanted += ("came back by a load", "ghosts")
    assert {name: seen[name] for name in wanted if seen[name] < 5} == {}


def test_asynchronously_who_offers_a_chunk_is_told_by_phases_but_in_some_steps():
    """Not in the first step of decoding, nor in the second one after a step that was missed."""
    path = Path(__file__).with_name("counted_stores.json.gz")
    check_runs_of_steps(json.loads(gzip.decompress(path.read_bytes())))


@pytest.mark.parametrize("seed", range(3))
def test_counted_stores_are_those_of_single_steps(seed):
    """Tiers and pools that starve, or do not, and long outputs: most stores are only counted."""
    rng = random.Random(f"counted stores/{seed}")
    traces = [decoding_trace(rng) for _ in range(40)]
    for trace in traces:
        trace["scenario"]["cache"] |= {
            "cpu_blocks": rng.choice((3, 20, 60, 400)),
            "gpu_blocks": max(trace["scenario"]["cache"]["gpu_blocks"], rng.choice((1, 50, 200))),
            "offload_eviction": "lru",
            "transfer_bandwidth": rng.choice((0.05, 0.3, 1.0, 7.0)),
        }
        for request in trace["requests"]:
            if isinstance(request["output"], list):
                request["output"][1] *= rng.choice((1, 3, 8))
    check_runs_of_steps(traces)


def test_holders_that_wait_for_blocks_of_each_other_end_with_a_status():
    """vLLM 0.33.0 hangs there: two requests hold what they have loaded, and each lacks blocks."""
    path = Path(__file__).with_name("holders_wait.json.gz")
    trace = json.loads(gzip.decompress(path.read_bytes()))
    single = twin.run_kernel(trace)
    assert single.status.label == "step_limit"
    assert "wait for those of each other for ever, as in vLLM" in single.detail
    assert list(twin.differences(trace)) == []
    trace["scenario"]["engine"]["reserve_full_prompt"] = True
    assert twin.run_kernel(trace).status.label == "ok"
    assert list(twin.differences(trace)) == []
