"""How many drafts are accepted: drawn beforehand, paired over acceptance and drafts, or given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsweep.config import Workload
from kvsweep.config.speculative import Speculative
from kvsweep.errors import InputError
from kvsweep.workload.acceptance import uniforms, with_acceptance
from kvsweep.workload.generate import generate
from kvsweep.workload.native import read_native, to_trace_dict
from kvsweep.workload.taking import joined, take

LIST = generate(Workload(requests=40, rate=10.0), 3)


def drafts(tokens, acceptance=None):
    return Speculative(tokens=tokens, method="eagle", acceptance=acceptance)


def counts(tokens, acceptance, seed=0, requests=LIST):
    return with_acceptance(requests, drafts(tokens, acceptance), seed).accepted.counts


shares = st.lists(st.floats(0, 1), min_size=1, max_size=5).map(
    lambda values: sorted(values, reverse=True)
)


@given(tokens=st.integers(1, 5), few=shares, more=shares, seed=st.integers(0, 2**40))
def test_who_accepts_more_accepts_no_fewer_anywhere(tokens, few, more, seed):
    most = [max(a, b) for a, b in zip(few + [0] * 5, more + [0] * 5, strict=False)][:5]
    low, high = counts(tokens, few, seed), counts(tokens, most, seed)
    assert (low <= high).all()
    # With fewer drafts the same verifications accept what there is of them.
    assert (counts(1, few, seed) == np.minimum(low, 1)).all()


def test_shares_are_met_by_position():
    by_position = [0.8, 0.5, 0.1]
    found = counts(3, by_position)
    assert found.size == LIST.output_tokens.sum() > 9000
    for position, share in enumerate(by_position):
        assert (found > position).mean() == pytest.approx(share, abs=0.02)
    assert (counts(2, 0.5) == 2).mean() == pytest.approx(0.25, abs=0.02)
    assert not counts(3, 0.0).any()
    assert (counts(3, 1.0) == 3).all()


def test_draws_depend_on_seed_request_and_verification_only():
    long = uniforms(np.zeros(1000, np.int64), np.arange(1000), 5, 1)
    assert np.array_equal(uniforms(np.zeros(10, np.int64), np.arange(10), 5, 1), long[:10])
    others = (
        uniforms(np.ones(1000, np.int64), np.arange(1000), 5, 1),
        uniforms(np.zeros(1000, np.int64), np.arange(1, 1001), 6, 1),
        uniforms(np.zeros(1000, np.int64), np.arange(1000), 5, 2),
    )
    for other in others:
        assert not np.isin(other, long).any()
        assert abs(np.corrcoef(long, other)[0, 1]) < 0.1
    assert long.min() >= 0
    assert long.max() < 1


def test_a_list_without_drafts_stays_as_it_is():
    assert with_acceptance(LIST, None, 0) is LIST
    assert with_acceptance(LIST, drafts(0, 0.5), 0) is LIST


def test_either_the_requests_or_the_settings_say_what_is_accepted():
    own = with_acceptance(LIST, drafts(3, 0.5), 0)
    assert with_acceptance(own, drafts(2), 1) is own
    with pytest.raises(InputError, match="has no effect: requests of the file have their own"):
        with_acceptance(own, drafts(2, 0.5), 1, where="the file")
    with pytest.raises(InputError, match="missing; the requests of the file have no 'accepted'"):
        with_acceptance(LIST, drafts(2), 1, where="the file")


ROWS = [{"prompt": [[i, 5]], "output": [10 + i, 4]} for i in range(3)]


def trace_of(*accepted):
    rows = [
        {"id": i, "arrival_us": i, **row} | ({} if counts is None else {"accepted": counts})
        for i, (row, counts) in enumerate(zip(ROWS, accepted, strict=True))
    ]
    return {"format": "kvsweep-trace/1", "requests": rows}


def test_a_trace_keeps_what_its_requests_accept():
    found = read_native(trace_of([2, 0], None, [1]), "t.json")
    assert found.accepted.offsets.tolist() == [0, 2, 2, 3]
    assert found.accepted.counts.tolist() == [2, 0, 1]
    rows = to_trace_dict(found, {})["requests"]
    assert [row["accepted"] for row in rows] == [[2, 0], [], [1]]
    assert read_native(trace_of(None, None, None), "t.json").accepted is None


def test_parts_and_copies_of_a_list_keep_it():
    found = read_native(trace_of([2, 0], [3], [1, 1]), "t.json")
    assert found.first(2).accepted.counts.tolist() == [2, 0, 3]
    part = take(found, np.array([0, 2]))
    assert part.accepted.offsets.tolist() == [0, 2, 4]
    assert part.accepted.counts.tolist() == [2, 0, 1, 1]
    twice = joined([found, part], new_content=True)
    assert twice.accepted.counts.tolist() == [2, 0, 3, 1, 1, 2, 0, 1, 1]
    assert twice.accepted.offsets.tolist() == [0, 2, 3, 5, 7, 9]


@pytest.mark.parametrize(
    ("accepted", "message"),
    [
        (3, r"requests\[1\]\.accepted: expected a list"),
        ([0, -1], r"requests\[1\]\.accepted\[1\]: expected an integer from 0 to 64, got -1"),
        ([True], r"requests\[1\]\.accepted\[0\]: expected an integer from 0 to 64, got true"),
        ([1.0], r"requests\[1\]\.accepted\[0\]: expected an integer from 0 to 64, got 1.0"),
    ],
)
def test_what_is_no_count_is_refused_by_its_place(accepted, message):
    with pytest.raises(InputError, match=message):
        read_native(trace_of([0], accepted, [0]), "t.json")
