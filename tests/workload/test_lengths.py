"""Lengths against the closed forms of their distributions."""

import math

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy import stats

from kvsweep.config.lengths import Lengths
from kvsweep.errors import InputError
from kvsweep.limits import MAX_TOKENS
from kvsweep.workload.lengths import draw_lengths
from kvsweep.workload.streams import Streams

N = 20_000
KINDS = [
    {"dist": "gaussian", "mean": 512, "std": 50, "min": 256, "max": 768},
    {"dist": "gaussian", "mean": 512, "std": 50},
    {"dist": "exponential", "mean": 300},
    {"dist": "exponential", "mean": 300, "min": 10, "max": 500},
    {"dist": "constant", "value": 7},
    {"dist": "uniform", "min": 800, "max": 1200},
    {"dist": "uniform", "min": 7, "max": 7},
    {
        "dist": "pareto-lognormal",
        "alpha": 2.5,
        "xm": 900,
        "mu": 5,
        "sigma": 0.5,
        "mix_weight": 0.2,
    },
    {"dist": "empirical", "values": [5, 700, 90], "weights": [1, 0, 3]},
    {"dist": "empirical", "values": [5, 700, 90]},
]


def draw(n=N, seed=0, **table):
    lengths = TypeAdapter(Lengths).validate_python(table | _tuples(table))
    return draw_lengths(lengths, n, Streams(0, [seed], 0, 0), "workload.prompt")[0]


def _tuples(table):
    return {key: tuple(value) for key, value in table.items() if isinstance(value, list)}


def cdf(table):
    """The distribution before rounding, as its textbook has it."""
    match table["dist"]:
        case "gaussian":
            return stats.norm(table["mean"], table["std"]).cdf
        case "exponential":
            return stats.expon(scale=table["mean"]).cdf
        case "pareto-lognormal":
            tail = stats.pareto(table["alpha"], scale=table["xm"]).cdf
            body = stats.lognorm(table["sigma"], scale=math.exp(table["mu"])).cdf
            weight = table["mix_weight"]
            return lambda x: weight * tail(x) + (1 - weight) * body(x)


@pytest.mark.parametrize("table", [k for k in KINDS if cdf(k)])
def test_shares_of_lengths_are_those_of_the_distribution(table):
    tokens = draw(**table)
    low, high = table.get("min", 1), table.get("max", math.inf)
    for x in np.quantile(tokens, [0.05, 0.25, 0.5, 0.75, 0.95]):
        if low <= x < high:
            # A length of x tokens or less is a draw of less than x + 1/2, whatever the limits are.
            assert np.mean(tokens <= x) == pytest.approx(cdf(table)(x + 0.5), abs=4 / N**0.5 / 2)
    assert tokens.min() >= low
    assert tokens.max() <= high


def test_limits_collect_what_lies_beyond_them():
    tokens = draw(dist="exponential", mean=300, min=10, max=500)
    assert np.mean(tokens == 500) == pytest.approx(math.exp(-499.5 / 300), abs=0.01)
    assert np.mean(tokens == 10) == pytest.approx(1 - math.exp(-10.5 / 300), abs=0.01)


def test_means_and_spreads():
    gaussian = draw(dist="gaussian", mean=512, std=50)
    assert gaussian.mean() == pytest.approx(512, abs=4 * 50 / N**0.5)
    assert gaussian.std() == pytest.approx(50, rel=4 / (2 * N) ** 0.5)
    exponential = draw(dist="exponential", mean=300)
    assert exponential.mean() == pytest.approx(300, abs=4 * 300 / N**0.5)
    assert (draw(dist="constant", value=7) == 7).all()


def test_uniform_lengths_have_both_ends_and_all_between_alike():
    tokens = draw(dist="uniform", min=3, max=7)
    values, counts = np.unique(tokens, return_counts=True)
    assert values.tolist() == [3, 4, 5, 6, 7]
    assert counts / N == pytest.approx([0.2] * 5, abs=4 * (0.2 * 0.8 / N) ** 0.5)
    assert (draw(dist="uniform", min=5, max=5) == 5).all()
    assert (draw(dist="uniform", min=1, max=MAX_TOKENS) <= MAX_TOKENS).all()


def test_wider_uniform_limits_stretch_the_same_draws():
    narrow, wide = draw(dist="uniform", min=1, max=10), draw(dist="uniform", min=1, max=1000)
    assert ((wide - 1) // 100 == narrow - 1).all()


def test_empirical_values_come_in_proportion_to_their_weights():
    tokens = draw(dist="empirical", values=[5, 700, 90], weights=[1, 0, 3])
    assert set(tokens) == {5, 90}
    assert np.mean(tokens == 90) == pytest.approx(0.75, abs=4 * (3 / 16 / N) ** 0.5)
    tokens = draw(dist="empirical", values=[5, 700, 90])
    for value in (5, 700, 90):
        assert np.mean(tokens == value) == pytest.approx(1 / 3, abs=4 * (2 / 9 / N) ** 0.5)


@pytest.mark.parametrize("table", KINDS)
def test_lengths_are_whole_positive_and_the_same_for_any_number_of_them(table):
    tokens = draw(**table)
    assert tokens.dtype == np.int64
    assert tokens.min() >= 1
    assert (draw(n=100, **table) == tokens[:100]).all()


def test_tiny_means_give_at_least_one_token():
    assert (draw(dist="exponential", mean=0.01) == 1).all()
    assert (draw(dist="gaussian", mean=0, std=0) == 1).all()


def test_an_absurd_tail_is_refused_and_a_limit_cures_it():
    tail = {
        "dist": "pareto-lognormal",
        "alpha": 0.01,
        "xm": 5,
        "mu": 1,
        "sigma": 1,
        "mix_weight": 1,
    }
    with pytest.raises(InputError, match=r"^workload\.prompt: drew .* tokens, .*: give a max$"):
        draw(**tail)
    assert draw(**tail, max=MAX_TOKENS).max() == MAX_TOKENS
