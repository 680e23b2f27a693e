"""What people do with xarray works on a store, opened by xarray itself or by kvsweep.

Every warning is an error here (pyproject.toml).
"""

import numpy as np
import pytest
import xarray as xr
from sweeping import BASE, CLIFF, GRID, fake_batch, make_sweep

import kvsweep
from kvsweep import grid, store
from kvsweep.policies import Status

# Of pandas about xarray, where an array of Dask is an index.
pytestmark = pytest.mark.filterwarnings("ignore:Treating an array-like object")

NETCDF_TYPES = (str, int, float, list, np.ndarray, np.number)


def batch(variants, seeds, **options):
    """One cell of the first seed did not end well."""
    results = fake_batch(variants, seeds, **options)
    if seeds[0] == 0:
        results["status"][0, 0] = Status.LIVELOCK
        results["status_detail"][0, 0] = "repeats every 7 steps, é"
    return results


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("xarray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvsweep.simulate.warm_up", lambda *_: None)
        patch.setattr(grid, "CHUNK_SECONDS", (4e-4, 4e-4))
        for name, policy, simulate in (("a", "round-robin", batch), ("b", "weighted", fake_batch)):
            patch.setattr("kvsweep.simulate.simulate_batch", simulate)
            text = (BASE + GRID + CLIFF).replace("round-robin", policy)
            kvsweep.run(make_sweep(folder, text), out=folder / f"{name}.zarr", workers=1)
    store.update_attributes(folder / "a.zarr", {"cliff": "{}"})
    return folder / "a.zarr"


@pytest.fixture(params=["xr.open_zarr", "lazy xr.open_zarr", "kvsweep.open_results"])
def opener(request):
    if request.param == "kvsweep.open_results":
        return kvsweep.open_results
    chunks = {} if request.param.startswith("lazy") else None
    return lambda path: xr.open_zarr(path, chunks=chunks)


@pytest.fixture
def ds(opener, path):
    return opener(path)


def test_without_consolidated_metadata_it_is_the_same(path):
    with xr.open_zarr(path, consolidated=False) as one, xr.open_zarr(path) as other:
        assert one.identical(other)


def test_cells_are_masked_by_their_status(ds):
    good = ds.where(ds.status == "ok")
    assert int(good["steps"].isnull().sum()) == 1
    assert ds[["preemption_rate"]].where(ds.status == "ok")["preemption_rate"].isnull().sum() == 1
    assert (ds.where((ds.status == "ok").compute(), drop=True)["status"] == "ok").sum() == 83


def test_status_is_text(ds):
    assert ds["status"].dtype.kind == "U"
    assert set(np.unique(ds["status"].astype(str))) == {"ok", "livelock"}
    assert ds["status"].isin(["livelock"]).sum() == 1
    other = (ds["status"] != "ok").compute()
    details = ds["status_detail"].where(other, drop=True).values.ravel()
    assert details.tolist() == ["repeats every 7 steps, \\xe9"]


def test_cells_are_grouped_by_status_and_policy(ds):
    counts = ds["steps"].load().groupby(ds["status"].load()).count()
    assert counts.sel(status="livelock") == 1
    assert ds.groupby("policy").mean().sizes["policy"] == 2
    assert ds.load().groupby("status").mean(...)["steps"].sizes["status"] == 2


def test_stores_are_merged_and_concatenated(ds, opener, path):
    other = opener(path.with_name("b.zarr"))
    names = ["steps", "status", "status_detail"]
    merged = xr.merge(
        [ds[names], other[names]], join="outer", compat="no_conflicts", combine_attrs="drop"
    )
    assert merged["policy"].values.tolist() == ["least-loaded", "round-robin", "weighted"]
    late = ds[names].assign_coords(seed=ds["seed"] + 6)
    both = xr.concat([ds[names], late], dim="seed")
    assert both.sizes["seed"] == 12
    assert both["status"].dtype.kind == "U"


def test_gaps_are_filled_by_reindexing(ds):
    wider = ds[["steps", "status", "status_detail", "ttft_ms"]].reindex(seed=range(8))
    assert wider["steps"].isel(seed=7).isnull().all()
    assert wider["status"].isel(seed=7).isnull().all()
    assert (wider["status"].isel(seed=1) == "ok").all()


def test_cells_are_chosen_by_label(ds):
    cell = ds.sel(policy="least-loaded", seed=3).sel(gpu_blocks=133, method="nearest")
    assert cell["gpu_blocks"] == 130
    assert cell["status"] == "ok"
    assert ds.stack(cell=("policy", "seed")).unstack("cell")["steps"].equals(ds["steps"].transpose(
        "gpu_blocks", "policy", "seed"))  # fmt: skip


def test_a_table_has_a_row_per_cell(ds):
    table = ds[["preemption_rate", "status"]].to_dataframe()
    assert len(table) == 84
    assert (table["status"] == "ok").sum() == 83
    assert len(ds.to_dataframe()) == 84 * 4 * 2  # quantiles and instances too


def test_attributes_are_of_types_that_netcdf_has(ds):
    for holder in (ds, *ds.variables.values()):
        for key, value in holder.attrs.items():
            assert isinstance(value, NETCDF_TYPES), key
            assert not isinstance(value, bool), key


@pytest.mark.parametrize("name", ["a", "b"])  # all cells of b are ok
def test_results_are_exported_to_netcdf(opener, path, tmp_path, name):
    """Version 3, which SciPy writes: its integers have 32 bits, and these values fit."""
    small = opener(path.with_name(f"{name}.zarr")).load()
    small.to_netcdf(tmp_path / "a.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "a.nc", engine="scipy") as back:
        assert (back["status"] == small["status"]).all()
        assert np.array_equal(back["preemption_rate"], small["preemption_rate"], equal_nan=True)
        assert back.attrs["title"] == "small"


def test_a_copy_is_written_by_xarray(ds, tmp_path):
    small = ds[["steps", "preemption_rate"]].drop_vars("policy").load().drop_encoding()
    small.to_zarr(tmp_path / "copy.zarr", consolidated=False)
    with xr.open_zarr(tmp_path / "copy.zarr", consolidated=False) as back:
        assert back["steps"].equals(small["steps"])
