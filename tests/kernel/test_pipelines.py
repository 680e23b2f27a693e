"""Pipelines (rules R16): the kernel against the twin, against closed forms, and what is refused."""

import gzip
import json
import random
from pathlib import Path
from types import SimpleNamespace

import batches
import explicit_traces
import found
import numpy as np
import pytest
import twin
from hypothesis import given, settings

from kvsweep.analysis.room import room_text
from kvsweep.config import load_sweep, parse_scenario
from kvsweep.errors import InputError
from kvsweep.records import Event
from kvsweep.simulate.kernel_cells import run_lanes
from kvsweep.simulate.workspace import allocate_outputs

LATENCY = {"beta": [1000, 1, 10]}


def trace(rows, *, stages, engine=(), **sections):
    """Return a trace of [arrival, prompt, output] with prompts that have nothing in common."""
    requests = [
        {"id": i, "arrival_us": at, "prompt": [[2 * i, prompt]], "output": [2 * i + 1, output]}
        for i, (at, prompt, output) in enumerate(rows)
    ]
    engine = {"pipeline_parallel_size": stages, **dict(engine)}
    scenario = {"latency": LATENCY, **sections, "engine": engine}
    return {"format": "kvsweep-trace/1", "scenario": scenario, "requests": requests}


@settings(max_examples=60)
@given(explicit_traces.traces(features=explicit_traces.PIPELINES, closed_loop=True))
def test_kernel_equals_twin(drawn):
    assert list(twin.differences(drawn)) == []


@pytest.mark.parametrize("seed", range(3))
def test_kernel_equals_twin_on_longer_traces(seed):
    rng = random.Random(f"pipelines/{seed}")
    for _ in range(8):
        drawn = explicit_traces.random_trace(rng, explicit_traces.PIPELINES, 40, closed_loop=True)
        assert list(twin.differences(drawn)) == []


def test_pools_may_have_pipelines_too():
    rng = random.Random("pools of pipelines")
    for _ in range(20):
        drawn = explicit_traces.random_trace(rng, ("pools",), closed_loop=True)
        drawn["scenario"]["engine"]["pipeline_parallel_size"] = rng.choice((2, 3))
        assert list(twin.differences(drawn)) == []


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_request_alone_is_no_faster(asynchronous):
    """Each token needs the one before, so that only one stage works at a time."""
    rows = [(0, 50, 20)]
    ends = {
        twin.run_kernel(
            trace(rows, stages=stages, engine={"async_scheduling": asynchronous})
        ).outputs.progress[0]["finish"]
        for stages in (1, 2, 5)
    }
    assert ends == {1000 + 50 + 19 * 1010}


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_requests_whose_prompts_fill_a_step_each_take_turns(stages, asynchronous):
    """Each is a step of its own, and all stages work: a token of each in the time of one step."""
    rows = [(0, 100, 200)] * stages  # a decode takes 1,200 us, which all these numbers divide
    engine = {"max_num_batched_tokens": 100, "max_num_seqs": 8, "async_scheduling": asynchronous}
    latency = {"beta": [1190, 1, 10]}
    single = twin.run_kernel(trace(rows, stages=stages, engine=engine, latency=latency))
    assert set(single.outputs.steps["decode_tokens"][stages:]) == {1}
    for row in single.outputs.progress:
        assert row["finish"] - row["first_token"] == pytest.approx(199 * 1200, abs=stages * 100)


def test_who_comes_while_a_pipeline_waits_joins_the_others():
    """The engine has filled its places with empty steps by then, and schedules when one is over."""
    single = twin.run_kernel(trace([(0, 1, 200), (505, 1, 200)], stages=2))
    assert set(single.outputs.steps["decode_tokens"][2:]) == {1, 2}
    assert (single.outputs.steps["decode_tokens"] == 2).sum() == 198


def test_requests_that_one_step_admits_stay_in_one_step():
    """Nothing spreads them over the stages: all but one of these wait at any time."""
    rows = [(0, 10, 50)] * 4
    single = twin.run_kernel(trace(rows, stages=4))
    assert set(single.outputs.steps["decode_tokens"][1:]) == {4}
    alone = twin.run_kernel(trace(rows, stages=1))
    assert list(single.outputs.progress["finish"]) == list(alone.outputs.progress["finish"])


def test_chunks_of_a_prompt_follow_each_other_through_the_stages():
    """The next chunk enters while the one before is in the second stage."""
    engine = {"max_num_batched_tokens": 100, "max_num_seqs": 8}
    steps = twin.run_kernel(trace([(0, 400, 1)], stages=2, engine=engine)).outputs.steps
    assert steps["start_us"].tolist() == [0, 550, 1100, 1650]
    assert steps["duration_us"].tolist() == [1100] * 4


