"""Resampling, intervals and ranks against closed forms and SciPy."""

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import isotonic_regression
from scipy.stats import bootstrap, spearmanr

from analysis.synthetic import h8
from kvsweep.analysis import ranks, statistics, student
from kvsweep.analysis.cliff import find_cliff
from kvsweep.analysis.compare import compare
from kvsweep.analysis.crossing import isotonic_curve
from kvsweep.analysis.effects import factorial_effects
from kvsweep.analysis.pareto import pareto_front


def test_resamples_draw_every_seed_equally_often():
    counts = statistics.resample_counts(20, 4000)
    assert (counts.sum(axis=1) == 20).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(20), abs=0.06)


def test_resamples_are_those_that_are_drawn_all_at_once(monkeypatch):
    rng = np.random.default_rng(statistics.BOOTSTRAP_SEED)
    drawn = rng.multinomial(7, np.full(7, 1 / 7), size=150)
    np.testing.assert_array_equal(statistics.resample_counts(7, 150), drawn)
    monkeypatch.setattr(statistics, "AT_ONCE", 7 * 64)
    np.testing.assert_array_equal(statistics.resample_counts(7, 150), drawn)


@pytest.mark.parametrize("missing", [False, True])
def test_means_of_many_resamples_are_those_of_all_at_once(monkeypatch, missing):
    counts = statistics.resample_counts(7, 150)
    values = np.random.default_rng(4).normal(size=(2, 7, 3))
    if missing:
        values[0, 2, 1] = np.nan
    whole = statistics.resample_means(values, counts)
    assert whole.shape == (2, 150, 3)
    monkeypatch.setattr(statistics, "AT_ONCE", 7 * 64)
    np.testing.assert_allclose(statistics.resample_means(values, counts), whole, rtol=1e-13)


def test_resample_means_leave_missing_values_out():
    values = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, 5.0]])
    counts = np.array([[1.0, 1.0, 1.0], [2.0, 1.0, 0.0], [0.0, 0.0, 3.0]])
    means = statistics.resample_means(values, counts)
    np.testing.assert_allclose(means, [[2.0, 5.0], [5 / 3, np.nan], [np.nan, 5.0]])


def test_percentile_interval_ranks_infinities_and_drops_nan():
    samples = np.r_[np.full(10, -np.inf), np.arange(90.0), np.full(7, np.nan)]
    assert statistics.percentile_interval(samples, 0.9).low == -np.inf
    narrow = statistics.percentile_interval(samples, 0.5)
    assert (narrow.low, narrow.high) == (15.0, 64.0)


def test_arms_of_intervals_are_widened_as_the_docs_say():
    page = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"longer by t / z \* sqrt\(n / \(n - 1\)\): (.*)", page)
    told = {3: "2.69 times for 3 seeds", 5: "1.58 for 5", 20: "1.10 for 20", 100: "1.02 for 100"}
    for seeds, words in told.items():
        assert words in text
        assert f"{student.widening(seeds, 0.95):.2f}" == words.split()[0]


def test_percentile_interval_of_nothing_is_nan():
    interval = statistics.percentile_interval(np.full(3, np.nan), 0.95)
    assert np.isnan([interval.low, interval.high]).all()


def test_the_band_agrees_with_scipy():
    values = np.random.default_rng(3).gamma(2.0, size=(50, 1))
    counts = statistics.resample_counts(50, 9999)
    mean, low, high = statistics.mean_band(values, counts, 0.95)
    reference = bootstrap((values[:, 0],), np.mean, method="percentile", rng=5).confidence_interval
    assert mean[0] == pytest.approx(values.mean())
    assert (low[0], high[0]) == pytest.approx((reference.low, reference.high), rel=0.02)


def test_a_point_with_one_value_has_a_mean_and_no_band():
    values = np.array([[1.0, np.nan], [2.0, 4.0]])
    mean, low, high = statistics.mean_band(values, statistics.resample_counts(2, 200), 0.95)
    assert mean.tolist() == [1.5, 4.0]
    assert low[0] < 1.0 < 2.0 < high[0]
    assert np.isnan([low[1], high[1]]).all()


def test_an_infinite_value_is_in_the_means_of_those_who_drew_it_alone():
    values = np.array([[np.inf, 1.0], [2.0, np.inf], [4.0, -np.inf], [np.nan, 3.0]])
    counts = np.array([[0, 1, 1, 2], [1, 1, 0, 2], [0, 1, 2, 1], [2, 0, 0, 2]])
    expected = [[3.0, np.nan], [np.inf, np.inf], [10 / 3, np.nan], [np.inf, 2.0]]
    np.testing.assert_array_equal(statistics.resample_means(values, counts), expected)
    spread = statistics.student_means(values, counts)
    np.testing.assert_array_equal(spread[:, 0], np.array(expected)[:, 0])


