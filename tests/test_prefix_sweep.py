"""sweeps/prefix-invalidation.toml: the kernel's prefix cache alone makes the hit and the miss."""

import re
from pathlib import Path

import numpy as np
import pytest

import kvsweep

SWEEP = Path(__file__).parents[1] / "sweeps" / "prefix-invalidation.toml"
SIZES = {(512, 256), (384, 384), (256, 512)}
QUERY = 32


def measured(out, *settings):
    ds = kvsweep.run(kvsweep.load_sweep(SWEEP, settings), out=out, workers=1)
    sizes = [
        tuple(map(int, re.search(r"a(\d+)-b(\d+)-", name).groups()))
        for name in ds["trace"].values.tolist()
    ]
    assert set(sizes) == SIZES
    return ds.load().assign_coords(b=("trace", [b for _, b in sizes]))


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("prefix") / "a.zarr")


def test_a_hit_finds_all_but_the_query_and_a_miss_nothing(ds):
    found = ds["prefix_hit_rate"]
    assert (found.sel(policy="hit") == 768 / (768 + QUERY)).all()
    assert (found.sel(policy="miss") == 0).all()
    assert (ds["completed"] == 1).all()


def test_the_three_findings_show(ds):
    hit, miss = (ds["ttft_mean_ms"].sel(policy=name) for name in ("hit", "miss"))
    assert np.corrcoef(ds["b"], miss)[0, 1] ** 2 > 0.99
    slope = np.polyfit(ds["b"], miss, 1)[0]
    assert slope > 0
    assert np.ptp(hit.values) == 0
    assert hit.max() < miss.min() / 2
    itl = ds["itl_mean_ms"]
    np.testing.assert_allclose(itl.sel(policy="miss"), itl.sel(policy="hit"), rtol=0.1)


def test_without_a_prefix_cache_there_is_no_hit(tmp_path):
    ds = measured(tmp_path / "b.zarr", "engine.enable_prefix_caching=false")
    ttft = ds["ttft_mean_ms"]
    assert (ttft.sel(policy="hit") > ttft.sel(policy="miss")).all()
