"""The CPU tier: what it holds, what it costs, and where it makes no difference."""

import contextlib
import random

import batches
import naive
import pytest
import strategies
import twin
from hypothesis import given

from kvsweep.records import LaneStatus

STEP_US = 1000
TIER = {"cpu_blocks": 12, "transfer_bandwidth": 0.5, "transfer_base_latency_us": 30}


def trace(requests, offload, gpu_blocks=6, engine=None, **cache):
    """Requests (arrival_us, prompt segments, output tokens) on one instance, blocks of 4."""
    pool = {"block_size": 4, "gpu_blocks": gpu_blocks, "offload": offload}
    return {
        "format": "kvsweep-trace/1",
        "scenario": {
            "engine": engine or {},
            "cache": pool | TIER | cache,
            "latency": {"beta": [STEP_US, 0, 0]},
        },
        "requests": [
            {"id": i, "arrival_us": at, "prompt": prompt, "output": [100 + i, tokens]}
            for i, (at, prompt, tokens) in enumerate(requests)
        ],
    }


def test_a_copied_prefix_comes_back_after_its_eviction():
    """17 tokens of segment 0, then a prompt that fills the pool, then segment 0 again."""
    rows = [(0, [[0, 17]], 1), (5000, [[1, 21]], 1), (9000, [[0, 17]], 1)]
    single = twin.run_kernel(trace(rows, "write-through"))
    tally = single.outputs.tallies[0]
    assert single.outputs.progress["cached_tokens"].tolist() == [0, 0, 16]
    assert (tally["reloads"], tally["evictions"]) == (4, 4 + 4)
    # 16 tokens at 0.5 tokens/us, and 30 us.
    assert tally["transfer_time"] == 30 + 32
    finish = single.outputs.progress["finish"].tolist()
    assert finish == [STEP_US, 5000 + STEP_US, 9000 + STEP_US + 62]


def test_transfers_may_overlap_with_the_computation():
    rows = [(0, [[0, 17]], 1), (5000, [[1, 21]], 1), (9000, [[0, 17]], 1)]
    single = twin.run_kernel(trace(rows, "write-through", transfer_overlap=True))
    assert single.outputs.progress["finish"][2] == 9000 + STEP_US
    slow = twin.run_kernel(
        trace(rows, "write-through", transfer_overlap=True, transfer_base_latency_us=4000)
    )
    assert slow.outputs.progress["finish"][2] == 9000 + 4000 + 32


def test_a_crowded_pool_moves_what_nobody_uses():
    """The first request ends while the second uses 3 of 6 blocks; a third wants its prompt."""
    rows = [(0, [[0, 9]], 1), (0, [[1, 9]], 8), (3000, [[0, 9]], 1)]
    single = twin.run_kernel(trace(rows, "watermark", offload_threshold=0.4))
    tally = single.outputs.tallies[0]
    assert (tally["offloads"], tally["reloads"], tally["evictions"]) == (4, 2, 0)
    assert single.outputs.progress["cached_tokens"].tolist() == [0, 0, 8]
    idle = twin.run_kernel(trace(rows, "watermark", offload_threshold=0.5))
    assert idle.outputs.tallies["offloads"][0] == 0


def test_a_full_tier_forgets_what_was_used_longest_ago():
    rows = [(0, [[0, 9]], 1), (5000, [[1, 9]], 1), (9000, [[2, 21]], 1), (12000, [[0, 9]], 1)]
    kept = twin.run_kernel(trace(rows, "write-through", cpu_blocks=9))
    gone = twin.run_kernel(trace(rows, "write-through", cpu_blocks=7))
    assert kept.outputs.progress["cached_tokens"].tolist() == [0, 0, 0, 8]
    assert gone.outputs.progress["cached_tokens"].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("window", "thrashed"), [(9000, 0), (9001, 4), (0, 0)], ids=["just", "within", "none"]
)
def test_what_comes_back_within_the_window_thrashes(window, thrashed):
    rows = [(0, [[0, 17]], 1), (5000, [[1, 21]], 1), (9000, [[0, 17]], 1)]
    single = twin.run_kernel(trace(rows, "write-through", thrashing_window_us=window))
    assert single.outputs.tallies["thrashed"][0] == thrashed


