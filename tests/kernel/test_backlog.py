"""Whether queues grow: against counts request by request, and queues whose capacity is known."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsweep.config.scenario import validate
from kvsweep.simulate import simulate_batch
from kvsweep.simulate.backlog import queue_growth

SERVICE_S = 0.01
"""Of `SERVER`: ten steps of a millisecond, one request at a time."""

SERVER = {
    "workload": {
        "requests": 1000,
        "rate": 50.0,
        "prompt": {"dist": "constant", "value": 16},
        "output": {"dist": "constant", "value": 10},
    },
    "engine": {"max_num_seqs": 1},
    "cache": {"gpu_blocks": 10},
    "latency": {"alpha": [0, 0, 1], "beta": [1000, 0, 0]},
}


def scenario(**changes):
    sections = {name: SERVER.get(name, {}) | changes.get(name, {}) for name in SERVER | changes}
    return validate(sections, Path())


def simulated(*scenarios, seeds=4, keep_requests=False):
    return simulate_batch(
        scenarios,
        range(seeds),
        entropy=1,
        policies=[None] * len(scenarios),
        base_dir=None,
        keep_requests=keep_requests,
    )


def counted(arrival, delay):
    """What `queue_growth` says, by looking at each request at both moments."""
    half = len(arrival) // 2
    if half == 0:
        return np.nan
    start = [a + d for a, d in zip(arrival, delay, strict=True)]
    now = [[a <= moment < s for a, s in zip(arrival, start, strict=True)] for moment in
           (arrival[half - 1], arrival[-1])]  # fmt: skip
    return (sum(now[1]) - sum(now[0][:half])) / (len(arrival) - half)


delays = st.lists(st.tuples(st.integers(0, 50), st.integers(-1, 200)), min_size=1, max_size=20)


@given(st.lists(delays, min_size=1, max_size=4), st.randoms())
def test_growth_is_counted_request_by_request(lists, random):
    n = min(map(len, lists))
    gaps = np.array([[gap for gap, _ in rows[:n]] for rows in lists])
    arrival = np.cumsum(gaps, axis=1)
    which = np.array([random.randrange(len(lists)) for _ in range(5)])
    delay = np.array([[d for _, d in lists[w][:n]] for w in which])
    found = queue_growth(arrival, delay, which)
    expected = [counted(arrival[w], row) for w, row in zip(which, delay.tolist(), strict=True)]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("instances", [1, 3])
@pytest.mark.parametrize("load", [1.2, 1.5, 3.0])
def test_above_capacity_what_cannot_be_served_is_left_waiting(load, instances):
    """M/D/1, and three behind a round-robin: what is too much is 1 - 1 / load of the arrivals."""
    capacity = instances / SERVICE_S
    cell = scenario(
        workload={"rate": load * capacity, "requests": 4000}, cluster={"instances": instances}
    )
    growth = simulated(cell)["queue_growth"]
    assert growth == pytest.approx(1 - 1 / load, abs=0.06)
    assert growth.mean() == pytest.approx(1 - 1 / load, abs=0.03)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_below_capacity_nothing_is_left_waiting(load):
    growth = simulated(scenario(workload={"rate": load / SERVICE_S, "requests": 4000}))
    assert np.abs(growth["queue_growth"]).max() < 0.02


@pytest.mark.parametrize("scheduler", ["sjf", "priority"])
def test_growth_does_not_depend_on_who_is_served_first(scheduler):
    """A delay by order of arrival would: the short ones of all times go first."""
    workload = {"rate": 200.0, "output": {"dist": "empirical", "values": [5, 15]}}
    growth = [
        simulated(scenario(workload=workload, engine={"max_num_seqs": 1, "scheduler": kind}))
        for kind in ("fcfs", scheduler)
    ]
    assert growth[1]["queue_growth"] == pytest.approx(growth[0]["queue_growth"], abs=0.2)
    assert (growth[1]["queue_growth"] > 0.3).all()


def test_arrivals_span_the_whole_list_whatever_is_left_out():
    cells = simulated(scenario(), scenario(workload={"warmup": 300}))
    np.testing.assert_array_equal(*cells["arrivals_s"])
    np.testing.assert_array_equal(*cells["queue_growth"])
    assert cells["arrivals_s"] == pytest.approx(1000 / 50, rel=0.1)


def test_closed_loops_have_no_rate_that_could_be_above_capacity():
    sessions = {"rounds": 4, "think_time_s": 0.1, "arrivals": "closed-loop"}
    cells = simulated(scenario(workload={"sessions": sessions, "rate": 1000.0}))
    assert np.isnan(cells["queue_growth"]).all()
    assert np.isnan(cells["arrivals_s"]).all()


@pytest.mark.parametrize("rules", ["vllm", "blis"])
def test_both_rule_books_measure_what_their_requests_say(rules):
    cell = scenario(workload={"rate": 130.0, "requests": 60}, engine={"rules": rules})
    cells = simulated(cell, keep_requests=True, seeds=2)
    arrival, start = cells["request_arrival_us"][0], cells["request_scheduled_us"][0]
    for seed in range(2):
        delay = (start[seed] - arrival[seed]).tolist()
        assert cells["queue_growth"][0, seed] == counted(arrival[seed].tolist(), delay)
        span = arrival[seed].max() - arrival[seed].min()
        assert cells["arrivals_s"][0, seed] == pytest.approx(span / 1e6)


def test_what_still_waits_at_a_horizon_waits():
    engine = {"rules": "blis", "max_num_seqs": 1}
    cells = simulated(
        scenario(workload={"rate": 1000.0, "requests": 60}, engine=engine),
        scenario(
            workload={"rate": 1000.0, "requests": 60}, engine=engine | {"horizon_us": 100_000}
        ),
        seeds=1,
    )
    assert (cells["queued"][:, 0] > 0).tolist() == [False, True]
    assert cells["queue_growth"][1, 0] == pytest.approx(cells["queue_growth"][0, 0], abs=0.1)


@pytest.mark.parametrize(("instances", "growth"), [(1, 0.75), (8, 0.0)])
def test_prefill_and_decode_apart_have_a_rate(instances, growth):
    """They go from event to event as closed loops do, and were taken for such: no warning came.

    A decode instance serves one of 10 ms at a time, 100 each second of 400 that arrive; they wait
    there, once they were prefilled.
    """
    roles = {
        "prefill": {"instances": 8, "gpu_blocks": 1000},
        "decode": {"instances": instances},
        "kv_transfer_bandwidth": 1000.0,
    }
    cell = scenario(workload={"rate": 400.0, "requests": 400}, cluster=roles)
    cells = simulated(cell, keep_requests=True, seeds=2)
    arrival, waits = cells["request_arrival_us"][0], cells["request_ttft_us"][0]
    for seed in range(2):
        expected = counted(arrival[seed].tolist(), waits[seed].tolist())
        assert cells["queue_growth"][0, seed] == expected == pytest.approx(growth, abs=0.1)
        span = arrival[seed].max() - arrival[seed].min()
        assert cells["arrivals_s"][0, seed] == pytest.approx(span / 1e6)
