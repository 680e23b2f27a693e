"""Fronts against brute force, ties, missing cells, closed-form volumes."""

import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from analysis.synthetic import h8
from kvsweep.analysis.hypervolume import dominates, front_share, hypervolume, normalised_hypervolume
from kvsweep.analysis.pareto import pareto_front
from kvsweep.errors import InputError
from kvsweep.report.pareto import pareto_text

points = hnp.arrays(
    float,
    st.tuples(st.integers(1, 6), st.integers(1, 4)),
    elements=st.sampled_from([0.0, 1.0, 2.0, 3.0, np.nan]),
)


def lay_out(latency, throughput, **coords):
    """Two objectives over (policy[, seed])."""
    dims = ["policy", "seed"][: np.ndim(latency)]
    names = [f"p{i}" for i in range(len(latency))]
    return xr.Dataset(
        {
            "latency_ms": (dims, np.asarray(latency, float), {"units": "ms"}),
            "throughput_rps": (dims, np.asarray(throughput, float), {"units": "request/s"}),
        },
        coords={"policy": names},
    ).assign(coords)


GOALS = ["latency_ms:min", "throughput_rps:max"]


def brute_dominates(a, b):
    pairs = list(zip(a, b, strict=True))
    return all(x <= y for x, y in pairs) and any(x < y for x, y in pairs)


@given(points)
def test_dominance_equals_the_definition(values):
    expected = [[brute_dominates(a, b) for b in values] for a in values]
    assert dominates(values).tolist() == expected


@given(points)
def test_the_share_of_one_repetition_is_membership(values):
    expected = [
        np.nan if np.isnan(b).any() else not any(brute_dominates(a, b) for a in values)
        for b in values
    ]
    np.testing.assert_array_equal(front_share(values[:, None, :]), expected)


@given(
    hnp.arrays(
        np.int64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.integers(0, 5)
    )
)
def test_hypervolume_equals_counting_unit_cells(values):
    reference = np.full(values.shape[1], 4)
    cells = np.indices([4] * values.shape[1]).reshape(values.shape[1], -1).T
    covered = (values[:, None, :] <= cells[None]).all(axis=-1).any(axis=0).sum()
    assert hypervolume(values.astype(float), reference.astype(float)) == covered


def test_hypervolume_of_two_and_three_objectives_by_hand():
    flat = np.array([[1.0, 3.0], [2.0, 1.0]])
    assert hypervolume(flat, np.array([4.0, 4.0])) == 3.0 * 1.0 + 2.0 * 2.0
    solid = np.array([[1.0, 1.0, 2.0], [2.0, 2.0, 0.0]])
    assert hypervolume(solid, np.array([3.0, 3.0, 3.0])) == 4.0 + 3.0 - 1.0


def test_one_member_best_at_everything_dominates_the_whole_box():
    share, reference = normalised_hypervolume(np.array([[1.0, 5.0], [2.0, 7.0]]))
    assert share == pytest.approx(1.0)
    assert reference == pytest.approx([2.1, 7.2])


def test_hypervolume_is_not_given_where_it_cannot_be():
    assert normalised_hypervolume(np.zeros((2, 5)))[0] is None
    assert normalised_hypervolume(np.full((2, 2), np.nan))[0] is None


def test_the_front_follows_the_goals():
    ds = lay_out([10.0, 20.0, 30.0, 30.0], [1.0, 2.0, 2.0, 0.5])
    (group,) = pareto_front(ds, GOALS).groups
    assert [m.on_front for m in group.members] == [True, True, False, False]
    assert [m.dominated_by for m in group.members] == [(), (), ("p1",), ("p0", "p1", "p2")]
    assert group.reference == pytest.approx((32.0, 0.35))


def test_exact_ties_are_both_on_the_front_and_named():
    rng = np.random.default_rng(4)
    latency, throughput = rng.normal(50, 9, 30), rng.normal(5, 1, 30)
    worse = latency + rng.uniform(1, 2, 30)
    ds = lay_out([latency, worse, latency], [throughput, throughput, throughput])
    (group,) = pareto_front(ds, GOALS).groups
    first, second, third = group.members
    assert (first.tied_with, second.tied_with, third.tied_with) == (("p2",), (), ("p0",))
    assert [m.share_of_resamples for m in group.members] == [1.0, 0.0, 1.0]
    assert [m.share_of_seeds for m in group.members] == [1.0, 0.0, 1.0]


def test_shares_tell_a_clear_front_from_a_coin_toss():
    rng = np.random.default_rng(6)
    latency = rng.normal(50, 5, (2, 40))
    ds = lay_out(latency, np.ones((2, 40)))
    (group,) = pareto_front(ds, GOALS).groups
    a, b = group.members
    assert a.share_of_seeds + b.share_of_seeds == 1.0
    assert 0.2 < a.share_of_seeds < 0.8
    assert a.share_of_resamples + b.share_of_resamples == pytest.approx(1.0)
    for member, own in zip((a, b), latency, strict=True):
        assert member.intervals[0].low < own.mean() < member.intervals[0].high


