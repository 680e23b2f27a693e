"""Differences of two stores against made-up answers."""

import json

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from analysis.synthetic import dataset
from kvsweep.analysis.aligned import aligned, changes_requests
from kvsweep.analysis.compare import compare
from kvsweep.analysis.compare_records import ComparedAxis
from kvsweep.analysis.effect_records import Verdict
from kvsweep.errors import InputError
from kvsweep.report.comparison import compare_text

BLOCKS = [1000, 1500, 2000]
SCENARIO = {"engine": {"max_num_seqs": 256}, "workload": {"rate": 20.0}}


def made(values, *, blocks=BLOCKS, seeds=None, entropy=7, scenario=SCENARIO, **others):
    """A dataset (policy, gpu_blocks, seed) or less, with the sweep that it is of."""
    shape = np.shape(values)
    ds = dataset(values, blocks=blocks, seeds=np.arange(shape[-1]) if seeds is None else seeds,
                 **others)  # fmt: skip
    grid = {"cache.gpu_blocks": list(blocks), "seed": list(range(shape[-1]))}
    if "policies" in others:
        grid["policy"] = others["policies"]
    sweep = {"scenario": scenario, "grid": grid, "policies": {}, "entropy": entropy}
    ds.attrs["sweep"] = json.dumps(sweep)
    return ds


def noise(seeds=12, seed=0):
    return np.random.default_rng(seed).normal(5.0, 2.0, (3, seeds))


def test_a_shift_within_seeds_is_found_however_seeds_differ():
    values = noise()
    extra = np.random.default_rng(9).normal(0.1, 0.01, values.shape)
    found = compare(made(values), made(values + extra), "preemption_rate")
    assert found.paired
    assert found.same_requests
    for row, item in zip(extra, found.differences, strict=True):
        wanted = stats.ttest_1samp(row, 0.0).confidence_interval(0.95)
        assert (item.interval.low, item.interval.high) == pytest.approx(tuple(wanted))
        assert item.difference == pytest.approx(row.mean())
        assert item.verdict is Verdict.RAISES
        assert item.relative == pytest.approx(row.mean() / item.mean_a)
    assert [item.labels for item in found.differences] == [{"gpu_blocks": n} for n in BLOCKS]


def test_axes_have_names_units_and_the_memory_that_is_the_same_in_both():
    cache = {"kv_bytes_per_token": 131_072.0, "block_size": 16}
    a, b = (made(noise(), scenario=SCENARIO | {"cache": cache | {"block_size": size}})
            for size in (16, 32))  # fmt: skip
    axis = compare(a, a, "preemption_rate").axes["gpu_blocks"]
    assert axis == ComparedAxis("KV blocks per instance", "block", 1 / 512)
    assert compare(a, b, "preemption_rate").axes["gpu_blocks"].gib is None


@pytest.mark.parametrize("other", [{"entropy": 8}, {"seeds": np.arange(50, 62)}])
def test_other_random_streams_are_not_paired(other):
    x, y = noise(), noise(seed=1)
    found = compare(made(x), made(y, **other), "preemption_rate")
    assert not found.paired
    for a, b, item in zip(x, y, found.differences, strict=True):
        wanted = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
        assert item.interval.low == pytest.approx(wanted.low, abs=0.02)
        assert item.interval.low <= wanted.low + 1e-12  # whole degrees of freedom: a little wider
        assert item.interval.high >= wanted.high - 1e-12


def test_common_seeds_are_paired_and_others_told():
    values = noise()
    few = made(values[:, 3:8] + 1.0, seeds=[3, 4, 5, 6, 7])
    found = compare(made(values), few, "preemption_rate")
    assert [item.seeds for item in found.differences] == [5, 5, 5]
    assert [item.difference for item in found.differences] == pytest.approx([1.0] * 3)
    assert found.unmatched[0].axis == "seed"
    assert found.unmatched[0].only_a == (0, 1, 2, 8, 9, 10, 11)


def test_a_mean_over_seeds_is_not_taken_for_one_of_them():
    a, b = made(noise()), made(noise() + 1.0)
    mean = a.mean("seed", keep_attrs=True)
    with pytest.raises(InputError, match=r"seed: A has lost its 12 seeds.*\.sel\(seed=0\)"):
        compare(mean, b, "preemption_rate")
    with pytest.raises(InputError, match="seed: B has lost its 12 seeds"):
        compare(a, mean, "preemption_rate")


