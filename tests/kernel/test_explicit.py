"""Groups of layers, drafts, roles and pools: the kernel against recordings, the twin and itself."""

import gzip
import json
import random
from collections import defaultdict
from pathlib import Path

import batches
import explicit_traces
import found
import goldens
import naive
import pytest
import strategies
import twin
from hypothesis import given, settings

from kvsweep.analysis.room import room_text
from kvsweep.config import parse_scenario
from kvsweep.policies import RequestStatus
from kvsweep.records import Event, LaneStatus
from kvsweep.simulate import logged
from kvsweep.simulate.kernel_cells import run_lanes
from kvsweep.simulate.workspace import allocate_outputs
from kvsweep.workload.traces import load_trace

GROUPS = ("vllm2/hybrid", "vllm2/state", "vllm2/spec", "vllm2/mix", "vllm2/pipeline")
CASES = [(group, name) for group in GROUPS for name in goldens.vllm_cases(group)]
PD = "vllm2/pd"
TOTALS = {
    "steps": "steps",
    "evictions": "evictions",
    "queries": "query_tokens",
    "hits": "hit_tokens",
    "end_us": "makespan",
    "draft_tokens": "draft_tokens",
    "accepted_tokens": "accepted_tokens",
    "window_freed": "window_freed",
}


def columns_of(single, index):
    """Return the steps of an instance as recordings have them, by column."""
    steps = single.outputs.steps[single.outputs.steps["instance"] == index]
    table = twin.events_by_step(single, index)
    events = [table[int(step)] for step in steps["step"]]
    found = {name: steps[field].tolist() for name, field in twin.STEP_COLUMNS.items()}
    found["free_end"] = steps["free_after"].tolist()
    found["win"] = steps["window_freed"].tolist()
    found["held"] = steps["kept"].tolist()
    found["sched"] = [[list(pair) for pair in at[Event.CHUNK]] for at in events]
    found["adm"] = [[list(pair) for pair in at[Event.ADMIT]] for at in events]
    found["pre"] = [[r for r, _ in twin.victims_of(at)] for at in events]
    found["fin"] = [[r for r, _ in at[Event.FINISH]] for at in events]
    found["acc"] = [[[r, n // 1000, n % 1000] for r, n in at[Event.VERIFY]] for at in events]
    found["pull"] = [[[r, n] for r, n in at[Event.PULL] if n >= 0] for at in events]
    return found


def check_steps(single, index, expected):
    mine = columns_of(single, index)
    for column, rows in expected.items():
        if column == "hashed":
            continue  # how many blocks have a key is not logged
        want = [[row[:2] for row in each] for each in rows] if column == "adm" else rows
        assert mine[column] == want, (index, column)


def admissions(single):
    """Return {(instance, request): [[step, computed], ...]}."""
    found = defaultdict(list)
    for row in single.outputs.events[single.outputs.events["kind"] == Event.ADMIT]:
        found[int(row["instance"]), int(row["request"])].append(
            [int(row["step"]), int(row["value"])]
        )
    return found


def time_or_none(value):
    return None if value == twin.NO_VALUE else int(value)


@pytest.mark.parametrize(("group", "name"), CASES)
def test_kernel_repeats_vllm(group, name):
    case = goldens.load(name, group)
    single = twin.run_kernel(case)
    assert single.status.label == "ok"
    check_steps(single, 0, case["expected"]["steps"])
    admitted = admissions(single)
    for number, want in enumerate(case["expected"]["requests"]):
        got = single.outputs.progress[number]
        assert got["queued"] == want["queue_us"]
        assert time_or_none(got["first_token"]) == want["first_token_us"]
        assert time_or_none(got["finish"]) == want["finish_us"]
        assert got["preemptions"] == want["preemptions"]
        assert admitted[0, number] == want["admissions"]
        assert (single.outputs.request_status[number] == 3) == want["rejected"]
    totals, tally = case["expected"]["totals"], single.outputs.tallies[0]
    for name, field in TOTALS.items():
        if name in totals:
            assert tally[field] == totals[name], name
    assert single.outputs.preemptions.sum() == totals["preemptions"]


@pytest.mark.parametrize("name", goldens.vllm_cases(PD))
def test_kernel_repeats_vllm_with_prefill_and_decode_apart(name):
    case = goldens.load(name, PD)
    expected = case["expected"]
    single = twin.run_kernel(case)
    assert single.status.label == "ok"
    for index, engine in enumerate(expected["engines"]):
        check_steps(single, index, engine["steps"])
    fields = ("request", "tokens", "submitted_us", "start_us", "end_us")
    rows = [[int(row[name]) for name in fields] for row in single.outputs.transfers]
    assert rows == expected["transfers"]
    prefills = sum(engine["role"] == "prefill" for engine in expected["engines"])
    admitted = admissions(single)
    for number, want in enumerate(expected["requests"]):
        check_role_row(single, number, want)
        decodes = len(expected["engines"]) - prefills
        assert admitted[number % prefills, number] == want["prefill"]["admissions"]
        assert admitted[prefills + number % decodes, number] == want["decode"]["admissions"]
        preemptions = want["prefill"]["preemptions"] + want["decode"]["preemptions"]
        assert single.outputs.preemptions[number] == preemptions


def check_role_row(single, number, want):
    progress, handoff = single.outputs.progress[number], single.outputs.handoffs[number]
    times = {
        "queue_us": progress["queued"],
        "prefilled_us": handoff["prefilled"],
        "decode_queue_us": handoff["requeued"],
        "pulled_us": handoff["pulled"],
        "released_us": handoff["released"],
        "first_token_us": progress["first_token"],
        "finish_us": progress["finish"],
    }
    for name, time in times.items():
        assert time_or_none(time) == want[name], (number, name)
    errored = single.outputs.request_status[number] == RequestStatus.ERRORED
    assert errored == want.get("errored", False)
    assert (single.outputs.request_status[number] == 3) == want["rejected"]


@settings(max_examples=60)
@given(explicit_traces.traces(closed_loop=True))
def test_kernel_equals_twin(trace):
    assert list(twin.differences(trace)) == []


@settings(max_examples=60)
@given(explicit_traces.traces(features=explicit_traces.ROUTED_ROLES, closed_loop=True))
def test_kernel_equals_twin_whoever_routes_prefill_and_decode(trace):
    assert list(twin.differences(trace)) == []


@pytest.mark.parametrize("seed", range(3))
def test_kernel_equals_twin_on_longer_traces(seed):
    rng = random.Random(f"explicit/{seed}")
    for _ in range(8):
        trace = explicit_traces.random_trace(rng, max_requests=40, closed_loop=True)
        assert list(twin.differences(trace)) == []


@pytest.mark.parametrize(
    "name",
    [
        # A decode instance must not run ahead of others whose requests make arrivals.
        "decode-runs-ahead-of-arrivals",
        # A window that a decode leaves makes room for a refused head in the same step.
        "window-makes-room",
        # Somebody else has what is evicted, so that the head needs a block less.
        "evicted-hit-leaves-duplicate",
        # A decode instance must not run ahead of a prefill that another's pull lets begin.
        "pull-lets-a-prefill-begin",
        # Without a reservation a refused head lacks less once what it would hit is evicted.
        "evicted-hit-of-a-refused-head",
        # Nor ahead of one that begins as another has nothing to pull, which takes no time at all.
        "nothing-to-pull-lets-a-prefill-begin",
    ],
)
def test_kernel_equals_twin_where_it_did_not(name):
    assert list(twin.differences(found.trace(name))) == []


@settings(max_examples=30)
@given(explicit_traces.traces(features=explicit_traces.ROLES, closed_loop=True))
def test_blocks_are_conserved_on_both_sides_of_a_transfer(trace):
    """Of each step: free blocks and those of the requests there make up the pool, and at the end
    all are free, which the kernel itself asks for.
    """
    single = twin.run_kernel(trace)
    assert single.status.label in ("ok", "step_limit")
    steps = single.outputs.steps
    assert (steps["free_blocks"] >= 0).all()
    assert (steps["kept"] >= 0).all()
    for row, handoff in zip(single.outputs.progress, single.outputs.handoffs, strict=True):
        if row["finish"] != twin.NO_VALUE:
            assert handoff["prefilled"] <= handoff["arrives"] <= handoff["pulled"]
            assert handoff["arrives"] <= handoff["released"]


def make_explicit(inputs):
    """Let all lanes run by the explicit engine."""
    inputs.lanes["explicit"] = 1
    inputs.lanes["by_extents"] = inputs.lanes["unconnected"] = 0
    return inputs


@pytest.fixture
def explicit(monkeypatch):
    """Let every simulation run by the explicit engine."""
    build = logged.build_inputs
    monkeypatch.setattr(logged, "build_inputs", lambda *a, **k: make_explicit(build(*a, **k)))


def usual_traces(seeds):
    """Return random traces that the explicit engine has all features of."""
    for seed in seeds:
        trace = strategies.random_trace(
            random.Random(seed), 30, closed_loop=True, asynchronous=True, beyond=False
        )
        trace["scenario"]["engine"]["preempt_for_urgent"] = False
        cache = trace["scenario"]["cache"]
        trace["scenario"]["cache"] = {key: cache[key] for key in ("block_size", "gpu_blocks")}
        yield trace


@pytest.mark.parametrize("name", goldens.vllm_cases()[::6] + goldens.vllm_cases("vllm2/async")[::5])
def test_one_group_without_anything_else_is_as_recorded(name, explicit):
    group = "vllm" if name in goldens.vllm_cases() else "vllm2/async"
    case = goldens.load(name, group)
    single = twin.run_kernel(case)
    check_steps(single, 0, {c: v for c, v in case["expected"]["steps"].items() if c != "fin"})


def test_one_group_without_anything_else_is_as_the_twin_has_it(explicit):
    for trace in usual_traces(range(25)):
        assert list(twin.differences(trace)) == []


LOGGED = {"tally log_steps", "tally log_events", "tally log_transfers", "tally itl_entries"}


@pytest.mark.parametrize(
    "feature",
    [
        "groups",
        "states",
        "drafts",
        "long drafts",
        "groups and drafts",
        "states and drafts",
        "roles",
        "roles and drafts",
        "roles and groups",
        "roles, groups and drafts",
        "leases",
        "leases and drafts",
        "leases and groups",
        "pools",
        *explicit_traces.PIPELINES,
    ],
)
def test_without_its_logs_it_is_the_same(feature):
    """Steps that only decode are counted; those with drafts only where no log tells of each."""
    rng = random.Random(f"logs/{feature}")
    traces = [explicit_traces.random_trace(rng, (feature,), closed_loop=True) for _ in range(25)]
    fewer = count_who_notes_fewer(traces)
    assert feature != "drafts" or fewer > 3  # who counts notes equal latencies together


def test_a_refused_head_with_drafts_is_tried_in_time():
    """Once a hit is evicted it lacks less: its chunk has no room for drafts behind it."""
    path = Path(__file__).with_name("refused_with_drafts.json.gz")
    traces = json.loads(gzip.decompress(path.read_bytes()))
    count_who_notes_fewer(traces)
    assert all(list(twin.differences(trace)) == [] for trace in traces)


def test_who_makes_arrivals_is_counted_asynchronously():
    """Its end is told of a step before, and not by an entry."""
    rng = random.Random("closed")
    traces = [explicit_traces.random_trace(rng, ("drafts",)) for _ in range(25)]
    for trace in traces:
        rows = trace["requests"]
        for row, following in zip(rows[::2], rows[1::2], strict=False):
            following["after"] = row["id"]
        trace["scenario"]["engine"]["async_scheduling"] = True
    assert count_who_notes_fewer(traces) > 3


def test_what_seldom_differs_with_drafts_is_as_the_twin_has_it():
    """A block that is cached with the last token, not before; a chunk that has less room."""
    path = Path(__file__).with_name("seldom_with_drafts.json.gz")
    traces = json.loads(gzip.decompress(path.read_bytes()))
    count_who_notes_fewer(traces)
    assert all(list(twin.differences(trace)) == [] for trace in traces)


def count_who_notes_fewer(traces):
    """Compare traces with logs and without; return how many have fewer latencies noted without."""
    inputs, counted = batches.run(traces)
    inputs.lanes["log"] = 1
    logged_outputs = allocate_outputs(inputs, keep_requests=True)
    run_lanes(inputs, logged_outputs)
    fewer = 0
    for lane in range(len(traces)):
        assert counted.tallies["status"][lane] in (LaneStatus.OK, LaneStatus.STEP_LIMIT)
        found = [batches.lane_results(inputs, each, lane) for each in (counted, logged_outputs)]
        short, logged_short = (each.pop("tally shortages") for each in found)
        assert (short > 0) == (logged_short > 0)  # each refused try is one
        assert set(batches.differing(*found)) <= LOGGED
        fewer += found[0]["tally itl_entries"] < found[1]["tally itl_entries"]
    return fewer


@pytest.mark.parametrize(
    ("groups", "gpu_blocks"),
    [([{"kind": "full"}, {"kind": "sliding", "window": 20}], 330), ([], 270)],
)
def test_many_run_at_a_time(groups, gpu_blocks):
    """More than fit into a few vectors, which end at different steps, some preempted."""
    rng = random.Random("many")
    rows = [
        {
            "id": i,
            "arrival_us": 50 * i,
            "prompt": [[2 * i, rng.randint(4, 30)]],
            "output": [2 * i + 1, rng.randint(1, 60)],
            **({} if groups else {"accepted": [rng.randint(0, 2) for _ in range(7)]}),
        }
        for i in range(70)
    ]
    drafts = {} if groups else {"speculative": {"tokens": 2, "method": "eagle"}}
    scenario = {
        "engine": {"max_num_seqs": 64, "max_num_batched_tokens": 256} | drafts,
        "cache": {"block_size": 8, "gpu_blocks": gpu_blocks}
        | ({"groups": groups} if groups else {}),
        "latency": {"beta": [1000, 1, 1]},
    }
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}
    assert list(twin.differences(trace)) == []
    _, outputs = batches.run([trace])
    single = twin.run_kernel(trace)
    for name in ("steps", "preemptions", "evictions", "used_time", "itl_sum", "itl_q3"):
        assert outputs.tallies[name][0] == single.outputs.tallies[name][0], name
    assert single.outputs.steps["running"].max() > 48
    assert single.outputs.preemptions.sum() > 0


def conversations(rng, windows):
    """Return a trace of conversations in a small pool: each turn looks up what was said."""
    said, rows = {}, []
    for i in range(rng.randint(10, 40)):
        before = said.setdefault(i % 5, [])
        prompt = [*before, [2 * i, rng.randint(3, 20)]]
        answer = [2 * i + 1, rng.randint(1, 40)]
        rows.append({"id": i, "arrival_us": 1000 * i, "prompt": prompt, "output": answer})
        if len(before) < 8:
            said[i % 5] = [*prompt, answer]
    groups = [{"kind": "full"}] + [{"kind": "sliding", "window": each} for each in windows]
    most = max(sum(n for _, n in [*row["prompt"], row["output"]]) for row in rows)
    blocks = len(groups) * -(-most // 4)
    scenario = {
        "engine": {
            "max_num_batched_tokens": 64,
            "max_num_seqs": 16,
            "async_scheduling": rng.random() < 0.5,
            "reserve_full_prompt": rng.random() < 0.5,
        },
        "cache": {"block_size": 4, "gpu_blocks": rng.randint(blocks, 3 * blocks), "groups": groups},
        "latency": {"beta": [1000, 1, 1]},
    }
    return {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}


@pytest.mark.parametrize("windows", [(), (3,), (9,), (5, 20)])
def test_a_refused_head_is_tried_again_in_time(windows):
    """Its hits are evicted, or others cache what it has too."""
    rng = random.Random(f"refused/{windows}")
    for _ in range(15):
        assert list(twin.differences(conversations(rng, windows))) == []


@pytest.mark.parametrize("method", ["draft", "eagle"])
def test_drafts_are_planned_while_others_look_up_what_is_filled(method):
    rng = random.Random(f"looked up/{method}")
    traces = [conversations(rng, ()) for _ in range(30)]
    for trace in traces:
        drafts = {"tokens": 2, "method": method}
        trace["scenario"]["engine"] |= {"speculative": drafts, "async_scheduling": False}
        trace["scenario"]["cache"].pop("groups")
        for row in trace["requests"]:
            row["accepted"] = [rng.randint(0, 2) for _ in range(rng.randint(1, 40))]
    assert count_who_notes_fewer(traces) > 10
    assert all(list(twin.differences(trace)) == [] for trace in traces[:10])


def test_the_twin_ends():
    """What the tests above compare with is not a run that stopped."""
    trace = explicit_traces.random_trace(random.Random(0), ("roles",), closed_loop=True)
    assert naive.simulate(trace).transfers


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
    assert list(twin.differences(trace)) == []
    single = twin.run_kernel(trace)
    assert single.status.label == "step_limit"
    assert "drafts beside windows can wait for ever" in single.detail


def dropped(scenario, requests):
    """Return of each request whether it is dropped, by the twin as well."""
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": requests}
    assert twin.differences(trace) == []
    statuses = twin.run_kernel(trace).outputs.request_status
    return [RequestStatus(status).label == "dropped_unservable" for status in statuses]


def test_a_prompt_above_the_budget_of_the_prefill_instances_is_dropped():
    """Without chunked prefill it fits into no step there, whatever decode instances take.

    With the token that is sampled there: vLLM takes no `max_model_len` above the budget.
    """
    pools = {"prefill": {"instances": 1, "max_num_batched_tokens": 256, "max_num_seqs": 8}}
    pools["decode"] = {"instances": 1, "max_num_batched_tokens": 2048}
    scenario = {
        "latency": {"beta": [1000, 10, 5]},
        "cluster": pools | {"kv_transfer_bandwidth": 2.0},
        "engine": {"enable_chunked_prefill": False},
    }
    requests = [
        {"id": i, "arrival_us": 500 * i, "prompt": [[i, prompt]], "output": [90 + i, 5]}
        for i, prompt in enumerate((255, 256, 400, 10))
    ]
    assert dropped(scenario, requests) == [False, True, True, False]


@pytest.mark.parametrize(
    ("gpu_blocks", "rows"),
    [
        (7, [(0, 8, 8, [0, 1, 2, 1, 0], 5), (1500, 8, 6, [2, 2, 0, 2, 1], 0)]),
        (
            6,
            [
                (0, 6, 3, [0, 0, 2, 0, 0], 5),
                (500, 9, 3, [2, 0, 1, 2, 2], 0),
                (500, 5, 9, [2, 2, 1, 1, 2], 0),
            ],
        ),
    ],
)
def test_a_victim_that_does_not_hit_all_of_its_own_has_some_of_it_twice(gpu_blocks, rows):
    """It was in the step already, which would have computed the last token of a block.

    So that block was cached, and the request looks for all but the last token that it knows.
    """
    drafts = {"tokens": 2, "method": "draft"}
    scenario = {
        "cluster": {"pools": [{"instances": 1}]},
        "engine": {"scheduler": "priority", "priority": "slo-class", "speculative": drafts},
        "cache": {"block_size": 4, "gpu_blocks": gpu_blocks},
        "latency": {"beta": [1000, 10, 10]},
    }
    keys = ("arrival_us", "prompt", "output", "accepted", "priority")
    requests = [{"id": i} | dict(zip(keys, row, strict=True)) for i, row in enumerate(rows)]
    for i, row in enumerate(requests):
        row |= {"prompt": [[i, row["prompt"]]], "output": [9 + i, row["output"]]}
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": requests}
    assert list(twin.differences(trace)) == []


def test_a_prompt_that_leaves_no_room_to_verify_drafts_is_dropped_where_it_is_pulled():
    """vLLM waits for that room for ever: 2 blocks of 16 tokens for 1 + 2 x 12, beside the prompt's.

    Its 49 tokens, its output and all drafts would fit into 5 blocks.
    """

    def status(prompt, decode_blocks):
        engine = {"speculative": {"tokens": 12, "method": "draft"}}
        cluster = {"prefill_instances": 1, "decode_instances": 1, "kv_transfer_bandwidth": 1.0}
        cluster |= {"prefill_gpu_blocks": 9, "decode_gpu_blocks": decode_blocks}
        scenario = {"engine": engine, "cluster": cluster, "latency": {"beta": [1000, 0, 0]}}
        rows = [
            {"id": 0, "arrival_us": 0, "prompt": [[0, prompt]], "output": [1, 2], "accepted": [12]}
        ]
        case = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}
        assert list(twin.differences(case)) == []
        told = room_text(parse_scenario(scenario, "t.json"), load_trace(case).requests)
        return RequestStatus(twin.run_kernel(case).outputs.request_status[0]), told

    assert status(33, 5)[0] == RequestStatus.COMPLETED
    found, told = status(49, 5)
    assert found == RequestStatus.DROPPED_UNSERVABLE
    assert told == "the longest needs 6 blocks (50 tokens), cluster.decode_gpu_blocks is 5"
    assert status(49, 6)[0] == RequestStatus.COMPLETED


def _short_of_blocks(rng):
    """Return a trace of roles, asynchronous, with many who decode in a pool that is too small."""
    size = rng.choice((2, 4, 8))
    rows = []
    for i in range(24):
        row = {"id": i, "arrival_us": rng.choice((0, 0, 3000)), "prompt": [[100 * i, 9]]}
        rows.append(row | {"output": [10_000 + 100 * i, rng.randrange(2, 60)]})
    for i in rng.sample(range(12, 24), 4):  # who asks for what another decodes
        rows[i] |= {"prompt": [*rows[i - 12]["prompt"], rows[i - 12]["output"]]}
        rows[i]["arrival_us"] = rng.randrange(3000, 20_000)
    rows.sort(key=lambda row: row["arrival_us"])
    rows = [row | {"id": i} for i, row in enumerate(rows)]
    scenario = {
        "engine": {"max_num_seqs": 24, "max_num_batched_tokens": 512, "async_scheduling": True},
        "cache": {"block_size": size, "gpu_blocks": rng.choice((200, 400)) // size},
        "cluster": {
            "prefill_instances": 1,
            "decode_instances": 1,
            "prefill_gpu_blocks": 4000 // size,
            "kv_transfer_bandwidth": 10.0,
        },
        "latency": {"beta": [100, 1, 7], "window": rng.choice(([], [5, 3, 0]))},
    }
    return {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}


def test_who_misses_a_schedule_stays_counted():
    """Where blocks lack and nobody in flight is a victim those behind are a step behind (R14.5)."""
    traces = [_short_of_blocks(random.Random(f"missed/{seed}")) for seed in range(30)]
    assert count_who_notes_fewer(traces) > 20  # their late tokens are noted together
    assert all(list(twin.differences(trace)) == [] for trace in traces[:10])


def test_blocks_that_are_kept_for_who_waits_for_ever_are_no_bug():
    """A head that asks for more than its pool leaves what others keep for it."""
    single = twin.run_kernel(found.trace("kept-for-ever"))
    assert single.status.label == "step_limit"
    assert "can wait for ever in a small pool" in single.detail
    with pytest.raises(naive.StepLimit):
        naive.simulate(found.trace("kept-for-ever"))


@settings(max_examples=60)
@given(explicit_traces.traces(features=explicit_traces.POOLED, closed_loop=True))
def test_kernel_equals_twin_where_instances_of_pools_have_more(trace):
    assert list(twin.differences(trace)) == []


@pytest.mark.parametrize("feature", explicit_traces.POOLED)
def test_kernel_equals_twin_on_longer_traces_of_pools(feature):
    rng = random.Random(f"pooled/{feature}")
    for _ in range(8):
        trace = explicit_traces.random_trace(rng, (feature,), max_requests=40, closed_loop=True)
        assert list(twin.differences(trace)) == []


@settings(max_examples=80)
@given(explicit_traces.traces(features=explicit_traces.STATES_APART, closed_loop=True))
def test_kernel_equals_twin_where_states_are_pulled(trace):
    assert list(twin.differences(trace)) == []


@pytest.mark.parametrize("feature", explicit_traces.STATES_APART)
def test_kernel_equals_twin_on_longer_traces_where_states_are_pulled(feature):
    rng = random.Random(f"states/{feature}")
    for _ in range(8):
        trace = explicit_traces.random_trace(rng, (feature,), max_requests=40, closed_loop=True)
        assert list(twin.differences(trace)) == []


def _states_apart(requests):
    """Return a trace of one prefill and one decode instance, with full attention and states."""
    return {
        "format": "kvsweep-trace/1",
        "scenario": {
            "engine": {"rules": "vllm", "max_num_seqs": 4, "max_num_batched_tokens": 256},
            "cache": {
                "block_size": 16,
                "gpu_blocks": 60,
                "groups": [{"kind": "full"}, {"kind": "state"}],
            },
            "cluster": {
                "prefill_instances": 1,
                "decode_instances": 1,
                "kv_transfer_base_us": 10,
                "kv_transfer_bandwidth": 1.0,
            },
            "latency": {"alpha": [0, 0, 0], "beta": [1000, 1, 1]},
        },
        "requests": [
            {"id": i, "arrival_us": at, "prompt": prompt, "output": [1000 + i, 3]}
            for i, (at, prompt) in enumerate(requests)
        ],
    }


def _pulls_of(requests):
    """Return [request, tokens] of all transfers; each prompt is [segment, tokens]s."""
    single = twin.run_kernel(_states_apart(requests))
    assert single.status.label == "ok"
    assert list(twin.differences(_states_apart(requests))) == []
    return [[int(row["request"]), int(row["tokens"])] for row in single.outputs.transfers]


def test_a_pull_moves_one_state_and_what_attention_lacks():
    """Of 100 tokens seven blocks for 99 and a state; then five of them are there (R14.13)."""
    first, other = [[1, 100]], [[1, 80], [2, 30]]
    assert _pulls_of([(0, first), (100_000, other)]) == [[0, 8 * 16], [1, 3 * 16]]


def test_a_prompt_of_which_attention_has_all_but_the_last_token_is_not_pulled():
    """97 tokens are six blocks and a token; the state behind them was not kept (R14.13)."""
    long, short = [[1, 130]], [[1, 97]]
    assert _pulls_of([(0, long), (100_000, short)]) == [[0, 10 * 16], [1, 0]]
    single = twin.run_kernel(_states_apart([(0, long), (100_000, short)]))
    progress, handoff = single.outputs.progress[1], single.outputs.handoffs[1]
    assert handoff["pulled"] == twin.NO_VALUE
    assert progress["cached_tokens"] == 0  # at its prefill instance, and where it is decoded
    assert handoff["released"] >= handoff["requeued"]
    assert single.outputs.tallies[0]["pulls"] == 1


def test_a_prompt_of_one_token_is_pulled_whole():
    assert _pulls_of([(0, [[1, 1]])]) == [[0, 2 * 16]]


GUESSES = {"speculative": {"tokens": 2, "method": "draft", "acceptance": 0.5}}


@pytest.mark.parametrize("more", [{}, {"async_scheduling": True}, GUESSES])
def test_without_chunked_prefill_no_request_is_longer_than_a_step(more):
    """Prompt and output: vLLM takes no `max_model_len` above the budget then."""
    engine = {"enable_chunked_prefill": False, "max_num_seqs": 4, "max_num_batched_tokens": 64}
    scenario = {"latency": {"beta": [1000, 10, 5]}, "engine": engine | more}
    requests = [
        {"id": i, "arrival_us": 500 * i, "prompt": [[i, 60]], "output": [90 + i, output]}
        for i, output in enumerate((3, 4, 5, 6))
    ]
    assert dropped(scenario, requests) == [False, False, True, True]
