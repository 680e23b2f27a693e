"""The axis of a search: steps, middles, and which side is the generous one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsweep.search.space import Space

BLOCKS = Space(1000, 5000, integer=True)
RATES = Space(0.5, 800.0, integer=False, generous_high=False)

spaces = st.one_of(
    st.tuples(st.integers(1, 1000), st.integers(1, 10**6)).map(
        lambda p: Space(float(p[0]), float(p[0] + p[1]), integer=True)
    ),
    st.tuples(st.floats(0.01, 10.0), st.floats(1.5, 1e4)).map(
        lambda p: Space(p[0], p[0] * p[1], integer=False, generous_high=False)
    ),
)


@given(spaces)
def test_a_ladder_leads_from_the_generous_end_to_the_tight_one(space):
    ladder = space.ladder()
    assert (ladder[0], ladder[-1]) == space.ends
    depths = [space.depth(value) for value in ladder]
    assert depths == sorted(set(depths))


@given(spaces)
def test_halving_ends_at_neighbours(space):
    good, bad = space.ends
    for _ in range(60):
        middle = space.between(good, bad)
        if middle is None:
            break
        assert min(good, bad) < middle < max(good, bad)
        bad = middle
    assert abs(good - bad) <= 1.001 * max(space.step(good), space.step(bad))


@given(spaces, st.floats(0.0, 1.0))
def test_outward_is_never_tighter(space, share):
    value = space.low + share * (space.high - space.low)
    assert space.depth(space.outward(value)) <= space.depth(value) + 1e-9 * space.high
    assert space.low <= space.nearest(value) <= space.high


def test_the_generous_side_of_blocks_is_up_and_of_a_rate_down():
    assert BLOCKS.outward(2059.2) == 2060.0
    assert BLOCKS.next_inward(2060.0) == 2059.0
    assert RATES.outward(12.38) == 12.3
    assert RATES.next_inward(12.3) == 12.4
    assert RATES.next_outward(12.3, by=1.0) == 11.3


def test_values_that_are_no_whole_numbers_have_three_digits():
    assert RATES.nearest(123.456) == 123.0
    assert RATES.nearest(1.23456) == 1.23
    assert RATES.between(1.23, 1.24) is None


def test_wide_ranges_are_halved_by_ratio():
    assert BLOCKS.between(1000, 5000) == 3000.0
    assert Space(1, 10_000, integer=True).between(1, 10_000) == 100.0


@pytest.mark.parametrize("value", [1000.0, 5000.0])
def test_nothing_lies_beyond_the_ends(value):
    assert BLOCKS.nearest(value - 10_000) == 1000.0
    assert BLOCKS.nearest(value + 10_000) == 5000.0
