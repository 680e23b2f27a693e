"""Generated workloads: reproducible, independent streams, clients merged, prefixes shared."""

import json
from dataclasses import fields

import numpy as np
import pytest

from kvsweep.config import Client, Workload
from kvsweep.config.lengths import Constant, Exponential
from kvsweep.errors import InputError
from kvsweep.workload.generate import generate, requests_for
from kvsweep.workload.native import to_trace_dict
from kvsweep.workload.requests import Requests

FAST = Constant(dist="constant", value=10)


def same(a, b):
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Requests))


def mixed(**changes):
    clients = (
        Client(id="chat", rate_fraction=3, slo_class="critical", prefix_group="a", prefix_len=32),
        Client(id="code", rate_fraction=1, prompt=FAST, arrivals="gamma", cv=2.0),
        Client(id="bulk", rate_fraction=2, slo_class="batch", prefix_group="a"),
        Client(id="eval", rate_fraction=2, slo_class="batch", prefix_group="b", output=FAST),
    )
    return Workload(**{"requests": 2000, "clients": clients} | changes)


@pytest.mark.parametrize("workload", [Workload(), mixed()])
def test_a_seed_gives_the_same_requests_each_time_and_another_seed_others(workload):
    first = generate(workload, 5)
    assert same(generate(workload, 5), first)
    assert not np.array_equal(generate(workload, 6).arrival_us, first.arrival_us)
    assert not np.array_equal(generate(workload, 5, entropy=1).arrival_us, first.arrival_us)


def test_known_requests_of_seed_0():
    # Recorded with NumPy 2.4. A failure here after an update of NumPy means that its samplers
    # changed: results of old stores are then not repeated.
    requests = generate(Workload(requests=5), 0)
    assert requests.arrival_us.tolist() == [675, 1111, 2349, 2613, 2772]
    assert requests.prompt_tokens.tolist() == [523, 558, 557, 596, 549]
    assert requests.output_tokens.tolist() == [276, 260, 234, 192, 416]


def test_the_rate_stretches_time_and_leaves_lengths_alone():
    slow, fast = (generate(mixed(rate=rate), 3) for rate in (8.0, 8000.0))
    assert np.array_equal(slow.prompt_tokens, fast.prompt_tokens)
    assert np.array_equal(slow.output_tokens, fast.output_tokens)
    assert np.array_equal(slow.client, fast.client)
    assert np.abs(slow.arrival_us / 1000 - fast.arrival_us).max() <= 1


def test_other_lengths_leave_arrivals_and_the_other_lengths_alone():
    base = generate(Workload(), 3)
    other = generate(Workload(prompt=Exponential(dist="exponential", mean=90)), 3)
    assert np.array_equal(base.arrival_us, other.arrival_us)
    assert np.array_equal(base.output_tokens, other.output_tokens)
    assert not np.array_equal(base.prompt_tokens, other.prompt_tokens)


def test_more_requests_begin_with_the_same_requests():
    few, many = generate(Workload(requests=50), 3), generate(Workload(requests=500), 3)
    for name in ("arrival_us", "prompt_tokens", "output_tokens"):
        assert np.array_equal(getattr(few, name), getattr(many, name)[:50])


def test_rates_are_those_asked_for_shared_in_proportion():
    requests = generate(mixed(requests=20_000), 1)
    assert requests.arrival_us[-1] == pytest.approx(10e6, rel=0.04)
    shares = np.bincount(requests.client) / 20_000
    # The gamma gaps of `code` have a variation of 2, so its count varies by 2 * sqrt(2500).
    assert shares == pytest.approx([3 / 8, 1 / 8, 2 / 8, 2 / 8], abs=4 * 100 / 20_000)


def test_constant_arrivals_are_on_time_and_ties_go_by_client():
    clients = (Client(id="a"), Client(id="b"))
    requests = generate(Workload(requests=6, rate=20, arrivals="constant", clients=clients), 0)
    assert requests.arrival_us.tolist() == [100_000, 100_000, 200_000, 200_000, 300_000, 300_000]
    assert requests.client.tolist() == [0, 1, 0, 1, 0, 1]


