"""Quantiles of inter-token latencies are those of the multiset, whatever its times and weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsweep._jit import kernel
from kvsweep.kernel.tally import add_gap, fold_itl
from kvsweep.kernel.time.step_time import token_time
from kvsweep.records import QUANTILES
from kvsweep.simulate.workspace import EMPTY, allocate_outputs, allocate_workspace

LONGEST = 2**39 - 1
ROOM = 64


@kernel
def _fold(inp, ws, out, times, weights):
    tally = out.tallies[0]
    for entry in range(times.size):
        add_gap(ws, tally, times[entry], weights[entry])
    fold_itl(
        inp.lanes[0], ws, tally, token_time, QUANTILES[0], QUANTILES[1], QUANTILES[2], QUANTILES[3]
    )


def entries(longest):
    """Draw latencies up to a size, in us, each with the number of tokens that had it."""
    return st.lists(
        st.tuples(st.integers(1, longest), st.integers(1, 9)), min_size=1, max_size=ROOM
    )


@given(st.sampled_from([9, 255, 256, 2**17, LONGEST]).flatmap(entries))
def test_quantiles_are_numpys(pairs):
    times, weights = np.array(pairs, np.int64).T.copy()
    outputs = allocate_outputs(EMPTY)
    _fold(EMPTY, allocate_workspace(EMPTY, ROOM), outputs, times, weights)
    tally = outputs.tallies[0]
    found = [tally[f"itl_q{number}"] for number in range(len(QUANTILES))]
    expected = np.quantile(np.repeat(times, weights), QUANTILES)
    assert found == pytest.approx(expected, rel=1e-12)
    assert tally["itl_sum"] == (times * weights).sum()
    assert tally["itl_count"] == weights.sum()
