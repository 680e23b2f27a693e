import json

import numpy as np
import pytest

from analysis.synthetic import prefix_trials
from kvsweep.analysis.prefix_cost import prefix_cost
from kvsweep.errors import InputError
from kvsweep.report import prefix_text


def test_medians_and_spreads_are_by_size_in_the_order_of_b():
    cost = prefix_cost(prefix_trials())
    assert [(size.a, size.b) for size in cost.sizes] == [(512, 256), (384, 384), (256, 512)]
    assert [size.ttft_ms["hit"].median for size in cost.sizes] == pytest.approx([10, 10, 10])
    assert [size.ttft_ms["miss"].median for size in cost.sizes] == pytest.approx([35.6, 48.4, 61.2])
    assert cost.sizes[0].degradation == pytest.approx(2.56)
    spread = cost.sizes[0].ttft_ms["hit"]
    assert (spread.p10, spread.p90) == pytest.approx((8.4, 11.6))


def test_a_line_is_fitted_to_the_medians():
    cost = prefix_cost(prefix_trials())
    assert (cost.miss.slope, cost.miss.intercept) == pytest.approx((0.1, 10.0))
    assert cost.miss.r2 == pytest.approx(1.0)
    assert 0.9 < cost.miss.r2_trials < 1.0
    assert cost.hit_slope_share == pytest.approx(0.0, abs=1e-9)
    assert cost.hit_span == pytest.approx(0.0, abs=1e-9)
    assert cost.throughput_ratio == pytest.approx(1.0)


def test_the_fit_is_that_of_scipy():
    from scipy.stats import linregress

    ds = prefix_trials()
    ds["ttft_ms"].values[1, 1] += 7.0
    line = prefix_cost(ds).miss
    b = ds["context_b"].values
    expected = linregress(b, ds["ttft_ms"].sel(condition="miss").median("trial"))
    assert (line.slope, line.intercept) == pytest.approx((expected.slope, expected.intercept))
    assert line.r2 == pytest.approx(expected.rvalue**2)


def test_trials_that_were_not_run_are_left_out():
    ds = prefix_trials()
    for name, nothing in (("position", -1), ("ttft_ms", np.nan), ("throughput_tok_s", np.nan)):
        ds[name].values[:, :, 3:] = nothing  # the last repetitions
        ds[name].values[2, 1, :] = nothing  # and all misses of a size
    cost = prefix_cost(ds)
    assert cost.trials == 15
    assert len(cost.sizes) == 2
    assert cost.sizes[0].ttft_ms["hit"].median == pytest.approx(9.0)


def test_a_single_size_has_no_line():
    cost = prefix_cost(prefix_trials().isel(size=[0]))
    assert cost.miss is cost.hit is cost.hit_slope_share is None
    assert "no line over B" in prefix_text(cost)


def test_two_sizes_have_a_line_but_no_fit_of_medians():
    cost = prefix_cost(prefix_trials().isel(size=[0, 2]))
    assert cost.miss.slope == pytest.approx(0.1)
    assert np.isnan(cost.miss.r2)
    assert cost.miss.r2_trials > 0.9
    assert prefix_text(cost).startswith("A miss costs 0.1 ms per token of B: R2 0.9")


def test_without_a_pair_there_is_nothing_to_say():
    ds = prefix_trials()
    ds["position"].values[:, 0] = -1
    with pytest.raises(InputError, match="no size has trials of both"):
        prefix_cost(ds)


def test_outputs_without_a_token_have_no_throughput():
    ds = prefix_trials()
    ds["throughput_tok_s"].values[:] = np.nan
    ds["early_eos"].values[:] = 1
    cost = prefix_cost(ds)
    assert cost.early_eos == 30
    assert json.loads(json.dumps(cost.to_dict(), allow_nan=False))["throughput_ratio"] is None
    assert "Throughput of the output: none" in prefix_text(cost)


def test_the_text_gives_the_findings_first_and_aligns_the_table():
    lines = prefix_text(prefix_cost(prefix_trials())).splitlines()
    assert lines[0].startswith("A miss costs 0.1 ms per token of B: R2 1.000 of the medians, 0.9")
    assert lines[1] == "A hit takes 10 to 10 ms: its slope over B is 0.0% of the miss's."
    assert lines[2] == "Throughput of the output after a miss: 1 times that after a hit."
    assert lines[5].split() == ["512:256", "10", "[8.4,", "11.6]", "35.6", "[34,", "37.2]",
                                "+256%", "200", "200"]  # fmt: skip


def test_outputs_that_ended_early_are_of_the_trials_that_were_run():
    """Those of sizes that lack a condition counted among the trials, and not among these."""
    ds = prefix_trials()
    ds["early_eos"].values[:] = 1
    ds["position"].values[0, 1] = -1
    ds["early_eos"].values[0, 1] = -1
    cost = prefix_cost(ds)
    assert cost.early_eos == cost.trials == 25
