"""The replica behind the seam of all engines: its figures are the reference's, under our names."""

from pathlib import Path

import numpy as np
import pytest
from goldens import load

import kvsweep
from kvsweep.config import load_sweep
from kvsweep.config.engine_section import BLIS_SWITCHES
from kvsweep.config.scenario import validate
from kvsweep.metrics import CELL_VARIABLES, QUANTILES, REQUEST_VARIABLES
from kvsweep.policies import Status
from kvsweep.replica.switches import describe
from kvsweep.simulate import simulate_batch

pytestmark = pytest.mark.slow

SWEEPS = Path(__file__).parents[2] / "sweeps" / "published"
P99 = QUANTILES.index(0.99)


def simulate(name, points, seeds, overrides=(), keep_requests=False):
    sweep = load_sweep(SWEEPS / f"{name}.toml", overrides)
    return simulate_batch(
        [sweep.scenario(point) for point in points],
        seeds,
        entropy=sweep.entropy,
        policies=[point.get("policy") for point in points],
        base_dir=sweep.base_dir,
        keep_requests=keep_requests,
    )


@pytest.fixture(scope="module")
def h10():
    return simulate("h10-core", [{"cpu_blocks": n} for n in (0, 500)], (42, 123), (), True)


def test_scenarios_take_every_switch_of_the_replica():
    assert tuple(describe()) == BLIS_SWITCHES


def test_every_variable_is_there(h10):
    # These requests have neither rounds nor classes, so nothing by group but empty dimensions.
    usual = {v.name for v in (*CELL_VARIABLES, *REQUEST_VARIABLES) if not v.levels}
    assert usual <= set(h10)
    for variable in CELL_VARIABLES:
        if variable.dtype == "int64":
            assert ((h10[variable.name] >= 0) == ("blis" in variable.rules)).all(), variable.name
    assert (h10["status"] == Status.OK).all()
    assert h10["ttft_ms"].shape == (2, 2, 4)
    assert h10["peak_blocks"].shape == (2, 2, 4)


@pytest.mark.parametrize(("variant", "case"), [(0, "h10-single-s42"), (1, "h10-cpu500-s42")])
def test_figures_are_those_that_the_reference_prints(h10, variant, case):
    expected = load(case, "blis")["expected"]
    totals, instances = expected["totals"], expected["instances"]
    cell = {name: values[variant, 0] for name, values in h10.items()}

    for name in ("completed", "queued", "running", "preemptions", "preemption_rate"):
        assert cell[name] == totals[name]
    assert cell["dropped_unservable"] == totals["dropped"]
    assert cell["block_hit_rate"] == totals["cache_hit_rate"]
    assert cell["thrashing_rate"] == totals["thrash_rate"]
    assert cell["makespan_s"] == totals["sim_end"] / 1e6
    assert cell["throughput_rps"] == pytest.approx(totals["req_per_s"], rel=1e-14)
    for latency in ("ttft", "e2e"):
        mean, p99 = cell[f"{latency}_mean_ms"], cell[f"{latency}_ms"][P99]
        assert mean == pytest.approx(totals[f"{latency}_mean_us"] / 1000, rel=1e-14)
        assert p99 == pytest.approx(totals[f"{latency}_p99_us"] / 1000, rel=1e-14)
    assert cell["peak_blocks"].tolist() == [i["peak"] for i in instances]
    assert cell["reloads"] == sum(i["cpu_hits"] for i in instances)
    assert cell["steps"] == sum(i["steps"] for i in instances)


def test_request_columns_are_the_records(h10):
    expected = load("h10-cpu500-s42", "blis")["expected"]["requests"]
    column = {name: h10[name][1, 0] for name in h10 if name.startswith("request_")}

    assert column["request_ttft_us"].tolist() == expected["ttft_us"]
    assert column["request_e2e_us"].tolist() == expected["e2e_us"]
    assert column["request_instance"].tolist() == expected["instance"]
    assert column["request_preemptions"].tolist() == expected["preemptions"]
    finish = column["request_finish_us"] - column["request_arrival_us"]
    assert finish.tolist() == expected["finish_us"]
    assert (column["request_first_token_us"] <= column["request_finish_us"]).all()
    assert (column["request_queued_us"] <= column["request_scheduled_us"]).all()


