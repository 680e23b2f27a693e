"""Forecasts of a run, by a clock that only the simulations here move on."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from kvsweep import forecast, grid, load_sweep, scatter, simulate
from kvsweep.forecast import BUDGET_S, PATIENCE_S

SWEEP = """
title = "t"
question = "q"
[workload]
requests = {requests}
warmup = {warmup}
[latency]
model = "llama-3.1-8b/h100/tp2"
[grid]
"cluster.instances" = [1, 2, 4]
"cache.gpu_blocks" = {{ start = 1000, stop = 4000, num = 13 }}
seed = {{ count = {seeds} }}
"""


class Clock:
    """Processor time, and that of the clock on a machine that others use, too."""

    def __init__(self, cost, busy=1.0):
        self.cost, self.busy, self.now, self.calls = cost, busy, 0.0, []

    def thread_time(self):
        return self.now

    def perf_counter(self):
        return self.now * self.busy

    def simulate_batch(self, variants, seeds, *, first_requests=None, **others):
        requests = min(first_requests or 10**9, variants[0].workload.requests)
        self.calls.append((len(variants) * len(seeds), requests))
        self.now += 0.001 + sum(map(self.cost, variants)) * len(seeds) * requests


def planned(tmp_path, requests=200, seeds=50, warmup=0):
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP.format(requests=requests, seeds=seeds, warmup=warmup))
    sweep = load_sweep(path)
    return sweep, grid.plan(sweep)


def forecasted(monkeypatch, clock, sweep, plan, **options):
    monkeypatch.setattr(forecast, "time", clock)
    monkeypatch.setattr(forecast.simulate, "simulate_batch", clock.simulate_batch)
    monkeypatch.setattr(forecast.simulate, "is_compiled", lambda _: True)
    given = {"simulations": plan.cells, "tasks": len(plan.tasks), "workers": 1} | options
    return forecast.forecast(sweep, plan, **given)


def thrashing(scenario):
    """Seconds of a request: a small pool costs ten times as much as a large one."""
    return 1e-6 * (1 + 9 * (scenario.cache.gpu_blocks < 2000)) * scenario.cluster.instances


@pytest.mark.parametrize("scale", [0.2, 1.0, 30.0])
@pytest.mark.parametrize("requests", [200, 100_000])
def test_a_forecast_is_within_a_factor_of_two(monkeypatch, tmp_path, scale, requests):
    sweep, plan = planned(tmp_path, requests)

    def cost(scenario):
        return scale * thrashing(scenario) * 200 / requests

    found = forecasted(monkeypatch, Clock(cost), sweep, plan)
    truth = len(plan.seeds) * requests * sum(map(cost, plan.variants))
    truth = forecast.START_S + max(truth, forecast.TASK_S * len(plan.tasks))
    assert found.low < truth < found.high
    assert truth / 2 < found.seconds < 2 * truth


def test_what_a_cell_takes_to_begin_is_not_multiplied_by_its_requests(monkeypatch, tmp_path):
    class Beginning(Clock):
        def simulate_batch(self, variants, seeds, **others):
            self.now += 0.07 * len(variants) * len(seeds)
            super().simulate_batch(variants, seeds, **others)

    sweep, plan = planned(tmp_path, requests=100_000)
    found = forecasted(monkeypatch, Beginning(lambda scenario: 1e-6), sweep, plan)
    truth = forecast.START_S + plan.cells * (0.07 + 1e-6 * 100_000)
    assert truth / 1.2 < found.processor < 1.2 * truth


def test_it_ends_soon_however_long_a_cell_takes(monkeypatch, tmp_path):
    sweep, plan = planned(tmp_path, requests=500_000)
    clock = Clock(lambda scenario: 1e-3)  # 8 min a cell
    forecasted(monkeypatch, clock, sweep, plan)
    assert clock.now < 3 * BUDGET_S


def test_on_a_busy_machine_it_takes_longer_and_says_so(monkeypatch, tmp_path):
    sweep, plan = planned(tmp_path)
    idle = forecasted(monkeypatch, Clock(thrashing), sweep, plan)
    clock = Clock(thrashing, busy=8.0)
    busy = forecasted(monkeypatch, clock, sweep, plan)
    assert (idle.busy, busy.busy) == (1.0, pytest.approx(8.0))
    assert busy.seconds == pytest.approx(8 * idle.seconds, rel=0.3)
    assert busy.processor == pytest.approx(idle.processor, rel=0.3)
    assert clock.perf_counter() < PATIENCE_S + 8 * BUDGET_S / 4


def test_more_workers_take_less_but_not_more_than_there_are_tasks(monkeypatch, tmp_path):
    monkeypatch.setattr(forecast, "usable_processors", lambda: 64)
    sweep, plan = planned(tmp_path)
    seconds = [
        forecasted(monkeypatch, Clock(lambda s: 1e-4), sweep, plan, tasks=8, workers=n).seconds
        for n in (1, 4, 8, 16)
    ]
    assert seconds[0] > seconds[1] > seconds[2] == seconds[3]


def test_a_warm_up_is_always_within_the_lists_that_are_tried(monkeypatch, tmp_path):
    sweep, plan = planned(tmp_path, requests=100_000, warmup=5_000)
    clock = Clock(lambda scenario: 1e-4)
    forecasted(monkeypatch, clock, sweep, plan)
    assert all(requests > 5_000 for _, requests in clock.calls)


def test_without_a_kernel_costs_are_nominal_and_compiling_is_told(monkeypatch, tmp_path):
    sweep, plan = planned(tmp_path)
    clock = Clock(thrashing)
    monkeypatch.setattr(forecast, "time", clock)
    monkeypatch.setattr(forecast.simulate, "simulate_batch", clock.simulate_batch)
    monkeypatch.setattr(forecast.simulate, "is_compiled", lambda _: False)
    found = forecast.forecast(sweep, plan, simulations=plan.cells, tasks=4, workers=2)
    assert clock.calls == []
    assert found.compiling > 0
    assert found.seconds > found.compiling


def test_cells_are_tried_all_over_the_grid():
    sizes = (3, 2, 13)
    whole = list(islice(scatter.in_rows(sizes), 78))
    assert sorted(whole) == list(range(78))
    rows = np.array(whole).reshape(6, 13) // 13
    assert (rows == rows[:, :1]).all()
    few = np.array(list(islice(scatter.scattered(sizes), 12)))
    for axis, size in enumerate(sizes):
        seen = np.bincount(np.unravel_index(few, sizes)[axis], minlength=size)
        assert seen.max() <= seen.min() + 2


def test_a_forecast_of_real_cells_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep, plan = planned(tmp_path, requests=20, seeds=1)
    simulate.warm_up(names=simulate.kernel_entries(plan.variants))
    before = sorted(Path().rglob("*"))
    found = forecast.forecast(sweep, plan, simulations=39, tasks=1, workers=1)
    assert found.tried >= 1
    assert sorted(Path().rglob("*")) == before
