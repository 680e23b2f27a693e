"""Effects against the definition written out in loops, closed cases, verdicts, missing cells."""

import json
import math
from itertools import combinations, product

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import ttest_1samp

from analysis.synthetic import dataset, h8
from kvsweep.analysis.contrasts import DIFFERENCE, RATIO, estimates
from kvsweep.analysis.effect_records import Verdict
from kvsweep.analysis.effects import factorial_effects, joint_effects
from kvsweep.analysis.questions import effects_of
from kvsweep.errors import InputError
from kvsweep.report.effects import effects_text

AXES = {
    "scheduler": ["fcfs", "priority"],
    "routing": ["round-robin", "least-loaded"],
    "gpu_blocks": [2600, 2000, 1600],
}


def lay_out(values, axes=AXES, **variables):
    """A sweep of `axes`, with seeds if `values` has one more dimension."""
    values = np.asarray(values, float)
    dims = [*axes, "seed"][: values.ndim]
    units = {"units": "ms", "long_name": "mean time to first token"}
    return xr.Dataset({"ttft_mean_ms": (dims, values, units), **variables}, coords=axes)


def square(base, a, b, both, spread=0.0):
    """Two factors of two levels; `spread` sets the seeds apart."""
    seeds = spread * np.array([-1.0, 0.0, 1.0])
    cells = np.array([[base, b], [a, both]], float)[..., None] * np.exp(seeds)
    return lay_out(cells, {"a": [0, 1], "b": [0, 1]})


def naive(values, chosen, levels):
    """The contrast of one seed by its definition: signs over all subsets, mean over the rest."""
    others = [a for a in range(values.ndim) if a not in chosen]
    found = []
    for rest in product(*(range(values.shape[a]) for a in others)):
        total = 0.0
        for moved in product((False, True), repeat=len(chosen)):
            cell = [0] * values.ndim
            for axis, place in zip(others, rest, strict=True):
                cell[axis] = place
            for axis, level, yes in zip(chosen, levels, moved, strict=True):
                cell[axis] = level if yes else 0
            total += (-1) ** (len(chosen) - sum(moved)) * values[tuple(cell)]
        found.append(total)
    return np.mean(found)


@given(
    hnp.arrays(
        float,
        st.tuples(*[st.integers(2, 3)] * 3, st.integers(1, 4)),
        elements=st.integers(1, 50).map(float) | st.just(np.nan),
    )
)
def test_effects_equal_the_definition(values):
    for order in (1, 2, 3):
        for chosen in combinations(range(3), order):
            levels = list(product(*(range(1, values.shape[a]) for a in chosen)))
            for scale, cells in ((DIFFERENCE, values), (RATIO, np.log(values))):
                found = estimates(values, chosen, 0.95, scale)
                assert len(found) == len(levels)
                for estimate, combination in zip(found, levels, strict=True):
                    seeds = [naive(cells[..., s], chosen, combination)
                             for s in range(values.shape[-1])]  # fmt: skip
                    kept = [seed for seed in seeds if not math.isnan(seed)]
                    assert (estimate.seeds, estimate.dropped) == (
                        len(kept), len(seeds) - len(kept),
                    )  # fmt: skip
                    want = np.mean(kept) if kept else math.nan
                    want = math.exp(want) if scale is RATIO else want
                    assert estimate.effect == pytest.approx(want, abs=1e-9, nan_ok=True)
                    assert (estimate.interval is None) == (len(kept) < 2)


def test_the_interval_is_that_of_paired_differences():
    rng = np.random.default_rng(2)
    values = rng.gamma(3.0, size=(2, 2, 30))
    found = factorial_effects(lay_out(values, {"a": [0, 1], "b": [0, 1]}), "ttft_mean_ms")
    main, _, both = found.groups[0].effects
    for effect, contrast in (
        (main, (values[1] - values[0]).mean(axis=0)),
        (both, values[1, 1] - values[1, 0] - values[0, 1] + values[0, 0]),
    ):
        reference = ttest_1samp(contrast, 0.0).confidence_interval(0.95)
        interval = effect.difference.interval
        assert (interval.low, interval.high) == pytest.approx(tuple(reference))


