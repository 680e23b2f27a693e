"""Whatever happens to a file of a store, no other number is read, and `run` repairs it.

The number of damaged stores of each kind is the environment variable `KVSWEEP_FUZZ` (20).
"""

import errno
import os
import random
import shutil
import warnings
from contextlib import contextmanager

import pytest
from damage import KINDS, files_of
from longer import long_but
from sweeping import BASE, CLIFF, GRID, fake_batch, make_sweep, tree

import kvsweep
import kvsweep.store.folder
from kvsweep import grid
from kvsweep.errors import InputError

pytestmark = pytest.mark.slow

TRIALS = int(os.environ.get("KVSWEEP_FUZZ", "20"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sweep, its finished store of several tasks, and what is read from it."""
    folder = tmp_path_factory.mktemp("whole")
    sweep = make_sweep(folder, BASE + GRID + CLIFF)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvsweep.simulate.simulate_batch", fake_batch)
        patch.setattr("kvsweep.simulate.warm_up", lambda *_: None)
        patch.setattr(grid, "CHUNK_SECONDS", (4e-4, 4e-4))
        cells = grid.plan(sweep)
        assert len(cells.tasks) > 4
        bytes_of_task = cells.bytes / len(cells.tasks)
        patch.setattr("kvsweep.store.sharding.SHARD_BYTES", 2.5 * bytes_of_task)
        ds = kvsweep.run(sweep, out=folder / "a.zarr", workers=1).load()
        assert len(files_of(folder / "a.zarr" / "status" / "checksums")) > 2
        yield sweep, folder / "a.zarr", ds


@contextmanager
def damaged(path, kind, seed):
    """Damage a file of the store at `path` for the block; give its name and if it changed."""
    rng = random.Random(f"{kind} {seed}")
    file = rng.choice(files_of(path))
    before = file.read_bytes()
    KINDS[kind](file, rng)
    try:
        changed = not file.exists() or file.read_bytes() != before
        yield file.relative_to(path).as_posix(), changed
    finally:
        file.write_bytes(before)


def read(path):
    """Return what is read from a store, or the error."""
    try:
        return kvsweep.open_results(path).load()
    except InputError as error:
        return str(error)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", long_but(KINDS, "truncate", "swap"))
def test_damage_is_never_read_as_numbers(whole, kind):
    _, path, before = whole
    refused = 0
    for seed in range(TRIALS):
        with damaged(path, kind, seed) as (name, changed):
            found = read(path)
            if isinstance(found, str):
                assert changed
                assert found.startswith(f"{path}: ")
                assert "\n" not in found
                refused += 1
            else:
                # White space at the end of the root, or a swap of equal files, changes nothing.
                assert not changed or name == "zarr.json", (kind, seed, name)
                assert found.identical(before), (kind, seed, name)
    print(f"{kind}: {TRIALS} stores, {refused} refused, {TRIALS - refused} read the same")
    assert refused >= 0.6 * TRIALS


def test_damage_is_never_read_as_numbers_of_a_few_cells(whole, tmp_path):
    """Zarr reads parts of a file by other means than the whole."""
    sound, damaged = whole[1], tmp_path / "a.zarr"
    shutil.copytree(sound, damaged)
    for file in files_of(damaged / "steps" / "c"):
        KINDS["flip_a_bit"](file, random.Random(0))
    for at in ({"seed": 0}, {"seed": 5, "gpu_blocks": 2, "policy": 1}):
        kvsweep.open_results(sound)["steps"].isel(at).load()
        with pytest.raises(InputError):
            kvsweep.open_results(damaged)["steps"].isel(at).load()


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_named_and_their_cells_run_again(whole, kind):
    sweep, path, ds = whole
    told = []
    for seed in range(6):
        files = tree(path)
        with damaged(path, kind, seed) as (name, changed):
            if name == "zarr.json":
                continue
            assert kvsweep.verify(path, sample=0).damaged == ((name,) if changed else ())
            kvsweep.run(sweep, out=path, workers=1, notify=told.append)
            assert kvsweep.open_results(path).load().identical(ds), (kind, seed, name)
            assert tree(path) == files
    assert told
    assert all("1 damaged file" in line for line in told)


def test_damage_of_the_metadata_costs_no_cells(whole, monkeypatch):
    def fails(*args, **options):
        raise AssertionError("simulated again")

    sweep, path, ds = whole
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fails)
    files = tree(path)
    for name in ("steps/zarr.json", "gpu_blocks/c/0", "policy/zarr.json"):
        (path / name).write_bytes(b"rubbish")
        with pytest.raises(InputError, match=f"damaged: {name} changed since written"):
            kvsweep.open_results(path)
        assert kvsweep.run(sweep, out=path).identical(ds)
        assert tree(path) == files


def test_a_changed_label_unit_or_attribute_is_found(whole):
    _, path, _ = whole
    root = path / "zarr.json"
    text = root.read_text()
    for old, new in (
        ('"title": "small"', '"title": "other"'),
        ('"units": "ms"', '"units": "s"'),
        ('"fill_value": -1', '"fill_value": 0'),
        ('"complete": 1', '"complete": 0'),
        ('"cliff\\"', '"cloff\\"'),
    ):
        assert old in text
        root.write_text(text.replace(old, new, 1))
        with pytest.raises(InputError, match=r"damaged: zarr\.json changed since written"):
            kvsweep.open_results(path)
    root.write_text(text)
    kvsweep.open_results(path)


def test_cells_of_another_task_are_not_taken_for_those_of_this_one(whole, tmp_path):
    _, path, _ = whole
    copy = tmp_path / "c.zarr"
    shutil.copytree(path, copy)
    for file in files_of(copy):
        of_first = file.as_posix().replace("/c/0/0/1", "/c/0/0/0")
        if of_first != file.as_posix():
            shutil.copy(file, of_first)
    shutil.copy(copy / "status/checksums/0.0.1", copy / "status/checksums/0.0.0")
    with pytest.raises(InputError, match="damaged"):
        kvsweep.open_results(copy)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "name",
    long_but(
        ["zarr.json", "steps/zarr.json", "steps/c/0/0/0", "record"], "zarr.json", "steps/c/0/0/0"
    ),
)
def test_a_pipe_or_device_in_a_store_is_damage_and_is_not_waited_for(whole, tmp_path, name):
    sweep, path, _ = whole
    record = next((path / "status/checksums").iterdir()).relative_to(path)
    for make in (os.mkfifo, lambda file: os.symlink("/dev/zero", file)):
        shutil.copytree(path, tmp_path / "b.zarr")
        file = tmp_path / "b.zarr" / (record if name == "record" else name)
        file.unlink()
        make(file)
        with pytest.raises(InputError, match="damaged: "):
            kvsweep.open_results(tmp_path / "b.zarr")
        if name != "zarr.json":
            kvsweep.run(sweep, out=tmp_path / "b.zarr", workers=1)
            assert tree(tmp_path / "b.zarr") == tree(path)
        shutil.rmtree(tmp_path / "b.zarr")


def test_a_store_without_checksums_is_not_read_unless_told(whole, tmp_path):
    ds = whole[2]
    copy = tmp_path / "c.zarr"
    shutil.copytree(whole[1], copy)
    root = copy / "zarr.json"
    root.write_text(root.read_text().replace('"checksums"', '"forgotten"', 1))
    with pytest.raises(InputError, match="has no checksums"):
        kvsweep.open_results(copy)
    assert kvsweep.open_results(copy, verify=False)["steps"].equals(ds["steps"])
    before = tree(copy)
    for more in ({}, {"extend": True}, {"shard": "1/2"}):
        with pytest.raises(InputError, match="has no checksums"):
            kvsweep.run(whole[0], out=copy, workers=1, **more)
    assert tree(copy) == before


def test_a_copy_by_another_program_is_left_as_it_is(whole, tmp_path):
    """Its cells were simulated again and written over, with arrays that were added beside them."""
    copy = tmp_path / "c.zarr"
    with warnings.catch_warnings(action="ignore"):  # of Zarr's, of texts
        whole[2].to_zarr(copy)
    before = tree(copy)
    with pytest.raises(InputError, match="has no checksums"):
        kvsweep.run(whole[0], out=copy, workers=1)
    with pytest.raises(InputError, match=r"another program laid out its arrays; xarray\.open_zarr"):
        kvsweep.open_results(copy, verify=False)
    assert tree(copy) == before


@pytest.mark.parametrize("name", ["steps/zarr.json", "steps/c/0/0/0", "record"])
def test_a_file_that_may_not_be_read_is_no_damage(whole, monkeypatch, name):
    sweep, path, _ = whole
    record = next((path / "status/checksums").iterdir()).relative_to(path)
    name = record if name == "record" else name
    for how in ("regular_bytes", "open_own"):
        real = getattr(kvsweep.store.folder, how)

        def read_but_one(file, real=real):
            if str(file).endswith(str(name)):
                raise PermissionError(errno.EACCES, "Permission denied")
            return real(file)

        monkeypatch.setattr(kvsweep.store.folder, how, read_but_one)
    before = tree(path)
    told = rf"a\.zarr: {name} cannot be read: Permission denied$"
    for ask in (lambda: kvsweep.open_results(path).load(), lambda: kvsweep.verify(path, sample=0)):
        with pytest.raises(InputError, match=told):
            ask()
    with pytest.raises(InputError, match=told):
        kvsweep.run(sweep, out=path, workers=1)
    assert tree(path) == before


@pytest.mark.parametrize("name", ["steps/zarr.json", "steps/c/0/0/0"])
def test_a_folder_in_the_place_of_a_file_is_named(whole, name):
    """It was "a.zarr: cannot be written: Is a directory"."""
    sweep, path, _ = whole
    file = path / name
    before = file.read_bytes()
    file.unlink()
    file.mkdir()
    told = rf"a\.zarr: cannot be written: .*/a\.zarr/{name} is a folder, not a file; delete it"
    with pytest.raises(InputError, match=told):
        kvsweep.run(sweep, out=path, workers=1)
    file.rmdir()
    kvsweep.run(sweep, out=path, workers=1)
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"null", b"{", b"\xff"])
def test_of_a_root_that_cannot_be_read_a_remedy_is_told(whole, tmp_path, content):
    """Nothing said what to do, and --overwrite refuses what may be another's."""
    sweep, path, _ = whole
    store = shutil.copytree(path, tmp_path / "a.zarr")
    (store / "zarr.json").write_bytes(content)
    remedy = "put back a copy of it, or delete the store and make it anew"
    told = rf"a\.zarr: damaged: zarr\.json cannot be read: .*; {remedy}$"
    with pytest.raises(InputError, match=told):
        kvsweep.open_results(store)
    with pytest.raises(InputError, match=told):
        kvsweep.run(sweep, out=store, workers=1)
    with pytest.raises(InputError, match=told.replace("$", "; so it is not overwritten$")):
        kvsweep.run(sweep, out=store, workers=1, overwrite=True)


def test_a_root_that_is_a_folder_is_told_so(whole):
    """The reason was "[Errno 21] Is a directory: 5", of a file that was left open."""
    sweep, path, _ = whole
    (path / "zarr.json").unlink()
    (path / "zarr.json").mkdir()
    told = r"a\.zarr: damaged: zarr\.json cannot be read: is a folder; put back a copy of it"
    before = len(os.listdir("/dev/fd"))
    for ask in (kvsweep.open_results, kvsweep.verify):
        with pytest.raises(InputError, match=told):
            ask(path)
    assert len(os.listdir("/dev/fd")) == before
    with pytest.raises(InputError, match=told):
        kvsweep.run(sweep, out=path, workers=1)
