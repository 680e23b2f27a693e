import errno
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from longer import long_but
from sweeping import BASE, CLIFF, GRID, fake_batch, make_sweep, preemption_rate, tree

import kvsweep
from kvsweep import grid, store
from kvsweep._jit import hash_of
from kvsweep.errors import InputError
from kvsweep.metrics import VARIABLES
from kvsweep.policies import Status
from kvsweep.simulate import source_hash
from kvsweep.store import by_zarr, fast
from kvsweep.store.folder import Folder


def cut(cells, chunks):
    return grid.Plan(**{**vars(cells), "chunks": chunks})


def results_of(cells, task, sweep, **options):
    chosen = cells.variant_indices(task)
    variants = [cells.variants[i] for i in chosen]
    policies = [cells.policies[i] for i in chosen]
    return fake_batch(
        variants,
        cells.seeds_of(task),
        entropy=sweep.entropy,
        policies=policies,
        base_dir=None,
        slo_classes=cells.extra.get("slo_class", ()),
        **options,
    )


def fill(path, sweep, *, chunks=(2, 3, 4), keep_requests=False, order=1, upto=None):
    """Fill a store without Dask: tasks in `order`, `upto` so many of them."""
    cells = cut(grid.plan(sweep, keep_requests=keep_requests), chunks)
    target = store.prepare(path, sweep, cells, source_hash(), keep_requests=keep_requests)
    for task in target.pending()[::order][:upto]:
        target.write(task, results_of(cells, task, sweep, keep_requests=keep_requests))
    if upto is None:
        target.finish()
    return target


