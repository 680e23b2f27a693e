"""Measures by name."""

import json
import re

import numpy as np
import pytest
import xarray as xr

import kvsweep
from analysis.synthetic import dataset, h8, status
from kvsweep.analysis import cells, variables
from kvsweep.analysis.effects import factorial_effects
from kvsweep.analysis.gib import unit_gib
from kvsweep.errors import InputError
from kvsweep.metrics import CELL_VARIABLES, VARIABLES

LONG_NAME = "95th percentile of time to first token seen by the client"


def test_a_quantile_name_is_the_variable_at_that_quantile():
    ds = h8(2)
    found = variables.get(ds, "ttft_p95_ms")
    np.testing.assert_array_equal(found, ds["ttft_ms"].sel(quantile=0.95))
    assert found.name == "ttft_p95_ms"
    assert found.attrs["units"] == "ms"
    assert found.attrs["long_name"] == LONG_NAME


def test_names_lists_what_get_accepts():
    ds = h8(2)
    listed = variables.names(ds)
    assert {"preemption_rate", "ttft_p50_ms", "ttft_p99_ms"} <= set(listed)
    assert "status" not in listed
    for name in listed:
        assert variables.get(ds, name).dtype == np.float64


def test_a_variable_without_a_unit_in_its_name_has_quantiles_too():
    ds = h8(2).rename(ttft_ms="slowdown")
    assert "slowdown_p99" in variables.names(ds)
    np.testing.assert_array_equal(
        variables.get(ds, "slowdown_p99"), ds["slowdown"].sel(quantile=0.99)
    )


def test_a_stored_view_of_a_quantile_is_the_same_measure():
    ds = h8(2)
    ds["ttft_p99_ms"] = ds["ttft_ms"].sel(quantile=0.99, drop=True)
    assert variables.names(ds).count("ttft_p99_ms") == 1
    found = variables.get(ds, "ttft_p99_ms")
    assert found.attrs["long_name"] == LONG_NAME.replace("95", "99")
    np.testing.assert_array_equal(found, ds["ttft_p99_ms"])


def test_counts_of_cells_that_are_not_ok_are_masked():
    ds = dataset([[0.1, 0.2], [0.0, 0.0]], blocks=[1, 2], seeds=[0, 1])
    ds["status"] = status(ds, step_limit={"gpu_blocks": 1, "seed": 1})
    ds["completed"] = ds["preemption_rate"].astype("int64") * 0 + 7
    ds["completed"].loc[{"gpu_blocks": 1, "seed": 1}] = -1
    found = variables.get(ds, "completed")
    assert np.isnan(found.sel(gpu_blocks=1, seed=1))
    assert found.sum() == 21


def with_marker(name):
    """Return 2 sizes and 3 seeds whose counts are 4, or absent at the smaller size."""
    ds = dataset([[0.1, 0.2, 0.1], [0.0, 0.0, 0.0]], blocks=[1, 2], seeds=[0, 1, 2])
    ds["status"] = status(ds)
    ds[name] = ds["status"].dims, np.array([[-1, -1, -1], [4, 4, 4]])
    return ds.assign_attrs(sweep="{}")


@pytest.mark.parametrize("name", ["preemptions", "recomputed_tokens", "completed_by_round"])
def test_the_marker_of_an_absent_count_is_no_value_of_a_cell_that_is_ok(name):
    ds = with_marker(name)
    found = variables.get(ds, name)
    assert np.isnan(found.sel(gpu_blocks=1)).all()
    assert (found.sel(gpu_blocks=2) == 4).all()
    assert variables.missing(ds, found) == {"no value": 3}
    np.testing.assert_array_equal(variables.get(ds.where(ds["seed"] < 9), name), found)
    assert (ds[name] == -1).any()


def test_numbers_that_no_store_has_may_be_negative():
    ds = with_marker("change_of_mine")
    assert variables.get(ds, "change_of_mine").min() == -1


