"""What the page is told of what was simulated."""

import numpy as np
import pytest
from analysis.synthetic import dataset

from kvsweep.analysis.cliff import find_cliff
from kvsweep.explorer.answers import cliff_answer


def pair(first, second):
    """Return 8 seeds of curves that pass 0.2 around two places."""
    blocks = np.arange(1000, 2001, 100)
    apart = np.linspace(-1.0, 1.0, 8)[:, None]
    feet = [place + 200 + width * apart for place, width in (first, second)]
    values = [np.clip((foot - blocks) / 1000.0, 0.0, None).T for foot in feet]
    return dataset(values, policies=["A", "B"], blocks=blocks, seeds=np.arange(8))


NEAR, FAR = (1500, 50), (1960, 200)
"""Cliffs well inside the range, and so near to its end that it may lie outside."""


@pytest.mark.parametrize("places", [(NEAR, FAR), (FAR, NEAR)])
def test_an_end_of_the_ratio_that_lies_outside_leaves_the_other(places):
    cliff = find_cliff(pair(*places), threshold=0.2)
    told = cliff_answer(cliff, [None, None])["ratio"]
    low, high = cliff.ratios[0].interval.low, cliff.ratios[0].interval.high
    assert told["has_interval"]
    assert told["value"] == pytest.approx(1 / cliff.ratios[0].of_mean_curves)
    if places[0] is NEAR:  # A / B is open below, B / A above
        assert np.isneginf(low)
        assert (told["low"], told["high"]) == (pytest.approx(1 / high), None)
    else:
        assert np.isposinf(high)
        assert (told["low"], told["high"]) == (None, pytest.approx(1 / low))


def test_one_seed_has_no_interval_of_the_ratio():
    told = cliff_answer(find_cliff(pair(NEAR, NEAR).isel(seed=[0]), threshold=0.2), [None, None])
    ratio = told["ratio"]
    assert (ratio["low"], ratio["high"], ratio["has_interval"]) == (None, None, False)
