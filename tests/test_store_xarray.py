"""What people do with xarray works on a store, opened by xarray itself or by kvsweep.

Every warning is an error here (pyproject.toml).
"""

import re
import shutil

import numpy as np
import pytest
import xarray as xr
from longer import long_but
from sweeping import BASE, CLIFF, GRID, fake_batch, make_sweep
from zarr.storage import LocalStore

import kvsweep
from kvsweep import grid, plot, store
from kvsweep.analysis.request_times import TIMES, times
from kvsweep.errors import InputError
from kvsweep.plot.saving import as_svg
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


def code(ds, name):
    """Plain xarray sees codes, kvsweep names."""
    return name if ds["status"].dtype.kind == "U" else Status.labels().index(name)


@pytest.mark.long
def test_without_consolidated_metadata_it_is_the_same(path):
    with xr.open_zarr(path, consolidated=False) as one, xr.open_zarr(path) as other:
        assert one.identical(other)


def test_cells_are_masked_by_their_status(ds):
    ok = code(ds, "ok")
    good = ds.where(ds.status == ok)
    assert int(good["steps"].isnull().sum()) == 1
    assert ds[["preemption_rate"]].where(ds.status == ok)["preemption_rate"].isnull().sum() == 1
    assert (ds.where((ds.status == ok).compute(), drop=True)["status"] == ok).sum() == 83


def test_statuses_are_flags_to_xarray_and_names_to_kvsweep(ds, path):
    about = xr.open_zarr(path)["status"].attrs
    assert tuple(about["flag_meanings"].split()) == Status.labels()
    assert about["flag_values"] == [status.value for status in Status]
    names = ds["status"].values
    if names.dtype != "U10":
        assert names.dtype == np.int8
        names = np.array(about["flag_meanings"].split())[names]
    assert set(np.unique(names)) == {"ok", "livelock"}
    assert ds["status"].isin([code(ds, "livelock")]).sum() == 1