def test_a_mean_that_may_hold_the_marker_is_refused_with_what_to_do():
    ds = with_marker("preemptions")
    with pytest.raises(InputError, match=r"may hold -1.*give all seeds"):
        variables.get(ds.mean("seed", keep_attrs=True), "preemptions")
    mine = ds.where(ds["status"] == "ok").mean("seed", keep_attrs=True).rename(preemptions="mine")
    assert variables.get(mine, "mine").dims == ("gpu_blocks",)
    assert variables.get(ds.mean("seed"), "preemption_rate").dims == ("gpu_blocks",)
    assert np.isnan(variables.get(ds.drop_vars("status"), "preemptions").sel(gpu_blocks=1)).all()


@pytest.mark.parametrize(
    "ask",
    [
        lambda ds: kvsweep.find_cliff(ds, "preemptions", threshold=1.0),
        lambda ds: kvsweep.factorial_effects(ds, "preemptions"),
        lambda ds: kvsweep.pareto_front(ds, ["preemptions:min"], over="gpu_blocks"),
    ],
)
def test_analyses_count_absent_counts_as_no_value(ask):
    assert ask(with_marker("preemptions")).missing == {"no value": 3}


def test_a_comparison_drops_seeds_with_absent_counts():
    ds = with_marker("preemptions")
    (found,) = kvsweep.compare(
        ds.sel(gpu_blocks=1), ds.sel(gpu_blocks=2), "preemptions"
    ).differences
    assert (found.seeds, found.dropped, found.verdict) == (0, 3, None)


def test_a_variable_without_the_status_dimensions_is_not_masked():
    ds = h8(2)
    ds["status"][:] = "failed"
    ds["bound"] = ("gpu_blocks", np.r_[np.nan, np.ones(ds.sizes["gpu_blocks"] - 1)])
    found = variables.get(ds, "bound")
    assert found.dims == ("gpu_blocks",)
    assert variables.missing(ds, found) == {"no value": 1}


def test_missing_is_counted_in_the_order_of_the_status():
    ds = dataset([0.1, 0.2, np.nan], blocks=[3, 1, 2])
    ds["status"] = status(ds, livelock={"gpu_blocks": 3}, failed={"gpu_blocks": 1})
    array = variables.get(ds, "preemption_rate")
    assert variables.missing(ds, array) == {"livelock": 1, "failed": 1, "no value": 1}


MASKED = {
    "where": lambda ds: ds.where(ds["gpu_blocks"] > 1),
    "reindex": lambda ds: ds.drop_sel(gpu_blocks=1).reindex(gpu_blocks=[1, 2, 3]),
}


@pytest.mark.parametrize("mask", MASKED.values(), ids=MASKED)
@pytest.mark.timeout(60)
def test_cells_that_were_masked_with_their_status_have_no_value(mask):
    ds = dataset([[0.1, 0.1], [0.2, np.nan], [np.nan, 0.0]], blocks=[1, 2, 3], seeds=[0, 1])
    ds["status"] = status(ds, livelock={"gpu_blocks": 3, "seed": 0})
    ds = mask(ds)
    expected = {"livelock": 1, "no value": 3}
    assert variables.missing(ds, variables.get(ds, "preemption_rate")) == expected
    assert kvsweep.find_cliff(ds).missing == expected
    assert kvsweep.factorial_effects(ds, "preemption_rate").missing == expected
    assert kvsweep.pareto_front(ds, ["preemption_rate:min"], over="gpu_blocks").missing == expected
    assert variables.count_statuses(ds) == {"livelock": 1, "no value": 2, "ok": 3}
    assert variables.count_names(np.array([np.nan, np.nan])) == {"no value": 2}


def test_an_axis_of_names_is_refused_where_numbers_are_needed():
    assert variables.axis(h8(2), "policy", numeric=False).size == 2
    with pytest.raises(ValueError, match="holds names"):
        variables.axis(h8(2), "policy")