def test_means_over_seeds_are_compared_with_means_over_seeds():
    a, b = (made(noise() + more).mean("seed", keep_attrs=True) for more in (0.0, 1.0))
    found = compare(a, b, "preemption_rate")
    assert [item.difference for item in found.differences] == pytest.approx([1.0] * 3)
    assert all(item.interval is None for item in found.differences)


@pytest.mark.parametrize("swept", [[0], [3], None])
def test_a_selected_seed_and_the_only_one_of_a_sweep_are_paired_with_the_same(swept):
    a, b = made(noise()), made(noise() + 1.0)
    (seed,) = swept or [0]
    if swept is None:
        one = a.sel(seed=seed)
    else:
        one = made(noise()[:, [seed]], seeds=swept)
        sweep = json.loads(one.attrs["sweep"])
        sweep["grid"]["seed"] = swept
        one = one.isel(seed=0, drop=True).assign_attrs(sweep=json.dumps(sweep))
    found = compare(one, b, "preemption_rate")
    assert found.paired
    assert [item.seeds for item in found.differences] == [1, 1, 1]
    assert [item.difference for item in found.differences] == pytest.approx([1.0] * 3)


def test_values_in_any_order_are_aligned_and_others_left_out():
    values = noise()
    other = made((values + 1.0)[[2, 0]], blocks=[2000, 1000])
    found = compare(made(values), other, "preemption_rate")
    assert [item.labels["gpu_blocks"] for item in found.differences] == [1000, 2000]
    assert [item.difference for item in found.differences] == pytest.approx([1.0, 1.0])
    assert found.unmatched[0].only_a == (1500,)


def test_what_differs_between_the_sweeps_is_named():
    other = {"engine": {"max_num_seqs": 64}, "workload": {"rate": 30.0}}
    found = compare(made(noise()), made(noise(), scenario=other), "preemption_rate")
    assert [(d.key, d.a, d.b) for d in found.differing] == [
        ("engine.max_num_seqs", 256, 64),
        ("workload.rate", 20.0, 30.0),
    ]
    assert found.paired
    assert not found.same_requests
    text = compare_text(found)
    assert "engine.max_num_seqs  256" in text
    assert "the request lists differ" in text


def test_members_of_one_axis_can_be_compared():
    values = np.stack([noise(), noise() + 2.0])
    ds = made(values, policies=["one", "two"])
    found = compare(ds.isel(policy=0), ds.isel(policy=1), "preemption_rate")
    assert [(d.key, d.a, d.b) for d in found.differing] == [("policy", "one", "two")]
    assert [item.difference for item in found.differences] == pytest.approx([2.0] * 3)


def test_requests_are_not_the_same_where_policies_ask_for_others():
    ds = made(np.stack([noise(), noise() + 2.0]), policies=["slow", "fast"])
    policies = {"slow": {"workload.rate": 5.0}, "fast": {"workload.rate": 50.0}}
    told = json.loads(ds.attrs["sweep"]) | {"policies": policies}
    ds = ds.assign_attrs(sweep=json.dumps(told))
    found = compare(ds.isel(policy=0), ds.isel(policy=1), "preemption_rate")
    assert found.paired
    assert not found.same_requests
    assert ("workload.rate", 5.0, 50.0) in [(d.key, d.a, d.b) for d in found.differing]
    assert compare(ds, ds, "preemption_rate").same_requests


def test_requests_are_not_the_same_at_points_of_other_rates():
    ds = made(noise()).rename(gpu_blocks="sample").assign_coords(rate=("sample", [1.0, 2.0, 3.0]))
    told = json.loads(ds.attrs["sweep"])
    told["grid"] = {"sample": [0, 1, 2], "seed": told["grid"]["seed"]}
    told["design"] = {"ranges": {"workload.rate": {"from": 1.0, "to": 3.0}}}
    ds = ds.assign_attrs(sweep=json.dumps(told))
    found = compare(ds.isel(sample=0), ds.isel(sample=2), "preemption_rate")
    assert not found.same_requests
    assert ("workload.rate", 1.0, 3.0) in [(d.key, d.a, d.b) for d in found.differing]


def test_an_axis_that_both_have_is_no_difference_though_one_has_more_of_it():
    values = noise()
    found = compare(made(values), made(values[:1], blocks=[1000]), "preemption_rate")
    assert found.differing == ()
    assert found.unmatched[0].only_a == (1500, 2000)


def test_one_seed_of_each_can_be_chosen():
    ds = made(noise())
    found = compare(ds.sel(seed=0), ds.sel(seed=0), "preemption_rate")
    assert (found.paired, found.differing) == (True, ())
    assert [item.difference for item in found.differences] == [0.0] * 3


