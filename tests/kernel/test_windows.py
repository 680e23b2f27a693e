"""Step times that tell the context inside a sliding window apart: by hand, and against the twin."""

import random

import batches
import explicit_traces
import pytest
import strategies
import twin

from kvsweep.simulate.kernel_cells import run_lanes
from kvsweep.simulate.workspace import allocate_outputs
from kvsweep.trace_replay import run_replay

WINDOW = [5, 3, 0.5]
LONG = [40, 3, 0.5]
GROUPS = [{"kind": "sliding", "window": 8}, {"kind": "full"}]
"""Of layers: with these the explicit engine runs."""


def trace_of(prompts, output, latency, **sections):
    """Return a trace of requests that arrive at once."""
    rows = [
        {"id": i, "arrival_us": 0, "prompt": [[2 * i, tokens]], "output": [2 * i + 1, output]}
        for i, tokens in enumerate(prompts)
    ]
    scenario = {"latency": latency, "cache": {"block_size": 4, "gpu_blocks": 99}, **sections}
    return {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}


def durations(trace):
    return run_replay(trace).steps["duration_us"].tolist()


def test_a_token_has_what_is_before_it_up_to_the_window():
    found = durations(trace_of([7], 6, {"beta": [100], "window": WINDOW}))
    # Before the prompt's tokens are 0, 1, 2, 3, 4, 5, 6, inside of a window of five at most 4.
    assert found == [int(100 + 0.5 * (0 + 1 + 2 + 3 + 4 + 4 + 4)), *[100 + 3 * 4] * 5]


def test_a_request_grows_until_it_fills_the_window():
    found = durations(trace_of([2], 6, {"beta": [100], "window": WINDOW}))
    assert found[1:] == [100 + 3 * min(before, 4) for before in (2, 3, 4, 5, 6)]


def test_two_sums_have_times_of_their_own():
    latency = {"beta": [100], "memory": [0, 0, 0, 1], "window": [5, 0, 0, 3, 2]}
    found = durations(trace_of([2], 5, latency))
    assert found[0] == 100 + 2 * 1
    assert found[1:] == [100 + before + 3 * min(before, 4) for before in (2, 3, 4, 5)]


def test_drafts_have_a_window_of_their_own():
    trace = trace_of(
        [3],
        7,
        {"beta": [100], "window": WINDOW},
        engine={"speculative": {"tokens": 2, "method": "eagle"}},
    )
    trace["requests"][0]["accepted"] = [0, 2, 0, 0]
    # Three tokens a step, and one, three, one, one of them are kept: drafts read no more.
    inside = [min(before, 4) for before in (3, 4, 7, 8)]
    assert durations(trace)[1:] == [100 + 3 * each for each in inside]


def test_the_context_of_a_decode_counts_once():
    """Its drafts read no more of the cache, as was measured (docs/validation-features.md)."""
    trace = trace_of(
        [3],
        7,
        {"beta": [100, 0, 10, 1], "memory": [1, 0, 1, 30]},
        engine={"speculative": {"tokens": 2, "method": "eagle"}},
    )
    trace["requests"][0]["accepted"] = [0, 2, 0, 0]
    moved = [1 + 3 + 30 * before for before in (3, 4, 7, 8)]
    assert durations(trace)[1:] == [100 + each for each in moved]


def windowed(rng, make, *arguments, **options):
    """Return a random trace whose step times have a window."""
    trace = make(rng, *arguments, **options)
    latency = trace["scenario"]["latency"]
    windows = strategies.WINDOWS if latency.get("memory") else strategies.WINDOWS[:2]
    latency["window"] = list(rng.choice(windows))
    return trace


FEATURES = [
    *("groups", "drafts", "long drafts", "groups and drafts", "roles", "pools", "routed roles")
]


def any_features(rng):
    """Return a trace of some feature of the explicit engine."""
    features = (rng.choice(FEATURES),)
    return windowed(rng, explicit_traces.random_trace, features, max_requests=30, closed_loop=True)


def usual(rng, beyond=False):
    """Return a trace of none of these features, nor `beyond` of who is the victim, or of loops."""
    late = rng.random() < 0.5
    return windowed(rng, strategies.random_trace, 30, True, asynchronous=late, beyond=beyond)


def rare(rng):
    """Return a trace with those."""
    return usual(rng, beyond=True)


def squeezed(rng):
    """Return a trace whose victims may have tokens of the very step that preempts them."""
    while True:
        trace = usual(rng)
        engine = trace["scenario"]["engine"]
        if engine["scheduler"] == "priority" and engine["max_num_batched_tokens"] <= 12:
            trace["scenario"]["latency"]["window"] = WINDOW
            return trace


def connected(rng):
    """Return a trace with a CPU tier as vLLM has it."""
    return windowed(rng, strategies.random_trace, 20, asynchronous=True, offload=True)