def test_what_has_nothing_to_mask_is_not_copied_and_not_to_be_written_into():
    ds = dataset([[0.1, 0.2], [0.0, 0.0]], blocks=[1, 2], seeds=[0, 1])
    ds["status"] = status(ds)
    found = variables.get(ds, "preemption_rate").values
    assert np.shares_memory(found, ds["preemption_rate"].values)
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1.0


def test_instances_are_counted_some_seeds_at_a_time(monkeypatch):
    ds = dataset([[0.1, 0.2, 0.1], [0.0, 0.0, 0.0]], blocks=[1, 2], seeds=[0, 1, 2])
    ds["status"] = status(ds, failed={"gpu_blocks": 1, "seed": 2})
    ds["peak_blocks"] = (*ds["status"].dims, "instance"), np.full((*ds["status"].shape, 3), 5)
    ds["peak_blocks"].loc[{"gpu_blocks": 2, "instance": 2}] = -1
    expected = np.where(ds["status"] == "ok", [[3], [2]], 0)
    for at_once in (1, 6, 2**19):
        monkeypatch.setattr(variables, "AT_ONCE", at_once)
        np.testing.assert_array_equal(cells.cells_of(ds).instances, expected)


def test_statuses_are_counted_some_cells_at_a_time(monkeypatch):
    ds = dataset([[0.1, 0.2, 0.1], [0.0, 0.0, 0.0]], blocks=[1, 2], seeds=[0, 1, 2])
    ds["status"] = status(ds, failed={"gpu_blocks": 1, "seed": 2})
    for at_once in (1, 4, 2**19):
        monkeypatch.setattr(variables, "AT_ONCE", at_once)
        np.testing.assert_array_equal(variables.is_ok(ds), ds["status"] == "ok")
        assert sum(variables.count_statuses(ds).values()) == 6
        assert variables.count_statuses(ds)["ok"] == 5
        one = variables.count_statuses(ds.isel(seed=2, gpu_blocks=0))
        assert list(one.values()) == [1]
        assert "ok" not in one


def test_a_measure_by_rounds_or_classes_has_the_direction_of_the_whole():
    grouped = {name: re.sub("_by_(round|class)", "", name) for name in VARIABLES}
    grouped = {name: whole for name, whole in grouped.items() if name != whole}
    assert {"prefix_hit_rate_by_round", "completed_by_class"} <= set(grouped)
    for name, whole in grouped.items():
        assert (name in variables.HIGHER_IS_BETTER) == (whole in variables.HIGHER_IS_BETTER), name


def test_nothing_that_is_left_and_what_is_there_twice_are_refused():
    ds = h8(3)
    for part in (ds.sel(seed=slice(100, 200)), ds.isel(gpu_blocks=[])):
        with pytest.raises(InputError, match=r"^axis: no value of '\w+' is left"):
            variables.get(part, "preemption_rate")
    with pytest.raises(InputError, match=r"^axis: 'seed' has a value twice"):
        variables.get(xr.concat([ds, ds], "seed"), "preemption_rate")


def test_a_quantile_that_was_assigned_in_other_units_keeps_them():
    """Seconds were drawn, printed and compared as milliseconds."""
    ds = h8(2)
    view = ds["ttft_ms"].sel(quantile=0.99, drop=True)
    own = view.copy(data=view.values / 1000)
    own.attrs = {"units": "s", "long_name": "0.99 quantile of time to first token"}
    found = variables.get(ds.assign(ttft_p99_ms=own), "ttft_p99_ms")
    assert found.attrs == {"units": "s", "long_name": LONG_NAME.replace("95", "99")}
    with pytest.raises(InputError, match="'ttft_p99_ms' is in ms in A and in s in B"):
        kvsweep.compare(ds, ds.assign(ttft_p99_ms=own), "ttft_p99_ms")


