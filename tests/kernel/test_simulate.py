"""From scenarios and seeds to numbers: equal to the twin's, whatever the batch."""

import json
import random

import batches
import naive
import numpy as np
import pytest

import kvsweep
from kvsweep.config import DEFAULT_ENTROPY
from kvsweep.errors import InputError
from kvsweep.metrics import CELL_VARIABLES, QUANTILES, REQUEST_VARIABLES, VARIABLES
from kvsweep.policies import Status
from kvsweep.simulate import kernel_cells, simulate_batch
from kvsweep.simulate.logged import run_single
from kvsweep.workload.generate import generate
from kvsweep.workload.native import to_trace_dict

CLIENTS = [
    {"id": "chat", "rate_fraction": 3, "slo_class": "critical", "prefix_group": "system"},
    {"id": "batch", "rate_fraction": 1, "slo_class": "batch", "prefix_group": "system"},
    {"id": "other", "rate_fraction": 1, "prefix_group": "own", "prefix_len": 33},
]
VARIANTS = (
    {},
    {"cache": {"gpu_blocks": 40}},
    {"cache": {"gpu_blocks": 700}},
    {"cache": {"gpu_blocks": 900}},
    {"cache": {"block_size": 7, "gpu_blocks": 90}, "cluster": {"routing": "least-loaded"}},
    {"workload": {"warmup": 20}, "cluster": {"instances": 3}},
    {"workload": {"requests": 25, "warmup": 7}, "engine": {"max_num_seqs": 4}},
    {"workload": {"clients": CLIENTS}, "cache": {"gpu_blocks": 60}},
    {"engine": {"scheduler": "sjf", "enable_prefix_caching": False}},
    {
        "workload": {"clients": CLIENTS, "warmup": 3},
        "engine": {"scheduler": "priority", "priority": "slo-class", "max_num_batched_tokens": 256},
    },
    {"cluster": {"admission": "reject-all"}},
    {"workload": {"rate": 20.0}, "engine": {"watermark": 0.1, "long_prefill_token_threshold": 64}},
    # Long prefills in small chunks beside decodes: many different times between tokens.
    {"engine": {"max_num_seqs": 8, "max_num_batched_tokens": 16}},
)
# Two requests that arrive together and preempt each other for ever: nothing protects what they
# have computed, neither the reservation nor the cache.
LIVELOCK = {
    "engine": {
        "max_num_seqs": 2,
        "max_num_batched_tokens": 3,
        "long_prefill_token_threshold": 1,
        "scheduler": "priority",
        "reserve_full_prompt": False,
        "enable_prefix_caching": False,
    },
    "cache": {"block_size": 2, "gpu_blocks": 3},
    "cluster": {"instances": 1},
}
LIVELOCK_REQUESTS = [
    {"id": 0, "arrival_us": 0, "prompt": [[0, 2]], "output": [1, 4]},
    {"id": 1, "arrival_us": 0, "prompt": [[2, 4]], "output": [3, 2]},
]


def simulate(scenarios, seeds, policies=None, base_dir=None, keep_requests=False):
    return simulate_batch(
        scenarios,
        seeds,
        entropy=DEFAULT_ENTROPY,
        policies=policies or [None] * len(scenarios),
        base_dir=base_dir,
        keep_requests=keep_requests,
    )


def variants():
    return [batches.scenario(change) for change in VARIANTS]


@pytest.fixture(scope="module")
def whole():
    """All variants with eight seeds, in one batch."""
    return simulate(variants(), range(8), keep_requests=True)


def assert_same_cells(whole, part, rows, columns):
    """`part` holds the cells (rows, columns) of `whole`, bit for bit; the rest is padding.

    Which cells are copied from which depends on what is in the batch, and changes nothing else.
    """
    for name, values in part.items():
        if name == "pruned":
            continue
        cells = whole[name][np.ix_(rows, columns)]
        inner = tuple(slice(n) for n in values.shape[2:])
        np.testing.assert_array_equal(cells[(slice(None), slice(None), *inner)], values, name)


