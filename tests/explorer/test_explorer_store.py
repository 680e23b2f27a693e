"""A store that is explored: its axes are chosen, nothing is simulated, the numbers are its own."""

import numpy as np
import pytest
from exploring import listening, save, show
from stores import write_store
from sweeping import BASE, CLIFF, GRID

import kvsweep
from kvsweep.errors import InputError
from kvsweep.explorer.hello import hello
from kvsweep.explorer.of_store import OfStore


@pytest.fixture
def ds(tmp_path):
    path = tmp_path / "small.zarr"
    write_store(path, BASE + GRID + CLIFF)
    return kvsweep.open_results(path)


def test_curves_and_cliffs_are_those_of_the_store(ds):
    with listening(OfStore(ds, "small.zarr")) as page:
        page.ask(show(1, {"policy": "least-loaded"}, measures=["preemption_rate", "ttft_p99_ms"]))
        (answer,) = page.until("curves", 1)
    chosen = ds.sel(policy="least-loaded")
    (group,) = kvsweep.find_cliff(chosen, threshold=0.5).groups
    assert answer["done"]
    assert answer["seeds"] == 6
    assert answer["cliff"]["groups"][0]["value"] == pytest.approx(group.mean_curve.value)
    late = chosen["ttft_ms"].sel(quantile=0.99).mean("seed").values
    assert np.array(answer["measures"][1]["curves"][0]["mean"]) == pytest.approx(late)


def test_two_values_of_an_axis_are_compared(ds):
    with listening(OfStore(ds, "small.zarr")) as page:
        page.ask(show(1, {}, {"policy": "least-loaded"}, measures=["ttft_mean_ms"], threshold=None))
        answer = page.until("curves", 1)[-1]
    found = kvsweep.compare(
        ds.sel(policy="round-robin"), ds.sel(policy="least-loaded"), "ttft_mean_ms"
    )
    told = answer["measures"][0]["difference"]["mean"]
    assert told == pytest.approx([each.difference for each in found.differences])


def test_controls_are_the_other_axes_with_their_values(ds):
    told = hello(OfStore(ds, "small.zarr"))
    assert told["source"] == "store"
    assert (told["shown"][0], told["threshold"]) == ("preemption_rate", 0.5)
    (control,) = told["controls"]["gpu_blocks"]
    assert (control["key"], control["choices"]) == ("policy", ("round-robin", "least-loaded"))
    names = {measure["name"] for measure in told["measures"]}
    assert {"ttft_p99_ms", "block_hit_rate"} <= names
    assert "peak_blocks" not in names  # of each instance


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"policy": "weighted"}, "page: policy: 'weighted' cannot be chosen; one of: round-robin"),
        ({"seed": 1}, "page: seed: cannot be set here"),
    ],
)
def test_values_that_the_store_does_not_have_are_refused(ds, settings, told):
    with pytest.raises(kvsweep.InputError, match=told):
        OfStore(ds, "small.zarr").part(settings, "gpu_blocks")


def test_a_store_without_a_numeric_axis_is_refused(ds):
    with pytest.raises(kvsweep.InputError, match=r"small.zarr: no numeric axis .* it has: policy"):
        OfStore(ds.isel(gpu_blocks=0, drop=True), "small.zarr")


def test_the_command_tells_the_same_cliff_and_there_is_no_sweep_to_save(ds):
    with listening(OfStore(ds, "small.zarr")) as page:
        page.ask(show(1))
        page.until("curves", 1)
        page.ask(save("command"))
        command = page.until("saved", 0)[-1]["text"]
        page.ask(save("toml"))
        refused = page.until("refused", 0)[-1]["text"]
    wanted = "--at policy=round-robin --metric preemption_rate --along gpu_blocks --threshold 0.5"
    assert command == f"kvsweep cliff small.zarr {wanted}"
    assert refused.startswith("small.zarr: a store has no settings to save")