def test_cells_without_a_value_are_counted():
    values = noise()
    holes = values.copy()
    holes[0, :11], holes[1, 0] = np.nan, np.nan
    found = compare(made(values), made(holes + 1.0), "preemption_rate")
    assert [(d.seeds, d.dropped) for d in found.differences] == [(1, 11), (11, 1), (12, 0)]
    assert found.differences[0].interval is None
    json.dumps(found.to_dict(), allow_nan=False)
    assert "2 cells lack some seeds" in compare_text(found)


@pytest.mark.parametrize("holes", [slice(0, 1), slice(None)])
def test_cells_without_any_value_do_not_make_seeds_few(holes):
    """As of a policy without service levels; the others have 12 seeds each."""
    values = noise()
    values[holes] = np.nan
    found = compare(made(values), made(values + 1.0), "preemption_rate")
    assert found.differences[0].seeds == 0
    assert found.seeds_note == ""


def test_one_seed_gives_differences_without_intervals():
    found = compare(made(noise(1)), made(noise(1) + 1), "preemption_rate")
    assert {item.verdict for item in found.differences} == {None}
    assert "one seed: no intervals" in found.seeds_note


def refusal(a, b, metric="preemption_rate", **options):
    with pytest.raises(InputError) as error:
        compare(a, b, metric, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_cannot_be_compared_is_refused():
    base = made(noise())
    assert "no value is in both" in refusal(base, made(noise(), blocks=[1, 2, 3]))
    several = made(np.stack([noise(), noise()]), policies=["one", "two"])
    assert "choose one, --at-b policy=VALUE" in refusal(base, several)
    assert "choose one, --at-a policy=VALUE" in refusal(several, base)
    assert "(store B)" in refusal(base, base.rename(preemption_rate="other"))
    assert "did you mean 'preemption_rate'" in refusal(base, base, "preemption_rat")
    in_ms = base.copy()
    in_ms["preemption_rate"] = in_ms["preemption_rate"].assign_attrs(units="ms")
    assert "is in 1 in A and in ms in B" in refusal(base, in_ms)
    assert "confidence" in refusal(base, base, confidence=1.0)


def test_points_of_different_designs_are_not_taken_for_the_same():
    values = noise()
    stores = []
    for seed in (0, 1):
        ds = made(values).rename(gpu_blocks="sample")
        told = json.loads(ds.attrs["sweep"]) | {"design": {"seed": seed}}
        stores.append(ds.assign_attrs(sweep=json.dumps(told)))
    assert "the two designs have other points" in refusal(*stores)
    assert len(compare(stores[0], stores[0], "preemption_rate").differences) == 3


def test_intervals_hold_as_often_as_they_say():
    rng = np.random.default_rng(5)
    held = {True: 0, False: 0}
    for paired in held:
        for _ in range(400):
            x = rng.normal(0, 3, (3, 6))
            y = rng.normal(1, 1, (3, 6)) + (x if paired else 0)
            found = compare(made(x), made(y, entropy=7 if paired else 8), "preemption_rate")
            held[paired] += sum(d.interval.low <= 1 <= d.interval.high for d in found.differences)
    for count in held.values():
        assert 0.93 < count / 1200 < 0.975


def test_a_share_is_told_of_positive_means_alone():
    """Of a negative one what rises by a half would be a share below zero."""
    values = np.array([[-2.0, -1.0, -3.0], [2.0, 1.0, 3.0], [0.0, 0.0, 0.0]])
    found = compare(made(values), made(values + 1.0), "preemption_rate").differences
    assert [item.relative for item in found] == [None, 0.5, None]
    assert {item.verdict for item in found} == {Verdict.RAISES}


def test_what_differs_by_roundings_alone_is_equal():
    first, second = np.full((3, 6), 0.1 + 0.2), np.full((3, 6), 0.3)
    found = compare(made(first), made(second), "preemption_rate").differences
    assert {(item.difference, item.verdict) for item in found} == {(0.0, Verdict.NOT_SHOWN)}


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("workload.rate", True),
        ("policies.fast.workload.rate", True),
        ("policies.fast.cache.gpu_blocks", False),
        ("cache.gpu_blocks", False),
    ],
)
def test_only_keys_of_the_workload_change_what_is_requested(key, changes):
    assert changes_requests(key) is changes


def test_equal_cells_are_told_of_those_without_a_difference():
    """The end of the sentence spoke of the cells that have no interval."""
    values = np.array([[1.0, 2.0], [1.0, np.nan], [1.0, 2.0]])
    changed = values * np.array([[1.0], [1.0], [25.0]])
    text = compare_text(compare(made(values), made(changed), "preemption_rate"))
    told = "1 no interval, 2 no difference shown, 1 of which are equal in every seed"
    assert told in text
    assert "+2,400.0 %" in text