def test_a_member_without_values_is_off_the_front_and_counted():
    ds = lay_out([[10.0, 10.0], [1.0, 1.0]], [[1.0, 1.0], [9.0, 9.0]])
    ds["status"] = (("policy", "seed"), [["ok", "ok"], ["livelock", "livelock"]])
    front = pareto_front(ds, GOALS)
    (group,) = front.groups
    assert [m.on_front for m in group.members] == [True, False]
    assert [m.missing for m in group.members] == [0, 2]
    assert front.missing == {"livelock": 2}
    json.dumps(front.to_dict(), allow_nan=False)


def test_a_front_is_of_the_seeds_that_all_members_have():
    """The first is better where both have values, and slow where the other has none."""
    ds = lay_out([[10.0, 1.0, 1.0], [np.nan, 2.0, 2.0], [np.nan] * 3], np.ones((3, 3)))
    front = pareto_front(ds, GOALS)
    (group,) = front.groups
    assert (group.seeds, group.paired) == (2, True)
    assert [m.values[0] for m in group.members[:2]] == [1.0, 2.0]
    assert [m.on_front for m in group.members] == [True, False, False]
    assert [m.missing for m in group.members] == [0, 1, 3]
    assert [m.share_of_seeds for m in group.members] == [1.0, 0.0, None]
    assert [m.share_of_resamples for m in group.members] == [1.0, 0.0, None]
    assert "of 3 seeds, 2 count, in which all have values." in pareto_text(front)


def test_a_front_of_members_without_common_seeds_is_not_paired_and_says_so():
    lacks = np.nan
    ds = lay_out([[1.0, 3.0, lacks, lacks], [lacks, 1.0, 2.0, 2.0]], np.ones((2, 4)))
    front = pareto_front(ds, GOALS)
    (group,) = front.groups
    assert (group.seeds, group.paired) == (1, False)
    assert [m.values[0] for m in group.members] == [2.0, pytest.approx(5 / 3)]
    assert [m.share_of_seeds for m in group.members] == [0.5, 1.0]
    assert "of 4 seeds, fewer than two have values of all" in pareto_text(front)


def test_a_front_of_whole_members_says_nothing_of_its_seeds():
    ds = lay_out([[1.0, 2.0], [3.0, 3.0]], np.ones((2, 2)))
    front = pareto_front(ds, GOALS)
    assert (front.groups[0].seeds, front.groups[0].paired) == (2, True)
    assert "count" not in pareto_text(front)
    alone = pareto_front(ds.isel(seed=0), GOALS).groups[0]
    assert (alone.seeds, alone.paired) == (1, True)
    none = pareto_front(ds * np.nan, GOALS).groups[0]
    assert (none.seeds, none.paired, none.hypervolume) == (0, False, None)


def test_without_seeds_there_are_no_shares_or_intervals():
    (group,) = pareto_front(lay_out([1.0, 2.0], [1.0, 2.0]), GOALS).groups
    for member in group.members:
        assert (member.share_of_seeds, member.share_of_resamples) == (None, None)
        assert member.intervals == (None, None)


def test_the_other_axes_are_groups():
    front = pareto_front(h8(4))
    assert len(front.groups) == h8(4).sizes["gpu_blocks"]
    assert front.groups[0].labels == {"gpu_blocks": 1000}
    assert [o.metric for o in front.objectives] == ["ttft_p99_ms", "throughput_rps"]


@pytest.mark.parametrize(
    ("objectives", "over", "words"),
    [
        (["latency_ms"], "policy", "not of the form"),
        (["latency_ms:down"], "policy", "not of the form"),
        (["latncy_ms:min"], "policy", "did you mean 'latency_ms'"),
        (["latency_ms:min", "latency_ms:max"], "policy", "once"),
        ([], "policy", "at least one"),
        (GOALS, "polcy", "did you mean 'policy'"),
        (["flat:min"], "policy", "does not vary"),
    ],
)
def test_bad_input_is_one_line(objectives, over, words):
    ds = lay_out([1.0, 2.0], [1.0, 2.0]).assign(flat=xr.DataArray(1.0))
    with pytest.raises(InputError, match=words) as error:
        pareto_front(ds, objectives, over)
    assert "\n" not in str(error.value)


def test_means_that_only_roundings_tell_apart_are_equal():
    """Of the same preemption rates in another order one mean is smaller by the last bit."""
    rates = [[0.005, 0.065, 0.05, 0.065, 0.025], [0.025, 0.065, 0.05, 0.065, 0.005]]
    for first, second in (rates, rates[::-1]):
        ds = lay_out([first, second, first], [[1.0] * 5, [2.0] * 5, [2.0] * 5])
        (group,) = pareto_front(ds, GOALS).groups
        assert [m.on_front for m in group.members] == [False, True, True]
        assert [m.tied_with for m in group.members] == [(), ("p2",), ("p1",)]


def test_a_member_with_values_of_one_seed_has_no_shares():
    """One seed is nothing to resample: 100 % of seeds and of resamples were told of it."""
    lacks = np.nan
    ds = lay_out([[lacks] * 3, [lacks, 5.0, lacks], [1.0, lacks, 2.0]], np.ones((3, 3)))
    none, one, two = pareto_front(ds, GOALS).groups[0].members
    for member in (none, one):
        assert (member.share_of_seeds, member.share_of_resamples) == (None, None)
    assert two.share_of_seeds == 1.0
    assert two.share_of_resamples > 0.9
    assert (none.on_front, one.on_front, two.on_front) == (False, False, True)
