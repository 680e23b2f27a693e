"""GiB beside blocks in reports."""

import json

import numpy as np
import pytest
import xarray as xr

from kvsweep.analysis.cliff import find_cliff
from kvsweep.report.gib import axis_memory, cliff_memory, unit_gib

SWEEP = {
    "grid": {"cache.gpu_blocks": [512, 1024], "engine.max_num_seqs": [8, 16]},
    "policies": {},
    "scenario": {"cache": {"kv_bytes_per_token": 131_072.0, "block_size": 16}},
}


def dataset(**changes):
    ds = xr.Dataset(coords={"gpu_blocks": np.array([512, 1024]), "max_num_seqs": [8, 16]})
    return ds.assign_attrs(sweep=json.dumps(SWEEP | changes))


def test_an_axis_of_blocks_is_told_in_gib():
    assert unit_gib(dataset(), "gpu_blocks") == 2 / 1024
    assert axis_memory(dataset(), "gpu_blocks") == "1 to 2 GiB on each GPU"
    assert axis_memory(dataset(), "max_num_seqs") == ""


def test_tokens_too():
    ds = dataset(grid=SWEEP["grid"] | {"cache.gpu_tokens": [1]})
    assert unit_gib(ds, "gpu_tokens") == 128 / 1024**2


@pytest.mark.parametrize(
    "changes",
    [
        {"grid": SWEEP["grid"] | {"cache.block_size": [16, 32]}},
        {"grid": SWEEP["grid"] | {"model.tp": [1, 2]}},
        {"grid": SWEEP["grid"] | {"engine.pipeline_parallel_size": [1, 2]}},
        {"policies": {"large": {"cache.block_size": 32}}},
        {"policies": {"hybrid": {"cache.groups": [{"kind": "full"}] * 2}}},
        {"scenario": {"cache": SWEEP["scenario"]["cache"] | {"groups": [{"kind": "full"}] * 2}}},
        {"scenario": {"cache": {"kv_bytes_per_token": None, "block_size": 16}}},
    ],
)
def test_blocks_of_several_or_unknown_bytes_have_no_gib(changes):
    assert unit_gib(dataset(**changes), "gpu_blocks") is None
    assert axis_memory(dataset(**changes), "gpu_blocks") == ""


def test_a_dataset_without_its_sweep_has_no_gib():
    assert unit_gib(dataset().drop_attrs(), "gpu_blocks") is None


@pytest.mark.parametrize(("policies", "lines"), [(2, 1), (9, 10)])
def test_the_memory_of_many_cliffs_has_a_line_each(policies, lines):
    names = [f"policy-{n}" for n in range(policies)]
    values = xr.DataArray(np.ones((policies, 2)) * [1.0, 0.0], dims=("policy", "gpu_blocks"))
    ds = dataset(grid=SWEEP["grid"] | {"policy": names}).assign(preemption_rate=values)
    ds = ds.assign_coords(policy=names)
    cliff = find_cliff(ds, "preemption_rate", "gpu_blocks", 0.5)
    text = cliff_memory(ds, cliff)
    assert text.startswith("KV cache at the cliff, on each GPU:")
    assert "policy-1: 1.5 GiB" in text
    assert text.count("\n") + 1 == lines


def test_stores_that_were_put_together_have_no_gib():
    """Attributes are those of the first: blocks of another model had the GiB of that one's."""
    both = xr.concat([dataset(), dataset()], xr.Variable("model", ["8b", "70b"]))
    assert both.attrs
    assert unit_gib(both.assign(rate=("model", [1, 2])), "gpu_blocks") is None
    assert unit_gib(dataset(), "gpu_blocks") is not None


def test_a_value_that_the_sweep_has_not_is_of_another_store():
    """Along an axis of the sweep, or chosen, blocks had the GiB of the first store all the same."""
    other = dataset().assign_coords(max_num_seqs=[16, 32])
    joined = xr.concat([dataset(), other.isel(max_num_seqs=[1])], "max_num_seqs")
    models = xr.concat([dataset(), dataset()], xr.Variable("model", ["8b", "70b"]))
    chosen = models.assign_coords(model=["8b", "70b"]).isel(model=1)
    lost = dataset().assign(rate=("gpu_blocks", [1.0, 2.0])).drop_vars("gpu_blocks")
    for ds in (joined, joined.sel(max_num_seqs=32), chosen, lost):
        assert unit_gib(ds, "gpu_blocks") is None
    seeds = dataset().expand_dims(seed=[7, 8])
    for ds in (joined.sel(max_num_seqs=8), seeds, dataset().assign_coords(gpu_blocks=[1, 2])):
        assert unit_gib(ds, "gpu_blocks") is not None


@pytest.mark.parametrize(
    ("decode", "known"),
    [
        ({"model": "llama-3.1-8b/h100/tp2"}, False),  # half of it on each of two GPUs
        ({"beta": [1.0, 2.0, 3.0]}, False),
        ({"model": "llama-3.1-8b/h100/tp9"}, False),  # of another release
        ({"model": "llama-3.1-8b/h200/tp1"}, True),
        (None, True),
    ],
)
def test_blocks_of_sides_with_other_bytes_have_no_gib(decode, known):
    cluster = {"prefill": {"instances": 1}, "decode": {"instances": 1, "latency": decode}}
    latency = {"model": "llama-3.1-8b/h100/tp1"}
    scenario = SWEEP["scenario"] | {"cluster": cluster, "latency": latency}
    assert (unit_gib(dataset(scenario=scenario), "gpu_blocks") is not None) is known
    cluster["decode"]["gpu_blocks"] = 400  # the axis is the other side's
    assert unit_gib(dataset(scenario=scenario), "gpu_blocks") == 2 / 1024