def test_time_per_output_token_is_measured_to_the_simulated_completion(h10):
    for variant in range(2):
        cell = {name: values[variant, 0] for name, values in h10.items()}
        took = cell["request_finish_us"] - cell["request_first_token_us"]
        per_token = took / (cell["request_output_tokens"] - 1) / 1000
        assert (cell["request_output_tokens"] > 1).all()
        assert cell["tpot_mean_ms"] == pytest.approx(per_token.mean(), rel=1e-12)
        np.testing.assert_allclose(cell["tpot_ms"], np.quantile(per_token, QUANTILES), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.long
def test_measures_by_round_and_class():
    cells = simulate("ideas-a", [{"policy": "rr-normal"}], (42,), (), True)
    cell = {name: values[0, 0] for name, values in cells.items()}
    ttft, rounds = cell["request_ttft_us"], cell["request_round"]
    classes = cell["request_slo_class"]

    assert cell["ttft_by_round_mean_ms"].tolist() == [
        pytest.approx(ttft[rounds == r].mean() / 1000, rel=1e-12) for r in range(4)
    ]
    assert cell["injected_by_class"].sum() == 500
    took = cell["request_finish_us"] - cell["request_first_token_us"]
    per_token = took / (cell["request_output_tokens"] - 1) / 1000
    assert cell["tpot_by_round_mean_ms"].tolist() == [
        pytest.approx(per_token[rounds == r].mean(), rel=1e-12) for r in range(4)
    ]
    p99 = np.quantile(ttft[classes == "critical"], 0.99) / 1000
    assert cell["ttft_by_class_ms"][0, P99] == pytest.approx(p99, rel=1e-12)
    critical = classes == "critical"
    at, queued, start = (
        cell[f"request_{name}"] for name in ("instance", "queued_us", "scheduled_us")
    )
    inverted = sum(
        bool(np.any(critical & (at == at[j]) & (queued <= start[j]) & (start[j] < start)))
        for j in np.flatnonzero(~critical)
    )
    assert cell["priority_inversions"] == inverted > 0
    assert cell["priority_inversion_rate"] == inverted / 500
    done = np.bincount(at, minlength=4)
    assert cell["fairness_instances"] == pytest.approx(500**2 / 4 / (done**2).sum(), rel=1e-12)


def test_mean_numbers_of_requests_add_up_over_their_times(h10):
    cell = {name: values[0, 0] for name, values in h10.items()}
    served = cell["request_finish_us"] - cell["request_scheduled_us"]
    waited = cell["request_scheduled_us"] - cell["request_arrival_us"]
    total = 4 * cell["makespan_s"] * 1e6
    assert cell["mean_running"] == pytest.approx(served.sum() / total, rel=1e-12)
    assert cell["mean_waiting"] == pytest.approx(waited.sum() / total, rel=1e-12)


def test_first_requests_can_be_left_out_of_the_measures(h10):
    warm = simulate("h10-core", [{"cpu_blocks": 0}], (42,), ["workload.warmup=50"])
    ttft = h10["request_ttft_us"][0, 0, 50:]
    assert warm["injected"][0, 0] == warm["completed"][0, 0] == 150
    assert warm["ttft_mean_ms"][0, 0] == pytest.approx(ttft.mean() / 1000, rel=1e-14)
    assert warm["preemptions"][0, 0] == h10["request_preemptions"][0, 0, 50:].sum()
    assert warm["steps"][0, 0] == h10["steps"][0, 0]


def test_runs_with_a_horizon_are_ok_and_say_when_they_stopped_working():
    point = {"policy": "throughput-matched", "gpu_blocks": 400}
    cells = simulate("h-reasoning-kv", [point], (42, 123))

    assert (cells["status"] == Status.OK).all()
    assert cells["completed"].tolist() == [[0, 1]]
    # Nothing completed counts as a rate of 0, one request as a rate of all preemptions.
    assert cells["preemptions"].tolist() == [[14088, 13806]]
    assert cells["preemption_rate"].tolist() == [[0.0, 13806.0]]
    assert np.isnan(cells["e2e_mean_ms"][0, 0])
    for detail, makespan in zip(cells["status_detail"][0], cells["makespan_s"][0], strict=True):
        seconds = float(detail.removeprefix("last useful step ended at ").removesuffix(" s"))
        assert seconds < makespan / 2
    outcomes = ("completed", "queued", "running", "dropped_unservable", "rejected", "timed_out")
    assert (sum(cells[name] for name in outcomes) == cells["injected"]).all()
    assert (cells["injected"] <= 500).all()


def test_what_a_horizon_cuts_off_has_waited_or_run_until_then():
    point = {"policy": "throughput-matched", "gpu_blocks": 400}
    cells = simulate("h-reasoning-kv", [point], (42,), (), True)
    cell = {name: values[0, 0] for name, values in cells.items()}
    end = cell["makespan_s"] * 1e6
    status, arrival = cell["request_status"], cell["request_arrival_us"]
    begun = cell["request_scheduled_us"]
    assert ((status == "queued") & (begun < 0)).any()
    assert (begun >= 0).any()
    starts = np.where((begun < 0) & (status == "queued"), end, begun)
    waited = (starts - arrival)[starts >= 0]
    assert cell["mean_waiting"] == pytest.approx(waited.sum() / end, rel=1e-9)
    assert not (status == "completed").any()
    assert cell["mean_running"] == pytest.approx((end - begun)[begun >= 0].sum() / end, rel=1e-9)


def test_undefined_rates_stay_undefined_where_that_is_repaired():
    point = {"policy": "throughput-matched", "gpu_blocks": 400}
    repaired = simulate("h-reasoning-kv", [point], (42,), ["engine.blis.pooled_rates=true"])
    assert np.isnan(repaired["preemption_rate"][0, 0])


def test_runs_that_never_end_or_crash_carry_evidence_and_no_numbers():
    points = [{"policy": name} for name in ("rr-low", "full-offload")]
    cells = simulate("ideas-a", points, (42,))

    assert cells["status"][:, 0].tolist() == [Status.LIVELOCK, Status.FAILED]
    stuck, crashed = cells["status_detail"][:, 0]
    assert "102 of 500 requests completed" in stuck
    assert "D7" in crashed
    assert np.isnan(cells["ttft_mean_ms"]).all()
    assert (cells["completed"] == -1).all()


def test_latencies_of_zero_are_told_apart_from_none():
    request = {"id": 0, "arrival_us": 0, "prompt": [[0, 40]], "output": [1, 9]}
    for latency in ({"alpha": [0, 0, 0], "beta": [1000, 1, 1]}, {"beta": [1000, 1, 1]}):
        scenario = {"engine": {"rules": "blis"}, "latency": latency}
        trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": [request]}
        assert kvsweep.replay(trace).attrs["status"] == "ok"


def test_a_warm_up_is_no_part_of_the_prefix_hit_rate():
    lengths = {key: {"dist": "constant", "value": 60} for key in ("prompt", "output")}
    rounds = {"rounds": 4, "think_time_s": 0.5, "context": "accumulate"}
    given = {
        "workload": {"requests": 80, "rate": 8.0, "warmup": 30, "sessions": rounds} | lengths,
        "engine": {"rules": "blis"},
        "latency": {"beta": [5000, 10, 50]},
    }
    usual = {"cluster": {}, "cache": {"gpu_blocks": 600}}
    scenario, options = validate(given | usual, Path()), {"policies": [None], "base_dir": None}
    found = simulate_batch([scenario], [0], entropy=1, keep_requests=True, **options)
    cell = {name: values[0, 0] for name, values in found.items()}
    hits, prompts = cell["request_cached_tokens"], cell["request_prompt_tokens"]
    assert (hits >= 0).all()
    rates = [hits[of:].sum() / prompts[of:].sum() for of in (30, 0)]
    assert cell["prefix_hit_rate"] == pytest.approx(rates[0], rel=1e-14)
    assert rates[0] > rates[1] > 0


def test_without_a_horizon_a_run_that_ends_well_has_no_detail(h10):
    assert (h10["status"] == Status.OK).all()
    assert (h10["status_detail"] == "").all()


def test_what_a_horizon_keeps_from_arriving_counts_for_no_share_of_the_preempted():
    point = {"policy": "throughput-matched", "gpu_blocks": 400}
    cells = simulate("h-reasoning-kv", [point], (42,), ["engine.horizon_us=5000000"], True)
    preempted = (cells["request_preemptions"][0, 0] > 0).sum()
    arrived = (cells["request_status"][0, 0] != "not_arrived").sum()
    assert 0 < preempted < arrived < cells["request_status"].shape[-1]
    assert cells["preempted_fraction"][0, 0] == pytest.approx(preempted / arrived, rel=1e-12)
