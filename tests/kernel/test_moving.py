"""A CPU tier as vLLM has it beside groups of layers or drafts: the kernel against recordings."""

import random
from types import SimpleNamespace

import batches
import explicit_traces
import goldens
import pytest
import twin
from hypothesis import given
from test_explicit import TOTALS, check_steps

from kvsweep.config import parse_scenario
from kvsweep.errors import InputError

TIERED = "vllm2/tiered"
OF_COPIES = ("hashed", "stall", "cpu", "later", "nostore", "load", "store", "flush")
"""Columns of steps that `twin.copy_differences` compares, and one that is not logged."""


@pytest.mark.parametrize("name", goldens.vllm_cases(TIERED))
def test_kernel_repeats_vllm(name):
    case = goldens.load(name, TIERED)
    expected = case["expected"]
    single = twin.run_kernel(case)
    assert single.status.label == "ok", single.detail
    columns = expected["steps"]
    check_steps(single, 0, {c: rows for c, rows in columns.items() if c not in OF_COPIES})
    rows = zip(*columns.values(), strict=True)
    steps = [SimpleNamespace(**dict(zip(columns, row, strict=True))) for row in rows]
    assert list(twin.copy_differences(single, 0, steps, expected["transfers"])) == []
    for progress, row in zip(single.outputs.progress, expected["requests"], strict=True):
        for field, want in (("first_token", "first_token_us"), ("finish", "finish_us")):
            assert progress[field] == (-1 if row[want] is None else row[want])
        assert progress["preemptions"] == row["preemptions"]
    tally = single.outputs.tallies[0]
    for mine, theirs in twin.COPY_TOTALS.items():
        assert tally[mine] == expected["totals"][theirs], mine
    for theirs, mine in TOTALS.items():
        if theirs in expected["totals"] and theirs != "steps":  # those without tokens count here
            assert tally[mine] == expected["totals"][theirs], theirs


@given(explicit_traces.traces(features=explicit_traces.TIERED, closed_loop=True))
def test_kernel_equals_twin(trace):
    assert list(twin.differences(trace)) == []


@pytest.mark.parametrize("feature", explicit_traces.TIERED + explicit_traces.TIERED_STATES)
def test_kernel_equals_twin_on_longer_traces(feature):
    rng = random.Random(f"moving/{feature}")
    for _ in range(15):
        trace = explicit_traces.random_trace(rng, (feature,), max_requests=40, closed_loop=True)
        assert list(twin.differences(trace)) == []


GROUPS = [{"kind": "full"}, {"kind": "sliding", "window": 64}]
STATES = [{"kind": "full"}, {"kind": "state"}]
APART = {"prefill_instances": 1, "decode_instances": 1, "kv_transfer_bandwidth": 1.0}
EAGLE = {"speculative": {"tokens": 2, "method": "eagle"}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cache": {"offload": "watermark"}}, "cache.offload: with cache.groups there is only"),
        (
            {"cache": {"groups": STATES}, "engine": {"enable_prefix_caching": False}},
            "engine.enable_prefix_caching: false, but with cpu_blocks and groups of states",
        ),
        ({"engine": {"pipeline_parallel_size": 2}}, "cache.cpu_blocks: with engine.pipeline"),
        (
            {"cluster": APART | {"kv_lease_us": 9, "kv_load_failure_policy": "recompute"}},
            "cache.cpu_blocks: with cluster.kv_load_failure_policy = 'recompute'",
        ),
        (
            {"engine": EAGLE, "cache": {"groups": GROUPS[1:]}},
            "engine.speculative.method: 'eagle', but with cpu_blocks the layers of its head",
        ),
    ],
)
def test_what_was_not_recorded_is_refused(changes, message):
    scenario = {
        "cache": {
            "groups": GROUPS,
            "gpu_blocks": 1000,
            "cpu_blocks": 10,
            "offload": "vllm",
            "transfer_bandwidth": 1.0,
        },
        "latency": {"beta": [10.0, 1.0]},
    }
    for section, keys in changes.items():
        scenario[section] = scenario.get(section, {}) | keys
    with pytest.raises(InputError, match=message):
        parse_scenario(scenario, "trace")


@pytest.mark.parametrize(
    ("groups", "interval", "factor", "fits"),
    [
        (GROUPS, 16, 2, False),
        (GROUPS, 48, 2, False),
        (GROUPS, 64, 2, True),
        (GROUPS, 16, 1, True),
        (GROUPS, 0, 2, True),
        ([{"kind": "full"}, {"kind": "full"}], 16, 2, True),
        (STATES, 16, 2, False),
        (STATES, 48, 2, False),
        (STATES, 64, 2, True),
        (STATES, 0, 2, True),
    ],
)
def test_windows_and_states_are_kept_at_whole_chunks_of_a_tier(groups, interval, factor, fits):
    cache = {
        "groups": groups,
        "gpu_blocks": 1000,
        "cpu_blocks": 10,
        "offload": "vllm",
        "offload_block_factor": factor,
        "prefix_cache_retention_interval": interval,
        "transfer_bandwidth": 1.0,
    }
    scenario = {"cache": cache, "latency": {"beta": [10.0, 1.0]}}
    if fits:
        parse_scenario(scenario, "trace")
        return
    message = f"prefix_cache_retention_interval: {interval} is no multiple of a chunk .* = 32"
    with pytest.raises(InputError, match=message):
        parse_scenario(scenario, "trace")


@given(explicit_traces.traces(features=explicit_traces.TIERED_STATES, closed_loop=True))
def test_kernel_equals_twin_beside_states(trace):
    assert list(twin.differences(trace)) == []


def test_lanes_do_not_see_each_others_tiers():
    """Records of chunks are cleared when they are asked for: none of an earlier lane is found."""
    rng = random.Random("moving/lanes")
    features = (explicit_traces.TIERED + explicit_traces.TIERED_STATES) * 5
    traces = [
        explicit_traces.random_trace(rng, (feature,), max_requests=30, closed_loop=True)
        for feature in features
    ]
    inputs, outputs = batches.run(traces)
    assert (outputs.tallies["loaded_tokens"] > 0).sum() >= 5
    for lane, trace in enumerate(traces):
        alone = batches.lane_results(*batches.run([trace]), 0)
        assert batches.differing(alone, batches.lane_results(inputs, outputs, lane)) == [], lane
