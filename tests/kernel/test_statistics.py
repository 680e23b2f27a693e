"""Single-server queues have closed forms: one request at a time makes the engine such a queue.

With one seat, constant lengths and ample memory, a request is served in one prefill step and
``output - 1`` decode steps, so its service time is constant and known to the microsecond.
"""

import math

import batches
import numpy as np
import pytest

from kvsweep.config import DEFAULT_ENTROPY
from kvsweep.policies import Status
from kvsweep.simulate import simulate_batch

ALPHA = [100.0, 2.0, 30.0]
BETA = [900.0, 0.5, 7.25]
PROMPT, OUTPUT = 200, 9
ENTRY_US = int(ALPHA[0] + ALPHA[1] * PROMPT)
PREFILL_US = int(BETA[0] + BETA[1] * PROMPT)
DECODE_US = int(BETA[0] + BETA[2])
SERVICE_US = PREFILL_US + (OUTPUT - 1) * DECODE_US


def queue(arrivals, load, requests, instances=1, output=None, **workload):
    """Return a scenario of single-seat engines at the given load (offered / capacity)."""
    return batches.scenario(
        {
            "workload": {
                "requests": requests,
                "rate": load * instances * 1e6 / SERVICE_US,
                "arrivals": arrivals,
                "prompt": {"dist": "constant", "value": PROMPT},
                "output": output or {"dist": "constant", "value": OUTPUT},
                **workload,
            },
            "cluster": {"instances": instances},
            "engine": {"max_num_seqs": 1},
            "cache": {"gpu_blocks": 100},
        },
        {"latency": {"model": None, "alpha": ALPHA, "beta": BETA}},
    )


def simulate(scenario, seeds):
    found = simulate_batch(
        [scenario],
        range(seeds),
        entropy=DEFAULT_ENTROPY,
        policies=[None],
        base_dir=None,
        keep_requests=True,
    )
    assert (found["status"] == Status.OK).all()
    return {name: values[0] for name, values in found.items()}


def waiting_us(found, warmup=0):
    """Time from entry into the waiting list to the start of service, (seeds, requests)."""
    return (found["request_scheduled_us"] - found["request_queued_us"])[:, warmup:]


def assert_mean(values, expected, deviations=4.0):
    """The mean over seeds lies within its own confidence interval around `expected`."""
    means = values.mean(axis=1)
    error = means.std(ddof=1) / math.sqrt(len(means))
    assert error < 0.05 * expected, "too few seeds to tell"
    assert abs(means.mean() - expected) < deviations * error


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_mean_wait_of_m_d_1(load):
    """Pollaczek-Khinchine for constant service: rho S / 2 (1 - rho)."""
    found = simulate(queue("poisson", load, 6000), 60)
    expected = load * SERVICE_US / (2 * (1 - load))
    assert_mean(waiting_us(found, warmup=1000), expected)
    busy = 6000 * SERVICE_US / (found["makespan_s"] * 1e6)
    assert abs(busy.mean() - load) < 0.01


@pytest.mark.parametrize("load", [0.5, 0.7])
def test_mean_wait_of_m_g_1(load):
    """Pollaczek-Khinchine for any service time: rate E[S^2] / 2 (1 - rho), S from the outputs."""
    output = {"dist": "exponential", "mean": 40}
    found = simulate(queue("poisson", load, 6000, output=output, rate=100.0), 60)
    service = found["request_finish_us"] - found["request_scheduled_us"]
    mean = service.mean()
    found = simulate(queue("poisson", load, 6000, output=output, rate=load * 1e6 / mean), 60)
    expected = load / mean * (service.astype(float) ** 2).mean() / (2 * (1 - load))
    assert_mean(waiting_us(found, warmup=1000), expected)


def test_d_d_1_below_capacity_never_waits():
    found = simulate(queue("constant", 0.999, 300), 3)
    assert (waiting_us(found) == 0).all()
    client = ENTRY_US + SERVICE_US + int(ALPHA[2])
    assert (found["request_e2e_us"] == client).all()
    assert (found["request_ttft_us"] == client - (OUTPUT - 1) * DECODE_US).all()
    assert (found["itl_ms"] == DECODE_US / 1000).all()


def test_d_d_1_above_capacity_waits_longer_by_the_same_time_each():
    found = simulate(queue("constant", 1.25, 300), 3)
    start = found["request_queued_us"][:, :1] + np.arange(300) * SERVICE_US
    assert (found["request_scheduled_us"] == start).all()
    assert (found["request_finish_us"] == start + SERVICE_US).all()


def test_lindley_recursion_holds_request_by_request():
    """W(n+1) = max(0, W(n) + S - A(n)): exact for every single request of a Poisson stream."""
    found = simulate(queue("poisson", 0.9, 2000), 5)
    waits, gaps = waiting_us(found), np.diff(found["request_queued_us"], axis=1)
    expected = np.maximum(waits[:, :-1] + SERVICE_US - gaps, 0)
    assert (waits[:, 1:] == expected).all()


def test_round_robin_splits_a_poisson_stream_into_erlang_queues():
    """Two engines see every second arrival each, so each is an E2/D/1 queue of its own."""
    found = simulate(queue("poisson", 0.8, 2000, instances=2), 5)
    for index in range(2):
        entry = found["request_queued_us"][:, index::2]
        waits = waiting_us(found)[:, index::2]
        expected = np.maximum(waits[:, :-1] + SERVICE_US - np.diff(entry, axis=1), 0)
        assert (waits[:, 1:] == expected).all()


def test_littles_law_for_blocks():
    """Mean blocks in use = arrival rate x mean block time of a request (held while it runs)."""
    found = simulate(queue("poisson", 0.5, 2000), 3)
    first = -(-PROMPT // 16)
    held = [-(-(PROMPT + k) // 16) for k in range(OUTPUT)]
    block_us = first * PREFILL_US + sum(held[1:]) * DECODE_US
    expected = 2000 * block_us / (found["makespan_s"] * 1e6)
    np.testing.assert_allclose(found["mean_blocks"], expected, rtol=1e-12)
