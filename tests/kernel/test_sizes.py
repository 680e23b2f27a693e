"""Blocks that tokens fill are counted as by a division, for every block size and length."""

from dataclasses import replace

import batches
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvsweep._jit import kernel
from kvsweep.errors import InputError
from kvsweep.kernel.blocks.sizes import blocks_for, full_blocks, tokens_beyond
from kvsweep.limits import MAX_REQUEST_TOKENS
from kvsweep.records import LANE
from kvsweep.simulate.lane_records import block_inverse
from kvsweep.simulate.list_records import prepare
from kvsweep.workload.blocks import resolve_blocks
from kvsweep.workload.generate import generate

LARGEST = 2**24


@kernel
def _count(lanes, tokens, found):
    for place in range(tokens.size):
        found[place, 0] = full_blocks(lanes[0], tokens[place])
        found[place, 1] = blocks_for(lanes[0], tokens[place])
        found[place, 2] = tokens_beyond(lanes[0], tokens[place])


def around(size, multiples):
    """Return lengths at and beside multiples of a block size."""
    edges = np.array([size * m + d for m in multiples for d in (-1, 0, 1)])
    return np.unique(np.clip(edges, 0, MAX_REQUEST_TOKENS))


@given(st.integers(1, LARGEST), st.lists(st.integers(0, MAX_REQUEST_TOKENS), max_size=20))
@example(LARGEST, [0, MAX_REQUEST_TOKENS])
@example(LARGEST - 1, [0, MAX_REQUEST_TOKENS])
@example(1, [MAX_REQUEST_TOKENS])
def test_blocks_are_those_of_a_division(size, multiples):
    lane = np.zeros(1, LANE)
    lane["block_size"] = size
    lane["inverse"], lane["inverse_shift"] = block_inverse(size)
    tokens = around(size, [0, 1, 2, MAX_REQUEST_TOKENS // size, *(m // size for m in multiples)])
    found = np.empty((len(tokens), 3), np.int64)
    _count(lane, tokens, found)
    expected = [(n // size, -(-n // size), n % size) for n in tokens.tolist()]
    assert found.tolist() == [list(row) for row in expected]


@pytest.mark.parametrize("size", range(1, 300))
def test_small_block_sizes_at_every_edge(size):
    multiplier, shift = block_inverse(size)
    tokens = around(size, range(0, MAX_REQUEST_TOKENS // size, MAX_REQUEST_TOKENS // size // 999))
    assert ((tokens * multiplier) >> shift == tokens // size).all()
    assert (MAX_REQUEST_TOKENS + LARGEST) * multiplier < 2**63


def test_a_request_longer_than_can_be_counted_is_an_error():
    requests = generate(batches.scenario().workload, seed=0)
    resolved = resolve_blocks(requests, 16)
    tokens = requests.prompt_tokens.copy()
    tokens[1] = MAX_REQUEST_TOKENS
    with pytest.raises(InputError, match="request 1 of the list has"):
        prepare(replace(requests, prompt_tokens=tokens), resolved)