@pytest.mark.parametrize("seed", range(4))
def test_each_stage_computes_one_step_at_a_time(seed):
    """Steps begin, and end, at least their part of a stage apart."""
    rng = random.Random(f"stages/{seed}")
    drawn = explicit_traces.random_trace(rng, ("pipeline",), 40)
    drawn["scenario"]["cluster"]["instances"] = 1
    stages = drawn["scenario"]["engine"]["pipeline_parallel_size"]
    steps = twin.run_kernel(drawn).outputs.steps
    begins, ends = steps["start_us"], steps["start_us"] + steps["duration_us"]
    least = int(drawn["scenario"]["latency"]["beta"][0]) // stages
    assert (begins[1:] - begins[:-1] >= least).all()
    assert (ends[1:] - ends[:-1] >= least).all()


def test_a_victim_is_passed_over_until_its_steps_have_come_out():
    """In order of arrival nobody else would be admitted before it comes back."""
    rng = random.Random("passed over")
    overtaken = 0
    for _ in range(80):
        drawn = explicit_traces.random_trace(rng, ("pipeline",), 30)
        drawn["scenario"]["engine"] |= {
            "pipeline_parallel_size": 4,
            "async_scheduling": True,
            "scheduler": "fcfs",
            "priority": "constant",
        }
        overtaken += count_overtaken(twin.run_kernel(drawn).outputs.events)
        assert list(twin.differences(drawn)) == []
    assert overtaken > 0


def count_overtaken(events):
    """Return how often somebody was admitted while a victim of the same instance waited."""
    waits, found = set(), 0
    for row in events:
        one = (int(row["instance"]), int(row["request"]))
        if row["kind"] == Event.PREEMPT:
            waits.add(one)
        elif row["kind"] in (Event.ADMIT, Event.FINISH):
            waits.discard(one)
            found += row["kind"] == Event.ADMIT and any(each[0] == one[0] for each in waits)
    return found


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"engine": {"speculative": {"tokens": 2, "method": "eagle", "acceptance": 0.5}}},
            "engine.async_scheduling: false, but of drafts with engine.pipeline_parallel_size only",
        ),
        (
            {
                "engine": {
                    "speculative": {"tokens": 2, "method": "eagle", "acceptance": 0.5},
                    "async_scheduling": True,
                },
                "cache": {"groups": [{"kind": "state"}, {"kind": "full"}]},
            },
            "engine.speculative: not with engine.pipeline_parallel_size and groups of states",
        ),
        (
            {
                "cluster": {
                    "prefill_instances": 1,
                    "decode_instances": 1,
                    "kv_transfer_bandwidth": 2.0,
                }
            },
            "engine.pipeline_parallel_size: not with prefill and decode apart: no rule was",
        ),
        (
            {"cache": {"cpu_blocks": 50, "offload": "vllm", "transfer_bandwidth": 1.0}},
            "cache.cpu_blocks: with engine.pipeline_parallel_size there is only cpu_blocks = 0",
        ),
        (
            {"engine": {"victim": "random"}},
            "engine.victim: with engine.pipeline_parallel_size there is only victim 'last'",
        ),
        (
            {"engine": {"pipeline_parallel_size": 0}},
            "engine.pipeline_parallel_size: must be at least 1, got 0",
        ),
        (
            {"engine": {"rules": "blis"}},
            "engine.pipeline_parallel_size: rules 'blis' has no pipelines",
        ),
    ],
)
def test_what_was_not_recorded_is_refused(sections, message):
    sections = {"latency": LATENCY, **sections}
    sections["engine"] = {"pipeline_parallel_size": 2, **sections.get("engine", {})}
    with pytest.raises(InputError) as caught:
        parse_scenario(sections, "t.json")
    assert str(caught.value).startswith(f"t.json: scenario.{message}")


def test_states_can_preempt_themselves_for_ever_and_the_run_ends():
    """As vLLM's own scheduler does: a request that runs alone is its own victim, as the steps on
    their way hold its old states; while it is passed over another one does the same.
    """
    single = twin.run_kernel(found.trace("pipeline-of-states-never-ends"))
    assert single.status.label == "step_limit"
    assert "requests with states can preempt themselves in turns" in single.detail


def test_a_fair_share_spreads_requests_over_the_stages():
    """Without it all four are in one step, and three of four stages are idle at any time."""
    rows = [(0, 10, 50)] * 4
    shared, greedy = (
        twin.run_kernel(trace(rows, stages=4, engine={"pipeline_fair_share": share})).outputs
        for share in (True, False)
    )
    assert set(shared.steps["decode_tokens"][4:]) == {1}
    assert set(greedy.steps["decode_tokens"][1:]) == {4}
    assert shared.progress["finish"].max() < greedy.progress["finish"].max()


