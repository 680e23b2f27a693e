"""Hits of every capacity at once equal those of the kernel, capacity by capacity."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workload.lists import request_lists

from kvsweep.config import Scenario
from kvsweep.errors import InputError
from kvsweep.simulate.logged import run_single
from kvsweep.traces.hits import find_hits
from kvsweep.workload.columns import RequestColumns

APART_US = 10**9


def alone(requests):
    """Return the requests so far apart that each is finished before the next one arrives."""
    none = np.full(len(requests), -1)
    return replace(
        requests,
        arrival_us=APART_US * np.arange(len(requests)),
        after=none,
        think_us=0 * none,
        patience_us=none,
    )


def found_by_kernel(requests, block_size, blocks, **engine):
    scenario = Scenario.model_validate(
        {
            "engine": {"max_num_batched_tokens": 2048} | engine,
            "cache": {"block_size": block_size, "gpu_blocks": blocks},
            "latency": {"beta": [10, 1, 1]},
        }
    )
    single = run_single(scenario, requests)
    assert single.status.label == "ok"
    (tally,) = single.outputs.tallies
    assert tally["preemptions"] == 0
    assert (single.outputs.completed == len(requests)).all()
    return int(tally["hit_tokens"])


def capacities(hits):
    return range(hits.smallest, hits.largest + 3)


def lists(rows, outputs_apart=True):
    """Return requests, given as (segments with tokens, output tokens)."""
    columns = RequestColumns()
    for i, (entries, output) in enumerate(rows):
        segments, tokens = zip(*entries, strict=True)
        columns.add(i, list(segments), list(tokens), (1000 + i if outputs_apart else 1000, output))
    return alone(columns.build())


@pytest.mark.long
@settings(max_examples=25)
@given(request_lists(largest=20), st.sampled_from((1, 4, 8)))
def test_any_list_has_the_hits_of_the_kernel_in_a_cache_of_any_size(requests, block_size):
    requests = alone(requests)
    hits = find_hits(requests, block_size)
    for blocks in capacities(hits):
        assert hits.lru(blocks) == found_by_kernel(requests, block_size, blocks), blocks
    assert hits.lru(hits.largest) == hits.ceiling


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 40), st.integers(1, 20)),
        min_size=2,
        max_size=40,
    )
)
def test_the_curve_alone_is_exact_where_no_content_is_made_twice(rows):
    # A document, a part of another, and words of one's own, never whole blocks of prompt alone.
    made = [
        (
            [
                (a, 33),
                *([(10 + b, 24)] if b else []),
                (100 + i, own - (33 + 24 * (b > 0) + own) % 8 + 9),
            ],
            out,
        )
        for i, (a, b, own, out) in enumerate(rows)
    ]
    requests = lists(made)
    hits = find_hits(requests, 8)
    assert hits.remade == 0
    assert hits.exact_below is None
    for blocks in capacities(hits):
        found = found_by_kernel(requests, 8, blocks)
        assert hits.curve[min(blocks, len(hits.curve) - 1)] * 8 == found, blocks
        assert hits._list.in_pool(blocks) * 8 == found
    assert found == hits.ceiling


def test_prompts_of_whole_blocks_leave_their_last_block_twice():
    # The last token is computed again, and its block with it, beside the one that is there.
    requests = lists([([(1, 32)], 1), *[([(0, 32)], 1)] * 3, ([(1, 32)], 1)])
    hits = find_hits(requests, 8)
    assert (hits.smallest, hits.remade, hits.exact_below) == (4, 3, 4)
    found = [found_by_kernel(requests, 8, blocks) for blocks in capacities(hits)]
    assert [hits.lru(blocks) for blocks in capacities(hits)] == found
    # Were it there once, 7 blocks would do for all hits; it takes 9.
    assert hits.curve[7] * 8 == 3 * 24 == hits.ceiling
    assert [hits.lru(blocks) for blocks in (7, 8, 9)] == [2 * 24 + 8, 2 * 24 + 16, 3 * 24]


def test_a_partial_block_takes_the_place_of_a_cached_one():
    # 3 blocks and 2 tokens: while it runs a request holds 4 blocks.
    requests = lists([([(0, 24)], 3), ([(1, 24)], 3), ([(0, 24)], 3)])
    hits = find_hits(requests, 8)
    assert hits.smallest == 4
    assert [hits.lru(blocks) for blocks in range(4, 9)] == [0, 8, 16, 16, 16]
    assert [found_by_kernel(requests, 8, blocks) for blocks in range(4, 9)] == [0, 8, 16, 16, 16]


def test_decoded_blocks_are_found_again_and_the_last_token_is_never_stored():
    rounds = [([(0, 10)], 7), ([(0, 10), (1000, 7), (1, 9)], 2)]
    assert find_hits(lists(rounds), 8).ceiling == 16
    assert find_hits(lists([([(0, 10)], 6), ([(0, 10), (1000, 6), (1, 9)], 2)]), 8).ceiling == 8


def best_of_all(requests, block_size, blocks):
    """Return the most blocks found, whatever is kept: every choice is tried."""
    hits = find_hits(requests, block_size)
    keys = hits._list.keys
    of = [keys.keys[a:b].tolist() for a, b in pairwise(keys.offsets)]
    states = {frozenset(): 0}
    for own, most, need in zip(of, hits._list.most, hits._list.needs, strict=True):
        after = {}
        for state, score in states.items():
            run = 0
            while run < most and own[run] in state:
                run += 1
            others = sorted(state - set(own))
            room = blocks - int(need)
            for choice in product((False, True), repeat=len(others)):
                if sum(choice) <= room:
                    kept = frozenset(k for k, c in zip(others, choice, strict=True) if c)
                    new = kept | frozenset(own)
                    after[new] = max(after.get(new, 0), score + run)
        states = after
    return max(states.values())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.integers(0, 1), st.sampled_from((8, 12, 16))), min_size=1, max_size=2
            ),
            st.integers(1, 9),
        ),
        min_size=2,
        max_size=6,
    ),
    st.integers(0, 4),
)
def test_the_optimum_is_the_best_of_all_choices(rows, more):
    requests = lists(rows)
    hits = find_hits(requests, 8)
    blocks = hits.smallest + more
    assert hits.optimum(blocks) == 8 * best_of_all(requests, 8, blocks)


@pytest.mark.long
@given(request_lists(largest=20), st.sampled_from((1, 4, 8)))
def test_the_optimum_is_at_least_lru_and_rises_to_the_ceiling(requests, block_size):
    requests = alone(requests)
    hits = find_hits(requests, block_size)
    best = [hits.optimum(blocks) for blocks in capacities(hits)]
    assert all(a <= b for a, b in pairwise(best))
    assert all(b >= hits.lru(c) for b, c in zip(best, capacities(hits), strict=True))
    assert best[-1] == hits.ceiling


def test_less_than_the_largest_request_is_refused():
    hits = find_hits(lists([([(0, 80)], 3)]), 8)
    with pytest.raises(InputError, match="the largest request takes 11 blocks of 8 tokens"):
        hits.lru(10)
    with pytest.raises(InputError, match="with fewer it is not served"):
        hits.optimum(10)


def test_points_reach_from_the_smallest_to_the_largest():
    hits = find_hits(lists([([(k % 7, 83)], 3) for k in range(40)]), 8)
    points = hits.points(5)
    assert points[0] == hits.smallest
    assert points[-1] == hits.largest
    assert points == sorted(set(points))
    assert len(hits.points(10_000)) == hits.largest - hits.smallest + 1


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 1.0])
def test_a_share_of_the_ceiling_is_found_by_the_blocks_that_are_told(share):
    """Where content is made again, 18 blocks were told to find all, and found eight ninths."""
    rows = [([(k * k % 5, 40)], 9) for k in range(12)]
    hits = find_hits(lists(rows), 8)
    told = hits.blocks_for(share)
    assert hits.lru(told) >= (share - 1e-3) * hits.ceiling
    assert told == hits.smallest or hits.lru(told - 1) < share * hits.ceiling