def test_the_band_without_resamples_is_nan():
    mean, low, high = statistics.mean_band(np.array([[1.0, 2.0]]), None, 0.95)
    assert mean.tolist() == [1.0, 2.0]
    assert np.isnan([low, high]).all()


@given(hnp.arrays(float, (3, 6), elements=st.integers(0, 3).map(float)))
def test_spearman_equals_scipy_with_ties(curves):
    x = np.arange(6.0)
    rho = ranks.spearman(x, curves)
    for one, curve in zip(rho, curves, strict=True):
        if np.ptp(curve) == 0:
            assert np.isnan(one)
        else:
            assert one == pytest.approx(spearmanr(x, curve).statistic)


def test_spearman_of_many_curves_is_that_of_each(monkeypatch):
    curves = np.random.default_rng(5).integers(0, 4, (2, 5, 6)).astype(float)
    whole = ranks.spearman(np.arange(6.0), curves)
    assert whole.shape == (2, 5)
    monkeypatch.setattr(ranks, "AT_ONCE", 13)
    np.testing.assert_array_equal(ranks.spearman(np.arange(6.0), curves), whole)


def test_spearman_leaves_missing_points_out_of_both_sides():
    y = np.array([0.0, np.nan, 5.0, 1.0])
    expected = spearmanr([0, 2, 3], [0.0, 5.0, 1.0]).statistic
    assert ranks.spearman(np.arange(4.0), y) == pytest.approx(expected)


def test_spearman_of_nothing_is_nan():
    assert np.isnan(ranks.spearman(np.arange(3.0), np.full((2, 3), np.nan))).all()


@given(hnp.arrays(float, (2, 9), elements=st.integers(1, 5).map(float)))
def test_the_isotonic_fit_equals_scipy(pairs):
    curve, weights = pairs
    fitted = isotonic_regression(curve, weights=weights).x
    assert isotonic_curve(curve, weights) == pytest.approx(fitted)


def test_the_isotonic_fit_leaves_missing_points_out():
    curve = np.array([np.nan, 3.0, np.nan, 1.0])
    fitted = isotonic_curve(curve, np.array([0.0, 1.0, 0.0, 3.0]))
    assert fitted == pytest.approx([np.nan, 1.5, np.nan, 1.5], nan_ok=True)


def test_points_that_are_equal_in_every_seed_have_equal_means():
    """A matrix product rounds them apart, by where they stand."""
    rng = np.random.default_rng(3)
    for seeds in (3, 10, 20, 30, 100):
        values = np.repeat(rng.lognormal(3.0, 1.0, (seeds, 1)), 67, axis=1)
        for layout in "CF":
            means = statistics.seed_mean(np.asarray(values, order=layout))
            assert len(set(means.tolist())) == 1
            assert means[0] == pytest.approx(values[:, 0].mean())


def test_few_seeds_that_have_values_are_told_as_few():
    ds = h8(10).sel(gpu_blocks=[1500, 2000])
    lacking = (ds["policy"] == "round-robin") & (ds["seed"] > 2)
    ds["status"] = ds["status"].where(~lacking, "livelock")
    objectives = ["preemption_rate:min"]
    for found in (
        factorial_effects(ds, "preemption_rate"),
        pareto_front(ds, objectives),
        compare(*(ds.sel(policy=name) for name in ds["policy"].values), "preemption_rate"),
        find_cliff(ds, threshold=0.3),
    ):
        assert found.seeds_note.startswith("3 seeds: intervals rest on little")
    # No seed has values of both: each member is over its own, one over two.
    apart = (ds["policy"] == "least-loaded") & (ds["seed"] < 2)
    ds["status"] = ds["status"].where(~apart & (ds["seed"] != 2), "livelock")
    assert pareto_front(ds, objectives).seeds_note.startswith("2 seeds:")


def test_one_cell_of_one_seed_does_not_say_that_there_are_no_intervals():
    ds = h8(10).sel(gpu_blocks=[1500, 2000], policy="round-robin")
    lacking = (ds["gpu_blocks"] == 1500) & (ds["seed"] > 0)
    ds["status"] = ds["status"].where(~lacking, "livelock")
    other = ds.assign(preemption_rate=ds["preemption_rate"] * 2)
    found = compare(ds, other, "preemption_rate")
    assert [item.seeds for item in found.differences] == [1, 10]
    assert found.seeds_note == ""


@pytest.mark.parametrize("confidence", ["0.5", "0.8", "0.9", "0.95", "0.99"])
def test_intervals_end_where_the_share_of_samples_outside_says(confidence):
    """1 - 0.9 is a little less than a tenth: of 2,000 samples 99 lay outside each end, not 100."""
    for size in (20, 200, 1999, 2000):
        outside = math.floor((1 - Fraction(confidence)) / 2 * size)
        found = statistics.percentile_interval(np.arange(float(size)), float(confidence))
        assert (found.low, found.high) == (outside, size - 1 - outside)
        lacking = np.where(np.arange(size) < outside, np.nan, 1.0)
        assert statistics.tells(lacking, float(confidence))