@pytest.mark.parametrize("make", [usual, rare, squeezed, connected, any_features])
def test_kernel_equals_twin(make):
    rng = random.Random(f"windows/{make.__name__}")
    for _ in range(40):
        assert list(twin.differences(make(rng))) == []


@pytest.mark.parametrize("make", [usual, any_features])
def test_without_logs_all_times_are_the_same(make):
    """Steps that only decode are counted, and looked at only when somebody outgrows the window."""
    rng = random.Random(f"logs/{make.__name__}")
    inputs, counted = batches.run([make(rng) for _ in range(60)])
    inputs.lanes["log"] = 1
    logged = allocate_outputs(inputs, keep_requests=True)
    run_lanes(inputs, logged)
    for lane in range(60):
        found = [batches.lane_results(inputs, each, lane) for each in (counted, logged)]
        differing = {name for name in batches.differing(*found) if "log_" not in name}
        assert differing <= {"tally itl_entries", "tally shortages"}


def test_a_victim_gives_back_what_was_inside_of_its_chunk():
    trace = trace_of(
        [18, 3],
        8,
        {"beta": [100], "window": WINDOW},
        engine={
            "scheduler": "priority",
            "max_num_seqs": 3,
            "max_num_batched_tokens": 6,
            "long_prefill_token_threshold": 3,
        },
        cache={"block_size": 4, "gpu_blocks": 5},
    )
    trace["requests"][0] |= {"priority": 1, "output": [1, 2]}
    trace["requests"][1] |= {"priority": 0, "arrival_us": 1}
    assert list(twin.differences(trace)) == []
    # Three tokens of the long prompt, until in the fourth step the urgent one needs its block.
    assert durations(trace)[2:4] == [100 + 6 + 3 * 3, 100 + 3 * 4]


def test_pools_have_windows_of_their_own():
    windows = [(5, 3, 2, 0, 0), (9, 1, 0.5, 0, 0), (5, 0, 0, 3, 2), (9, 0, 0, 1, 0.5)]
    memory = [{}, {}, {"memory": [1]}, {"memory": [1]}]
    pools = [
        {"instances": 1, "latency": {"beta": [100], "window": list(window)} | more}
        for window, more in zip(windows, memory, strict=True)
    ]
    trace = trace_of([7] * 4, 6, {"beta": [1]}, cluster={"pools": pools, "routing": "round-robin"})
    steps = run_replay(trace).steps
    for place, (window, *inside) in enumerate(windows):
        decoded, prompt = (sum(pair) for pair in zip(inside[:2], inside[2:], strict=True))
        found = steps["duration_us"][steps["instance"] == place].tolist()
        before = [sum(min(each, window - 1) for each in range(7))]
        rates = [prompt, *[decoded] * 5]
        before += [min(each, window - 1) for each in range(7, 12)]
        least = 100 + len(memory[place])
        assert found == [int(least + r * n) for r, n in zip(rates, before, strict=True)]


def test_who_has_his_last_token_coming_has_nothing_inside():
    """Asynchronously a step does not serve him, beside a prompt that goes on."""
    trace = trace_of(
        [7, 70],
        4,
        {"beta": [100], "window": WINDOW},
        engine={"async_scheduling": True, "max_num_batched_tokens": 12, "max_num_seqs": 2},
        cache={"block_size": 4, "gpu_blocks": 99, "groups": GROUPS},
    )
    assert list(twin.differences(trace)) == []
    alone, beside = 100 + 12 * 4 // 2, 100 + 11 * 4 // 2 + 3 * 4
    assert durations(trace)[1:6] == [beside] * 3 + [alone] * 2


@pytest.mark.parametrize("blocks", [99, 11])
def test_who_leaves_before_he_fills_the_window_has_nothing_inside(blocks):
    """He has had his last token, or is the victim."""
    cache = {"block_size": 4, "gpu_blocks": blocks, "groups": GROUPS}
    trace = trace_of([3, 3], 17, {"beta": [100], "window": LONG}, cache=cache)
    if blocks == 99:
        trace["requests"][0]["output"] = [1, 3]
        assert durations(trace)[:6] == [103, *(100 + 3 * n for n in (3 + 3, 4 + 4, 5, 6, 7))]
    else:
        assert run_replay(trace).steps["preempted"].sum() > 0
    assert list(twin.differences(trace)) == []


def test_who_has_ended_is_in_no_plan():
    """With drafts what is inside is planned some steps ahead, where no steps are logged."""
    drafts = {"speculative": {"tokens": 2, "method": "eagle"}}
    trace = trace_of([3, 3], 12, {"beta": [100], "window": WINDOW}, engine=drafts)
    trace["requests"][0] |= {"output": [1, 3], "accepted": [0, 0]}
    trace["requests"][1]["accepted"] = [0] * 11
    _, counted = batches.run([trace])
    assert counted.progress["finish"][-1] == sum(durations(trace))
