"""Which batches are laid out and drawn, and in which order they are timed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsweep.errors import InputError
from kvsweep.gpu.batches import Batch, Ranges, plan

RANGES = Ranges(512, 32, 2048, 16384)


@given(
    tokens=st.integers(64, 16384),
    seqs=st.integers(2, 1024),
    longest=st.integers(128, 131072),
    room=st.floats(1, 100),
    rungs=st.integers(3, 6),
    seed=st.integers(0, 5),
)
def test_every_batch_is_one_that_a_server_with_these_settings_can_have(
    tokens, seqs, longest, room, rungs, seed
):
    ranges = Ranges(tokens, seqs, longest, int(longest * room))
    found = plan(ranges, trials=2, rungs=rungs, seed=seed)
    for batch in found.batches:
        assert 0 < batch.prefill + batch.decode <= tokens
        assert batch.decode <= seqs
        assert batch.prefill + batch.prefill_context <= longest
        assert batch.decode_context + 1 <= longest
        assert batch.held <= ranges.pool_tokens
    assert len(set(found.batches)) == len(found.batches)
    assert len(found.held_out) >= 5


def test_the_ends_of_the_ranges_are_fitted_to():
    fitted = plan(RANGES, trials=1, rungs=6, seed=0).fitted
    assert max(batch.prefill for batch in fitted) == 512
    assert max(batch.decode for batch in fitted) == 32
    assert max(batch.prefill + batch.prefill_context for batch in fitted) == 2048
    assert max(batch.held for batch in fitted) > 0.99 * 16384
    assert any(batch.prefill and batch.decode for batch in fitted)


def test_sums_are_those_of_the_kernel():
    # Chunk of 3 after 10 tokens: contexts 10, 11, 12. Requests of 7 tokens each.
    assert Batch(3, 10, 2, 7).sums == (1.0, 3, 2, 14, 33.0)
    assert Batch(3, 10, 2, 7).held == 13 + 2 * 8
    assert (Batch(3, 10, 2, 7).sampled, Batch(0, 0, 2, 7).sampled) == (3, 2)


def test_order_has_each_timing_once_and_repetitions_one_after_the_other():
    found = plan(RANGES, trials=3, rungs=4, seed=0)
    order = list(found.order(2))
    assert set(Counter(order).values()) == {1}
    trials = [trial for _, _, trial in order]
    assert trials == sorted(trials)
    assert len(order) == 3 * 2 * len(found.batches)
    first, second = ([cell[:2] for cell in order if cell[2] == trial] for trial in (0, 1))
    assert first != second != sorted(second)
    assert order == list(plan(RANGES, trials=3, rungs=4, seed=0).order(2))


@pytest.mark.parametrize(
    ("change", "option"),
    [
        ({"max_num_batched_tokens": 8}, "--max-num-batched-tokens: 8; allowed: 64 to"),
        ({"max_num_seqs": 1}, "--max-num-seqs: 1; allowed: 2 to"),
        ({"max_model_len": 100}, "--max-model-len: 100; allowed: 128 to"),
        ({"pool_tokens": 1000}, "--pool-tokens: 1,000; allowed: 2,048 to"),
    ],
)
def test_ranges_in_which_nothing_can_be_told_apart_are_refused(change, option):
    with pytest.raises(InputError, match=option):
        plan(Ranges(**(vars(RANGES) | change)), trials=1, rungs=4, seed=0)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 5), st.integers(0, 50))
def test_what_is_inside_a_window_is_that_of_the_kernel(prefill, context, decode, before):
    batch = Batch(prefill, context, decode, before)
    found = sum(min(place, 11) for place in range(context, context + prefill))
    assert batch.inside(12) == (decode * min(before, 11), found)


@pytest.mark.parametrize("seqs", [256, 1024])
def test_more_requests_than_a_cache_has_tokens_are_in_no_batch(seqs):
    found = plan(Ranges(512, seqs, 128, 200), trials=1, rungs=6, seed=0).batches
    decoding = [batch for batch in found if batch.decode]
    assert decoding
    assert all(batch.decode_context > 0 for batch in decoding)
    assert all(batch.decode_context == 0 for batch in found if not batch.decode)
