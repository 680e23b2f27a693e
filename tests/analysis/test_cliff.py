"""Cliffs with known answers: crossings, ranges, missing cells, seeds, ratios."""

import json

import numpy as np
import pytest
import xarray as xr

from analysis.synthetic import H8_BLOCKS, dataset, h8, status
from kvsweep.analysis.cliff import find_cliff
from kvsweep.analysis.crossing import Outcome
from kvsweep.errors import InputError
from kvsweep.report.cliff import cliff_text

BLOCKS = [1000, 1500, 2000, 3000]


def only(ds, **kwargs):
    """Return the one group of a dataset without group axes."""
    (group,) = find_cliff(ds, **kwargs).groups
    return group


def test_a_linear_crossing_is_exact():
    group = only(dataset([0.9, 0.3, 0.1, 0.0], blocks=BLOCKS))
    assert group.mean_curve.value == pytest.approx(2500.0)
    assert group.mean_curve.outcome is Outcome.CROSSES


def test_a_value_at_the_threshold_is_still_within():
    group = only(dataset([0.9, 0.25, 0.05, 0.0], blocks=BLOCKS))
    assert group.mean_curve.value == pytest.approx(2000.0)


def test_the_first_pair_from_the_generous_end_counts():
    group = only(dataset([0.9, 0.0, 0.2, 0.0], blocks=BLOCKS))
    assert group.mean_curve.value == pytest.approx(2750.0)


def test_the_order_of_the_axis_does_not_matter():
    ds = dataset([0.9, 0.3, 0.1, 0.0], blocks=BLOCKS)
    shuffled = ds.isel(gpu_blocks=[2, 0, 3, 1])
    assert only(shuffled).mean_curve == only(ds).mean_curve


def test_a_load_axis_is_scanned_from_its_low_end():
    ds = dataset([0.0, 0.1, 0.0, 0.3], blocks=[1, 2, 3, 4]).rename(gpu_blocks="rate")
    cliff = find_cliff(ds, along="rate")
    assert cliff.generous == "low"
    assert cliff.groups[0].mean_curve.value == pytest.approx(1.5)


def test_a_curve_of_two_points_does_not_turn_the_scan_round():
    """It may be 1 or -1 of nothing; what goes the other way is said to do so."""
    nothing = float("nan")
    few, many = [nothing, nothing, nothing, 0.1, 0.2], [0.8, 0.6, 0.2, 0.2, 0.1]
    ds = dataset([few, many], policies=["few", "many"], blocks=[60, 100, 150, 300, 600])
    cliff = find_cliff(ds, "preemption_rate", along="gpu_blocks", threshold=0.05)
    assert cliff.generous == "high"
    told = cliff_text(cliff)
    assert (
        "many: preemption_rate is above 0.05 all over 60 to 600 blocks: the cliff lies above"
        in told
    )
    assert "few: gets better from there (Spearman 1.000), unlike the others" in told
    assert "many: gets better" not in told


def test_a_measure_of_which_more_is_better_is_past_below_the_threshold():
    ds = dataset([50.0, 90.0, 110.0, 110.0], blocks=BLOCKS, name="throughput_rps")
    cliff = find_cliff(ds, "throughput_rps", threshold=100.0)
    assert (cliff.past, cliff.generous) == ("below", "high")
    assert cliff.groups[0].mean_curve.value == pytest.approx(1750.0)
    assert cliff.groups[0].isotonic.value == pytest.approx(1750.0)
    assert cliff.groups[0].spearman > 0.9


@pytest.mark.parametrize(
    ("rates", "outcome"),
    [
        ([0.04, 0.03, 0.0, 0.0], Outcome.NEVER),
        ([0.4, 0.3, 0.2, 0.1], Outcome.ALREADY),
        ([0.4, 0.3, np.nan, 0.0], Outcome.MISSING),
        ([np.nan, 0.03, 0.0, 0.0], Outcome.MISSING),
        ([0.4, 0.3, 0.2, np.nan], Outcome.MISSING),
        ([np.nan, np.nan, np.nan, np.nan], Outcome.MISSING),
    ],
)
def test_without_a_crossing_the_reason_is_named(rates, outcome):
    crossing = only(dataset(rates, blocks=BLOCKS)).mean_curve
    assert np.isnan(crossing.value)
    assert crossing.outcome is outcome


