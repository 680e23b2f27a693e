"""Cells of session workloads: equal to the twin's, by round and class, and to closed forms."""

import json
from pathlib import Path

import naive
import numpy as np
import pytest

from kvsweep import replay
from kvsweep.config import DEFAULT_ENTROPY
from kvsweep.config.scenario import validate
from kvsweep.metrics import QUANTILES
from kvsweep.simulate import simulate_batch
from kvsweep.workload.generate import generate
from kvsweep.workload.native import to_trace_dict

SESSIONS = {"rounds": 4, "think_time_s": 0.1, "think_time": "exponential"}
CLOSED = SESSIONS | {"arrivals": "closed-loop", "truncate": False}
MIX = [
    {"id": "chat", "slo_class": "standard", "sessions": CLOSED | {"patience_s": 0.2}},
    {"id": "agent", "slo_class": "zeal", "sessions": CLOSED, "prefix_group": "tools"},
    {"id": "bulk", "slo_class": "batch", "rate_fraction": 3},
    {"id": "other"},
]
CLASSES = ("standard", "batch", "zeal")
WORKLOADS = {
    "fixed": {"sessions": SESSIONS},
    "closed": {"sessions": CLOSED},
    "impatient": {"sessions": CLOSED | {"patience_s": 0.05}},
    "warm": {"sessions": CLOSED, "warmup": 30},
    "mix": {"clients": MIX, "requests": 150},
}


def scenario(name, **sections):
    workload = {
        "requests": 100,
        "rate": 100.0,
        "prompt": {"dist": "gaussian", "mean": 40, "std": 20, "min": 1},
        "output": {"dist": "gaussian", "mean": 30, "std": 15, "min": 1},
    }
    made = {
        "workload": workload | WORKLOADS[name],
        "cluster": {"instances": 2, "routing": "least-loaded"},
        "engine": {"max_num_seqs": 8},
        "cache": {"gpu_blocks": 40},
        "latency": {"model": "llama-3.1-8b/h100/tp2"},
    }
    return validate({key: made.get(key, {}) | sections.get(key, {}) for key in made}, Path())


def simulate(scenarios, seeds=(0, 1), **options):
    policies = [None] * len(scenarios)
    return simulate_batch(
        scenarios, seeds, entropy=DEFAULT_ENTROPY, policies=policies, base_dir=None, **options
    )


@pytest.fixture(scope="module")
def cells():
    return simulate([scenario(name) for name in WORKLOADS], keep_requests=True)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", WORKLOADS)
def test_cells_equal_what_is_counted_from_the_twin(cells, name, seed):
    row, made = list(WORKLOADS).index(name), scenario(name)
    requests = generate(made.workload, seed, DEFAULT_ENTROPY)
    trace = to_trace_dict(requests, made.to_trace())
    result = naive.simulate(trace)
    measured = list(zip(result.requests, trace["requests"], strict=True))
    measured = measured[made.workload.warmup :]
    overhead = int(made.latency.alpha[2])
    groups = {
        "round": [[p for p in measured if p[1].get("round") == r] for r in range(4)],
        "class": [
            [p for p in measured if p[1].get("slo_class") == c]
            for c in ("standard", "batch", "zeal")
        ],
    }
    for by, parts in groups.items():
        for place, part in enumerate(parts):
            for variable, want in counted([r for r, _ in part], f"by_{by}", overhead).items():
                got = cells[variable][row, seed, place]
                np.testing.assert_allclose(got, want, rtol=1e-12, err_msg=f"{variable} {place}")
    whole = counted([r for r, _ in measured], "", overhead)
    assert cells["injected"][row, seed] == whole["injected_"]
    assert cells["timed_out"][row, seed] == whole["timed_out_"]
    for suffix in ("mean_ms", "ms"):
        got, want = cells[f"tpot_{suffix}"][row, seed], whole[f"tpot__{suffix}"]
        np.testing.assert_allclose(got, want, rtol=1e-12)
    arrivals = [-1 if r.arrival_us is None else r.arrival_us for r in result.requests]
    assert cells["request_arrival_us"][row, seed, : len(arrivals)].tolist() == arrivals


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", WORKLOADS)
def test_inversions_and_fairness_equal_what_is_counted_from_the_twin(cells, name, seed):
    row, made = list(WORKLOADS).index(name), scenario(name)
    requests = generate(made.workload, seed, DEFAULT_ENTROPY)
    trace = to_trace_dict(requests, made.to_trace())
    result = naive.simulate(trace)
    level = {None: 5, "standard": 5, "batch": 10, "zeal": 5}
    rows = list(zip(result.requests, trace["requests"], strict=True))
    measured = rows[made.workload.warmup :]
    admitted = [pair for pair in measured if pair[0].admissions]
    inverted = sum(
        any(
            i.instance == j.instance
            and level[first.get("slo_class")] < level[second.get("slo_class")]
            and waits_at(i, j.scheduled_us)
            for i, first in rows
        )
        for j, second in admitted
    )
    assert cells["priority_inversions"][row, seed] == inverted
    assert cells["priority_inversion_rate"][row, seed] == inverted / len(admitted)
    done = [r.instance for r, _ in measured if r.status == "completed"]
    assert cells["fairness_instances"][row, seed] == pytest.approx(
        jain([done.count(index) for index in range(2)]), rel=1e-12
    )
    overhead = int(made.latency.alpha[2])
    speeds = []
    for one in CLASSES:
        part = [r for r, source in measured if source.get("slo_class") == one]
        speed = [
            r.output_tokens / (r.finish_us + overhead - r.arrival_us)
            for r in part
            if r.status == "completed"
        ]
        speeds += [np.mean(speed) if speed else 0.0] if part else []
    want = jain(speeds) if speeds else np.nan
    np.testing.assert_allclose(cells["fairness_classes"][row, seed], want, rtol=1e-12)