def test_a_title_does_not_turn_the_page_round(ds):
    """The bidirectional marks of others' titles would write what follows them backwards."""
    spoofed = ds.assign_attrs(title="good\u202etxt", question="why\u2066?")
    told = hello(OfStore(spoofed, "small.zarr"))
    assert (told["title"], told["question"]) == ("good\\u202etxt", "why\\u2066?")


def test_each_measure_is_offered_once(ds):
    """A store that is opened has views of its quantiles, beside the quantiles themselves."""
    assert {"ttft_ms", "ttft_p99_ms"} <= set(ds.data_vars)
    names = [measure["name"] for measure in hello(OfStore(ds, "small.zarr"))["measures"]]
    assert len(names) == len(set(names))


def test_the_command_draws_the_same_curve_where_no_cliff_is_looked_for(ds):
    """`kvsweep cliff` without a threshold takes that of the sweep, or is refused."""
    with listening(OfStore(ds, "small.zarr")) as page:
        page.ask(show(1, threshold=None))
        page.until("curves", 1)
        page.ask(save("command"))
        command = page.until("saved", 0)[-1]["text"]
    at = "--at policy=round-robin --metric preemption_rate --along gpu_blocks"
    assert command == f"kvsweep plot small.zarr curve {at}"


def test_each_quantile_says_which_it_is(ds):
    """All of them were a "quantile of time to first token seen by the client"."""
    labels = {m["name"]: m["label"] for m in hello(OfStore(ds, "small.zarr"))["measures"]}
    for percent in (50, 99):
        assert labels[f"ttft_p{percent}_ms"].startswith(f"{percent}th percentile of time to first")
    assert not any("quantile" in label for label in labels.values())


def test_measures_that_somebody_added_can_be_chosen(ds):
    """They are offered; one without `_p` in its name ended in an internal error."""
    late = ds["ttft_ms"] / 1000
    own = ds.assign(
        wasted=2 * ds["preemption_rate"], late_s=late, ttft_p99_ms=ds["ttft_p99_ms"] * 3
    )
    measures = ["wasted", "late_p99_s", "ttft_p99_ms"]
    with listening(OfStore(own, "small.zarr")) as page:
        page.ask(show(1, {"policy": "least-loaded"}, measures=measures, threshold=None))
        (answer,) = page.until("curves", 1)
    chosen = ds.sel(policy="least-loaded").mean("seed")
    wanted = [2 * chosen.preemption_rate, chosen.ttft_p99_ms / 1000, 3 * chosen.ttft_p99_ms]
    for told, expected in zip(answer["measures"], wanted, strict=True):
        assert told["curves"][0]["mean"] == pytest.approx(expected.values.tolist()), told["name"]


def test_warnings_are_those_of_the_part_that_is_explored(ds):
    """Of a part with one axis left those of all cells were told, which are stored."""
    entry = '{"kind": "burst", "text": "of all", "cells": 1, "of": 84, "worst": {}}'
    ds = ds.assign_attrs(warnings=f"[{entry}]")
    assert [str(each) for each in kvsweep.warnings_of(ds)] == ["of all"]
    with listening(OfStore(ds.sel(policy="least-loaded"), "small.zarr")) as page:
        page.ask(show(1))
        (answer,) = page.until("curves", 1)
    assert not any("of all" in note for note in answer["notes"])


def test_a_mean_over_seeds_is_refused(ds):
    """It has no status: the page told of an internal error."""
    with pytest.raises(InputError, match=r"^small\.zarr: has no status of cells"):
        OfStore(ds.mean("seed", keep_attrs=True), "small.zarr")


def test_an_axis_that_has_lost_its_values_is_none_to_draw_along(ds):
    """Curves were drawn along the places in its list."""
    with pytest.raises(kvsweep.InputError, match=r"small.zarr: no numeric axis of two values"):
        OfStore(ds.drop_vars("gpu_blocks"), "small.zarr")
