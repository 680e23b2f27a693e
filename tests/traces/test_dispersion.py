"""How much counts of arrivals vary, which tells bursts from a Poisson process."""

import numpy as np
import pytest

from kvsweep.traces.info import BINS, _arrivals


def dispersion(arrival_us):
    return _arrivals(np.array(arrival_us, np.int64))["dispersion"]


def test_counts_vary_as_the_variance_over_the_mean_of_whole_bins():
    rng = np.random.default_rng(5)
    arrival_us = np.sort(rng.integers(0, 10**9, 3000))
    counts = np.bincount((arrival_us - arrival_us[0]) // 10**7)[:-1]  # the last one is cut
    assert dispersion(arrival_us)["10s"] == pytest.approx(counts.var() / counts.mean())
    assert 0.8 < dispersion(arrival_us)["10s"] < 1.25  # a Poisson process has 1


def test_a_rate_that_is_constant_does_not_vary():
    assert dispersion(range(0, 10**9, 10**5)) == {"1s": 0.0, "10s": 0.0, "60s": 0.0}


def test_less_than_two_whole_bins_tell_nothing():
    assert dispersion([0, 5, 1_999_999]) == {"1s": None, "10s": None, "60s": None}


def test_years_without_arrivals_take_no_memory():
    """95 million bins of a second, of which two hold something."""
    assert dispersion([0, 95 * 10**12])["1s"] == pytest.approx(1 - 1 / (95 * 10**6))


def test_even_gaps_do_not_vary():
    """Of a request each 10 ms roundings were told: 1.7e-16."""
    found = _arrivals(np.arange(100) * 10_000)
    assert (found["gap_cv"], found["gap_mean_s"]) == (0.0, 0.01)


@pytest.mark.parametrize("seconds", [59, 60, 61, 300, 3600, 60 * 86400, 100 * 86400])
def test_the_rate_over_time_has_no_more_bins_than_are_drawn(seconds):
    found = _arrivals(np.array([0, 10**6 * seconds]))
    assert len(found["bin_requests"]) <= BINS
    assert found["bin_requests"][0] == found["bin_requests"][-1] == 1
