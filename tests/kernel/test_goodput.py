"""Goodput and attainment: equal to what the requests' own columns give, for both rule books."""

import math

import batches
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from longer import long_but

from kvsweep.config import DEFAULT_ENTROPY, Workload
from kvsweep.config.service_levels import same_but_levels
from kvsweep.metrics import LEVEL_VARIABLES
from kvsweep.policies import Status
from kvsweep.simulate import kernel_cells, replica_cells, simulate_batch

CLIENTS = [
    {"id": "chat", "rate_fraction": 3, "slo_class": "critical"},
    {"id": "batch", "slo_class": "batch"},
    {"id": "other"},
]
WORKLOADS = {
    "open": {"workload": {"requests": 40, "warmup": 5}},
    "of classes": {"workload": {"requests": 40, "clients": CLIENTS}},
    "of one token": {
        "workload": {"requests": 40, "output": {"dist": "uniform", "min": 1, "max": 3}}
    },
    "limited": {"workload": {"requests": 40, "concurrency": 6, "rate": None, "warmup": 3}},
    "impatient": {
        "workload": {
            "requests": 40,
            "rate": 200.0,
            "clients": CLIENTS,
            "sessions": {
                "rounds": 3,
                "think_time_s": 0.01,
                "arrivals": "closed-loop",
                "patience_s": 0.1,
            },
        }
    },
    "some too long": {"cache": {"gpu_blocks": 12}, "workload": {"requests": 40}},
    "some rejected": {
        "cluster": {
            "admission": "token-bucket",
            "token_bucket_capacity": 500.0,
            "token_bucket_refill_rate": 9000.0,
        },
        "workload": {"requests": 40},
    },
    "replica": {
        "engine": {"rules": "blis"},
        "cache": {"gpu_blocks": 2000},
        "workload": {"requests": 30, "clients": CLIENTS},
    },
    "replica, cut off": {
        "engine": {"rules": "blis", "horizon_us": 300_000},
        "cache": {"gpu_blocks": 2000},
        "workload": {"requests": 30, "clients": CLIENTS, "warmup": 4},
    },
}


def simulate(*variants, keep_requests=True, seeds=1):
    return simulate_batch(
        variants,
        range(seeds),
        entropy=DEFAULT_ENTROPY,
        policies=[None] * len(variants),
        base_dir=None,
        keep_requests=keep_requests,
    )


def cell(found, variant=0, seed=0):
    return {name: values[variant, seed] for name, values in found.items()}


def requests_of(values, scenario):
    """Return the measured requests: how they ended, class, round, times in ms."""
    rows = []
    for i in range(scenario.workload.warmup, len(values["request_status"])):
        status = values["request_status"][i]
        tokens = int(values["request_output_tokens"][i])
        row = {
            "arrived": status != "not_arrived",
            "done": status == "completed",
            "class": values["request_slo_class"][i],
            "round": int(values["request_round"][i]),
            "ttft": values["request_ttft_us"][i] / 1000,
            "e2e": values["request_e2e_us"][i] / 1000,
            "tpot": 0.0,
        }
        if tokens > 1 and row["done"]:
            row["tpot"] = values["request_tpot_us"][i] / 1000
        rows.append(row)
    return rows


def naive(values, scenario, slo_classes):
    """Return what the levels of a scenario make of the requests of its cell, request by request."""
    slo = scenario.slo
    rows = requests_of(values, scenario)
    seconds = values["completed"] / values["throughput_rps"]
    found = {}

    def put(suffix, chosen):
        kept = {name: [] for name in ("ttft", "tpot", "e2e", "")}
        for row in (row for row in chosen if row["arrived"]):
            own = slo.classes.get(row["class"])
            good = row["done"]
            for name in ("ttft", "tpot", "e2e"):
                level = getattr(slo, f"{name}_ms")
                if own is not None and getattr(own, f"{name}_ms") is not None:
                    level = getattr(own, f"{name}_ms")
                if level is not None:
                    kept[name].append(row["done"] and row[name] <= level)
                    good = good and row[name] <= level
            kept[""].append(good)
        for name, flags in kept.items():
            share = sum(flags) / len(flags) if flags else math.nan
            found[f"slo{name and '_' + name}_attainment{suffix}"] = share
        found[f"goodput{suffix}_rps"] = sum(kept[""]) / seconds if chosen else math.nan

    put("", rows)
    for i, name in enumerate(slo_classes):
        put(f"_by_class[{i}]", [row for row in rows if row["class"] == name])
    for number in range(len(values.get("ttft_by_round_mean_ms", ()))):
        put(f"_by_round[{number}]", [row for row in rows if row["round"] == number])
    return found