def test_a_share_never_passes_per_cents():
    ds = dataset([0.2, 0.9], blocks=[1, 2], name="slo_attainment")
    with pytest.raises(InputError, match="threshold: slo_attainment is a share, from 0"):
        find_cliff(ds, "slo_attainment", threshold=99)
    assert find_cliff(ds, "slo_attainment", threshold=0.99)


def test_a_measure_of_ones_own_may_be_in_per_cents():
    ds = dataset([[95.0, 70.0, 20.0]] * 2, policies=["a", "b"], blocks=[1, 2, 3], name="gpu_share")
    assert find_cliff(ds, "gpu_share", threshold=50).groups[0].mean_curve.value == 2.4


@pytest.mark.parametrize(
    ("rates", "outcome"),
    [
        ([0.0, 0.5, 0.4, 0.3, 0.2, 0.1], Outcome.ALREADY),
        ([0.0, 0.5, 0.4, np.nan, 0.2, 0.1], Outcome.ALREADY),
        ([0.0, 0.5, 0.4, 0.3, 0.2, np.nan], Outcome.MISSING),
        ([np.nan, 0.0, 0.5, 0.4, 0.3, 0.2], Outcome.MISSING),
        ([0.5, 0.0, 0.4, 0.3, 0.2, 0.1], Outcome.CROSSES),
    ],
)
def test_who_begins_past_the_threshold_is_past_it_though_the_tight_end_is_not(rates, outcome):
    """As latencies are where the smallest caches drop most requests."""
    ds = dataset([rates] * 2, policies=["a", "b"], blocks=[1, 2, 3, 4, 5, 6])
    cliff = find_cliff(ds)
    assert cliff.generous == "high"
    assert {group.mean_curve.outcome for group in cliff.groups} == {outcome}
    assert {group.isotonic.outcome for group in cliff.groups} <= {outcome, Outcome.ALREADY}


def test_a_gap_away_from_the_crossing_does_no_harm():
    group = only(dataset([np.nan, 0.3, 0.1, 0.0, np.nan], blocks=[*BLOCKS, 4000]))
    assert group.mean_curve.value == pytest.approx(2500.0)
    assert group.missing_cells == 2


def test_cells_that_are_not_ok_are_left_out_and_counted_by_status():
    ds = dataset([[9.0, 0.3], [0.2, 0.4], [0.0, 0.0]], blocks=[1, 2, 3], seeds=[0, 1])
    ds["status"] = status(ds, livelock={"gpu_blocks": 1, "seed": 0})
    cliff = find_cliff(ds)
    assert cliff.missing == {"livelock": 1}
    assert cliff.groups[0].curve.mean == pytest.approx([0.3, 0.3, 0.0])
    assert cliff.groups[0].missing_cells == 1


def test_a_rate_of_nothing_completed_counts_as_no_value():
    ds = dataset([np.nan, 0.2, 0.0], blocks=[1, 2, 3])
    ds["status"] = status(ds)
    assert find_cliff(ds).missing == {"no value": 1}


# Preemptions over completed requests of the published H-Reasoning runs at 3000, 2000, 1500 blocks,
# seeds 42, 123, 456 (counts recovered from the published rates and completions).
REASONING = [[0, 0, 0], [39 / 358, 52 / 203, 55 / 433], [1, 1, 1]]
THROUGHPUT = [[0, 0, 0], [49 / 437, 40 / 54, 0], [1, 1, 37 / 58]]


def test_the_published_reasoning_cliffs_come_out():
    rates = [REASONING, THROUGHPUT]
    policies = ["reasoning", "throughput-matched"]
    cliff = find_cliff(
        dataset(rates, policies=policies, blocks=[3000, 2000, 1500], seeds=[42, 123, 456])
    )
    reasoning, throughput = (g.per_seed for g in cliff.groups)
    assert np.round(reasoning.values).tolist() == [2541, 2805, 2606]
    assert np.round(throughput.values).tolist() == [2554, 2932, 1961]
    assert [round(reasoning.mean), round(throughput.mean)] == [2651, 2482]
    (ratio,) = cliff.ratios
    assert ratio.mean_of_seeds == pytest.approx(1.09, abs=0.005)
    assert ratio.sd_of_seeds == pytest.approx(0.21, abs=0.005)
    assert (ratio.pairs, ratio.pairs_lost) == (3, 0)