def waits_at(request, time):
    """Whether a request is in the waiting list at `time`, for the first time and in patience."""
    if request.queued_us is None or request.queued_us > time:
        return False
    if request.status == "timed_out":
        return time <= request.arrival_us + request.patience_us
    return request.status != "dropped_unservable" and time < request.scheduled_us


def jain(shares):
    return sum(shares) ** 2 / (len(shares) * sum(x * x for x in shares))


def test_priorities_avert_inversions_and_cost_fairness():
    """Most urgent first leaves none; first come first served has many under load."""
    clients = [{"id": c, "slo_class": c, "rate_fraction": 1} for c in ("critical", "batch")]
    workload = {"requests": 150, "rate": 200.0, "clients": clients}
    engines = [{}, {"scheduler": "priority", "priority": "slo-class"}]
    made = [scenario("fixed", workload=workload, engine={"max_num_seqs": 8} | e) for e in engines]
    made = [m.model_copy(update={"workload": m.workload.model_copy(update={"sessions": None})})
            for m in made]  # fmt: skip
    found = simulate(made, range(5))
    assert (found["priority_inversion_rate"][0] > 0.2).all()
    assert (found["priority_inversions"][1] == 0).all()
    assert (found["fairness_classes"][0] > found["fairness_classes"][1]).all()
    delay = found["scheduling_delay_by_class_mean_ms"]
    assert (delay[1, :, 0] < delay[0, :, 0]).all()


def test_requests_of_one_level_cannot_be_inverted():
    found = simulate([scenario("closed")], range(3))
    assert (found["priority_inversions"] == 0).all()
    assert (found["priority_inversion_rate"] == 0.0).all()
    assert np.isnan(found["fairness_classes"]).all()
    assert (found["fairness_instances"] > 0.9).all()


def counted(requests, by, overhead):
    """Reduce requests of the twin to the measures of a group; -1 and NaN without any."""
    done = [r for r in requests if r.status == "completed"]
    admitted = [r for r in requests if r.admissions]
    counts = {
        "injected": sum(r.status != "not_arrived" for r in requests),
        "completed": len(done),
        "dropped_unservable": sum(r.status == "dropped_unservable" for r in requests),
        "timed_out": sum(r.status == "timed_out" for r in requests),
        "preemptions": sum(r.preemptions for r in requests),
    }
    values = {f"{name}_{by}": n if requests else -1 for name, n in counts.items()}
    prompts = sum(r.prompt_tokens for r in admitted)
    cached = sum(r.cached_tokens for r in admitted)
    values[f"prefix_hit_rate_{by}"] = cached / prompts if prompts else np.nan
    times = {
        "ttft": [(r.first_token_us + overhead - r.arrival_us) / 1000 for r in done],
        "e2e": [(r.finish_us + overhead - r.arrival_us) / 1000 for r in done],
        "tpot": [
            (r.finish_us - r.first_token_us) / 1000 / (r.output_tokens - 1)
            for r in done
            if r.output_tokens > 1
        ],
        "scheduling_delay": [(r.scheduled_us - r.arrival_us) / 1000 for r in admitted],
    }
    for name, milliseconds in times.items():
        values[f"{name}_{by}_mean_ms"] = np.mean(milliseconds) if milliseconds else np.nan
        if by in ("by_class", ""):
            missing = [np.nan] * len(QUANTILES)
            found = np.quantile(milliseconds, QUANTILES) if milliseconds else missing
            values[f"{name}_{by}_ms"] = found
    return values if by else {key: n for key, n in values.items() if "rate" not in key}


