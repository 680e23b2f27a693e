"""Priority inversions against their definition, request by request."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvsweep.simulate import inversions
from kvsweep.simulate.inversions import find_inversions

NEVER = 2**62


@st.composite
def waits(draw, cells=3, requests=7):
    """Cells of requests at two instances: entry, first admission, end of waiting (huge: never)."""

    def one():
        entry = draw(st.integers(-1, 5))
        admitted = draw(st.integers(entry, 8)) if entry >= 0 and draw(st.booleans()) else -1
        gave_up = draw(st.sampled_from([NEVER, 3, 7]))
        left = admitted if admitted >= 0 else gave_up
        return draw(st.integers(-1, 2)), draw(st.integers(0, 1)), entry, admitted, left

    rows = [[one() for _ in range(requests)] for _ in range(cells)]
    return np.moveaxis(np.array(rows, np.int64), -1, 0)


def naive(level, instance, queued, scheduled, left):
    """Look at every pair."""
    requests = range(len(level))
    return [
        scheduled[j] >= 0
        and any(
            instance[i] == instance[j]
            and level[i] < level[j]
            and 0 <= queued[i] <= scheduled[j] < left[i]
            for i in requests
        )
        for j in requests
    ]


@given(waits())
def test_inversions_equal_the_definition(columns):
    found = find_inversions(*columns)
    want = [naive(*cell) for cell in np.moveaxis(columns, 1, 0)]
    assert found.tolist() == want


@given(waits(cells=5, requests=3))
def test_cells_are_looked_at_in_blocks(columns):
    whole = find_inversions(*columns)
    inversions._BLOCK, before = 6, inversions._BLOCK
    try:
        assert find_inversions(*columns).tolist() == whole.tolist()
    finally:
        inversions._BLOCK = before