@pytest.fixture
def sweep(tmp_path):
    return make_sweep(tmp_path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "small.zarr"


def test_values_are_found_by_their_labels(sweep, path):
    fill(path, sweep)
    ds = kvsweep.open_results(path)
    for policy in ("round-robin", "least-loaded"):
        cell = ds.sel(policy=policy, gpu_blocks=120, seed=4)
        assert cell["preemption_rate"] == preemption_rate(120, 4)
        assert cell["status"] == "ok"
    assert not np.array_equal(ds["steps"].sel(policy="round-robin"), ds["steps"].isel(policy=1))


# Every warning is an error here (pyproject.toml).
def test_plain_xarray_opens_a_store_without_warnings(sweep, path):
    fill(path, sweep)
    with xr.open_dataset(path, engine="zarr", consolidated=False) as ds:
        assert ds["policy"].values.tolist() == ["round-robin", "least-loaded"]
        assert (ds["status"].values == Status.OK).all()
        assert ds["steps"].dtype == np.int64


def test_every_variable_and_coordinate_has_unit_and_meaning(sweep, path):
    fill(path, sweep, keep_requests=True)
    ds = kvsweep.open_results(path)
    for name, array in ds.variables.items():
        assert array.attrs["units"], name
        assert array.attrs["long_name"], name


def test_quantiles_are_there_under_their_own_names(sweep, path):
    fill(path, sweep)
    ds = kvsweep.open_results(path)
    assert np.array_equal(ds["ttft_p99_ms"], ds["ttft_ms"].sel(quantile=0.99))
    assert ds["ttft_p50_ms"].attrs["units"] == "ms"
    assert "0.5 quantile" in ds["ttft_p50_ms"].attrs["long_name"]


def test_variables_come_in_the_order_of_the_registry(sweep, path):
    fill(path, sweep)
    names = [name for name in kvsweep.open_results(path) if name in VARIABLES]
    assert names == [v.name for v in grid.plan(sweep).variables]


def test_cells_not_simulated_say_so(sweep, path):
    fill(path, sweep, upto=1)
    ds = kvsweep.open_results(path)
    todo = ds.where(ds["status"] == "pending", drop=True)
    assert todo["status"].size > 0
    assert todo["preemption_rate"].isnull().all()
    pending = ds["status"].values == "pending"
    assert (ds["steps"].values[pending] == -1).all()


def test_attributes_tell_what_the_store_is(sweep, path):
    fill(path, sweep)
    attributes = kvsweep.open_results(path).attrs
    assert attributes["title"] == "small"
    assert attributes["question"] == "what if?"
    assert attributes["toml"] == BASE + GRID
    assert attributes["rules"] == "vllm"
    assert attributes["kvsweep"] == kvsweep.__version__
    assert attributes["seed_entropy"] == sweep.entropy
    assert set(attributes) >= {"source_hash", "numba", "numpy", "xarray", "zarr"}
    assert json.loads(attributes["sweep"])["grid"]["seed"] == list(range(6))


@pytest.mark.parametrize("keep_requests", [False, True])
def test_order_and_interruption_leave_no_trace(sweep, tmp_path, keep_requests):
    whole, pieces = tmp_path / "whole.zarr", tmp_path / "pieces.zarr"
    fill(whole, sweep, keep_requests=keep_requests)
    fill(pieces, sweep, keep_requests=keep_requests, order=-1, upto=2)
    fill(pieces, sweep, keep_requests=keep_requests)
    assert tree(whole) == tree(pieces)


def dying(monkeypatch, after):
    """Let the process end after so many changes of files; return what counts them."""
    changes = []

    def counted(change):
        def call(*args, **options):
            if len(changes) == after:
                raise KeyboardInterrupt
            changes.append(args[1:2])
            return change(*args, **options)

        return call

    for name in ("put", "delete", "delete_folder", "make"):
        monkeypatch.setattr(Folder, name, counted(getattr(Folder, name)))
    return changes


@pytest.mark.long
def test_a_kill_at_any_moment_is_repaired(tmp_path, monkeypatch):
    """Within a task, between two, while a shard is packed, while the store is completed."""
    sweep = make_sweep(tmp_path, BASE + '[grid]\npolicy = ["round-robin"]\nseed = [0, 1, 2]\n')
    with monkeypatch.context() as patch:
        changes = dying(patch, None)
        fill(tmp_path / "whole.zarr", sweep, chunks=(1, 1))
    whole = tree(tmp_path / "whole.zarr")
    assert len(changes) > len(whole) / 2
    for after in range(0, len(changes), 5):
        path = tmp_path / f"{after}.zarr"
        with monkeypatch.context() as patch:
            dying(patch, after)
            with pytest.raises(KeyboardInterrupt):
                fill(path, sweep, chunks=(1, 1))
        for half in ("steps/c/0/0", "status/parts/1", "status/parts/1.0123abcd"):
            (path / half).parent.mkdir(parents=True, exist_ok=True)
            (path / f"{half}.partial").write_bytes(b"half a file")
        kvsweep.open_results(path).load()
        fill(path, sweep, chunks=(1, 1))
        assert tree(path) == whole, after


@pytest.mark.long
def test_a_kill_while_damage_is_mended_is_repaired(sweep, tmp_path, monkeypatch):
    fill(tmp_path / "whole.zarr", sweep)
    whole = tree(tmp_path / "whole.zarr")
    for after in range(0, 40, 3):
        path = tmp_path / f"{after}.zarr"
        shutil.copytree(tmp_path / "whole.zarr", path)
        file = path / "steps" / "c" / "0" / "0" / "0"
        file.write_bytes(b"\0" + file.read_bytes()[1:])
        with monkeypatch.context() as patch:
            dying(patch, after)
            with pytest.raises(KeyboardInterrupt):
                fill(path, sweep)
        fill(path, sweep)
        assert tree(path) == whole, after


@pytest.mark.parametrize("keep_requests", long_but([False, True], True))
def test_the_files_are_those_that_zarr_writes(sweep, path, tmp_path, keep_requests):
    chunks = (2, 3, 4)  # which leaves smaller blocks at the ends
    fill(path, sweep, chunks=chunks, keep_requests=keep_requests)
    fill(tmp_path / "zarr.zarr", sweep, chunks=chunks, keep_requests=keep_requests, upto=0)
    ours, theirs = zarr.open_group(path), zarr.open_group(tmp_path / "zarr.zarr")
    for name, array in ours.arrays():
        theirs[name][...] = array[...]
    aside = ("zarr.json", "status/checksums/", "status/parts/")
    written, by_zarr = (
        {k: v for k, v in tree(store).items() if not k.startswith(aside)}
        for store in (path, tmp_path / "zarr.zarr")
    )
    assert written == by_zarr


@pytest.mark.parametrize("without", long_but(["AVAILABLE", "agrees"], "agrees"))
def test_zarr_itself_writes_where_it_must(sweep, path, tmp_path, monkeypatch, without):
    """No library of ours for chunks, or one that gives other bytes: the store is the same."""
    fill(tmp_path / "whole.zarr", sweep)
    monkeypatch.setattr(fast, without, False if without == "AVAILABLE" else lambda: False)
    calls = []
    encoded = by_zarr.encoded
    monkeypatch.setattr(by_zarr, "encoded", lambda *args: calls.append(0) or encoded(*args))
    fast.agrees.cache_clear() if without == "AVAILABLE" else None
    fill(path, sweep)
    assert calls
    assert tree(path) == tree(tmp_path / "whole.zarr")


@pytest.fixture(autouse=True)
def asked_again():
    yield
    fast.agrees.cache_clear()


def test_what_is_written_without_zarr_is_compared_with_zarr(monkeypatch):
    fast.agrees.cache_clear()
    assert fast.agrees()
    fast.agrees.cache_clear()
    monkeypatch.setattr(fast, "morton", lambda place: 0)  # another order of the chunks
    assert not fast.agrees()


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")  # text
def test_the_metadata_are_those_that_zarr_writes(sweep, path, tmp_path):
    fill(path, sweep, keep_requests=True, upto=0)
    for name, array in zarr.open_group(path).arrays():
        zarr.create_array(
            tmp_path / "zarr.zarr" / name, shape=array.shape, chunks=array.chunks,
            shards=array.shards, dtype=array.dtype, compressors=array.compressors,
            fill_value=array.fill_value,
            dimension_names=array.metadata.dimension_names, attributes=dict(array.attrs),
        )  # fmt: skip
        theirs = json.loads((tmp_path / "zarr.zarr" / name / "zarr.json").read_text())
        assert json.loads((path / name / "zarr.json").read_text()) == theirs


def test_a_chunk_without_values_takes_the_place_of_one_with_values(sweep, path):
    target = fill(path, sweep)
    task = target.plan.tasks[0]
    target.write_failure(task, "lost")
    steps = kvsweep.open_results(path)["steps"].values
    assert (steps[task.region] == -1).all()
    assert (steps >= 0).sum() == steps.size - target.plan.size(task)


def test_a_kill_while_a_store_is_created_leaves_none(sweep, path, monkeypatch):
    def dies(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("kvsweep.store.writing.replace_file", dies)
        with pytest.raises(KeyboardInterrupt):
            fill(path, sweep)
    assert not path.exists()
    fill(path, sweep)
    assert sorted(p.name for p in path.parent.iterdir()) == ["small.toml", "small.zarr"]


def test_cells_of_a_failed_worker_carry_no_numbers_and_are_tried_again(sweep, path, tmp_path):
    target = fill(path, sweep, upto=0)
    task = target.pending()[0]
    target.write(task, results_of(target.plan, task, sweep))
    target.write_failure(task, "KilledWorker: lost")
    failed = kvsweep.open_results(path).isel(dict(zip(target.plan.dims, task.region, strict=True)))
    assert (failed["status"] == "failed").all()
    assert (failed["status_detail"] == "KilledWorker: lost").all()
    assert failed["preemption_rate"].isnull().all()
    assert (failed["steps"] == -1).all()
    fill(path, sweep)
    fill(tmp_path / "whole.zarr", sweep)
    assert tree(path) == tree(tmp_path / "whole.zarr")


def test_small_clusters_are_padded_to_the_largest(tmp_path, path):
    sweep = make_sweep(tmp_path, BASE + '[grid]\n"cluster.instances" = [1, 3]\nseed = [0, 1]\n')
    fill(path, sweep, chunks=(1, 2))
    peak = kvsweep.open_results(path)["peak_blocks"]
    assert (peak.sel(instances=1) >= 0).sum("instance").values.tolist() == [1, 1]
    assert (peak.sel(instances=3) >= 0).all()


def test_classes_are_found_by_name(tmp_path, path):
    clients = "".join(
        f'[[workload.clients]]\nid = "{name}"\nslo_class = "{name}"\n'
        for name in ("batch", "critical")
    )
    fill(path, make_sweep(tmp_path, BASE + clients + GRID))
    ds = kvsweep.open_results(path)
    assert ds["slo_class"].values.tolist() == ["critical", "batch"]
    found = ds["ttft_by_class_p99_ms"].sel(slo_class="batch", policy="round-robin")
    assert found.notnull().all()


def test_a_store_of_one_cell(tmp_path, path):
    sweep = make_sweep(tmp_path, BASE + "[grid]\nseed = [7]\n")
    fill(path, sweep, chunks=(1,))
    assert kvsweep.open_results(path)["seed"].values.tolist() == [7]


@pytest.mark.parametrize("keep_requests", [False, True])
def test_a_store_of_a_sweep_without_axes(tmp_path, path, keep_requests):
    fill(path, make_sweep(tmp_path, BASE), chunks=(), keep_requests=keep_requests)
    ds = kvsweep.open_results(path).load()
    assert (ds["status"].dims, ds["status"].item()) == ((), "ok")
    assert ds["status_detail"].item() == ""
    assert ("request_status" in ds) == keep_requests
    assert xr.open_zarr(path)["status"].load().item() == Status.OK


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("requests = 20", "requests = 21", r"scenario\.workload\.requests is 20 in the store, 21"),
        ("step = 10", "step = 20", r"grid\.cache\.gpu_blocks has 7 values in the store, 4"),
        ("count = 6", "count = 7", r"grid\.seed has 6 values in the store, 7"),
        ('"round-robin", ', "", r"grid\.policy has 2 values in the store, 1 in the sweep"),
        ("beta = [1000", "beta = [999", r"scenario\.latency\.beta\[0\] is 1000\.0 in the store"),
    ],
)
def test_a_store_of_another_sweep_is_refused(tmp_path, path, sweep, old, new, message):
    fill(path, sweep, upto=1)
    before = tree(path)
    other = make_sweep(tmp_path, (BASE + GRID).replace(old, new))
    with pytest.raises(InputError, match=message) as caught:
        fill(path, other)
    assert "--overwrite" in str(caught.value)
    assert tree(path) == before