def test_every_variable_has_its_type_and_dimensions(whole):
    usual = (v for v in (*CELL_VARIABLES, *REQUEST_VARIABLES) if not v.levels)
    always = {variable.name for variable in usual}
    assert always | {"status", "status_detail"} <= whole.keys()
    sizes = {"quantile": len(QUANTILES), "instance": 3, "request": 60, "slo_class": 2}
    for name in whole.keys() & VARIABLES.keys():
        variable = VARIABLES[name]
        shape = (len(VARIANTS), 8, *(sizes[dim] for dim in variable.dims))
        assert whole[name].shape == shape, name
        assert whole[name].dtype == (object if variable.dtype == "str" else variable.dtype), name
    assert (whole["status"] == Status.OK).all()
    assert set(whole["status_detail"].ravel()) == {""}


def test_cells_do_not_depend_on_their_batch(whole):
    """Any choice and order of variants and seeds gives the same numbers, down to one cell."""
    rng = random.Random(0)
    made = variants()
    for count, seeds in ((1, 1), (2, 3), (5, 2), (10, 1), (1, 8)):
        rows = rng.sample(range(len(made)), count)
        columns = rng.sample(range(8), seeds)
        part = simulate([made[i] for i in rows], columns, keep_requests=True)
        assert_same_cells(whole, part, rows, columns)


def test_cells_equal_single_runs(whole):
    for row, scenario in enumerate(variants()):
        single = run_single(scenario, generate(scenario.workload, 5, DEFAULT_ENTROPY))
        count = len(single.outputs.ttft)
        for column in ("queued", "scheduled", "first_token", "finish"):
            cell = whole[f"request_{column}_us"][row, 5]
            assert cell[:count].tolist() == single.outputs.progress[column].tolist()
            assert (cell[count:] == -1).all()
        assert whole["steps"][row, 5] == len(single.outputs.steps)


def test_seeds_fix_the_requests_of_all_variants_of_a_workload(whole):
    base = VARIANTS[0].get("workload")
    same = [row for row, change in enumerate(VARIANTS) if change.get("workload") == base]
    assert len(same) > 4
    for name in ("request_arrival_us", "request_session", "request_slo_class"):
        for row in same:
            np.testing.assert_array_equal(whole[name][row], whole[name][0])
    arrivals = whole["request_arrival_us"][0]
    assert len(np.unique(arrivals, axis=0)) == 8


def test_instances_that_a_variant_lacks_have_no_peak(whole):
    for row, change in enumerate(VARIANTS):
        if change.get("cluster", {}).get("admission") != "reject-all":
            count = change.get("cluster", {}).get("instances", 2)
            assert (whole["peak_blocks"][row, :, :count] > 0).all()
            assert (whole["peak_blocks"][row, :, count:] == -1).all()


def test_larger_pools_are_copied_where_blocks_never_ran_short(whole):
    rows = [VARIANTS.index({"cache": {"gpu_blocks": count}}) for count in (40, 700, 900)]
    assert whole["pruned"][rows].tolist() == [[0] * 8, [0] * 8, [1] * 8]


@pytest.mark.parametrize("row", range(len(VARIANTS)))
def test_numbers_equal_those_counted_from_the_twin(whole, row):
    scenario = variants()[row]
    for seed in range(2):
        requests = generate(scenario.workload, seed, DEFAULT_ENTROPY)
        result = naive.simulate(to_trace_dict(requests, scenario.to_trace()))
        for name, want in counted(result, scenario).items():
            np.testing.assert_allclose(whole[name][row, seed], want, rtol=1e-12, err_msg=name)