def test_of_what_a_cell_does_neither_more_nor_less_is_said_to_be_better():
    told = {name: variables.better(name) for name in VARIABLES}
    assert {told[name] for name in variables.HIGHER_IS_BETTER} == {"more"}
    assert {told[name] for name in ("pulls", "steps", "injected", "injected_by_round")} == {""}
    assert {told[name] for name in ("preemption_rate", "ttft_mean_ms", "evictions")} == {"less"}
    assert variables.better("ttft_p99_ms") == variables.better("ttft_p99.9_ms") == "less"
    assert variables.better("what_somebody_added") == variables.better("own_p99_ms") == ""


@pytest.mark.parametrize("reset", [False, True])
def test_seeds_that_are_stacked_with_an_axis_are_refused(reset):
    """Means are over seeds: they ended in a traceback of xarray's."""
    ds = dataset(np.zeros((2, 3, 4)), policies=["a", "b"], blocks=[1, 2, 3], seeds=range(4))
    stacked = ds.stack(x=("policy", "seed"))
    if reset:
        stacked = stacked.reset_index("x")
    for ask in (variables.get, factorial_effects):
        with pytest.raises(InputError, match=r"^axis: 'x' has seeds in it, .*ds\.unstack\('x'\)"):
            ask(stacked, "preemption_rate")
    assert variables.get(ds.isel(seed=1), "preemption_rate").shape == (2, 3)
    assert variables.get(ds.stack(x=("policy", "gpu_blocks")), "preemption_rate").shape == (4, 6)


def test_axes_that_hold_neither_names_nor_numbers_are_named_all_the_same():
    """Bins of ``ds.groupby_bins`` and dates ended in a traceback, in all texts and tables."""
    ds = h8(2).isel(gpu_blocks=slice(0, None, 9)).drop_vars("status", errors="ignore")
    rates = [ds.expand_dims(rate=[rate]) for rate in (1.0, 2.0)]
    both = xr.concat(rates, "rate", data_vars="all", combine_attrs="override")
    binned = both.groupby_bins("rate", [0, 1, 2]).mean()
    dated = both.assign_coords(rate=np.array(["2026-01-01", "2026-02-01"], "datetime64[s]"))
    for part, told in ((binned, "rate_bins (0, 1]"), (dated, "rate 2026-01-01 00:00:00")):
        cliff = kvsweep.find_cliff(part, "preemption_rate", "gpu_blocks", 0.05)
        assert told in kvsweep.text_of(cliff)
        assert json.loads(json.dumps(cliff.to_dict()))["groups"][0]["labels"]
        assert told.split(" ", 1)[1] in kvsweep.text_of(part)
    texts = ds.assign_coords(gpu_blocks=[str(blocks) for blocks in ds["gpu_blocks"].values])
    assert "gpu_blocks" in kvsweep.text_of(texts)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_axis_with_a_value_that_is_no_number_is_refused(value):
    """Of a NaN among the blocks the upper end of every interval was told to lie outside."""
    ds = h8(3).isel(gpu_blocks=slice(0, None, 9))
    blocks = ds["gpu_blocks"].values.astype(float)
    blocks[2] = value
    with pytest.raises(InputError, match="'gpu_blocks' has a value that is no number"):
        kvsweep.find_cliff(ds.assign_coords(gpu_blocks=blocks))


def test_of_what_a_request_brings_neither_more_nor_less_is_said_to_be_better():
    """A heatmap said of tokens found cached, of prompts and of instances that less is better."""
    brought = ("arrival_us", "instance", "prompt_tokens", "output_tokens", "session", "round")
    assert {variables.better(f"request_{name}") for name in brought} == {""}
    assert variables.better("request_cached_tokens") == "more"
    for name in ("ttft_us", "e2e_us", "tpot_us", "preemptions", "recomputed_tokens"):
        assert variables.better(f"request_{name}") == "less"


def test_an_axis_that_has_lost_its_values_is_refused():
    """Cliffs were told at the place in the list, 2.4, as gpu_blocks, effects of 1."""
    ds = h8(3).isel(policy=0).drop_vars("gpu_blocks")
    with pytest.raises(InputError, match=r"^axis: 'gpu_blocks' has no values; give it those of"):
        kvsweep.find_cliff(ds)
    two = ds.isel(seed=0, drop=True).expand_dims(policy=["a"])
    with pytest.raises(InputError, match=r"^axis: 'gpu_blocks' has no values"):
        kvsweep.factorial_effects(two, "preemption_rate", factors=["gpu_blocks"])