@pytest.mark.parametrize(
    ("cells", "difference", "ratio"),
    [
        ((100, 90, 80, 70), Verdict.NOT_SHOWN, Verdict.SUPER_MULTIPLICATIVE),
        ((100, 90, 80, 72), Verdict.SUB_ADDITIVE, Verdict.NOT_SHOWN),
        ((100, 90, 80, 40), Verdict.SUPER_ADDITIVE, Verdict.SUPER_MULTIPLICATIVE),
        ((100, 90, 80, 80), Verdict.SUB_ADDITIVE, Verdict.SUB_MULTIPLICATIVE),
        ((100, 90, 80, 120), Verdict.REVERSED, Verdict.REVERSED),
        ((100, 100, 100, 120), Verdict.SUPER_ADDITIVE, Verdict.SUPER_MULTIPLICATIVE),
        ((100, 120, 80, 40), Verdict.SUPER_ADDITIVE, Verdict.SUPER_MULTIPLICATIVE),
        ((100, 120, 80, 100), Verdict.NOT_SHOWN, Verdict.SUB_MULTIPLICATIVE),
    ],
)
def test_verdicts_on_two_changes(cells, difference, ratio):
    base, a, b, both = cells
    found = factorial_effects(square(base, a, b, both, spread=0.01), "ttft_mean_ms")
    effect = found.groups[0].effects[-1]
    assert (effect.difference.verdict, effect.ratio.verdict) == (difference, ratio)
    assert effect.difference.effect == pytest.approx(both - a - b + base, abs=0.05)
    assert effect.difference.joint == pytest.approx(both - base, abs=0.05)
    assert effect.ratio.effect == pytest.approx(both * base / (a * b))
    assert effect.ratio.joint == pytest.approx(both / base)


def test_a_joint_effect_of_unsure_sign_follows_the_parts():
    noise = np.array([-8.0, 1.0, 7.5])
    cells = np.array([[[100.0] * 3, [120.0] * 3], [[120.0] * 3, 100.5 + noise]])
    found = factorial_effects(lay_out(cells, {"a": [0, 1], "b": [0, 1]}), "ttft_mean_ms")
    assert found.groups[0].effects[-1].difference.verdict is Verdict.SUB_ADDITIVE


def test_single_changes_raise_or_lower():
    found = factorial_effects(square(100, 90, 120, 108, spread=0.1), "ttft_mean_ms", order=1)
    a, b = found.groups[0].effects
    assert (a.difference.verdict, b.difference.verdict) == (Verdict.LOWERS, Verdict.RAISES)
    assert (a.ratio.effect, b.ratio.effect) == (pytest.approx(0.9), pytest.approx(1.2))
    assert a.difference.joint == a.difference.effect


def test_every_level_has_its_effect_against_the_first():
    found = factorial_effects(lay_out(np.arange(36.0).reshape(2, 2, 3, 3)), "ttft_mean_ms")
    named = [[(c.factor, c.level) for c in e.changes] for e in found.groups[0].effects]
    blocks = [("gpu_blocks", 2000), ("gpu_blocks", 1600)]
    scheduler, routing = ("scheduler", "priority"), ("routing", "least-loaded")
    assert named[:4] == [[scheduler], [routing], [blocks[0]], [blocks[1]]]
    assert named[4:7] == [[scheduler, routing], [scheduler, blocks[0]], [scheduler, blocks[1]]]
    assert len(named) == 9
    assert {c.reference for e in found.groups[0].effects for c in e.changes} == {
        "fcfs", "round-robin", 2600,
    }  # fmt: skip
    # Additive by construction: rows of the array are evenly spaced.
    assert all(e.difference.verdict is Verdict.NOT_SHOWN for e in found.groups[0].effects[4:])