def counted(result, scenario):
    """Reduce a run of the twin to the numbers of a cell, each by its definition."""
    warmup = scenario.workload.warmup
    measured = result.requests[warmup:]
    done = [r for r in measured if r.status == "completed"]
    overhead = int(scenario.latency.alpha[2])
    makespan = max(i.totals["end_us"] for i in result.instances) / 1e6
    since = measured[0].arrival_us / 1e6 if warmup else 0.0
    gaps = [b - a for r in measured for a, b in zip(r.token_us, r.token_us[1:], strict=False)]
    values = {
        "injected": len(measured),
        "completed": len(done),
        "rejected": sum(r.status == "rejected" for r in measured),
        "dropped_unservable": sum(r.status == "dropped_unservable" for r in measured),
        "preemptions": sum(r.preemptions for r in measured),
        "preempted_fraction": np.mean([r.preemptions > 0 for r in measured]),
        "steps": sum(len(i.steps) for i in result.instances),
        "evictions": sum(i.totals["evictions"] for i in result.instances),
        "makespan_s": makespan,
    }
    values |= latency("ttft", [r.first_token_us + overhead - r.arrival_us for r in done])
    values |= latency("e2e", [r.finish_us + overhead - r.arrival_us for r in done])
    values |= latency("scheduling_delay", [r.scheduled_us - r.arrival_us for r in done])
    values |= latency("itl", gaps)
    if done:
        outputs = sum(r.output_tokens for r in done)
        values["preemption_rate"] = values["preemptions"] / len(done)
        values["throughput_rps"] = len(done) / (makespan - since)
        values["output_tokens_per_s"] = outputs / (makespan - since)
        block_us = sum(i.block_us for i in result.instances)
        values["mean_blocks"] = block_us / (makespan * 1e6 * len(result.instances))
    if not warmup and done:
        taken = sum(i.blocks_taken for i in result.instances)
        reused = sum(i.blocks_reused for i in result.instances)
        queries = sum(i.totals["queries"] for i in result.instances)
        hits = sum(i.totals["hits"] for i in result.instances)
        values["block_hit_rate"] = reused / (reused + taken)
        values["prefix_hit_rate"] = hits / queries if queries else np.nan
    return values


def latency(name, times_us):
    """Mean and quantiles in milliseconds, NaN where there are none."""
    if not times_us:
        return {f"{name}_mean_ms": np.nan, f"{name}_ms": [np.nan] * len(QUANTILES)}
    times = np.array(times_us) / 1000
    return {f"{name}_mean_ms": times.mean(), f"{name}_ms": np.quantile(times, QUANTILES)}


def trace_scenario(tmp_path, requests, name="trace.json", **sections):
    """Return a scenario that replays `requests` from a file."""
    trace = {"format": "kvsweep-trace/1", "scenario": {}, "requests": requests}
    (tmp_path / name).write_text(json.dumps(trace))
    made = batches.scenario(sections)
    workload = type(made.workload)(trace=name)
    return made.model_copy(update={"workload": workload})


def test_a_livelock_ends_with_a_status_and_no_numbers(tmp_path):
    hopeless = trace_scenario(tmp_path, LIVELOCK_REQUESTS, **LIVELOCK)
    sound = hopeless.model_copy(
        update={"engine": hopeless.engine.model_copy(update={"reserve_full_prompt": True})}
    )
    found = simulate([sound, hopeless], [0], base_dir=tmp_path, keep_requests=True)
    assert found["status"].tolist() == [[Status.OK], [Status.STEP_LIMIT]]
    assert "more steps" in found["status_detail"][1, 0]
    for name in found.keys() & VARIABLES.keys():
        assert _is_missing(found[name][1, 0], VARIABLES[name]), name
    assert found["completed"][0, 0] == 2


def _is_missing(values, variable):
    if variable.dtype == "str":
        return (values == "").all()
    return np.isnan(values).all() if variable.dtype == "float64" else (values == -1).all()


def test_lanes_with_many_latencies_are_run_again_with_more_room(whole, monkeypatch):
    monkeypatch.setattr(kernel_cells, "ITL_ENTRIES", 1)
    again = simulate(variants(), range(8), keep_requests=True)
    assert_same_cells(whole, again, range(len(VARIANTS)), range(8))


def test_lanes_with_too_many_latencies_fail_alone(whole, monkeypatch):
    monkeypatch.setattr(kernel_cells, "ITL_ENTRIES", 1)
    monkeypatch.setattr(kernel_cells, "MAX_ITL_ENTRIES", 1)
    found = simulate(variants(), range(8))
    failed = found["status"] == Status.FAILED
    assert failed[-1].all()
    assert not failed.all()
    assert {"", "more inter-token latencies than can be sorted"} == set(
        found["status_detail"].ravel()
    )
    assert np.isnan(found["ttft_ms"][failed]).all()
    for name in ("ttft_ms", "itl_ms", "steps", "peak_blocks"):
        np.testing.assert_array_equal(found[name][~failed], whole[name][~failed])