def assert_equal(values, expected):
    checked = 0
    for key, number in expected.items():
        name, _, place = key.partition("[")
        place, _, unit = place.partition("]")
        if name + unit not in values:  # no scenario of the batch has this level
            assert math.isnan(number), key
            continue
        there = values[name + unit]
        there = there[int(place)] if place else there
        np.testing.assert_allclose(there, number, rtol=1e-12, err_msg=key)
        checked += 1
    assert checked


times = (
    st.none() | st.sampled_from((0.5, 8.0, 15.5, 60.0, 300.0, 900.0, 1e5)) | st.floats(0.01, 2e3)
)
levels = st.fixed_dictionaries({"ttft_ms": times, "tpot_ms": times, "e2e_ms": times})


@pytest.mark.parametrize(
    "workload", long_but(WORKLOADS, *(name for name in WORKLOADS if "replica" not in name))
)
@given(usual=levels, batch=levels)
def test_every_number_is_that_of_the_requests(workload, usual, batch):
    slo = {name: value for name, value in usual.items() if value is not None}
    own = {name: value for name, value in batch.items() if value is not None}
    change = WORKLOADS[workload]
    classes = ("critical", "batch") if "clients" in change["workload"] else ()
    if own and classes:
        slo["classes"] = {"batch": own}
    if not slo:
        slo["ttft_ms"] = 40.0
    scenario = batches.scenario(change, {"slo": slo})
    values = cell(simulate(scenario))
    assert values["status"] == Status.OK
    if values["completed"]:
        assert_equal(values, naive(values, scenario, classes))


def test_goodput_is_that_of_vllm_bench_serve():
    """Its formula, in seconds, over what it saves of each request; nothing here fails."""
    scenario = batches.scenario(
        {"workload": {"requests": 60, "output": {"dist": "uniform", "min": 1, "max": 40}}},
        {"slo": {"ttft_ms": 60.0, "tpot_ms": 9.0, "e2e_ms": 300.0}},
    )
    values = cell(simulate(scenario))
    assert values["completed"] == 60
    goodput_config = {"ttft": 60.0, "tpot": 9.0, "e2el": 300.0}
    good_completed = 0
    for ttft_us, e2e_us, output_len in zip(
        values["request_ttft_us"],
        values["request_e2e_us"],
        values["request_output_tokens"],
        strict=True,
    ):
        ttft, latency = ttft_us / 1e6, e2e_us / 1e6
        tpot = (latency - ttft) / (output_len - 1) if output_len > 1 else 0
        kept = (
            goodput_config["ttft"] / 1000 >= ttft
            and goodput_config["tpot"] / 1000 >= tpot
            and goodput_config["e2el"] / 1000 >= latency
        )
        good_completed += kept
    assert 0 < good_completed < 60
    dur_s = values["makespan_s"]
    assert values["goodput_rps"] == pytest.approx(good_completed / dur_s, rel=1e-12)
    assert values["slo_attainment"] == good_completed / 60
    assert values["throughput_rps"] == pytest.approx(60 / dur_s, rel=1e-12)


def test_a_level_is_kept_to_the_microsecond():
    plain = cell(simulate(batches.scenario({"workload": {"requests": 30}})))
    for column, key in (("ttft", "ttft_ms"), ("e2e", "e2e_ms")):
        longest = int(plain[f"request_{column}_us"].max())
        exact = batches.scenario({"workload": {"requests": 30}}, {"slo": {key: longest / 1000}})
        below = batches.scenario(
            {"workload": {"requests": 30}}, {"slo": {key: (longest - 1) / 1000}}
        )
        found = simulate(exact, below)
        assert found["slo_attainment"][0, 0] == 1.0
        assert found["slo_attainment"][1, 0] < 1.0


def test_without_service_levels_there_is_nothing_new():
    change = {"workload": {"requests": 30, "clients": CLIENTS}}
    plain = simulate(batches.scenario(change), seeds=2)
    judged = simulate(batches.scenario(change, {"slo": {"ttft_ms": 50.0}}), seeds=2)
    new = {variable.name for variable in LEVEL_VARIABLES}
    assert not new & plain.keys()
    assert judged.keys() - plain.keys() <= new
    for name, values in plain.items():
        np.testing.assert_array_equal(judged[name], values, name)
    few = simulate(batches.scenario({"slo": {"tpot_ms": 50.0}}), keep_requests=False)
    given = {name for name in few if name in new}
    assert given == {"goodput_rps", "slo_attainment", "slo_tpot_attainment"}