def test_h8_as_published_has_its_cliff_between_2100_and_2200():
    rates = [[119 / 200, 55 / 200, 132 / 200], [35 / 200, 11 / 200, 21 / 200], [0] * 3, [0] * 3]
    group = only(dataset(rates, blocks=[2000, 2100, 2200, 5000], seeds=[42, 123, 456]))
    expected = [2200 - 100 * 0.05 / (n / 200) for n in (35, 11, 21)]
    assert group.per_seed.values == pytest.approx(expected)
    assert group.mean_curve.value == pytest.approx(2200 - 100 * 0.05 / (67 / 600))


def test_seeds_without_a_crossing_are_counted():
    rates = [[0.4, 0.0, 0.4], [0.2, 0.0, 0.1], [0.0, 0.0, 0.1]]
    ds = dataset(rates, blocks=[1, 2, 3], seeds=range(3))
    found = only(ds).per_seed
    assert found.outcomes == {
        Outcome.CROSSES: 1, Outcome.NEVER: 1, Outcome.ALREADY: 1, Outcome.MISSING: 0,
    }  # fmt: skip
    assert found.mean == pytest.approx(2.75)
    assert np.isnan(found.sd)


def test_fewer_than_two_seeds_give_no_interval():
    one = only(dataset([[0.4], [0.0]], blocks=[1, 2], seeds=[0]))
    none = only(dataset([0.4, 0.0], blocks=[1, 2]))
    assert one.interval is None
    assert none.interval is None
    assert one.per_seed.values == pytest.approx([1.875])
    assert none.per_seed is None


def test_the_interval_is_open_where_resamples_do_not_cross():
    rates = [[0.2, 0.2, 0.2, 0.0, 0.0, 0.0], [0.0] * 6]
    group = only(dataset(rates, blocks=[1, 2], seeds=range(6)))
    assert group.interval.low == -np.inf
    assert 1.0 < group.interval.high < 2.0
    assert group.resamples[Outcome.NEVER] > 0
    assert sum(group.resamples.values()) == 2000


def test_equal_policies_have_the_ratio_one_exactly():
    rates = h8(20)["preemption_rate"].values[0]
    ds = dataset([rates, rates], policies=["a", "b"], blocks=H8_BLOCKS, seeds=range(20))
    (ratio,) = find_cliff(ds).ratios
    assert (ratio.of_mean_curves, ratio.mean_of_seeds, ratio.sd_of_seeds) == (1.0, 1.0, 0.0)
    assert (ratio.interval.low, ratio.interval.high) == (1.0, 1.0)


def test_ratios_pair_the_first_axis_with_the_others_held_fixed():
    ds = h8(5)
    with_rate = xr.concat([ds, ds], dim=xr.Variable("rate", [100.0, 200.0]), data_vars="all")
    with_rate = with_rate.transpose("policy", "rate", "gpu_blocks", ...)
    cliff = find_cliff(with_rate)
    assert [g.labels["rate"] for g in cliff.groups] == [100.0, 200.0, 100.0, 200.0]
    assert [r.labels for r in cliff.ratios] == [{"rate": 100.0}, {"rate": 200.0}]
    assert {(r.numerator, r.denominator) for r in cliff.ratios} == {("round-robin", "least-loaded")}


def test_a_ratio_may_lie_beyond_either_end_where_neither_crosses():
    rates = [[0.2, 0.2, 0.2, 0.0, 0.0, 0.0], [0.0] * 6]
    ds = dataset([rates, rates], policies=["a", "b"], blocks=[1, 2], seeds=range(6))
    (ratio,) = find_cliff(ds).ratios
    assert ratio.resamples_lost > 0
    assert (ratio.interval.low, ratio.interval.high) == (-np.inf, np.inf)


@pytest.mark.parametrize(
    ("curve", "monotone"),
    [([6, 5, 4, 3, 1, 2], 1.0), ([6, 5, 4, 2, 1, 3], 0.0)],  # correlations 0.94 and 0.83
)
def test_curves_are_called_monotone_from_a_correlation_of_0_9_on(curve, monotone):
    rates = [[value / 10] for value in curve]
    group = only(dataset(rates, blocks=range(1, 7), seeds=range(1)), threshold=0.25)
    assert group.monotone_seeds == monotone


