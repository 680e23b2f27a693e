"""A CPU tier beside prefill and decode apart (vLLM's MultiConnector): recordings and the twin."""

import random
from types import SimpleNamespace

import explicit_traces
import goldens
import pytest
import twin
from hypothesis import given, settings
from test_explicit import admissions, check_role_row, check_steps
from test_moving import OF_COPIES

from kvsweep.config import parse_scenario
from kvsweep.config.fleet import fleet
from kvsweep.errors import InputError

APART = "vllm2/pd-tiered"


@pytest.mark.parametrize("name", goldens.vllm_cases(APART))
def test_kernel_repeats_vllm(name):
    case = goldens.load(name, APART)
    expected = case["expected"]
    single = twin.run_kernel(case)
    assert single.status.label == "ok", single.detail
    for index, engine in enumerate(expected["engines"]):
        columns = engine["steps"]
        check_steps(single, index, {c: rows for c, rows in columns.items() if c not in OF_COPIES})
        if "stall" in columns:
            rows = zip(*columns.values(), strict=True)
            steps = [SimpleNamespace(**dict(zip(columns, row, strict=True))) for row in rows]
            found = twin.copy_differences(single, index, steps, engine["copies"])
            assert list(found) == []
    fields = ("request", "tokens", "submitted_us", "start_us", "end_us")
    pulls = single.outputs.transfers[single.outputs.transfers["pull"] == 1]
    assert [[int(row[name]) for name in fields] for row in pulls] == expected["transfers"]
    check_requests(single, expected)


def check_requests(single, expected):
    """Compare the requests; those steps are counted that compute or stall, as they are recorded."""
    prefills = sum(engine["role"] == "prefill" for engine in expected["engines"])
    decodes = len(expected["engines"]) - prefills
    admitted = admissions(single)
    steps = single.outputs.steps
    listed = [
        {int(step): place for place, step in enumerate(steps["step"][steps["instance"] == index])}
        for index in range(prefills + decodes)
    ]
    for number, want in enumerate(expected["requests"]):
        check_role_row(single, number, want)
        sides = (("prefill", number % prefills), ("decode", prefills + number % decodes))
        for side, index in sides:
            found = [[listed[index][step], tokens] for step, tokens in admitted[index, number]]
            assert found == want[side]["admissions"]
        preemptions = want["prefill"]["preemptions"] + want["decode"]["preemptions"]
        assert single.outputs.preemptions[number] == preemptions


@settings(max_examples=60)
@given(explicit_traces.traces(features=explicit_traces.TIERED_ROLES, closed_loop=True))
def test_kernel_equals_twin(trace):
    assert list(twin.differences(trace)) == []


@pytest.mark.parametrize("feature", explicit_traces.TIERED_ROLES)
def test_kernel_equals_twin_on_longer_traces(feature):
    rng = random.Random(f"apart moving/{feature}")
    for _ in range(10):
        trace = explicit_traces.random_trace(rng, (feature,), max_requests=40, closed_loop=True)
        assert list(twin.differences(trace)) == []


def scenario(cluster=None, cache=None, **more):
    """Return a scenario with a tier, in which prefill and decode are apart."""
    roles = {"prefill_instances": 1, "decode_instances": 1, "kv_transfer_bandwidth": 1.0}
    tier = {"offload": "vllm", "cpu_blocks": 90, "transfer_bandwidth": 1.0}
    return {
        "cluster": roles | (cluster or {}),
        "cache": {"block_size": 16, "gpu_blocks": 40} | tier | (cache or {}),
        "latency": {"alpha": [0, 0, 0], "beta": [1000, 10, 1]},
    } | more


def tiers(**keys):
    """Return the blocks of the tier of each side."""
    return [pool.cpu_blocks for pool in fleet(parse_scenario(scenario(**keys), "trace"))]


def test_a_side_has_a_tier_of_its_own_or_that_of_all_or_none():
    assert tiers() == [90, 90]
    assert tiers(cluster={"decode_cpu_blocks": 0}) == [90, 0]
    assert tiers(cluster={"prefill_cpu_blocks": 500}) == [500, 90]
    in_tables = {
        "prefill_instances": None,
        "decode_instances": None,
        "prefill": {"instances": 1, "cpu_blocks": 7},
        "decode": {"instances": 1},
    }
    assert tiers(cluster=in_tables) == [7, 90]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"cache": {"cpu_blocks": 0}, "cluster": {"prefill_cpu_blocks": 9}},
            "cluster.prefill_cpu_blocks: 9 needs cache.cpu_blocks of more than 0",
        ),
        (
            {"cluster": {"prefill_cpu_blocks": 0, "decode_cpu_blocks": 0}},
            "cluster.prefill_cpu_blocks: 0 on both sides",
        ),
        (
            {"cluster": {"kv_lease_us": 99, "kv_load_failure_policy": "recompute"}},
            "cache.cpu_blocks: with cluster.kv_load_failure_policy = 'recompute' there is only",
        ),
        ({"cache": {"offload": "watermark"}}, "cache.offload: with prefill and decode apart"),
        ({"cluster": {"decode_cpu_blocks": -1}}, "cluster.decode_cpu_blocks: "),
        ({"cluster": {"decode_cpu_blocks": 10**12}}, "cluster.decode_cpu_blocks: "),
    ],
)
def test_tiers_that_have_no_rule_are_refused(keys, message):
    with pytest.raises(InputError, match=message):
        parse_scenario(scenario(**keys), "trace")


def run(rows, **keys):
    """Return the events of both sides, [prefill, decode]: {kind of copy: [(request, tokens)]}."""
    requests = [
        {"id": number, "arrival_us": at, "prompt": prompt, "output": [900 + number, tokens]}
        for number, (at, prompt, tokens) in enumerate(rows)
    ]
    trace = {"format": "kvsweep-trace/1", "scenario": scenario(**keys), "requests": requests}
    single = twin.run_kernel(trace)
    assert single.status.label == "ok"
    found = [{"load": [], "store": [], "pull": []} for _ in range(2)]
    for row in single.outputs.transfers:
        kind = "pull" if row["pull"] else "load" if row["load"] else "store"
        found[row["instance"]][kind].append((int(row["request"]), int(row["tokens"])))
    return found


def test_a_decode_instance_pulls_what_its_own_tier_has():
    """Who pulls is asked first: the same prompt once more comes over the link, not from the CPU."""
    other = [(400_000 * n, [[n, 640 - 48]], 8) for n in (2, 3)]  # fill the pools between
    rows = [(0, [[1, 320]], 8), *other, (3_000_000, [[1, 320]], 8)]
    prefill, decode = run(rows, cache={"cpu_blocks": 200})
    assert prefill["load"] == [(3, 320)]
    assert decode["load"] == []
    assert [number for number, _ in decode["pull"]] == [0, 1, 2, 3]
    assert {number for number, _ in decode["store"]} == {0, 1, 2}  # the last one is there


def test_a_side_without_a_tier_copies_nothing():
    rows = [(0, [[1, 320]], 8), (900_000, [[2, 320]], 8)]
    prefill, decode = run(rows, cluster={"prefill_cpu_blocks": 0})
    assert prefill["store"] == []
    assert len(decode["store"]) == 2
    prefill, decode = run(rows, cluster={"decode_cpu_blocks": 0})
    assert len(prefill["store"]) == 2
    assert decode["store"] == []
