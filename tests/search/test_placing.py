"""Where a search looks next."""

import numpy as np

from kvsweep.search.placing import around, lacking
from kvsweep.search.samples import Samples, t_of
from kvsweep.search.space import Space

T = t_of(16, 0.95)


def samples(curve, **few):
    """Return 16 seeds of each value of `curve`, and 3 of those in `few`, alike but for noise."""
    found = Samples(Space(100.0, 5000.0, integer=True))
    noise = np.random.default_rng(0).normal(0.0, 0.1, 16)
    for value, excess in curve.items():
        found.add(float(value), (excess + noise)[None])
    for value, excess in few.items():
        found.add(float(value.removeprefix("at")), (excess + noise[:3])[None])
    return found


def test_a_tooth_further_out_is_looked_at():
    """Blocks in which whole requests just fit make a saw of a curve; its first tooth counts."""
    saw = samples({486: -1.0, 431: -1.0, 404: -0.5, 403: 0.5, 402: 1.0}, at458=1.0)
    assert lacking(saw, saw.read(16, T), 16, 0) == 458.0
    saw.add(458.0, np.full((1, 13), 1.0))
    assert saw.space.at(saw.read(16, T).crossing) > 458.0


def test_an_interval_that_leaves_the_points_draws_one_further_out():
    flat = samples({2000: -0.01, 1990: 0.01})
    value = lacking(flat, flat.read(16, T), 16, 0)
    assert 2000.0 < value <= 5000.0


def test_a_known_value_on_the_way_out_is_preferred():
    flat = samples({2000: -0.01, 1990: 0.01}, at2004=-2.0)
    assert lacking(flat, flat.read(16, T), 16, 0) == 2004.0


def test_between_neighbours_nothing_lacks():
    steep = samples({2001: -5.0, 2000: 5.0})
    assert lacking(steep, steep.read(16, T), 16, 0) is None


def test_long_straight_lines_are_cut():
    coarse = samples({3000: -5.0, 1000: 5.0})
    assert 1000.0 < lacking(coarse, coarse.read(16, T), 16, 0) < 3000.0


def test_values_for_more_seeds_hold_the_interval():
    found = samples({2010: -0.5, 1990: 0.5})
    reading = found.read(16, T)
    low, high = around(found, reading, 1.0)
    assert low > found.space.at(reading.low) > found.space.at(reading.high) > high
    nearer = around(found, reading, 0.5)
    assert low > nearer[0] > found.space.at(reading.crossing) > nearer[1] > high