def test_pairs_without_both_cliffs_are_counted():
    a = [[0.4, 0.4, 0.4], [0.0, 0.0, 0.0]]
    b = [[0.4, 0.0, 0.4], [0.0, 0.0, 0.0]]
    (ratio,) = find_cliff(
        dataset([a, b], policies=["a", "b"], blocks=[1, 2], seeds=range(3))
    ).ratios
    assert (ratio.pairs, ratio.pairs_lost) == (2, 1)
    assert ratio.resamples_lost > 0


def test_the_isotonic_fit_pools_a_bump():
    group = only(dataset([0.5, 0.0, 0.08, 0.0], blocks=[1, 2, 3, 4]))
    assert group.mean_curve.value == pytest.approx(3.375)
    # 0.08 and 0.0 pool to 0.04; then 0.04 -> 0.5 passes 0.05 between 2 and 1.
    assert group.isotonic.value == pytest.approx(2.0 - 0.01 / 0.46)


def test_monotone_seeds_are_a_share():
    rates = [[0.4, 0.1], [0.3, 0.4], [0.2, 0.0], [0.1, 0.4], [0.0, 0.2]]
    group = only(dataset(rates, blocks=range(5), seeds=[0, 1]))
    assert group.monotone_seeds == 0.5
    # Mean curve 0.25, 0.35, 0.1, 0.25, 0.1: ranks 3.5, 5, 1.5, 3.5, 1.5.
    assert group.spearman == pytest.approx(-5.5 / np.sqrt(10 * 9))


def test_quantile_names_are_measures():
    cliff = find_cliff(h8(5), "ttft_p99_ms", threshold=200.0)
    assert cliff.units == "ms"
    assert cliff.groups[0].mean_curve.outcome is Outcome.CROSSES


def test_dimensions_of_the_measure_are_groups_too():
    cliff = find_cliff(h8(5).isel(policy=0), "ttft_ms", threshold=200.0)
    assert [g.labels for g in cliff.groups] == [{"quantile": q} for q in (0.5, 0.9, 0.95, 0.99)]


def test_the_result_is_reproducible_and_plain_json():
    first, second = find_cliff(h8(10)).to_dict(), find_cliff(h8(10)).to_dict()
    assert first == second
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert first["groups"][0]["mean_curve"]["outcome"] == "crosses"


def test_what_lies_outside_is_null_in_json():
    plain = find_cliff(dataset([0.0, 0.0], blocks=[1, 2])).to_dict()
    assert plain["groups"][0]["mean_curve"] == {"value": None, "outcome": "never"}


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"metric": "preemtion_rate"}, "did you mean 'preemption_rate'"),
        ({"metric": "zzz"}, "one of: preemption_rate"),
        ({"metric": "ttft_p98_ms"}, "did you mean 'ttft_p9"),
        ({"metric": "status"}, "holds no numbers"),
        ({"along": "gpu_block"}, "did you mean 'gpu_blocks'"),
        ({"along": "policy"}, "holds names"),
        ({"along": "seed"}, "holds repetitions"),
        ({"along": "quantile"}, "fewer than two values"),
        ({"confidence": 95}, "between 0 and 1"),
        ({"resamples": 0}, "positive count"),
        ({"resamples": 10**15}, "at most 1,000,000, got 1,000,000,000,000,000"),
        ({"threshold": "0.05"}, "expected a number"),
        ({"threshold": None}, "expected a number"),
        ({"threshold": float("nan")}, "not a finite number"),
    ],
)
def test_bad_input_is_one_line(kwargs, words):
    with pytest.raises(InputError, match=words) as error:
        find_cliff(h8(2), **kwargs)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_the_interval_covers_the_true_cliff_as_often_as_it_says():
    """95% intervals over 40 seeds, 300 data sets: between 91% and 98.5% cover."""
    rng = np.random.default_rng(1)
    blocks = np.arange(1000, 2001, 100)
    truth = np.clip((1800 - blocks) / 1000, 0.0, None)
    crossing = only(dataset(truth, blocks=blocks)).mean_curve.value
    covered = 0
    for _ in range(300):
        noisy = truth[:, None] * rng.gamma(2.0, 0.5, (1, 40)) + rng.normal(0, 0.01, (11, 40))
        interval = only(dataset(noisy, blocks=blocks, seeds=range(40)), resamples=500).interval
        covered += interval.low <= crossing <= interval.high
    assert 0.91 * 300 <= covered <= 0.985 * 300