def test_each_client_has_its_own_lengths_class_and_prefix():
    requests = generate(mixed(), 1)
    assert requests.client_names == ("chat", "code", "bulk", "eval")
    assert requests.slo_names == ("critical", "batch")
    assert (np.array([0, -1, 1, 1])[requests.client] == requests.slo_class).all()
    rows = to_trace_dict(requests, {})["requests"]
    prefixes = {"chat": [0, 32], "bulk": [0, 50], "eval": [1, 50]}
    for row in rows:
        if row["client"] in prefixes:
            assert row["prompt"][0] == prefixes[row["client"]]
        assert len(row["prompt"]) == (2 if row["client"] in prefixes else 1)
    code, evals = requests.client == 1, requests.client == 3
    assert (requests.prompt_tokens[code] == 10).all()
    assert (requests.output_tokens[evals] == 10).all()
    # The prefix comes on top of the prompt's own length, which is at least 256 here.
    assert requests.prompt_tokens[evals].min() >= 306


@pytest.mark.parametrize("workload", [Workload(), mixed()])
def test_content_is_shared_within_prefix_groups_only(workload):
    requests = generate(workload, 2)
    rows = to_trace_dict(requests, {})["requests"]
    own = [row["prompt"][-1][0] for row in rows] + [row["output"][0] for row in rows]
    prefixes = {row["prompt"][0][0] for row in rows if len(row["prompt"]) == 2}
    assert len(set(own)) == len(own)
    assert not prefixes & set(own)
    total = np.add.reduceat(requests.segment_tokens, requests.segment_offsets[:-1])
    assert np.array_equal(total, requests.prompt_tokens)
    assert (np.diff(requests.arrival_us) >= 0).all()
    assert not requests.has_priority.any()


def test_one_client_alone_is_the_workload_without_clients():
    alone = generate(Workload(clients=(Client(id="a", rate_fraction=0.2),)), 4)
    plain = generate(Workload(), 4)
    assert np.array_equal(alone.arrival_us, plain.arrival_us)
    assert np.array_equal(alone.prompt_tokens, plain.prompt_tokens)


def test_time_that_overflows_is_refused():
    with pytest.raises(InputError, match=r"the rate is too small, .*: 200 requests take"):
        generate(Workload(rate=1e-7), 0)


def test_requests_come_from_the_trace_of_the_seed_and_policy(tmp_path):
    for seed in (3, 4):
        trace = to_trace_dict(generate(Workload(requests=seed), seed), {})
        (tmp_path / f"t-{seed}-rr.json").write_text(str(trace).replace("'", '"'))
    workload = Workload(trace="t-{seed}-{policy}.json")
    for seed in (3, 4):
        assert len(requests_for(workload, seed, policy="rr", base_dir=tmp_path)) == seed
    with pytest.raises(InputError, match=r"t-5-rr\.json: cannot read: No such file"):
        requests_for(workload, 5, policy="rr", base_dir=tmp_path)
    with pytest.raises(InputError, match=r"\{policy\} is unknown here; allowed: \{seed\}$"):
        requests_for(workload, 3, base_dir=tmp_path)
    assert same(requests_for(Workload(), 3), generate(Workload(), 3))


def test_a_warm_up_must_leave_requests_of_a_trace(tmp_path):
    trace = to_trace_dict(generate(Workload(requests=5), 0), {})
    (tmp_path / "five.json").write_text(json.dumps(trace))
    assert len(requests_for(Workload(trace="five.json", warmup=4), 0, base_dir=tmp_path)) == 5
    with pytest.raises(InputError, match=r"warmup: 5 leaves none of the 5 requests of five\.json"):
        requests_for(Workload(trace="five.json", warmup=5), 0, base_dir=tmp_path)
