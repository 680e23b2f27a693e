"""Sensitivity indices against a function whose indices are known, and from a store."""

import json
import tracemalloc

import numpy as np
import pytest
import xarray as xr

import kvsweep
from kvsweep.analysis.sensitivity import sensitivity_indices
from kvsweep.config.design import Design
from kvsweep.errors import InputError
from kvsweep.plot import plot_sensitivity, save
from kvsweep.report.sensitivity import sensitivity_text

KEYS = ("workload.rate", "engine.watermark", "cache.offload_threshold")
# T. Ishigami and T. Homma, ISUMA '90; a = 7, b = 0.1.
FIRST, TOTAL = (0.3139, 0.4424, 0.0), (0.5576, 0.4424, 0.2437)


def ishigami(samples=1024, method="saltelli"):
    """The function of Ishigami at the points of a design; the keys only lend their names."""
    ranges = {key: {"from": -np.pi, "to": np.pi, "log": False} for key in KEYS}
    design = Design(method, samples, 0, ranges)
    x, y, z = np.array(design.points).T
    values = np.sin(x) + 7 * np.sin(y) ** 2 + 0.1 * z**4 * np.sin(x)
    ds = xr.Dataset({"steps": ("sample", values)}, coords={"sample": np.arange(len(values))})
    ds["status"] = xr.full_like(ds["steps"], "ok", dtype=object).astype("U8")
    ds.attrs["sweep"] = json.dumps({"design": design.to_dict(), "grid": {"sample": []}})
    return ds


def test_indices_of_a_function_that_has_known_ones():
    (group,) = sensitivity_indices(ishigami(), "steps").groups
    assert [index.key for index in group.indices] == list(KEYS)
    for index, first, total in zip(group.indices, FIRST, TOTAL, strict=True):
        assert index.first == pytest.approx(first, abs=0.05)
        assert index.total == pytest.approx(total, abs=0.05)
        assert index.first_interval.low - 0.02 < first < index.first_interval.high + 0.02
        assert index.total_interval.low - 0.02 < total < index.total_interval.high + 0.02
    assert group.variance == pytest.approx(13.84, rel=0.05)


def test_points_without_a_value_are_left_out_with_all_that_belongs_to_them():
    ds = ishigami()
    ds["steps"][5], ds["steps"][1024 + 9], ds["steps"][4 * 1024 + 5] = np.nan, np.nan, np.nan
    found = sensitivity_indices(ds, "steps")
    assert (found.groups[0].points, found.groups[0].dropped) == (1022, 2)
    assert found.groups[0].indices[1].first == pytest.approx(FIRST[1], abs=0.05)
    assert "2 left out" in sensitivity_text(found)


def test_points_in_another_order_give_the_same_indices():
    ds = ishigami(16)
    expected = sensitivity_indices(ds, "steps").to_dict()
    for other in (ds.sortby("steps"), ds.isel(sample=slice(None, None, -1))):
        assert sensitivity_indices(other, "steps").to_dict() == expected


@pytest.mark.parametrize("kept", [slice(0, 40), slice(8, 48), slice(0, None, 2)])
def test_a_part_of_a_design_is_refused(kept):
    with pytest.raises(InputError, match="sample: sensitivity indices need all 80 points"):
        sensitivity_indices(ishigami(16).isel(sample=kept), "steps")


@pytest.mark.parametrize("value", [3.0, 0.0])
def test_a_measure_that_does_not_vary_has_none(value):
    ds = ishigami(8)
    ds["steps"] = ds["steps"] * 0 + value
    found = sensitivity_indices(ds, "steps")
    assert {index.total for index in found.groups[0].indices} == {None}
    assert "does not vary" in sensitivity_text(found)
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_small_index_has_the_digits_of_its_interval():
    ds = ishigami(64)
    design = Design("saltelli", 64, 0, {k: {"from": 0.0, "to": 1.0, "log": False} for k in KEYS})
    ds["steps"] = ds["steps"] * 0 + np.array(design.points) @ [1.0, 0.02, 0.0]
    row = next(r for r in sensitivity_text(sensitivity_indices(ds, "steps")).splitlines()
               if r.startswith("engine.watermark"))  # fmt: skip
    value, low, high = (float(text.strip("[],")) for text in row.split()[-3:])
    assert low < value < high < 0.001