def few_near(seeds):
    """Return 20 seeds, of which `seeds` have values around the cliff at 1,400."""
    blocks = np.arange(1000, 2001, 100)
    shift = np.random.default_rng(0).normal(0.0, 0.1, (20, 1))
    values = np.clip((1600 - blocks) / 1000.0 + shift, 0.0, None)
    values[seeds:, (blocks >= 1200) & (blocks <= 1700)] = np.nan
    return dataset(values.T, blocks=blocks, seeds=np.arange(20))


@pytest.mark.parametrize(("seeds", "known"), [(1, False), (3, False), (6, True), (20, True)])
def test_a_cliff_near_which_few_seeds_have_values_has_no_interval(seeds, known):
    cliff = find_cliff(few_near(seeds), threshold=0.2)
    (group,) = cliff.groups
    assert group.mean_curve.outcome is Outcome.CROSSES
    assert (group.interval is not None) == known
    sentence = cliff_text(cliff).splitlines()[0]
    assert ("(too few of 20 seeds have a value near it: no interval)" in sentence) != known
    if known:
        assert group.interval.high > group.interval.low


def test_one_seed_near_a_cliff_is_too_few_at_any_confidence():
    assert only(few_near(1), threshold=0.2, confidence=0.1).interval is None
    assert only(few_near(2), threshold=0.2, confidence=0.1).interval is not None


def test_a_ratio_has_no_interval_where_a_cliff_has_none():
    pair = xr.concat([few_near(1), few_near(20)], dim="policy").assign_coords(policy=["a", "b"])
    (ratio,) = find_cliff(pair, threshold=0.2).ratios
    assert ratio.interval is None
    assert np.isfinite(ratio.of_mean_curves)


def test_resamples_of_a_ratio_that_are_left_out_are_not_said_to_lie_outside():
    pair = xr.concat([few_near(5), few_near(20)], dim="policy").assign_coords(policy=["a", "b"])
    cliff = find_cliff(pair, threshold=0.2)
    (ratio,) = cliff.ratios
    assert 0 < ratio.resamples_missing == ratio.resamples_lost
    text = cliff_text(cliff)
    told = f"a / b: {ratio.resamples_missing} resamples may have a cliff where cells have no value"
    assert f"{told}: they are left out." in text
    assert "lies outside" not in text


def test_where_no_value_differs_more_of_a_load_is_tighter():
    flat = dataset([0.0, 0.0, 0.0, 0.0], blocks=[1, 2, 3, 4])
    assert find_cliff(flat).generous == "high"
    load = flat.rename(gpu_blocks="rate")
    load.attrs["sweep"] = json.dumps({"grid": {"workload.rate": [1, 2, 3, 4]}})
    cliff = find_cliff(load, along="rate")
    assert cliff.generous == "low"
    assert "a cliff, if any, lies above 4" in cliff_text(cliff)


@pytest.mark.parametrize(
    ("key", "rates", "generous", "cliff"),
    [
        # Most requests are dropped at the tight end: few of them are preempted there.
        ("cache.gpu_blocks", [0.0, 0.1, 0.5, 0.4, 0.3, 0.0], "high", 5 + 0.25 / 0.3),
        ("cluster.prefill.gpu_blocks", [0.0, 0.1, 0.5, 0.4, 0.3, 0.0], "high", 5 + 0.25 / 0.3),
        ("workload.rate", [0.0, 0.3, 0.5, 0.4, 0.1, 0.0], "low", 1 + 0.05 / 0.3),
        # What is clear is read off the data, and what is not known of an axis too.
        ("cache.gpu_blocks", [0.0, 0.1, 0.2, 0.3, 0.4, 0.5], "low", 1.5),
        ("engine.max_num_seqs", [0.0, 0.1, 0.5, 0.4, 0.3, 0.0], "low", 1.5),
    ],
)
def test_a_measure_that_is_good_at_both_ends_does_not_turn_the_scan_round(
    key, rates, generous, cliff
):
    name = key.rpartition(".")[2]
    alone = dataset([rates], policies=["a"], blocks=[1, 2, 3, 4, 5, 6]).rename(gpu_blocks=name)
    alone.attrs["sweep"] = json.dumps({"grid": {key: [1, 2, 3, 4, 5, 6]}})
    found = find_cliff(alone, along=name)
    assert found.generous == generous
    assert found.groups[0].mean_curve.value == pytest.approx(cliff)


@pytest.mark.parametrize("along", ["seed", "elsewhere"])
def test_axes_that_are_offered_are_those_that_can_be_scanned(along):
    with pytest.raises(InputError) as refused:
        find_cliff(h8(2), along=along)
    assert str(refused.value).endswith("; one of: gpu_blocks")