def test_a_fair_share_asks_for_a_pipeline(tmp_path):
    file = tmp_path / "t.toml"
    length = '{ dist = "constant", value = 50 }'
    lengths = f"requests = 9\nrate = 5.0\nprompt = {length}\noutput = {length}"
    latency = "beta = [1000, 1, 10]"
    file.write_text(
        f"[workload]\n{lengths}\n[latency]\n{latency}\n[engine]\npipeline_fair_share = true\n"
        "[grid]\nseed = [1]\n"
    )
    with pytest.raises(InputError, match=r"pipeline_fair_share: has no effect: needs engine\.pipe"):
        load_sweep(file)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_windows_of_a_pipeline_need_is_what_is_told_of_a_request_that_does_not_fit(
    asynchronous,
):
    """Tokens of all steps on their way count: 15 of a window, and 64 of each step."""
    need = -(-2009 // 16) + (-(-(15 + 64 * (4 + asynchronous)) // 16) + 1)
    for blocks in (need - 1, need):
        drawn = trace(
            [(0, 2000, 10)],
            stages=4,
            engine={
                "max_num_batched_tokens": 64,
                "max_num_seqs": 8,
                "async_scheduling": asynchronous,
            },
            cache={
                "gpu_blocks": blocks,
                "groups": [{"kind": "full"}, {"kind": "sliding", "window": 16}],
            },
        )
        finished = twin.run_kernel(drawn).outputs.progress["finish"][0] >= 0
        assert finished == (blocks == need)
        columns = SimpleNamespace(prompt_tokens=np.array([2000]), output_tokens=np.array([10]))
        said = room_text(parse_scenario(drawn["scenario"], "t.json"), columns)
        assert said.startswith(f"the longest needs {need} blocks (2,009 tokens)")


def long_trace(rng, asynchronous):
    """Return a trace whose requests decode for long, and are counted: none is chosen by urgency."""
    drawn = explicit_traces.random_trace(rng, ("pipeline",), 30, closed_loop=rng.random() < 0.5)
    scenario, times = drawn["scenario"], rng.choice((1, 3, 8))
    scenario["engine"] |= {
        "async_scheduling": asynchronous,
        "scheduler": rng.choice(("fcfs", "sjf")),
        "priority": "constant",
    }
    longest = 0
    for row in drawn["requests"]:
        row["output"][1] *= times
        longest = max(longest, sum(length for _, length in row["prompt"]) + row["output"][1])
    cache = scenario["cache"]
    needed = longest // cache["block_size"] + 2
    cache["gpu_blocks"] = max(cache["gpu_blocks"], needed) * rng.choice((1, 1, 2))
    return drawn


def differing_without_logs(traces):
    """Run traces with logs, schedule by schedule, and without, many at a time.

    Returns
    -------
    list of set of str
        What differs of each.
    tallies : TALLY (traces,)
        Of those without.
    """
    inputs, together = batches.run(traces)
    inputs.lanes["log"] = 1
    one_by_one = allocate_outputs(inputs, keep_requests=True)
    run_lanes(inputs, one_by_one)
    differing = []
    for lane in range(len(traces)):
        found = [batches.lane_results(inputs, each, lane) for each in (together, one_by_one)]
        short, short_by_one = (each.pop("tally shortages") for each in found)
        assert (short > 0) == (short_by_one > 0)  # each refused try is one
        differing.append({name for name in batches.differing(*found) if "log_" not in name})
    return differing, together.tallies


@pytest.mark.parametrize("asynchronous", [False, True])
def test_who_decodes_for_long_is_counted_as_the_twin_has_it(asynchronous):
    """Pools are small: who is counted lacks blocks, and is walked again with batches on the way."""
    rng = random.Random(f"counted/{asynchronous}")
    traces = [long_trace(rng, asynchronous) for _ in range(40)]
    for drawn in traces:
        assert list(twin.differences(drawn)) == []
    differing, tallies = differing_without_logs(traces)
    assert (tallies["preemptions"] > 0).sum() > 5
    assert set().union(*differing) <= {"tally itl_entries"}


def test_a_refused_head_of_a_pipeline_is_tried_in_time():
    """In front of it a victim may have come back; another class may leave it less of the budget."""
    path = Path(__file__).with_name("refused_in_pipelines.json.gz")
    traces = json.loads(gzip.decompress(path.read_bytes()))
    for drawn in traces:
        assert list(twin.differences(drawn)) == []
    differing, _ = differing_without_logs(traces)
    assert set().union(*differing) <= {"tally itl_entries"}