def test_title_and_analysis_may_change(tmp_path, path, sweep):
    fill(path, sweep, upto=1)
    other = make_sweep(tmp_path, (BASE + GRID + CLIFF).replace("what if?", "what then?"))
    fill(path, other)
    fill(tmp_path / "whole.zarr", other)
    assert tree(path) == tree(tmp_path / "whole.zarr")


@pytest.mark.parametrize(
    ("changed", "decides"),
    [
        ("presets/llama-3.1-8b/h100/tp2.toml", True),
        ("sizing/gpus.toml", True),
        ("config/roofline.py", True),
        ("kernel/engine.py", True),
        ("cli/explore.py", False),
        ("plot/style.py", False),
    ],
)
def test_the_hash_of_sources_is_of_all_that_decides_numbers(tmp_path, changed, decides):
    package = Path(kvsweep.__file__).parent
    copied = tmp_path / "kvsweep"
    shutil.copytree(package, copied, ignore=shutil.ignore_patterns("__pycache__"))
    assert hash_of(copied) == source_hash()
    with (copied / changed).open("r+") as file:
        file.seek(0, 2)
        file.write("# other\n")
    assert (hash_of(copied) != source_hash()) == decides


@pytest.mark.parametrize(
    ("attribute", "value"), [("source_hash", "0123"), ("numpy", "1.0"), ("numba", "0.0")]
)
def test_a_store_made_by_other_code_is_refused(sweep, path, attribute, value):
    fill(path, sweep, upto=1)
    store.update_attributes(path, {attribute: value})
    with pytest.raises(InputError, match=f"made by .*{value}"):
        fill(path, sweep)


