"""Cells of every published table, in every printed digit, as the reference shipped."""

import pytest
from longer import long_but

from kvsweep.studies.columns import AS_SHIPPED, KERNEL, REPAIRED, repairing
from kvsweep.studies.figures import figures
from kvsweep.studies.h_reasoning_tables import adds_up, counted
from kvsweep.studies.records import Printed
from kvsweep.studies.runs import case, simulate

pytestmark = pytest.mark.slow


def agree(given, *found):
    """Whether numbers read as published, digit by digit."""
    return [Printed(text).equals(value) for text, value in zip(given, found, strict=True)]


def h_reasoning(workload, blocks, seed, column=AS_SHIPPED):
    return simulate(case("h-reasoning-kv", seed, policy=workload, gpu_blocks=blocks), column)


@pytest.mark.parametrize("cpu_blocks", [0, 500])
@pytest.mark.parametrize("seed", [42, 123, 456])
def test_h10_core(cpu_blocks, seed):
    run = simulate(case("h10-core", seed, cpu_blocks=cpu_blocks), AS_SHIPPED)
    given = figures("h10")["core"][str(cpu_blocks)][str(seed)]
    assert all(agree(given, run.ttft_mean_ms, run.ttft_p99_ms, run.e2e_p99_ms))


@pytest.mark.parametrize("policy", ["offload-0_8", "offload-1_0"])
def test_h10_confound_matrix(policy):
    point = {"policy": policy, "routing": "round-robin"}
    run = simulate(case("h10-confound", 42, **point), AS_SHIPPED)
    rates = 100 * run.preemption_rate, 100 * run.hit_rate
    assert all(agree(figures("h10")["confound"][policy], run.ttft_mean_ms, run.ttft_p99_ms, *rates))


def test_h10_gain_goes_with_d1():
    single, tiered = (
        simulate(case("h10-core", 42, cpu_blocks=n), repairing("D1")).ttft_mean_ms for n in (0, 500)
    )
    assert (round(single, 1), round(tiered, 1)) == (287.2, 287.5)


def test_h10_runs_with_its_tier_under_the_kernels_rules_too():
    run = simulate(case("h10-core", 42, cpu_blocks=500), KERNEL)
    assert (run.status, run.completed) == ("ok", 200)
    assert run.reloads > 0


def test_h_reasoning_at_5000_blocks():
    run = h_reasoning("reasoning", 5000, 42)
    assert all(agree(figures("h-reasoning-kv")["ttft_by_round"]["mean_ms"], *run.ttft_by_round))
    assert agree(["0.6379"], run.hit_rate) == [True]


@pytest.mark.parametrize("seed", long_but([42, 123, 456], 42))
@pytest.mark.parametrize(("column", "last_token"), [(AS_SHIPPED, True), (KERNEL, False)])
def test_hit_rate_is_what_the_request_list_allows(column, last_token, seed):
    reused, blocks = counted(seed, last_token=last_token)
    assert h_reasoning("reasoning", 5000, seed, column).hit_rate == reused / blocks


def test_hit_rate_closed_from_the_list():
    assert [counted(seed, last_token=True) for seed in (42, 123, 456)] == [
        (21144, 33144),
        (21048, 33048),
        (21384, 33384),
    ]


@pytest.mark.parametrize("i", range(3))
def test_h_reasoning_drops(i):
    run = h_reasoning("reasoning", 100, (42, 123, 456)[i])
    assert agree([figures("h-reasoning-kv")["dropped"]["reasoning"][i]], run.dropped) == [True]
    assert adds_up(run)


def test_the_largest_published_rate_is_a_mean_of_0_13806_and_1():
    runs = [h_reasoning("throughput-matched", 400, seed) for seed in (42, 123, 456)]
    assert [run.preemption_rate for run in runs] == [0.0, 13806.0, 1.0]
    assert [run.completed for run in runs] == [0, 1, 9]
    rate = sum(run.preemption_rate for run in runs) / 3
    given = figures("h-reasoning-kv")["preemption_rate"]["throughput-matched"]["400"]
    assert agree([given], rate) == [True]


def test_cascades_end_with_the_repairs():
    run = h_reasoning("throughput-matched", 400, 123, REPAIRED)
    assert run.preemption_rate < 1
    assert run.completed == 265
    assert run.leaked_blocks == 0


@pytest.mark.long
@pytest.mark.parametrize(("rate", "policy"), [("high", "cache-heavy"), ("moderate", "load-only")])
def test_h377(rate, policy):
    runs = [simulate(case(f"h377-{rate}", s, policy=policy), AS_SHIPPED) for s in (42, 123, 456)]

    def mean(value):
        return sum(map(value, runs)) / 3

    found = (
        mean(lambda run: run.ttft_mean_ms),
        mean(lambda run: run.ttft_p99_ms),
        mean(lambda run: run.e2e_mean_ms),
        mean(lambda run: run.e2e_p99_ms),
        mean(lambda run: run.throughput_rps),
        mean(lambda run: 100 * run.hit_rate),
    )
    assert all(agree(figures("h377")[rate][policy], *found))


@pytest.mark.parametrize(
    "pair",
    long_but(
        [("kv-pressure", "slo-scorer"), ("slo-priority", "full")], ("kv-pressure", "slo-scorer")
    ),
)
def test_scorers_of_transfers_see_none(pair):
    runs = [simulate(case("ideas-a", 42, policy=name), AS_SHIPPED) for name in pair]
    assert runs[0].fingerprint == runs[1].fingerprint
    assert runs[0].status == "livelock"


def test_published_crash():
    run = simulate(case("ideas-a", 42, policy="static-offload"), AS_SHIPPED)
    assert run.status == "failed"
    assert "D7" in run.detail