def test_values_that_are_written_alike_are_the_same_value():
    """0.1 + 0.2 is 0.3 but for its last bit: no value was in both stores, 0.3 in A, 0.3 in B."""
    rows = noise()
    a = made(rows, blocks=[0.1, 0.2, 0.3])
    b = made(rows[1:] + 1.0, blocks=[0.2, 0.1 + 0.2])
    found = compare(a, b, "preemption_rate")
    assert [item.difference for item in found.differences] == pytest.approx([1.0, 1.0])
    assert [(u.axis, u.only_a, u.only_b) for u in found.unmatched] == [("gpu_blocks", (0.1,), ())]
    both = made(rows, blocks=[0.1, 0.3, 0.1 + 0.2])  # where a store tells them apart
    found = compare(both, b, "preemption_rate")
    assert [item.mean_a for item in found.differences] == pytest.approx([rows[2].mean()])


def test_a_policy_that_is_no_bundle_is_the_routing_of_its_name():
    """That of the first policy was told of all, so that equal routings seemed to differ."""
    scenario = SCENARIO | {"cluster": {"routing": "round-robin"}}
    two = made(np.stack([noise()] * 2), policies=["round-robin", "least-loaded"], scenario=scenario)
    one = made(noise(), scenario=SCENARIO | {"cluster": {"routing": "least-loaded"}})
    bundle = {"least-loaded": {"cluster.routing": "weighted"}}
    told = json.loads(two.attrs["sweep"]) | {"policies": bundle}
    other = two.assign_attrs(sweep=json.dumps(told))
    chosen = two.sel(policy="least-loaded")
    key, routing = "cluster.routing", "round-robin"
    for a, b, wanted in [
        (one, chosen, []),
        (two.sel(policy="round-robin"), chosen, [(key, routing, "least-loaded")]),
        (one, two.sel(policy="round-robin"), [(key, "least-loaded", routing)]),
        (two, other, [(f"policies.least-loaded.{key}", "least-loaded", "weighted")]),
    ]:
        found = compare(a, b, "preemption_rate").differing
        assert [(d.key, d.a, d.b) for d in found if d.key != "policy"] == wanted


def test_files_that_are_others_by_the_same_name_are_what_differs():
    """A trace that was replaced: "The sweeps have the same settings", of equal request lists."""
    a, b = made(noise()), made(noise() + 1.0)
    a.attrs |= {"traces": json.dumps({"t.jsonl": "11", "same": "0"}), "files": '{"p.toml": "3"}'}
    b.attrs |= {"traces": json.dumps({"t.jsonl": "22", "same": "0"}), "files": '{"q.toml": "4"}'}
    found = compare(a, b, "preemption_rate")
    assert [(d.key, d.a, d.b) for d in found.differing] == [("traces.t.jsonl", "11", "22")]
    assert (found.paired, found.same_requests) == (True, False)
    b.attrs |= {"traces": a.attrs["traces"], "files": '{"p.toml": "4"}'}
    found = compare(a, b, "preemption_rate")
    assert [(d.key, d.a, d.b) for d in found.differing] == [("files.p.toml", "3", "4")]
    assert found.same_requests


@pytest.mark.parametrize(("a", "b", "told"), [
    (12.34567, 12.34568, ("12.34567", "12.34568")),
    ("a" * 50 + "1.csv", "a" * 50 + "2.csv", (f"...{'a' * 32}1.csv", f"...{'a' * 32}2.csv")),
    ("b" * 30 + "1" * 40, "b" * 30 + "2" * 40,
     (f"...{'b' * 17}{'1' * 17}...", f"...{'b' * 17}{'2' * 17}...")),
    ("c" * 50 + ".csv", "c" * 50 + ".csv.gz", (f"...{'c' * 33}.csv", f"...{'c' * 30}.csv.gz")),
    ("e1" + "f" * 60, "e2" + "f" * 60, ("e1" + "f" * 35 + "...", "e2" + "f" * 35 + "...")),
])  # fmt: skip
def test_values_that_differ_are_told_as_different(a, b, told):
    """Cut at the 37th letter, or to four digits, both columns had the same text."""
    stores = [made(noise(), scenario=SCENARIO | {"workload": {"x": value}}) for value in (a, b)]
    (line,) = [x for x in compare_text(compare(*stores, "preemption_rate")).splitlines()
               if x.startswith("workload.x")]  # fmt: skip
    assert line.split()[1:] == list(told)


