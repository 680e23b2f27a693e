"""A limit on the requests under way: the kernel sends as the twin does."""

import numpy as np
import pytest
import twin

from kvsweep.config import Scenario
from kvsweep.policies import Status
from kvsweep.simulate import simulate_batch


def trace_of(rows, concurrency, alpha=(0, 0, 0), cluster=None):
    """Return requests of (time at which it is ready, prompt tokens, output tokens)."""
    requests = [
        {"id": i, "arrival_us": ready, "prompt": [[i, prompt]], "output": [1000 + i, output]}
        for i, (ready, prompt, output) in enumerate(rows)
    ]
    scenario = {
        "workload": {"concurrency": concurrency},
        "cache": {"block_size": 4, "gpu_blocks": 100},
        "cluster": cluster or {},
        "latency": {"alpha": list(alpha), "beta": [10, 1, 3]},
    }
    return {"format": "kvsweep-trace/1", "scenario": scenario, "requests": requests}


@pytest.mark.parametrize(
    ("trace", "sent"),
    [
        (trace_of([(0, 3, 1)] * 4, 2), [0, 0, 16, 16]),
        (trace_of([(0, 3, 1), (5, 3, 1), (70, 3, 1)], 1, alpha=(0, 0, 7)), [0, 20, 70]),
        # A step of two admissions takes 10 + 2 * 3 us; the third is dropped 5 us after it came.
        (trace_of([(0, 3, 1), (0, 3, 1), (0, 500, 1), (0, 3, 1)], 2, (5, 0, 0)), [0, 0, 21, 21]),
        (
            trace_of([(0, 3, 1)] * 3, 1, cluster={"admission": "reject-all"}),
            [0, 0, 0],
        ),
    ],
)
def test_when_requests_are_sent(trace, sent):
    assert twin.run_kernel(trace).outputs.progress["arrival"].tolist() == sent
    assert list(twin.differences(trace)) == []


def test_ends_that_are_told_late_and_come_early_are_not_lost():
    """The places of the last requests are known before others get free earlier."""
    rows = [(0, 90, 1), (0, 80, 1), (0, 1, 2), (0, 1, 2), (0, 1, 2), (0, 1, 2)]
    trace = trace_of(rows, 3, cluster={"instances": 3})
    assert list(twin.differences(trace)) == []
    # The long ones are over at 100 and 90 us; the short ones follow each other on the third.
    arrivals = twin.run_kernel(trace).outputs.progress["arrival"].tolist()
    assert arrivals == sorted(arrivals)
    assert arrivals[3] < 90


def cells(*changes, **more):
    base = {
        "workload": {
            "requests": 60,
            "prompt": {"dist": "uniform", "min": 20, "max": 60},
            "output": {"dist": "uniform", "min": 5, "max": 30},
        },
        "latency": {"alpha": [100, 0, 30], "beta": [1000, 3, 5]},
    }
    variants = [
        Scenario.model_validate(base | {"workload": base["workload"] | change})
        for change in changes
    ]
    return simulate_batch(
        variants, [0, 1], entropy=1, policies=[None] * len(variants), base_dir=None, **more
    )


def test_the_nth_request_is_the_same_whatever_the_limit_and_policy():
    found = cells({"concurrency": 2}, {"concurrency": 40}, {"rate": 9.0}, keep_requests=True)
    for name in ("request_prompt_tokens", "request_output_tokens"):
        assert (found[name][0] == found[name][1]).all()
        assert (found[name][0] == found[name][2]).all()


def test_no_more_are_under_way_than_the_limit_allows():
    found = cells({"concurrency": 7}, keep_requests=True)
    begin = found["request_arrival_us"][0, 0]
    end = begin + found["request_e2e_us"][0, 0]
    under_way = [np.sum((begin <= time) & (time < end)) for time in begin]
    assert max(under_way) == 7
    assert set(under_way[7:]) == {7}  # as all are ready at once


def test_a_limit_of_all_requests_is_none():
    limited, free = cells({"concurrency": 60, "rate": 500.0}), cells({"rate": 500.0})
    for name in ("makespan_s", "ttft_mean_ms", "e2e_mean_ms", "throughput_rps", "steps"):
        assert (limited[name] == free[name]).all()


def test_throughput_after_a_warm_up_counts_from_the_first_measured_sending():
    found = cells({"concurrency": 3, "warmup": 20}, keep_requests=True)
    assert (found["status"] == Status.OK).all()
    since = found["request_arrival_us"][0, :, 20]
    assert (since > 0).all()
    seconds = found["makespan_s"][0] - since / 1e6
    assert found["throughput_rps"][0] == pytest.approx(40 / seconds)


def test_load_and_capacity_are_not_compared_where_clients_wait():
    found = cells({"concurrency": 3}, {"rate": 500.0})
    for name in ("arrivals_s", "queue_growth"):
        assert np.isnan(found[name][0]).all()
        assert not np.isnan(found[name][1]).any()


def test_throughput_of_closed_loops_counts_from_the_first_measured_arrival():
    """Of the requests after a warm-up the first of the list is not the first to arrive."""
    loops = {"rounds": 6, "think_time_s": 0.01, "arrivals": "closed-loop", "truncate": False}
    found = cells({"rate": 5000.0, "warmup": 30, "sessions": loops}, keep_requests=True)
    assert (found["status"] == Status.OK).all()
    since = found["request_arrival_us"][0, :, 30:].min(axis=1)
    assert (since > 0).all()
    seconds = found["makespan_s"][0] - since / 1e6
    assert found["throughput_rps"][0] == pytest.approx(30 / seconds)
