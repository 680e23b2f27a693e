"""The kernel alone: H8 and conversations, and the naive twin in the same process."""

import time

import naive
import numpy as np
from bench_cases import (
    CONVERSATION_BLOCKS,
    H8_BLOCKS,
    conversations,
    conversations_scenario,
    generated,
    h8_scenario,
    lanes,
)
from measuring import least_times, time_lanes, times_in_turns

from kvsweep.simulate.workspace import allocate_outputs
from kvsweep.workload.native import to_trace_dict

# The first is far below what is measured, so that only a broken design fails.
LEAST_RATIO_TO_TWIN = 40
LEAST_RATIO_TO_PLAIN_LOOP = 6


def mean_of(times):
    """Return the geometric mean."""
    return float(np.exp(np.log(times).mean()))


def row_of(name, seconds, outputs):
    """Return a row: time and rate per simulation, work done, time per step and per token."""
    tallies = outputs.tallies
    count = len(tallies)
    steps = tallies["steps"].sum() / count
    return (
        name,
        f"{1e6 * seconds:.1f}",
        f"{1 / seconds:,.0f}",
        f"{steps:,.0f}",
        f"{outputs.tallies['preemptions'].sum() / count:.1f}",
        f"{1e9 * seconds / steps:.1f}",
    )


COLUMNS = ("blocks", "us", "simulations/s", "steps", "preemptions", "ns per step")


def measure(cases, repeats):
    """Return a row for each of the inputs, run in turns by name, and the times per simulation."""
    batches = {name: (inputs, allocate_outputs(inputs)) for name, inputs in cases.items()}
    rows, times = [], []
    for name, seconds in least_times(batches, repeats).items():
        inputs, outputs = batches[name]
        assert (outputs.tallies["status"] == 0).all()
        times.append(seconds / len(inputs.lanes))
        rows.append(row_of(name, times[-1], outputs))
    return rows, times


def test_h8(tables, smoke):
    seeds, repeats = (3, 1) if smoke else (100, 100)
    for routing in ("round-robin", "least-loaded"):
        lists = generated(h8_scenario(1000), range(seeds))
        cases = {f"{count:,}": lanes(h8_scenario(count, routing), lists) for count in H8_BLOCKS}
        rows, times = measure(cases, repeats)
        mean = mean_of(np.array(times))
        rows.append(("geometric mean", f"{1e6 * mean:.1f}", f"{1 / mean:,.0f}", "", "", ""))
        tables.add(
            f"H8, {routing}: one simulation on one core",
            COLUMNS,
            rows,
            f"200 requests on 4 instances, {seeds} seeds; block counts in turns.",
        )


def test_conversations(tables, smoke):
    seeds, repeats = (1, 1) if smoke else (20, 40)
    lists = [conversations(seed) for seed in range(seeds)]
    cases = {f"{n:,}": lanes(conversations_scenario(n), lists) for n in CONVERSATION_BLOCKS}
    rows, _ = measure(cases, repeats)
    tables.add(
        "Conversations: one simulation on one core",
        COLUMNS,
        rows,
        f"500 requests in rounds of five on one instance, at most 32 running, {seeds} seeds.",
    )


def test_kernel_against_twin(tables, smoke):
    """The yardstick: the same simulations in plain Python, in the same process."""
    seeds, requests = (1, 20) if smoke else (3, 200)
    rows = []
    for blocks in (2200, 1500):
        scenario = h8_scenario(blocks, requests=requests)
        lists = generated(scenario, range(seeds))
        seconds, outputs = time_lanes(lanes(scenario, lists), 1 if smoke else 30)
        traces = [to_trace_dict(item, scenario.to_trace()) for item in lists]
        begun = time.thread_time()
        results = [naive.simulate(trace) for trace in traces]
        slow = (time.thread_time() - begun) / seeds
        finish = [request.finish_us for result in results for request in result.requests]
        assert (outputs.e2e >= 0).all()
        assert len(finish) == len(outputs.e2e)
        ratio = slow / seconds
        row = (f"{blocks:,}", f"{1e3 * slow:.0f} ms", f"{1e6 * seconds:.0f} us", f"{ratio:,.0f}")
        rows.append(row)
        assert smoke or ratio >= LEAST_RATIO_TO_TWIN
    tables.add("Kernel against the naive twin, H8", ("blocks", "twin", "kernel", "ratio"), rows)


def test_kernel_against_plain_loop(tables, smoke):
    """The same kernel, but every step visits every running request; the ratio is that of turns."""
    seeds, repeats = (3, 1) if smoke else (60, 15)
    lists = generated(h8_scenario(1000), range(seeds))
    rows = []
    for blocks in H8_BLOCKS:
        batches = {}
        for name, plain in (("counted", 0), ("visited", 1)):
            inputs = lanes(h8_scenario(blocks), lists)
            inputs.lanes["visit_all"] = plain
            batches[name] = inputs, allocate_outputs(inputs)
        times = times_in_turns(batches, repeats)
        ends = [outputs.e2e for _, outputs in batches.values()]
        np.testing.assert_array_equal(*ends)
        ratio = float(np.median(times["visited"] / times["counted"]))
        counted, visited = (1e6 * times[name].min() / seeds for name in batches)
        rows.append((f"{blocks:,}", f"{visited:.0f}", f"{counted:.1f}", f"{ratio:.1f}"))
        assert smoke or ratio >= LEAST_RATIO_TO_PLAIN_LOOP
    tables.add(
        "Kernel by counts against the plain step loop, H8",
        ("blocks", "plain loop, us", "by counts, us", "ratio"),
        rows,
    )