@given(strategies.traces())
def test_no_tier_equals_one_that_is_never_entered(trace):
    """No utilization exceeds a threshold of 1, so all keeps its place."""
    engine = trace["scenario"]["engine"] | {"enable_prefix_caching": True}
    results = []
    tier = {"cpu_blocks": 50, "offload_threshold": 1.0, "transfer_bandwidth": 1.0}
    for cache in ({"cpu_blocks": 0}, tier):
        pool = trace["scenario"]["cache"] | {"offload": "watermark"} | cache
        scenario = trace["scenario"] | {"engine": engine, "cache": pool}
        results.append(batches.lane_results(*batches.run([trace | {"scenario": scenario}]), 0))
    assert batches.differing(*results) == []


@given(strategies.traces(closed_loop=True))
def test_the_twin_keeps_its_tier_in_order(trace):
    """Never more blocks than fit, none both free and in use, none that was never computed."""
    cache = (
        {"offload_threshold": 0.3, "transfer_bandwidth": 1.0}
        | trace["scenario"]["cache"]
        | {"cpu_blocks": 3}
    )
    engine = trace["scenario"]["engine"] | {"enable_prefix_caching": True}
    scenario = trace["scenario"] | {"engine": engine, "cache": cache}
    with contextlib.suppress(naive.StepLimit):
        naive.simulate(trace | {"scenario": scenario}, check=True)


@pytest.mark.parametrize("seed", range(2))
def test_kernel_equals_twin_where_each_block_is_copied(seed):
    """Small tiers, so that what decoding filled makes room between what prompts did."""
    rng = random.Random(f"write-through/{seed}")
    for _ in range(15):
        trace = strategies.random_trace(rng, max_requests=40, closed_loop=True)
        trace["scenario"]["engine"]["enable_prefix_caching"] = True
        trace["scenario"]["cache"] |= {
            "offload": "write-through",
            "cpu_blocks": rng.choice((1, 3, 10, 30, 100)),
            "transfer_bandwidth": 1.0,
        }
        assert list(twin.differences(trace)) == []


@pytest.mark.parametrize("seed", range(3))
def test_what_is_only_counted_is_what_single_steps_copy(seed):
    """A lane with logs runs step by step; what is filled may make room, or be there already."""
    rng = random.Random(f"unsettled/{seed}")
    traces = []
    for _ in range(40):
        trace = strategies.random_trace(rng, max_requests=40, closed_loop=True)
        trace["scenario"]["engine"]["enable_prefix_caching"] = True
        trace["scenario"]["cache"] |= {
            "offload": "write-through",
            "cpu_blocks": rng.choice((1, 5, 20, 100, 400)),
            "transfer_bandwidth": 1.0,
            "thrashing_window_us": rng.choice((100, 1_000_000)),
        }
        traces.append(trace)
    inputs, outputs = batches.run(traces)
    logs = {"tally log_steps", "tally log_events", "tally log_transfers"}
    for lane, trace in enumerate(traces):
        among = batches.lane_results(inputs, outputs, lane)
        if among["tally status"] == LaneStatus.OK:
            single = twin.run_kernel(trace)
            logged = batches.lane_results(batches.inputs_of([trace]), single.outputs, 0)
            assert set(batches.differing(logged, among)) <= logs, lane


def test_begins_of_steps_are_kept_for_requests_that_decode_for_long():
    """3000 steps of one request, whose blocks come back to another within the window or do not."""
    rows = [
        (0, [[0, 9]], 3000),
        (3_100_000, [[1, 4 * 760]], 1),
        (3_200_000, [[0, 9], [100, 2999]], 1),
    ]
    pool = {"gpu_blocks": 800, "cpu_blocks": 2000}
    counts = []
    for window in (700_000, 1_700_000, 4_000_000):
        made = trace(rows, "write-through", thrashing_window_us=window, **pool)
        assert list(twin.differences(made)) == []
        _, outputs = batches.run([made])
        counts.append(int(outputs.tallies["thrashed"][0]))
    assert 0 < counts[0] < counts[1] < counts[2]
