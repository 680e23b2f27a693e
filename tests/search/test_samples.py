"""What samples say: scores of skewed seeds, intervals, and curves with holes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsweep.analysis import student
from kvsweep.search.samples import Samples, mean_interval, scores, t_of
from kvsweep.search.space import Space


def samples(curves, **space):
    """Return samples of one target: seeds' excesses by value."""
    found = Samples(Space(min(curves), max(curves), True, **space))
    for value, seeds in curves.items():
        found.add(float(value), np.array([seeds], dtype=float))
    return found


def test_of_seeds_without_skewness_the_score_is_students_t():
    seeds = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    expected = 3.0 / (seeds.std(ddof=1) / np.sqrt(5))
    assert scores(seeds[None, :, None])[0, 0] == pytest.approx(expected)


@given(st.lists(st.floats(-5.0, 5.0), min_size=4, max_size=20), st.sampled_from([0.8, 0.95]))
def test_the_ends_of_an_interval_of_a_mean_have_the_score_t(values, confidence):
    seeds = np.array(values)
    if seeds.std() < 1e-3:
        return
    t = t_of(len(seeds), confidence)
    low, high = mean_interval(seeds, t)
    assert low < high
    at_ends = [scores((seeds - end)[None, :, None])[0, 0] for end in (low, high)]
    np.testing.assert_allclose(at_ends, [t, -t], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("shape", [0.5, 1.0, 4.0, 100.0])
def test_skewed_seeds_are_called_sure_about_as_seldom_as_said(shape):
    """At the limit 2.5 in 100 may be called sure on a side; plain t has up to 8 of 32 seeds."""
    rng = np.random.default_rng(1)
    excess = rng.gamma(shape, 1.0 / shape, (4000, 32)) - 1.0
    t = student.quantile(31, 0.95)
    found = scores(excess[:, :, None])[:, 0]
    assert np.mean(found < -t) < 0.045
    assert np.mean(found > t) < 0.045


def test_equal_seeds_are_sure():
    assert scores(np.zeros((1, 5, 1)))[0, 0] == -np.inf
    assert scores(np.full((1, 5, 1), 0.1))[0, 0] == np.inf
    assert mean_interval(np.full(5, 0.1), 2.0) is None


def test_the_crossing_is_on_a_straight_line_and_the_interval_holds_it():
    found = samples({1000: [3.0, 4.0, 5.0], 2000: [-1.0, -1.0, -1.0]})
    reading = found.read(3, t_of(3, 0.95))
    assert found.space.at(reading.crossing) == pytest.approx(1800.0)
    assert reading.low < reading.crossing < reading.high
    assert reading.piece == (-2000.0, -1000.0)


def test_one_seed_has_a_crossing_and_no_width():
    reading = samples({1000: [4.0], 2000: [-1.0]}).read(1, t_of(1, 0.95))
    assert reading.low == reading.crossing == reading.high == pytest.approx(-1800.0)


def test_a_limit_that_is_passed_next_to_a_value_without_a_result_has_no_place():
    reading = samples({1000: [np.nan] * 3, 2000: [-1.0] * 3, 3000: [-2.0] * 3}).read(3, 4.3)
    assert np.isnan(reading.crossing)
    assert reading.piece == (-2000.0, -1000.0)


def test_where_not_even_the_first_point_has_a_value_the_interval_leaves_the_points():
    """No NaN as an end: it compares with nothing, and nothing further out was looked at."""
    reading = samples({1000: [-1.0, np.nan, -1.0], 2000: [-1.0, -1.0, np.nan]}).read(3, 4.3)
    assert np.isnan(reading.crossing)
    assert (reading.low, reading.high) == (-np.inf, -2000.0)
    assert reading.piece == (-np.inf, -2000.0)


def test_points_without_a_crossing_lie_on_one_side():
    assert samples({1000: [-1.0] * 3, 2000: [-2.0] * 3}).read(3, 4.3).crossing == np.inf
    assert samples({1000: [2.0] * 3, 2000: [1.0] * 3}).read(3, 4.3).crossing == -np.inf


def test_of_several_measures_the_first_to_pass_counts():
    found = Samples(Space(1000.0, 2000.0, True))
    found.add(1000.0, np.array([[4.0], [1.0]]))
    found.add(2000.0, np.array([[-1.0], [-1.0]]))
    assert found.read(1, 0.0).crossing == pytest.approx(-1800.0)