def test_traces_are_chosen_by_seed_and_policy(tmp_path):
    for number, name in enumerate(["a-0", "a-1", "b-0", "b-1"]):
        row = {"id": 0, "arrival_us": 0, "prompt": [[0, 10 + number]], "output": [1, 3]}
        trace_scenario(tmp_path, [row], f"{name}.json")
    made = trace_scenario(tmp_path, [row], cluster={"instances": 1})
    made = made.model_copy(
        update={"workload": type(made.workload)(trace="{policy}-{seed}.json")},
    )
    found = simulate([made, made], [1, 0], policies=["b", "a"], base_dir=tmp_path)
    alpha, beta = made.latency.alpha, made.latency.beta
    for row, first in enumerate((12, 10)):
        for column, prompt in enumerate((first + 1, first)):
            entry = int(alpha[0] + alpha[1] * prompt)
            want = entry + int(beta[0] + beta[1] * prompt) + int(alpha[2])
            assert found["ttft_mean_ms"][row, column] == want / 1000


def test_policies_with_traces_of_their_own_are_not_taken_for_each_other(tmp_path):
    """Two variants that differ in blocks alone are no pair if a trace's name has the policy."""
    for name, prompt in (("a", 10), ("b", 20)):
        row = {"id": 0, "arrival_us": 0, "prompt": [[0, prompt]], "output": [1, 3]}
        trace_scenario(tmp_path, [row], f"{name}.json")
    pools = [trace_scenario(tmp_path, [row], cache={"gpu_blocks": n}) for n in (100, 200)]
    own = type(pools[0].workload)(trace="{policy}.json")
    pair = [pool.model_copy(update={"workload": own}) for pool in pools]
    found = simulate(pair, [0], policies=["a", "b"], base_dir=tmp_path)
    for row, policy in enumerate("ab"):
        alone = simulate([pair[row]], [0], policies=[policy], base_dir=tmp_path)
        assert_same_cells(found, alone, [row], [0])


def test_lists_of_unequal_length_share_a_batch(tmp_path):
    rows = [
        {"id": i, "arrival_us": 5 * i, "prompt": [[2 * i, 20]], "output": [2 * i + 1, 4]}
        for i in range(30)
    ]
    for seed, count in enumerate((30, 1, 7)):
        trace_scenario(tmp_path, rows[:count], f"{seed}.json")
    made = trace_scenario(tmp_path, rows)
    made = made.model_copy(update={"workload": type(made.workload)(trace="{seed}.json")})
    found = simulate([made], [0, 1, 2], base_dir=tmp_path, keep_requests=True)
    assert found["completed"].tolist() == [[30, 1, 7]]
    assert (found["request_arrival_us"][0, 2] >= 0).sum() == 7
    for column, seed in enumerate((0, 1, 2)):
        alone = simulate([made], [seed], base_dir=tmp_path, keep_requests=True)
        assert_same_cells(found, alone, [0], [column])


def test_a_missing_trace_is_an_input_error(tmp_path):
    made = trace_scenario(tmp_path, LIVELOCK_REQUESTS)
    (tmp_path / "trace.json").unlink()
    with pytest.raises(InputError, match=r"trace\.json"):
        simulate([made], [0], base_dir=tmp_path)


def test_a_priority_that_ages_beyond_64_bits_is_refused():
    row = {"id": 0, "arrival_us": 0, "prompt": [[0, 3]], "output": [1, 1], "priority": -(2**53)}
    engine = {"scheduler": "priority", "priority": "age"}
    scenario = {"engine": engine, "latency": {"beta": [1000]}}
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": [row]}
    with pytest.raises(InputError, match=r"engine\.priority_age_ms: .* at most 2.31e\+15 ms"):
        kvsweep.replay(trace)
    engine["priority_age_ms"] = 0.1
    assert kvsweep.replay(trace)["status"].values.tolist() == ["completed"]