@pytest.mark.parametrize("library", long_but(["kvsweep", "xarray", "zarr"], "xarray"))
def test_a_store_goes_on_with_another_version_of_what_decides_no_number(sweep, path, library):
    """It still says what made it, and keeps what was found since."""
    fill(path, sweep, upto=1)
    store.update_attributes(path, {library: "0.0", "cliff": "{}"})
    cells = cut(grid.plan(sweep), (2, 3, 4))
    assert len(store.pending(path, sweep, cells, source_hash())) == len(cells.tasks) - 1
    assert store.prepare(path, sweep, cells, source_hash()).attributes[library] == "0.0"
    assert kvsweep.open_results(path).attrs["cliff"] == "{}"
    fill(path, sweep)
    assert kvsweep.open_results(path).attrs[library] == "0.0"
    assert store.difference_of_makers(kvsweep.open_results(path).attrs, source_hash()) == ""


def test_a_store_with_other_columns_is_refused(sweep, path):
    fill(path, sweep, keep_requests=True, upto=1)
    with pytest.raises(InputError, match="made with --requests"):
        fill(path, sweep)


def test_a_store_made_with_pruning_is_not_continued_without(sweep, path):
    fill(path, sweep, upto=1)
    with pytest.raises(InputError, match="made with pruning"):
        store.prepare(path, sweep, grid.plan(sweep), source_hash(), prune=False)


def test_a_store_with_other_chunks_is_refused(sweep, path):
    fill(path, sweep, upto=1)
    with pytest.raises(InputError, match="laid out by another version"):
        fill(path, sweep, chunks=(1, 3, 4))


def test_overwrite_starts_again(tmp_path, path, sweep):
    fill(path, sweep)
    other = make_sweep(tmp_path, (BASE + GRID).replace("requests = 20", "requests = 21"))
    cells = grid.plan(other)
    target = store.prepare(path, other, cells, source_hash(), overwrite=True)
    assert target.pending() == list(cells.tasks)