def test_time_per_output_token_by_hand(tmp_path):
    """Steps of 1 ms and 0.1 ms per prefill token; the second request delays the first.

    The tokens of the first request come at 2, 3 and 5 ms, those of the last at 12 to 16 ms; a
    single token has no time after the first, and what a client sees later cancels out.
    """
    rows = [(0, 3), (2500, 1), (10_000, 5)]
    requests = [
        {"id": i, "arrival_us": at, "prompt": [[2 * i, 10]], "output": [2 * i + 1, tokens]}
        for i, (at, tokens) in enumerate(rows)
    ]
    trace = tmp_path / "t.json"
    trace.write_text(json.dumps({"format": "kvsweep-trace/1", "requests": requests}))
    latency = {"alpha": [0, 0, 700], "beta": [1000, 100, 0]}
    made = validate({"workload": {"trace": str(trace)}, "latency": latency}, Path())
    found = simulate([made], [0], keep_requests=True)
    assert found["tpot_mean_ms"].item() == (1.5 + 1.0) / 2
    np.testing.assert_allclose(found["tpot_ms"][0, 0], [1.25, 1.45, 1.475, 1.495], rtol=1e-12)
    assert found["request_prompt_tokens"].tolist() == [[[10, 10, 10]]]
    assert found["request_output_tokens"].tolist() == [[[3, 1, 5]]]
    first, last = found["request_ttft_us"][0, 0], found["request_e2e_us"][0, 0]
    assert (last - first).tolist() == [2 * 1500, 0, 4 * 1000]


def test_requests_of_one_token_have_no_time_per_token():
    made = scenario("fixed", workload={"output": {"dist": "constant", "value": 1}})
    found = simulate([made])
    assert np.isnan(found["tpot_mean_ms"]).all()
    assert np.isnan(found["tpot_ms"]).all()


def test_the_workloads_provoke_what_they_are_for(cells):
    assert (cells["status"] == 1).all()
    assert (cells["preemptions"] > 0).all()
    assert (cells["timed_out"][[2, 4]] > 0).all()
    assert (cells["injected"][2] < 100).all()
    assert (cells["injected"][:2] == 100).all()


def test_mean_numbers_in_the_system_follow_from_the_steps(cells):
    """Little's law against a count of the requests at every moment."""
    made = scenario("closed")
    for seed in (0, 1):
        requests = generate(made.workload, seed, DEFAULT_ENTROPY)
        result = naive.simulate(to_trace_dict(requests, made.to_trace()))
        end = max(i.totals["end_us"] for i in result.instances)
        waiting = sum(r.scheduled_us - r.arrival_us for r in result.requests)
        running = sum(r.finish_us - r.scheduled_us for r in result.requests)
        for name, total in (("mean_waiting", waiting), ("mean_running", running)):
            assert cells[name][1, seed] == pytest.approx(total / end / 2, rel=1e-12)


def test_clients_who_give_up_have_waited(cells):
    """The mean number of those who wait counts them, whose patience no time to first step tells."""
    row = list(WORKLOADS).index("impatient")
    made = scenario("impatient")
    for seed in (0, 1):
        requests = generate(made.workload, seed, DEFAULT_ENTROPY)
        result = naive.simulate(to_trace_dict(requests, made.to_trace()))
        end = max(i.totals["end_us"] for i in result.instances)
        begun = sum(r.scheduled_us - r.arrival_us for r in result.requests if r.admissions)
        left = [r.patience_us for r in result.requests if r.status == "timed_out"]
        assert left
        want = (begun + sum(left)) / end / 2
        assert cells["mean_waiting"][row, seed] == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("name", ["fixed", "closed"])