def test_other_designs_have_none():
    with pytest.raises(InputError, match='method = "saltelli"'):
        sensitivity_indices(ishigami(8, "latin-hypercube"), "steps")


SWEEP = """
[workload]
requests = 30
[cluster]
instances = 2
[latency]
model = "llama-3.1-8b/h100/tp2"
[design]
method = "saltelli"
samples = 4
"cache.gpu_blocks" = { from = 100, to = 800, log = true }
"workload.rate" = { from = 40, to = 200 }
[grid]
policy = ["round-robin", "least-loaded"]
seed = { count = 2 }
"""


def test_a_design_from_file_to_indices(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.toml").write_text(SWEEP)
    sweep = kvsweep.load_sweep("d.toml")
    ds = kvsweep.run(sweep, workers=1)
    assert ds["status"].dims == ("sample", "policy", "seed")
    assert ds["gpu_blocks"].dims == ds["rate"].dims == ("sample",)
    assert list(zip(ds["gpu_blocks"].values, ds["rate"].values, strict=True)) == sweep.design.points
    assert ds["gpu_blocks"].attrs["units"] == "block"
    found = sensitivity_indices(ds, "ttft_p99_ms")
    assert [group.labels for group in found.groups] == [
        {"policy": "round-robin"},
        {"policy": "least-loaded"},
    ]
    verified = kvsweep.verify("results/d.zarr", sample=4)
    assert len(verified.simulated) == 4
    assert not verified.damaged
    assert not verified.different
    for along in ("sample", "gpu_blocks"):
        with pytest.raises(InputError, match=f"{along}' holds points of a design"):
            kvsweep.find_cliff(ds, "steps", along, 10.0)
    with pytest.raises(InputError, match="sensitivity indices"):
        kvsweep.factorial_effects(ds, "steps")
    over_points = kvsweep.factorial_effects(ds, "steps", factors=["policy"])
    assert over_points.averaged == ("sample",)


def test_the_figure_has_a_row_for_each_parameter_the_most_influential_first(tmp_path):
    figure = plot_sensitivity(ds := ishigami(64), sensitivity_indices(ds, "steps"))
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()][-1] == "offload_threshold"
    assert len([line for line in axes.lines if line.get_marker() == "o"]) == 6
    save(figure, tmp_path / "s.png")


def test_no_figure_is_drawn_of_what_does_not_vary():
    ds = ishigami(8)
    ds["steps"] = ds["steps"] * 0 + 3.0
    with pytest.raises(InputError, match="steps does not vary"):
        plot_sensitivity(ds, sensitivity_indices(ds, "steps"))


def test_indices_do_not_depend_on_what_is_added_to_all_values():
    """Of uncentred values the first order would be noise, the larger the mean is."""
    ds = ishigami(64)
    (expected,) = sensitivity_indices(ds, "steps").groups
    ds["steps"] = ds["steps"] + 1000.0
    (found,) = sensitivity_indices(ds, "steps").groups
    for index, same in zip(found.indices, expected.indices, strict=True):
        assert index.first == pytest.approx(same.first, rel=1e-6, abs=1e-9)
        assert index.total == pytest.approx(same.total, rel=1e-6, abs=1e-9)


def test_a_point_that_a_seed_lacks_is_left_out_and_a_seed_without_any_value_is_not_counted():
    ds = ishigami(64)
    seeds = xr.DataArray([100.0, 0.0, 0.0], dims="seed", coords={"seed": [0, 1, 2]})
    ds = ds.assign(steps=ds["steps"] + seeds)  # seeds differ by far more than points
    expected = sensitivity_indices(ds, "steps").groups[0].indices
    ds["steps"][5, 0] = np.nan
    found = sensitivity_indices(ds, "steps")
    assert (found.groups[0].points, found.groups[0].dropped) == (63, 1)
    for index, whole in zip(found.groups[0].indices, expected, strict=True):
        assert index.total == pytest.approx(whole.total, abs=0.1)
    ds["steps"][:, 0] = np.nan
    found = sensitivity_indices(ds, "steps")
    assert (found.seeds, found.groups[0].points) == (2, 64)


def test_indices_of_many_points_take_little_memory():
    ds = ishigami(8192)
    tracemalloc.start()
    sensitivity_indices(ds, "steps")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # all resamples at once were 1.5 GB