def test_policies_that_have_traces_of_their_own_have_other_requests():
    """Of `{policy}` in the name of a trace equal request lists were told."""
    scenario = SCENARIO | {"workload": {"trace": "{policy}-{seed}.json"}}
    ds = made(np.stack([noise(), noise() + 2.0]), policies=["slow", "fast"], scenario=scenario)
    found = compare(ds.isel(policy=0), ds.isel(policy=1), "preemption_rate")
    assert (found.paired, found.same_requests) == (True, False)
    told = [(d.key, d.a, d.b) for d in found.differing]
    assert ("workload.trace", "slow-{seed}.json", "fast-{seed}.json") in told
    assert compare(ds, ds, "preemption_rate").same_requests


def test_what_other_versions_draw_is_not_promised():
    """Of stores by two sources, which may draw requests otherwise, equal lists were told."""
    a, b = made(noise()), made(noise() + 1.0)
    sure = "equal seeds are equal request lists."
    assert sure in compare_text(compare(a, b, "preemption_rate"))
    b.attrs["source_hash"] = "another"
    text = compare_text(compare(a, b, "preemption_rate"))
    assert sure not in text
    assert "unless the two versions draw them otherwise" in text


def test_parts_that_have_lost_what_they_are_of_are_told_so():
    """Without the numbers of seeds there was a traceback, without attributes a promise."""
    a, b = made(noise()), made(noise() + 1.0)
    for one, other in ((a.drop_vars("seed"), b), (a, b.drop_vars("seed"))):
        with pytest.raises(InputError, match=r"seed: [AB] has lost the numbers of its seeds"):
            compare(one, other, "preemption_rate")
    found = compare(a.drop_attrs(), b.drop_attrs(), "preemption_rate")
    assert (found.paired, found.same_requests) == (True, False)
    assert "whether these have equal request lists is not known" in compare_text(found)


def test_parts_of_stores_that_were_put_together_are_not_said_to_have_the_same_settings():
    """`xr.concat` keeps the attributes of the first: two models had "the same settings"."""
    values = noise()
    one, other = made(values), made(values + 9, scenario={"engine": {"max_num_seqs": 8}})
    assert not compare(one, one, "preemption_rate").several
    both = xr.concat([one, other], xr.Variable("model", ["8b", "70b"]), combine_attrs="override")
    both = both.assign_coords(model=["8b", "70b"])
    told = "B has values that its sweep has not, as of several stores put together: its settings"
    for a, sides in ((one, ("B",)), (both.sel(model="8b"), ("A", "B"))):
        found = compare(a, both.sel(model="70b"), "preemption_rate")
        assert (found.several, found.paired, found.same_requests) == (sides, True, False)
        assert told in compare_text(found)
        assert "same settings" not in compare_text(found)
    more = xr.concat([one, one.assign_coords(seed=one["seed"] + 12)], "seed")
    assert not compare(one, more, "preemption_rate").several


@pytest.mark.parametrize("key", ["concurrency", "warmup"])
def test_requests_that_are_held_back_or_left_out_of_measures_are_the_same(key):
    """Lists that differ were told of closed loops of the same requests."""
    for name in (f"workload.{key}", f"policies.some.workload.{key}"):
        assert not changes_requests(name)
    first, second = ({"workload": {key: number}} for number in (5, 9))
    values = noise()
    found = compare(made(values, scenario=first), made(values, scenario=second), "preemption_rate")
    assert found.same_requests
    assert "equal seeds are equal request lists." in compare_text(found)


class Counted:
    """A value of an axis that counts how often one is compared with another."""

    compared = 0

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        Counted.compared += 1
        return self.number == other.number

    def __hash__(self):
        return hash(self.number)


@pytest.mark.parametrize("axis", ["seed", "policy"])
def test_long_axes_are_aligned_without_comparing_each_value_with_each(axis):
    """20,000 seeds, half of them in both, took 24 s, and four times as many 16 times as long."""
    values = np.array([Counted(i) for i in range(600)], object)
    arrays = [
        xr.DataArray(np.arange(400), dims=[axis], coords={axis: some})
        for some in (values[:400], values[200:])
    ]
    Counted.compared = 0
    first, second, (unmatched,) = aligned(*arrays)
    assert Counted.compared < 10 * len(values)
    assert unmatched.only_a == tuple(values[:200].tolist())
    assert unmatched.only_b == tuple(values[400:].tolist())
    if axis == "policy":
        assert first["policy"].values.tolist() == second["policy"].values.tolist()
        assert first.values.tolist() == list(range(200, 400))
        assert second.values.tolist() == list(range(200))