def test_chosen_factors_leave_the_others_to_be_averaged_over():
    values = np.random.default_rng(0).gamma(3.0, size=(2, 2, 3, 5))
    found = factorial_effects(lay_out(values), "ttft_mean_ms", ["routing"])
    (effect,) = found.groups[0].effects
    assert (found.factors, found.averaged) == (("routing",), ("scheduler", "gpu_blocks"))
    assert effect.difference.effect == pytest.approx((values[:, 1] - values[:, 0]).mean())


def test_an_axis_of_one_level_is_no_factor():
    ds = lay_out(np.ones((1, 2, 3)), AXES | {"scheduler": ["fcfs"]})
    found = factorial_effects(ds, "ttft_mean_ms")
    assert (found.factors, found.skipped) == (("routing", "gpu_blocks"), ("scheduler",))
    assert (found.seeds, found.averaged) == (None, ())
    assert found.groups[0].effects[0].difference.interval is None
    assert found.groups[0].effects[0].difference.verdict is None


def test_seeds_without_all_cells_of_an_effect_are_dropped_and_counted():
    values = np.random.default_rng(0).gamma(3.0, size=(2, 2, 3, 6))
    ds = lay_out(values)
    status = np.full(values.shape, "ok", object)
    status[1, 1, 0, 0] = status[0, 0, 1, 2] = "livelock"
    ds["status"] = (ds["ttft_mean_ms"].dims, status)
    found = factorial_effects(ds, "ttft_mean_ms")
    assert found.missing == {"livelock": 2}
    dropped = [e.difference.dropped for e in found.groups[0].effects]
    # Without both: only what does not involve 2000 blocks misses one seed.
    assert dropped == [2, 2, 2, 1, 2, 2, 1, 2, 1]
    effect = found.groups[0].effects[3]
    kept = values[..., 1:]
    assert effect.difference.seeds == 5
    assert effect.difference.effect == pytest.approx((kept[:, :, 2] - kept[:, :, 0]).mean())


def test_ratios_need_positive_values():
    ds = lay_out([[0.0, 1.0, 2.0], [3.0, 2.0, 8.0]], {"a": [0, 1]})
    (effect,) = factorial_effects(ds, "ttft_mean_ms").groups[0].effects
    assert (effect.difference.seeds, effect.ratio.seeds, effect.ratio.dropped) == (3, 2, 1)
    assert effect.ratio.effect == pytest.approx(math.sqrt(2.0 * 4.0))


def test_parts_of_a_cell_are_groups():
    found = factorial_effects(h8(5).isel(gpu_blocks=[0, 9]), "ttft_ms")
    assert [g.labels for g in found.groups] == [{"quantile": q} for q in (0.5, 0.9, 0.95, 0.99)]
    one = factorial_effects(h8(5).isel(gpu_blocks=[0, 9]), "ttft_p90_ms")
    assert one.groups[0].effects == found.groups[1].effects
    assert one.units == "ms"


POLICIES = {"policy": ["other", "base", "a", "both", "b"], "rate": [10.0, 20.0]}


def test_four_levels_of_an_axis_are_a_design():
    values = np.random.default_rng(0).gamma(3.0, size=(5, 2, 7))
    ds = lay_out(values, POLICIES)
    found = joint_effects(ds, "ttft_mean_ms", [["base", "a", "b", "both"]])
    a, b, joint = found.groups[0].effects
    means = values.mean(axis=(1, 2))
    assert (found.factors, found.averaged) == (("policy",), ("rate",))
    assert [(c.level, c.reference) for c in joint.changes] == [("a", "base"), ("b", "base")]
    assert (a.together, b.together, joint.together) == (None, None, "both")
    assert a.difference.effect == pytest.approx(means[2] - means[1])
    assert b.difference.effect == pytest.approx(means[4] - means[1])
    assert joint.difference.joint == pytest.approx(means[3] - means[1])
    assert joint.difference.effect == pytest.approx(means[3] - means[2] - means[4] + means[1])
    logs = np.log(values).mean(axis=(1, 2))
    assert joint.ratio.effect == pytest.approx(np.exp(logs[3] - logs[2] - logs[4] + logs[1]))


