"""Groups, drafts, roles and pools: the kernel against recordings and against the naive twin."""

import random

import explicit_traces
import explicit_twin
import pytest
import twin
from goldens import load, vllm_cases
from hypothesis import given, settings

GROUPS = ("vllm2/hybrid", "vllm2/spec", "vllm2/mix")
PD = "vllm2/pd"
CASES = [(group, name) for group in GROUPS for name in vllm_cases(group)]
TOTALS = {
    "evictions": "evictions",
    "window_freed": "window_freed",
    "draft_tokens": "draft_tokens",
    "accepted_tokens": "accepted_tokens",
}


@pytest.mark.parametrize(("group", "name"), CASES)
def test_kernel_repeats_vllm(group, name):
    case = load(name, group)
    expected = case["expected"]
    single = twin.run_kernel(case)
    steps = explicit_twin.recorded_steps(expected["steps"])
    assert list(explicit_twin.step_differences(single, 0, steps)) == []
    for number, row in enumerate(expected["requests"]):
        progress = single.outputs.progress[number]
        for field, want in (("first_token", "first_token_us"), ("finish", "finish_us")):
            assert progress[field] == (-1 if row[want] is None else row[want])
        assert progress["preemptions"] == row["preemptions"]
        assert progress["queued"] == row["queue_us"]
    for mine, theirs in TOTALS.items():
        assert single.outputs.tallies[0][mine] == expected["totals"].get(theirs, 0), mine


@pytest.mark.parametrize("name", vllm_cases(PD))
def test_kernel_repeats_vllm_with_prefill_and_decode_apart(name):
    case = load(name, PD)
    expected = case["expected"]
    single = twin.run_kernel(case)
    for number, engine in enumerate(expected["engines"]):
        steps = explicit_twin.recorded_steps(engine["steps"])
        assert list(explicit_twin.step_differences(single, number, steps)) == []
    assert explicit_twin.transfers_of(single) == expected["transfers"]
    columns = {
        "queue_us": "queued",
        "prefilled_us": "prefilled",
        "decode_queue_us": "requeued",
        "pulled_us": "pulled",
        "released_us": "released",
    }
    for number, row in enumerate(expected["requests"]):
        progress, handoff = single.outputs.progress[number], single.outputs.handoffs[number]
        for field, want in (("first_token", "first_token_us"), ("finish", "finish_us")):
            assert progress[field] == (-1 if row[want] is None else row[want])
        for theirs, mine in columns.items() if not row["rejected"] else ():
            assert handoff[mine] == (-1 if row[theirs] is None else row[theirs]), theirs
        both = row["prefill"]["preemptions"] + row["decode"]["preemptions"]
        assert progress["preemptions"] == both


@settings(max_examples=60)
@given(explicit_traces.traces(max_requests=20, closed_loop=True))
def test_kernel_equals_twin(trace):
    assert explicit_twin.differences(trace) == []


@pytest.mark.parametrize("feature", explicit_traces.FEATURES)
def test_kernel_equals_twin_on_longer_traces(feature):
    rng = random.Random(f"explicit/{feature}")
    for _ in range(8):
        trace = explicit_traces.random_trace(rng, (feature,), max_requests=60, closed_loop=True)
        assert explicit_twin.differences(trace) == []


def test_a_head_that_asks_for_more_than_the_pool_ends_the_run():
    """With drafts beside windows admission plans with less than a padded decode asks for then.

    Request 1 hits all but the last token of its prompt: its drafts need more blocks than are left.
    """
    rows = [
        {"id": i, "arrival_us": 100_000 * i, "prompt": [[0, 16]], "output": [10 + i, 1]}
        for i in range(2)
    ]
    drafts = {"tokens": 5, "method": "eagle", "acceptance": 0.0}
    engine = {"max_num_seqs": 2, "max_num_batched_tokens": 7, "reserve_full_prompt": False}
    groups = [{"kind": "full"}, {"kind": "sliding", "window": 3}]
    scenario = {
        "engine": engine | {"speculative": drafts},
        "cache": {"block_size": 5, "gpu_blocks": 9, "groups": groups},
        "latency": {"beta": [100]},
    }
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}
    assert explicit_twin.differences(trace) == []
    assert twin.run_kernel(trace).status.label == "step_limit"