def test_only_stores_are_overwritten(sweep, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not overwritten"):
        store.prepare(tmp_path / "thesis", sweep, grid.plan(sweep), source_hash(), overwrite=True)
    assert (tmp_path / "thesis" / "chapter1.tex").exists()


def break_root(path):
    (path / "zarr.json").write_text("{")


def remove_root(path):
    (path / "zarr.json").unlink()


def break_array(path):
    (path / "status" / "zarr.json").write_text('{"zarr_format": 3}')


def break_chunk(path):
    chunk = path / "status" / "c" / "0" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-7])


def make_foreign(path):
    store.update_attributes(path, {"format": "something else"})


@pytest.mark.parametrize("damage", [break_root, remove_root, make_foreign])
def test_a_store_without_its_root_is_told_in_one_line(sweep, path, damage):
    fill(path, sweep)
    damage(path)
    for action in (lambda: kvsweep.open_results(path), lambda: fill(path, sweep)):
        with pytest.raises(InputError, match=r"small\.zarr: ") as caught:
            action()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", [break_array, break_chunk])
def test_a_damaged_store_is_told_in_one_line_and_repaired(sweep, path, damage):
    fill(path, sweep)
    before = tree(path)
    damage(path)
    with pytest.raises(InputError, match=r"small\.zarr: damaged: status/") as caught:
        kvsweep.open_results(path)
    assert "\n" not in str(caught.value)
    fill(path, sweep)
    assert tree(path) == before


def test_a_damaged_variable_is_told_when_it_is_read(sweep, path):
    fill(path, sweep)
    chunk = path / "steps" / "c" / "0" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-7])
    ds = kvsweep.open_results(path, verify=False)
    assert store.load(ds, "preemption_rate")["preemption_rate"].notnull().all()
    with pytest.raises(InputError, match=r"small\.zarr: cannot be read"):
        store.load(ds)


def test_no_store_is_told_with_what_makes_one(tmp_path):
    with pytest.raises(InputError, match=r"none\.zarr: no such store; `kvsweep grid"):
        kvsweep.open_results(tmp_path / "none.zarr")


def test_a_store_of_version_1_is_told_with_the_way_on(sweep, path):
    fill(path, sweep)
    store.update_attributes(path, {"format": "kvsweep-store/1"})
    before = tree(path)
    for action in (
        lambda: kvsweep.open_results(path),
        lambda: fill(path, sweep),
        lambda: store.check_store(path),
        lambda: store.update_attributes(path, {"title": "x"}),
    ):
        with pytest.raises(InputError, match=r"version 1, .* --overwrite` makes it anew") as caught:
            action()
        assert "\n" not in str(caught.value)
    assert tree(path) == before
    steps = kvsweep.open_results(path, verify=False)["steps"]
    assert (steps >= 0).all()
    store.prepare(path, sweep, grid.plan(sweep), source_hash(), overwrite=True)
    assert (kvsweep.open_results(path)["status"] == "pending").all()


def test_an_unwritable_place_is_told_in_one_line(sweep, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        store.prepare(tmp_path / "file" / "small.zarr", sweep, grid.plan(sweep), source_hash())


def test_no_permission_and_no_path_are_not_damage(tmp_path, monkeypatch):
    def refuses(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with pytest.raises(InputError, match=r"is not a path: .*embedded null"):
        kvsweep.open_results("a\0b.zarr")
    monkeypatch.setattr("kvsweep.store.folder.regular_bytes", refuses)
    with pytest.raises(InputError, match=r"a\.zarr: zarr\.json cannot be read: Permission denied"):
        kvsweep.open_results(tmp_path / "a.zarr")


def test_an_archive_or_another_file_is_told_to_be_none(tmp_path):
    (tmp_path / "a.zarr.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match=r"a\.zarr\.zip: is a file, .*: of an archive unpack it"):
        kvsweep.open_results(tmp_path / "a.zarr.zip")


def test_every_table_of_the_package_that_sweeps_name_decides_numbers(tmp_path):
    """With other speeds of links a store went on, and had cells of both."""
    package = Path(kvsweep.__file__).parent
    copied = tmp_path / "kvsweep"
    shutil.copytree(package, copied, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    tables = {path.relative_to(copied).as_posix() for path in copied.rglob("*.toml")}
    known, silent = hash_of(copied), set()
    for name in tables - {name for name in tables if name.startswith("studies/")}:
        content = (copied / name).read_bytes()
        (copied / name).write_bytes(content + b"# other\n")
        silent |= {name} if hash_of(copied) == known else set()
        (copied / name).write_bytes(content)
    assert silent == {"vllm_command/options.toml"}
