"""Gaps between arrivals against the distributions that they are named after."""

import pytest
from scipy import special, stats

from kvsweep.workload.arrivals import unit_gaps, weibull_shape
from kvsweep.workload.streams import Streams

N = 20_000
CVS = [0.3, 1.0, 2.5]
PROCESSES = [("poisson", None), *(("gamma", cv) for cv in CVS), *(("weibull", cv) for cv in CVS)]


def gaps(process, cv, n=N, seed=1):
    return unit_gaps(process, cv, n, Streams(0, [seed], 0, 0))[0]


def reference(process, cv):
    if process == "gamma":
        return stats.gamma(1 / cv**2, scale=cv**2)
    if process == "weibull":
        shape = weibull_shape(cv)
        return stats.weibull_min(shape, scale=1 / special.gamma(1 + 1 / shape))
    return stats.expon()


@pytest.mark.parametrize(("process", "cv"), PROCESSES)
def test_gaps_follow_their_distribution(process, cv):
    assert stats.kstest(gaps(process, cv), reference(process, cv).cdf).pvalue > 0.01


@pytest.mark.parametrize(("process", "cv"), PROCESSES)
def test_gaps_have_mean_one_and_the_given_variation(process, cv):
    law = reference(process, cv)
    wanted = 1.0 if cv is None else cv
    assert law.mean() == pytest.approx(1, rel=1e-9)
    assert law.std() == pytest.approx(wanted, rel=1e-9)
    drawn = gaps(process, cv)
    assert drawn.mean() == pytest.approx(1, abs=4 * wanted / N**0.5)
    # Standard error of a sample variance, from the fourth moment.
    kurtosis = float(law.stats(moments="k"))
    assert drawn.var() == pytest.approx(wanted**2, abs=4 * wanted**2 * ((kurtosis + 2) / N) ** 0.5)


def test_constant_gaps_are_all_one():
    assert (gaps("constant", None, 5) == 1).all()


def test_a_weibull_of_variation_one_is_exponential():
    assert weibull_shape(1.0) == pytest.approx(1, rel=1e-12)
    assert (weibull_shape(0.05), weibull_shape(20.0)) == (
        pytest.approx(24.95, rel=1e-2),
        pytest.approx(0.2, rel=0.1),
    )


@pytest.mark.parametrize(("process", "cv"), PROCESSES)
def test_the_first_gaps_are_the_same_for_any_number_of_them(process, cv):
    assert (gaps(process, cv, 50) == gaps(process, cv)[:50]).all()
