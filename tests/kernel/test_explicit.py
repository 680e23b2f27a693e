"""The explicit engine on usual lanes, where it must decide as the usual one, and with its logs off.

What only it has is compared with recordings and with the twin in test_explicit_twin.py.
"""

import random

import batches
import explicit_traces
import goldens
import pytest
import strategies
import twin
from hypothesis import given, settings

from kvsweep.records import Event, LaneStatus
from kvsweep.simulate import logged


def columns_of(single, index):
    """Return the steps of an instance as recordings have them, by column."""
    steps = single.outputs.steps[single.outputs.steps["instance"] == index]
    table = twin.events_by_step(single, index)
    events = [table[i] for i in range(len(steps))]
    found = {name: steps[field].tolist() for name, field in twin.STEP_COLUMNS.items()}
    found["free_end"] = steps["free_after"].tolist()
    found["sched"] = [[list(pair) for pair in at[Event.CHUNK]] for at in events]
    found["adm"] = [[list(pair) for pair in at[Event.ADMIT]] for at in events]
    found["pre"] = [[r for r, _ in twin.victims_of(at)] for at in events]
    found["fin"] = [[r for r, _ in at[Event.FINISH]] for at in events]
    return found


def check_steps(single, index, expected):
    mine = columns_of(single, index)
    for column in expected.keys() & mine.keys():
        rows = expected[column]
        want = [[row[:2] for row in each] for each in rows] if column == "adm" else rows
        assert mine[column] == want, (index, column)


# 93: a decode instance must not run ahead of others whose requests make arrivals;
# 70: a window that a decode leaves makes room for a refused head in the same step.
@pytest.mark.parametrize("seed", [70, 93])
def test_kernel_equals_twin_where_it_did_not(seed):
    trace = explicit_traces.random_trace(random.Random(seed), closed_loop=True)
    assert list(twin.differences(trace)) == []


@settings(max_examples=30)
@given(explicit_traces.traces(features=("roles",), closed_loop=True))
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


def test_without_its_logs_it_is_the_same():
    """Steps that only decode are taken alike whether each is logged or not."""
    traces = [
        explicit_traces.random_trace(random.Random(f"log/{i}"), ("groups",)) for i in range(6)
    ]
    _, outputs = batches.run(traces)
    for lane, trace in enumerate(traces):
        single = twin.run_kernel(trace)
        assert outputs.tallies["status"][lane] in (LaneStatus.OK, LaneStatus.STEP_LIMIT)
        alone = single.outputs.tallies[0]
        for name in ("steps", "evictions", "window_freed", "used_time", "itl_sum", "makespan"):
            assert outputs.tallies[name][lane] == alone[name], name