@pytest.mark.parametrize("value", [None, "{", "[]", 3])
def test_attributes_that_are_no_sweep_are_told_so(value):
    """They ended in a traceback of the parser of JSON."""
    ds = h8(3).assign_attrs(sweep=value)
    told = r"^ds: its attribute 'sweep' is not that of a store: give it back, \.assign_attrs\(store"
    for call in (kvsweep.find_cliff, lambda ds: kvsweep.compare(ds, ds, "preemption_rate")):
        with pytest.raises(InputError, match=told):
            call(ds)
    with pytest.raises(InputError, match=r"^ds: its attribute 'warnings' is not that of a store"):
        kvsweep.warnings_of(h8(3).assign_attrs(warnings="{}" if value == "[]" else value))


@pytest.mark.parametrize(
    "value",
    [
        *("[1]", '["text"]', "[[]]", "[{}]", '[{"kind": "a"}]'),
        '[{"kind": "a", "text": "b", "cells": "1", "of": 1, "worst": {}}]',
        '[{"kind": "a", "text": "b", "cells": 1, "of": 1, "worst": {}, "more": 1}]',
    ],
)
def test_warnings_that_no_store_has_are_told_so(value):
    """They ended in a traceback of the record that they were to be."""
    told = r"^ds: its attribute 'warnings' is not that of a store: give it back"
    with pytest.raises(InputError, match=told):
        kvsweep.warnings_of(h8(3).assign_attrs(warnings=value))


@pytest.mark.parametrize(
    "sweep",
    [
        *({"grid": 1}, {"grid": ["policy"]}, {"grid": {"policy": "a"}}, {"grid": None}),
        *({"policies": []}, {"policies": {"a": 1}}, {"scenario": None}, {"scenario": {"cache": 3}}),
        *({"design": None}, {"design": {"method": "saltelli"}}, {"cliff": "rate"}, {"pareto": 3}),
        {"scenarios": {"a": []}},
    ],
)
def test_a_sweep_of_another_layout_is_told_to_be_none(sweep):
    """What is JSON, and a table, was taken for a sweep: a traceback where a part was looked up."""
    ds = h8(3).assign_attrs(sweep=json.dumps(sweep))
    told = r"^ds: its attribute 'sweep' is not that of a store: give it back, \.assign_attrs\(store"
    for call in (kvsweep.find_cliff, lambda ds: kvsweep.compare(ds, ds, "preemption_rate")):
        with pytest.raises(InputError, match=told):
            call(ds)
    assert unit_gib(ds, "gpu_blocks") is None


LESS_IS_BETTER = {
    *("ttft_mean_ms", "e2e_mean_ms", "itl_mean_ms", "tpot_mean_ms", "scheduling_delay_mean_ms"),
    *("ttft_ms", "e2e_ms", "itl_ms", "tpot_ms", "scheduling_delay_ms"),
    *("preemptions", "preemption_rate", "preempted_fraction"),
    *("recomputed_tokens", "recompute_share", "evictions", "thrashing_rate", "transfer_s"),
    *("queued", "dropped_unservable", "rejected", "timed_out", "errored"),
    *("mean_waiting", "queue_growth", "makespan_s"),
    *("tier_deferred", "tier_evictions", "tier_refused"),
    *("failed_pulls", "expired_leases", "pull_wait_mean_ms", "kept_mean_ms"),
    *("priority_inversions", "priority_inversion_rate"),
}


def test_of_a_new_measure_somebody_has_said_that_less_is_better():
    """A count of first tokens went without, as less is better where no list has a measure."""
    told = {each.name for each in CELL_VARIABLES if variables.better(each.name) == "less"}
    assert told == LESS_IS_BETTER