QUESTIONS = {
    "cliff": lambda ds: kvsweep.find_cliff(ds).to_dict(),
    "effects": lambda ds: kvsweep.factorial_effects(ds, "ttft_p99_ms").to_dict(),
    "front": lambda ds: kvsweep.pareto_front(ds).to_dict(),
    "comparison": lambda ds: kvsweep.compare(ds, ds.copy(), "preemption_rate").to_dict(),
    "warnings": kvsweep.warnings_of,
    "figure": lambda ds: as_svg(plot.plot_bars(ds, "ttft_p99_ms", "gpu_blocks")),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_analyses_take_the_codes_of_plain_xarray(opener, path, question):
    ask = QUESTIONS[question]
    assert str(ask(opener(path))) == str(ask(kvsweep.open_results(path)))


def test_codes_are_counted_by_name_and_gaps_as_no_value(opener, path):
    ds = opener(path)
    assert kvsweep.find_cliff(ds).missing == {"livelock": 1}
    wider = ds[["preemption_rate", "status"]].reindex(seed=range(8))
    assert kvsweep.find_cliff(wider).missing == {"livelock": 1, "no value": 28}


def test_codes_without_their_meanings_are_refused(path):
    ds = xr.open_zarr(path)
    del ds["status"].attrs["flag_meanings"]
    with pytest.raises(InputError, match="status: holds codes without the attributes"):
        kvsweep.find_cliff(ds)


def test_requests_are_drawn_by_the_codes_of_plain_xarray(tmp_path, monkeypatch, opener):
    monkeypatch.setattr("kvsweep.simulate.warm_up", lambda *_: None)
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", batch)
    path = tmp_path / "requests.zarr"
    kvsweep.run(make_sweep(tmp_path), out=path, workers=1, keep_requests=True)
    one, other = opener(path), kvsweep.open_results(path)
    for name in TIMES:
        assert times(one, name).notnull().any()
        assert np.array_equal(times(one, name), times(other, name), equal_nan=True)


def test_booleans_are_flags_of_numbers(ds, path):
    about = xr.open_zarr(path)["pruned"].attrs
    assert ds["pruned"].dtype == np.int8
    assert about["flag_meanings"] == "simulated copied"
    assert about["flag_values"] == [0, 1]
    assert set(np.unique(ds["pruned"])) <= {-1, 0, 1}


def test_cells_that_did_not_end_well_are_a_table(path):
    table = xr.open_zarr(path, group="details").load()
    row = table.to_dataframe().reset_index().iloc[0].to_dict()
    assert table.sizes == {"cell": 1}
    assert row["status"] == Status.LIVELOCK
    assert row["status_detail"] == "repeats every 7 steps, \\xe9"
    ds = kvsweep.open_results(path)
    cell = ds.sel(policy=row["policy"], gpu_blocks=row["gpu_blocks"], seed=row["seed"])
    assert cell["status"] == "livelock"
    assert cell["status_detail"] == "repeats every 7 steps, \\xe9"
    assert (ds["status_detail"] != "").sum() == 1
    assert ds["status_detail"].isel(seed=[0, 2], policy=0).shape == (7, 2)


def test_where_all_is_well_there_is_no_table_of_details(path):
    other = path.with_name("b.zarr")
    assert not (other / "details").exists()
    assert (kvsweep.open_results(other)["status_detail"] == "").all()


def test_ten_million_cells_are_opened_without_reading_one(path, monkeypatch):
    """Nor its lazy variables: names and details come when they are looked at."""
    read = []
    get = LocalStore.get

    async def noted(self, key, *args, **options):
        read.append(key)
        return await get(self, key, *args, **options)

    monkeypatch.setattr(LocalStore, "get", noted)
    ds = kvsweep.open_results(path)
    cells = re.compile(r"(\w+)/c/")
    found = [match[1] for key in read if (match := cells.match(key))]
    assert set(found) <= {str(name) for name in ds.coords}
    assert int((ds["status"] == "ok").sum()) == 83
    assert any(key.startswith("status/c/") for key in read)


def test_cells_are_grouped_by_status_and_policy(ds):
    ds.load()
    counts = ds["steps"].groupby(ds["status"]).count()
    assert set(ds[["steps", "ttft_ms"]].groupby(ds["status"]).mean(...)["status"].values) == {
        code(ds, "livelock"), code(ds, "ok")
    }  # fmt: skip
    assert counts.sel(status=code(ds, "livelock")) == 1
    assert set(ds.groupby("status").groups) == {code(ds, "livelock"), code(ds, "ok")}
    assert ds.groupby("policy").mean().sizes["policy"] == 2
    assert ds.load().groupby("status").mean(...)["steps"].sizes["status"] == 2


def test_stores_are_merged_and_concatenated(ds, opener, path):
    other = opener(path.with_name("b.zarr"))
    names = ["steps", "status"]
    merged = xr.merge(
        [ds[names], other[names]], join="outer", compat="no_conflicts", combine_attrs="drop"
    )
    assert merged["policy"].values.tolist() == ["least-loaded", "round-robin", "weighted"]
    late = ds[names].assign_coords(seed=ds["seed"] + 6)
    both = xr.concat([ds[names], late], dim="seed")
    assert both.sizes["seed"] == 12
    assert both["status"].dtype == ds["status"].dtype
    assert xr.concat([ds, ds.assign_coords(seed=ds["seed"] + 6)], dim="seed").sizes["seed"] == 12


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")  # text
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_seeds_are_appended_by_xarray(path, tmp_path):
    shutil.copytree(path, tmp_path / "a.zarr")
    late = xr.open_zarr(path).assign_coords(seed=range(6, 12)).load()
    late.to_zarr(tmp_path / "a.zarr", append_dim="seed")
    with xr.open_zarr(tmp_path / "a.zarr") as both, xr.open_zarr(path) as first:
        assert both["seed"].values.tolist() == list(range(12))
        assert both.isel(seed=slice(6)).drop_attrs().equals(first.drop_attrs())
        assert np.array_equal(both["steps"].isel(seed=slice(6, 12)), late["steps"])


def test_gaps_are_filled_by_reindexing(ds):
    wider = ds[["steps", "status", "ttft_ms"]].reindex(seed=range(8))
    assert wider["steps"].isel(seed=7).isnull().all()
    assert wider["status"].isel(seed=7).isnull().all()
    assert (wider["status"].isel(seed=1) == code(ds, "ok")).all()


def test_cells_are_chosen_by_label(ds):
    cell = ds.sel(policy="least-loaded", seed=3).sel(gpu_blocks=133, method="nearest")
    assert cell["gpu_blocks"] == 130
    assert cell["status"] == code(ds, "ok")
    assert ds.stack(cell=("policy", "seed")).unstack("cell")["steps"].equals(ds["steps"].transpose(
        "gpu_blocks", "policy", "seed"))  # fmt: skip


def test_a_table_has_a_row_per_cell(ds):
    table = ds[["preemption_rate", "status"]].to_dataframe()
    assert len(table) == 84
    assert (table["status"] == code(ds, "ok")).sum() == 83
    assert len(ds.to_dataframe()) == 84 * 4 * 2  # quantiles and instances too


def test_attributes_are_of_types_that_netcdf_has(ds):
    for holder in (ds, *ds.variables.values()):
        for key, value in holder.attrs.items():
            assert isinstance(value, NETCDF_TYPES), key
            assert not isinstance(value, bool), key


@pytest.mark.parametrize("name", long_but(["a", "b"], "a"))  # all cells of b are ok
def test_results_are_exported_to_netcdf(opener, path, tmp_path, name):
    """Version 3, which SciPy writes: its integers have 32 bits, and these values fit."""
    small = opener(path.with_name(f"{name}.zarr")).load()
    small.to_netcdf(tmp_path / "a.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "a.nc", engine="scipy") as back:
        assert (back["status"] == small["status"]).all()
        assert np.array_equal(back["preemption_rate"], small["preemption_rate"], equal_nan=True)
        assert back.attrs["title"] == "small"


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")  # text
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_a_copy_is_written_by_xarray(ds, tmp_path):
    ds.load().to_zarr(tmp_path / "copy.zarr")  # what is lazy has chunks of its own
    with xr.open_zarr(tmp_path / "copy.zarr") as back:
        assert set(back.variables) == set(ds.variables)
        assert all(back[name].equals(ds[name]) for name in ds.variables)


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")  # text
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize(
    "part",
    [
        lambda ds: ds.sel(policy="least-loaded"),
        lambda ds: ds.expand_dims(run=[1]),
        lambda ds: ds.chunk(seed=1),
    ],
)
def test_a_part_is_written_by_xarray(path, tmp_path, part):
    """Zarr refused a chosen policy: its array has a dimension less than the shards of the store."""
    some = part(kvsweep.open_results(path)[["steps", "ttft_ms", "ttft_p99_ms"]])
    some.to_zarr(tmp_path / "part.zarr")
    with xr.open_zarr(tmp_path / "part.zarr") as back:
        assert all(back[name].equals(some[name]) for name in some.variables)