def test_a_design_of_numbers_may_be_given_as_text():
    ds = lay_out(np.random.default_rng(0).gamma(3.0, size=(4, 3)), {"gpu_blocks": [1, 2, 3, 4]})
    as_text = joint_effects(ds, "ttft_mean_ms", [["1", "2", "3", "4"]], over="gpu_blocks")
    assert as_text == joint_effects(ds, "ttft_mean_ms", [[1, 2, 3, 4]], over="gpu_blocks")


def test_the_result_is_plain_json():
    plain = factorial_effects(square(0, 90, 80, 70), "ttft_mean_ms").to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    effect = plain["groups"][0]["effects"][2]
    assert effect["ratio"]["effect"] is None
    assert effect["changes"][1] == {"factor": "b", "level": 1, "reference": 0}


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"metric": "ttft_maen_ms"}, "did you mean 'ttft_mean_ms'"),
        ({"factors": ["sheduler"]}, "factors: no axis 'sheduler'; did you mean 'scheduler'"),
        ({"factors": []}, "factors: none is named; effects are differences"),
        ({"factors": ["seed"]}, "no axis 'seed'; one of: scheduler, routing, gpu_blocks"),
        ({"factors": ["routing", "routing"]}, "name each axis once"),
        ({"order": 0}, "order: 0 is not a positive count"),
        ({"confidence": 95}, "between 0 and 1"),
    ],
)
def test_bad_input_is_one_line(kwargs, words):
    with pytest.raises(InputError, match=words) as error:
        factorial_effects(lay_out(np.ones((2, 2, 3, 2))), **{"metric": "ttft_mean_ms"} | kwargs)
    assert "\n" not in str(error.value)


def test_without_any_factor_of_two_levels_there_are_no_effects():
    with pytest.raises(InputError, match="none of scheduler, routing has two levels"):
        factorial_effects(lay_out(np.ones((1, 1)), {"scheduler": ["a"], "routing": ["b"]}),
                          "ttft_mean_ms")  # fmt: skip


@pytest.mark.parametrize(
    ("design", "over", "words"),
    [
        ("base,a,b", "policy", "'base,a,b' does not name four levels BASE,A,B,AB"),
        ("base,a,b,a", "policy", "does not name four levels"),
        ("base,a,b,boht", "policy", "no level 'boht' of policy; did you mean 'both'"),
        ("base,a,b,both", "polcy", "joint: no axis 'polcy'; did you mean 'policy'"),
    ],
)
def test_bad_designs_are_one_line(design, over, words):
    with pytest.raises(InputError, match=words):
        joint_effects(lay_out(np.ones((5, 2, 2)), POLICIES), "ttft_mean_ms",
                      [design.split(",")], over)  # fmt: skip


def test_joint_effects_need_a_design():
    with pytest.raises(InputError, match="joint: no design; name at least one BASE,A,B,AB"):
        joint_effects(h8(2), "preemption_rate", [])


def test_effects_that_levels_without_a_value_leave_none_of_are_refused():
    """One size without a value took all effects away, and tables of dashes told nothing."""
    ds = dataset(
        np.arange(12.0).reshape(2, 3, 2), policies=["a", "b"], blocks=[10, 20, 30], seeds=[0, 1]
    )
    ds["preemption_rate"][:, 0] = np.nan
    told = "no value at gpu_blocks 10, and every effect .*: --at AXIS=VALUE"
    with pytest.raises(InputError, match=told):
        effects_of(ds, "preemption_rate", {})
    assert factorial_effects(ds, "preemption_rate").missing == {"no value": 4}
    assert effects_of(ds.isel(gpu_blocks=[1, 2]), "preemption_rate", {}).groups
    assert effects_of(ds.sel(gpu_blocks=20), "preemption_rate", {}).groups
    ds["preemption_rate"][:] = np.nan
    assert effects_of(ds, "preemption_rate", {}).groups  # nothing has a value: told elsewhere