@pytest.mark.parametrize("block_size", [16, 7])
def test_hits_with_ample_blocks_follow_from_the_request_list_alone(name, block_size):
    """All of the context is found that was stored: not the last sampled token, nor the last block.

    A request stores its prompt and output but for the last sampled token, in full blocks; the next
    round looks up its own full blocks but recomputes at least one token.
    """
    ample = {"gpu_blocks": 20_000, "block_size": block_size}
    made = scenario(name, cache=ample, cluster={"instances": 1})
    found = simulate([made], range(5), keep_requests=True)
    for seed in range(5):
        requests = generate(made.workload, seed, DEFAULT_ENTROPY)
        place = {}
        hits = np.zeros(len(requests), np.int64)
        for i, key in enumerate(zip(requests.session, requests.round, strict=True)):
            place[key] = i
            if key[1]:
                before = place[key[0], key[1] - 1]
                stored = requests.prompt_tokens[before] + requests.output_tokens[before] - 1
                known = min(stored, requests.prompt_tokens[i] - 1)
                hits[i] = known // block_size
        cached = found["request_cached_tokens"][0, seed]
        if name == "closed":
            assert cached.tolist() == (block_size * hits).tolist()
        else:
            # A round that arrives before the answer can only find what is there by then.
            assert (cached <= block_size * hits).all()
            continue
        taken = -(-(requests.prompt_tokens + requests.output_tokens - 1) // block_size) - hits
        rate = hits.sum() / (hits.sum() + taken.sum())
        assert found["block_hit_rate"][0, seed] == pytest.approx(rate, rel=1e-12)
        looked_up = block_size * hits.sum() / requests.prompt_tokens.sum()
        assert found["prefix_hit_rate"][0, seed] == pytest.approx(looked_up, rel=1e-12)


def test_groups_do_not_depend_on_the_batch(cells):
    names = [name for name in cells if "_by_" in name]
    assert len(names) == 10 + 14
    alone = simulate([scenario("mix")], [1], slo_classes=CLASSES)
    for name in names:
        np.testing.assert_array_equal(alone[name][0, 0], cells[name][4, 1], name)
    fixed = simulate([scenario("fixed")], [1])
    assert not [name for name in fixed if "_by_class" in name]
    plain = validate({"workload": {"requests": 3}, "latency": {"beta": [1]}}, Path())
    assert not [name for name in simulate([plain]) if "_by_" in name]


def test_a_replay_tells_when_later_rounds_arrived():
    rows = [
        {"id": 0, "arrival_us": 5, "prompt": [[0, 30]], "output": [1, 3]},
        {"id": 1, "arrival_us": 5, "prompt": [[2, 9000]], "output": [3, 1], "after": 0},
        {"id": 2, "arrival_us": 5, "prompt": [[4, 1]], "output": [5, 1], "after": 1},
    ]
    settings = {"cache": {"gpu_blocks": 10}, "latency": {"alpha": [0, 0, 7], "beta": [100]}}
    found = replay({"format": "kvsweep-trace/1", "scenario": settings, "requests": rows})
    assert found["arrival_us"].values.tolist() == [5, 5 + 3 * 100 + 7, -1]
    assert found["status"].values.tolist() == ["completed", "dropped_unservable", "not_arrived"]


def test_who_waits_no_time_counts_in_the_mean_of_a_round():
    sections = {
        "workload": {"warmup": 0, "rate": 2.0},
        "latency": {"alpha": [0, 0, 0], "beta": [5000, 5, 50], "model": None},
        "cluster": {"instances": 1, "routing": "round-robin"},
    }
    found = simulate([scenario("fixed", **sections)], keep_requests=True)
    for cell in np.ndindex(found["status"].shape):
        delays = found["request_scheduled_us"][cell] - found["request_arrival_us"][cell]
        rounds = found["request_round"][cell]
        assert 0 in delays
        for number in range(SESSIONS["rounds"]):
            mean = delays[(rounds == number) & (found["request_scheduled_us"][cell] >= 0)].mean()
            got = found["scheduling_delay_by_round_mean_ms"][cell][number]
            assert got == pytest.approx(mean / 1000, rel=1e-12)


def test_who_never_came_counts_for_no_share_of_the_preempted(cells):
    """In closed loops that lose requests, later rounds never arrive; nobody can preempt them."""
    row = list(WORKLOADS).index("mix")  # the longest list: no other has places without a request
    for seed in (0, 1):
        arrived = cells["request_status"][row, seed] != "not_arrived"
        preempted = cells["request_preemptions"][row, seed] > 0
        assert 0 < preempted.sum() < arrived.sum() < arrived.size
        got = cells["preempted_fraction"][row, seed]
        assert got == pytest.approx(preempted.sum() / arrived.sum(), rel=1e-12)