def test_cells_without_levels_have_no_numbers_beside_those_with_some():
    """Also where lists of other lengths, and the other rule book, are in the same batch."""
    found = simulate(
        batches.scenario({"slo": {"ttft_ms": 80.0}}),
        batches.scenario(),
        batches.scenario({"workload": {"requests": 20}}, {"slo": {"e2e_ms": 500.0}}),
        batches.scenario(WORKLOADS["replica"]),
        batches.scenario(WORKLOADS["replica"], {"slo": {"ttft_ms": 80.0}}),
        keep_requests=False,
    )
    known = {
        name: np.isfinite(values[:, 0]).tolist() for name, values in found.items() if "slo" in name
    }
    assert known["slo_attainment"] == [True, False, True, False, True]
    assert known["slo_ttft_attainment"] == [True, False, False, False, True]
    assert known["slo_e2e_attainment"] == [False, False, True, False, False]


def test_what_never_ends_has_no_goodput():
    stuck = batches.scenario(
        WORKLOADS["replica"], {"cache": {"gpu_blocks": 120}, "slo": {"ttft_ms": 80.0}}
    )
    values = cell(simulate(stuck))
    assert values["status"] == Status.LIVELOCK
    assert math.isnan(values["goodput_rps"])
    assert math.isnan(values["slo_attainment"])


def test_requests_that_do_not_complete_are_not_good():
    turned_away = batches.scenario(
        {"cluster": {"admission": "reject-all"}}, {"slo": {"ttft_ms": 1e9}}
    )
    values = cell(simulate(turned_away))
    assert values["rejected"] == 60
    assert values["slo_attainment"] == 0
    assert values["slo_ttft_attainment"] == 0


@pytest.mark.parametrize("workload", long_but(["of classes", "replica"], "of classes"))
def test_scenarios_that_differ_in_levels_alone_are_simulated_once(workload, monkeypatch):
    change = WORKLOADS[workload]
    slos = [{"ttft_ms": 30.0}, {"tpot_ms": 8.0}, None, {"classes": {"batch": {"e2e_ms": 400.0}}}]
    variants = [
        batches.scenario(
            change, {"cache": {"gpu_blocks": blocks}}, *([{"slo": slo}] if slo else [])
        )
        for slo in slos
        for blocks in (1500, 2500)
    ]
    alone = [simulate(variant, seeds=2) for variant in variants]
    runs = []
    for module, name in ((kernel_cells, "_run_in_order"), (replica_cells, "replicate")):
        monkeypatch.setattr(module, name, counting(getattr(module, name), runs))
    together = simulate(*variants, seeds=2)
    assert sum(runs) == (2 if workload == "of classes" else 4)
    for number, found in enumerate(alone):
        for name, values in found.items():
            if name != "pruned":
                np.testing.assert_array_equal(together[name][number], values[0], name)
        for name in together.keys() - found.keys():
            assert np.isnan(together[name][number].astype(float)).all(), name


def counting(function, runs):
    def count(first, *rest):
        runs.append(len(first) if isinstance(first, list) else 1)
        return function(first, *rest)

    return count


def test_traces_of_policies_are_not_taken_for_one():
    slo = {"slo": {"ttft_ms": 30.0}}
    plain = batches.scenario(slo)
    traced = plain.model_copy(update={"workload": Workload(trace="{policy}.json")})
    assert same_but_levels([plain, plain, traced, traced]) == [0, 0, 2, 3]
    assert same_but_levels([batches.scenario(), batches.scenario()]) == [0, 1]  # nothing to share


def test_what_serves_nothing_has_a_throughput_of_zero():
    """Where all is refused on arrival no step is taken, and there is no time to divide by."""
    served = batches.scenario({"workload": {"requests": 20}, "slo": {"ttft_ms": 1e9}})
    too_long = batches.scenario(
        {"workload": {"requests": 20}, "engine": {"max_model_len": 1}, "slo": {"ttft_ms": 1e9}}
    )
    without = batches.scenario({"workload": {"requests": 20}, "engine": {"max_model_len": 1}})
    found = simulate(served, too_long, without)
    rates = ("throughput_rps", "output_tokens_per_s", "goodput_rps")
    for name in rates:
        assert cell(found)[name] > 0, name
        assert cell(found, 1)[name] == 0, name
    nothing = cell(found, 2)
    assert nothing["makespan_s"] == nothing["completed"] == 0
    assert math.isnan(nothing["goodput_rps"])  # no levels
    assert math.isnan(nothing["e2e_mean_ms"])