def test_seeds_without_any_value_are_not_counted():
    ds = h8(20)
    few = ds.assign(preemption_rate=ds["preemption_rate"].where(ds["seed"] < 3))
    cliff = find_cliff(few.isel(policy=0))
    (group,), (alone,) = cliff.groups, find_cliff(ds.isel(policy=0, seed=slice(3))).groups
    assert (cliff.seeds, group.seeds) == (20, 3)
    assert group.monotone_seeds == alone.monotone_seeds == 1.0
    assert cliff.seeds_note.startswith("3 seeds: intervals rest on little")
    most = ds.assign(preemption_rate=ds["preemption_rate"].where(ds["seed"] < 15))
    assert "; 15 of 20 seeds)" in cliff_text(find_cliff(most.isel(policy=0)))
    assert find_cliff(ds).groups[0].seeds == 20


@pytest.mark.parametrize("confidence", [0.2, 0.95])
@pytest.mark.parametrize("lacking", [2, 3])
def test_a_cliff_beside_a_point_of_one_seed_has_no_interval(lacking, confidence):
    """On either side of it, and of intervals that so many resamples may lie outside of.

    A seed that has a value elsewhere still counts.
    """
    rng = np.random.default_rng(1)
    rates = np.array([0.6, 0.5, 0.0, 0.0])[:, None] + 0.05 * rng.random((4, 6))
    ds = dataset(rates, blocks=[1, 2, 3, 4], seeds=np.arange(6))
    asked = {"metric": "preemption_rate", "along": "gpu_blocks", "threshold": 0.25}
    asked["confidence"] = confidence
    (whole,) = find_cliff(ds, **asked).groups
    assert 2 < whole.interval.low < whole.interval.high < 3
    few = ds.where((ds["gpu_blocks"] != lacking) | (ds["seed"] < 1))
    (group,) = find_cliff(few, **asked).groups
    assert 2 < group.mean_curve.value < 3
    assert (group.interval, group.seeds) == (None, 6)


def test_points_of_a_design_are_not_compared_with_each_other():
    ds = h8(3)
    points = xr.concat([ds, ds, ds], dim=xr.Variable("sample", [0, 1, 2]), data_vars="all")
    pairs = [(r.numerator, r.denominator, r.labels["sample"]) for r in find_cliff(points).ratios]
    assert pairs == [("round-robin", "least-loaded", sample) for sample in (0, 1, 2)]
    assert find_cliff(points.sel(policy="round-robin")).ratios == ()


def test_a_text_has_some_of_many_ratios():
    rates = h8(2)["preemption_rate"].values[0]
    names = [f"p{i}" for i in range(12)]
    cliff = find_cliff(dataset([rates] * 12, policies=names, blocks=H8_BLOCKS, seeds=range(2)))
    text = cliff_text(cliff)
    assert len(cliff.ratios) == 66
    assert text.count(" / p") == 40
    assert "... and 26 more; --json, or to_dict() in Python, has all" in text


def test_ratios_without_seeds_are_of_none():
    ds = h8(3).mean("seed").drop_vars("status", errors="ignore")
    cliff = find_cliff(ds)
    (ratio,) = cliff.ratios
    assert (ratio.pairs, ratio.pairs_lost) == (0, 0)
    assert ratio.of_mean_curves > 0.0
    assert np.isnan(ratio.mean_of_seeds)
    assert "paired by seed" not in cliff_text(cliff)


def test_a_threshold_that_a_measure_never_has_is_refused():
    """The command refused it; here a cliff at -1 preemptions was told to lie above all."""
    ds = dataset([0.2, 0.9], blocks=[1, 2], name="preemption_rate")
    with pytest.raises(InputError, match="threshold: preemption_rate is never below 0"):
        find_cliff(ds, threshold=-1)
    differences = dataset([-0.4, 0.4], blocks=[1, 2], name="preemption_rate")
    assert find_cliff(differences, threshold=-0.2).groups[0].mean_curve.value == 1.25


def test_a_confidence_too_small_to_be_told_from_none_is_taken():
    """The normal quantile of 1e-20 is 0: it was divided by."""
    (group, *_) = find_cliff(h8(3), confidence=1e-20, resamples=50).groups
    assert group.interval.low == pytest.approx(group.interval.high)