def test_a_store_of_one_cell_has_no_axis_that_could_have_effects():
    one = lay_out(np.ones((1, 1)), {"scheduler": ["a"], "routing": ["b"]})
    alone = one.isel(scheduler=0, routing=0, drop=True)
    with pytest.raises(InputError, match="factors: there is no axis; effects are differences"):
        factorial_effects(alone, "ttft_mean_ms")


def test_an_axis_of_one_value_is_nothing_that_effects_are_means_over():
    policies = ["base", "a", "b", "ab"]
    values = np.arange(8.0).reshape(4, 1, 2)
    ds = dataset(values, policies=policies, blocks=[1000], seeds=[0, 1])
    joint = joint_effects(ds, "preemption_rate", [policies])
    single = factorial_effects(ds.isel(policy=[0, 1]), "preemption_rate")
    assert (joint.averaged, single.averaged) == ((), ())


def test_what_single_and_apart_mean_is_said():
    """Single changes, which are means, add up to what two do together; those apart need not."""
    values = np.array([[[0.0, 1], [4, 5]], [[2, 3], [16, 17]]])
    found = factorial_effects(lay_out(values, {"x": [1, 2], "y": [3, 4]}), "ttft_mean_ms")
    (group,) = found.groups
    first, second, both = [e.difference for e in group.effects]
    assert first.effect + second.effect == both.joint == 16
    assert both.effect == 16 - 4 - 2
    lines = effects_text(found).splitlines()
    at = lines.index("Single changes: means over all values of the other factors.")
    assert lines[at + 1] == "Changes apart: each alone, from x 1, y 3."
    one = factorial_effects(lay_out(values, {"x": [1, 2], "y": [3, 4]}), "ttft_mean_ms", ["x"])
    assert "Single changes:" not in effects_text(one)


@pytest.mark.parametrize(
    "design", [(10, 20, 30, 40), ("10", "20.0", "3e1", "40"), (10.0, 20, 30, 40)]
)
@pytest.mark.parametrize("kind", [int, float])
def test_levels_of_numbers_may_be_written_in_any_way(design, kind):
    ds = dataset([[1.0], [2.0], [4.0], [8.0]], blocks=np.array([10, 20, 30, 40], kind), seeds=[0])
    found = joint_effects(ds, "preemption_rate", [design], over="gpu_blocks")
    assert [effect.difference.effect for effect in found.groups[0].effects] == [1.0, 3.0, 3.0]
    with pytest.raises(InputError, match="no level 'ten'"):
        joint_effects(ds, "preemption_rate", [("ten", 20, 30, 40)], over="gpu_blocks")


def test_names_that_look_like_numbers_stay_names():
    values = [[[1.0]], [[2.0]], [[4.0]], [[8.0]]]
    ds = dataset(values, policies=["1", "1.0", "01", "2"], blocks=[1], seeds=[0])
    found = joint_effects(ds, "preemption_rate", [("1.0", "1", "01", "2")])
    assert [effect.difference.effect for effect in found.groups[0].effects] == [-1.0, 2.0, 5.0]


def test_designs_along_an_axis_that_was_selected_are_refused_by_its_name():
    """Without any other axis the letters of the one level were told as the levels there are."""
    values = [[[1.0]], [[2.0]], [[4.0]], [[8.0]]]
    ds = dataset(values, policies=["base", "a", "b", "both"], blocks=[1], seeds=[0])
    one = ds.isel(policy=0, gpu_blocks=0)
    with pytest.raises(InputError, match=r"^joint: no axis 'policy'; there is none$"):
        joint_effects(one, "preemption_rate", [("base", "a", "b", "both")])
