"""Block keys against a naive comparison of tokens."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvsweep.config import Workload
from kvsweep.workload.blocks import find_extents, resolve_blocks, whole_requests
from kvsweep.workload.generate import generate
from kvsweep.workload.traces import load_trace


def requests_of(rows):
    """Make requests of (prompt entries, output entry)."""
    entries = [
        {"id": i, "arrival_us": i, "prompt": prompt, "output": output}
        for i, (prompt, output) in enumerate(rows)
    ]
    return load_trace({"format": "kvsweep-trace/1", "requests": entries}).requests


def naive(rows, block_size, ahead=0):
    """Return per request the token prefixes that the keys of its full stored blocks stand for."""
    prefixes = []
    for prompt, output in rows:
        tokens = [(s, k) for s, n in [*prompt, output] for k in range(n)]
        ends = range(block_size, len(tokens), block_size)
        prefixes.append([tuple(tokens[: end + ahead]) for end in ends])
    return prefixes


def check(rows, block_size, ahead=0):
    resolved = resolve_blocks(requests_of(rows), block_size, ahead)
    prefixes = naive(rows, block_size, ahead)
    numbers = {}
    keys = [[numbers.setdefault(p, len(numbers)) for p in own] for own in prefixes]
    assert np.diff(resolved.offsets).tolist() == [len(own) for own in keys]
    assert resolved.keys.tolist() == [key for own in keys for key in own]
    assert resolved.n_keys == len(numbers)
    for i, own in enumerate(prefixes):
        others = {p for j, theirs in enumerate(prefixes) if j != i for p in theirs}
        reusable = sum(p in others for p in own)
        prompt_tokens = sum(n for _, n in rows[i][0])
        with_output = [p for p in own if len(p) > prompt_tokens]
        assert resolved.reusable[i] == reusable
        assert all(p in others for p in own[:reusable])
        assert resolved.shared[i] == any(p in others for p in with_output)
    check_extents(resolved.offsets, keys)


def check_extents(offsets, keys):
    """Extents are as long as can be if neighbouring blocks are of the same requests."""
    owners = {key: {i for i, own in enumerate(keys) if key in own} for own in keys for key in own}
    flat = np.array([key for own in keys for key in own], np.int32)
    found = find_extents(offsets[:-1], offsets[1:], flat)
    extents = {}
    for i, own in enumerate(keys):
        part = slice(*found.offsets[i : i + 2])
        numbers, first, end = (a[part].tolist() for a in (found.numbers, found.first, found.end))
        assert first == [0, *end[:-1]][: len(first)]
        assert [len(own)] == (end or [0])[-1:]
        assert all(a < b for a, b in zip(first, end, strict=True))
        for number, a, b in zip(numbers, first, end, strict=True):
            assert extents.setdefault(number, own[a:b]) == own[a:b]
            assert all(owners[key] == owners[own[a]] for key in own[a:b])
            assert own[a:b] == list(range(own[a], own[a] + b - a))  # as CPU tiers rely on
            assert b == len(own) or owners[own[b]] != owners[own[a]]
    assert sorted(extents) == list(range(found.count))
    shared = [number for number, own in extents.items() if len(owners[own[0]]) > 1]
    assert sorted(shared) == list(range(found.shared))


ENTRY = st.tuples(st.integers(0, 3), st.integers(1, 9)).map(list)
ROW = st.tuples(st.lists(ENTRY, min_size=1, max_size=4), ENTRY)


@given(
    rows=st.lists(ROW, min_size=1, max_size=8),
    block_size=st.integers(1, 5),
    ahead=st.integers(0, 1),
)
@example(rows=[([[0, 8]], [1, 1]), ([[0, 4], [0, 4]], [1, 5])], block_size=4, ahead=0)
@example(
    rows=[([[0, 4], [1, 3]], [2, 9]), ([[0, 4], [1, 3], [2, 9], [3, 1]], [1, 1])],
    block_size=2,
    ahead=0,
)
@example(rows=[([[0, 1]], [1, 1])] * 2, block_size=4, ahead=0)
@example(rows=[([[0, 4]], [1, 2]), ([[0, 4]], [2, 2])], block_size=4, ahead=1)
def test_keys_are_equal_exactly_where_prefixes_are(rows, block_size, ahead):
    """With EAGLE's tokens ahead, the same block before different tokens has different keys."""
    check(rows, block_size, ahead)


def test_private_keys_of_a_request_are_consecutive():
    rows = [([[0, 20], [own, 20]], [9 + i, 20]) for i, own in enumerate((1, 2, 1, 3))]
    resolved = resolve_blocks(requests_of(rows), 4)
    for r in range(len(rows)):
        low, high = resolved.offsets[r : r + 2]
        private = resolved.keys[low + resolved.reusable[r] : high]
        assert (np.diff(private) == 1).all()
        assert len(private) > 0


def test_a_conversation_shares_its_history_with_its_next_round():
    first = ([[0, 10]], [1, 7])
    second = ([[0, 10], [1, 7], [2, 5]], [3, 4])
    resolved = resolve_blocks(requests_of([first, second]), 4)
    # The first round stores 16 tokens: 10 of its prompt and 6 of its output.
    assert resolved.reusable.tolist() == [4, 4]
    assert resolved.shared.tolist() == [True, False]


@pytest.mark.parametrize("block_size", [1, 16, 1000])
def test_generated_requests_share_nothing(block_size):
    requests = generate(Workload(), 1)
    resolved = resolve_blocks(requests, block_size)
    stored = requests.prompt_tokens + requests.output_tokens - 1
    assert np.array_equal(np.diff(resolved.offsets), stored // block_size)
    assert np.array_equal(resolved.keys, np.arange(resolved.offsets[-1]))
    assert not resolved.reusable.any()
    assert not resolved.shared.any()
    assert (resolved.keys.dtype, resolved.reusable.dtype) == (np.int32, np.int32)


def test_requests_that_share_nothing_have_their_blocks_as_one_extent_and_some_none():
    """Chains of requests without a block are empty, the first one's too."""
    extents = whole_requests(np.array([0, 0, 1, 1, 3]))
    assert extents.offsets.tolist() == [0, 0, 1, 1, 2]
    assert extents.numbers.tolist() == [0, 1]
    assert (extents.first.tolist(), extents.end.tolist()) == ([0, 0], [1, 2])
    assert (extents.count, extents.shared) == (2, 0)
