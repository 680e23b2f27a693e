"""Full disks, other people's files, links, locks: nothing is lost, and nothing is half done."""

import errno
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from longer import long_but
from sweeping import BASE, CLIFF, GRID, make_sweep, stand_in, start_python, tree

import kvsweep
from kvsweep import files, store
from kvsweep.errors import InputError
from kvsweep.store import lock


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    stand_in(monkeypatch, 4e-4)


@pytest.fixture
def sweep(tmp_path):
    return make_sweep(tmp_path, BASE + GRID + CLIFF)


def run(sweep, out="a.zarr", **options):
    return kvsweep.run(sweep, out=out, workers=1, **options)


def hidden():
    return sorted(path.name for path in Path().iterdir() if path.name.startswith("."))


# A disk that fills, or a quota: write() takes what fits and says how much that was, then fails.


class Disk:
    """A disk with `space` bytes, which writes at most `at_once` of them at a time."""

    def __init__(self, space=sys.maxsize, at_once=sys.maxsize):
        self.space, self.at_once = space, at_once

    def write(self, file, data):
        taken = min(len(data), self.space, self.at_once)
        if taken == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.space -= taken
        return os.write(file, data[:taken])


def test_a_disk_that_takes_a_little_at_a_time_loses_nothing(sweep, monkeypatch):
    run(sweep, "whole.zarr")
    monkeypatch.setattr(files, "_write", Disk(at_once=7).write)
    run(sweep)
    assert tree(Path("a.zarr")) == tree(Path("whole.zarr"))


@pytest.mark.parametrize("share", long_but([0.1, 0.6, 0.8, 0.9, 0.95, 0.99], 0.9))
def test_a_full_disk_is_told_and_the_run_goes_on_with_space(sweep, monkeypatch, share):
    run(sweep, "whole.zarr")
    whole = tree(Path("whole.zarr"))
    space = int(share * sum(map(len, whole.values())))
    with monkeypatch.context() as patch:
        patch.setattr(files, "_write", Disk(space).write)
        with pytest.raises(InputError, match=r"a\.zarr: cannot be written: No space left") as told:
            run(sweep)
    assert "\n" not in str(told.value)
    assert hidden() == []
    if Path("a.zarr").exists():
        ds = kvsweep.open_results("a.zarr").load()
        done = ds["status"].values == "ok"
        assert not (done.all() and ds.attrs["complete"])  # that is the last to be written
        assert (ds["steps"].values[done] >= 0).all()
    run(sweep)
    assert tree(Path("a.zarr")) == whole


def test_a_full_disk_keeps_the_store_that_was_to_be_overwritten(sweep, monkeypatch):
    run(sweep)
    before = tree(Path("a.zarr"))
    monkeypatch.setattr(files, "_write", Disk(30_000).write)
    with pytest.raises(InputError, match="No space left"):
        run(sweep, overwrite=True)
    assert tree(Path("a.zarr")) == before
    assert hidden() == []


def test_a_store_on_a_full_disk_keeps_its_attributes(sweep, monkeypatch):
    run(sweep)
    before = tree(Path("a.zarr"))
    monkeypatch.setattr(files, "_write", Disk(100).write)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        store.update_attributes("a.zarr", {"cliff": "x"})
    assert tree(Path("a.zarr")) == before


# A store that is moved or deleted while it is filled.


@pytest.mark.parametrize(
    "move", long_but([shutil.rmtree, lambda path: Path(path).rename("b.zarr")], shutil.rmtree)
)
def test_a_store_that_goes_away_is_told_and_does_not_begin_again(sweep, move):
    def goes(done, total):
        if done:
            move("a.zarr")

    with pytest.raises(InputError, match="moved or deleted while it was being filled") as told:
        run(sweep, progress=goes)
    assert "\n" not in str(told.value)
    assert not Path("a.zarr").exists()
    if Path("b.zarr").exists():
        run(sweep, "whole.zarr")
        run(sweep, "b.zarr")
        assert tree(Path("b.zarr")) == tree(Path("whole.zarr"))


# What others made is neither deleted nor replaced.


@pytest.mark.parametrize("overwrite", long_but([False, True], True))
def test_names_that_people_give_backups_are_theirs(sweep, overwrite):
    run(sweep)
    for ending in ("new", "old", "part", "bak"):
        Path(f"a.zarr.{ending}").mkdir()
        Path(f"a.zarr.{ending}/notes").write_text("precious")
    if not overwrite:
        shutil.rmtree("a.zarr")
    run(sweep, overwrite=overwrite)
    for ending in ("new", "old", "part", "bak"):
        assert Path(f"a.zarr.{ending}/notes").read_text() == "precious"


def make_group(path):
    import zarr

    zarr.open_group(path, mode="w", attributes={"title": "my thesis"})["x"] = __import__(
        "numpy"
    ).arange(3)


def make_group_of_old_zarr(path):
    path.mkdir()
    root = {"attributes": {}, "zarr_format": 3, "consolidated_metadata": None}
    (path / "zarr.json").write_text(json.dumps(root | {"node_type": "group"}))


def make_measurement(path):
    import xarray as xr

    ds = xr.Dataset({"x": ("t", [1.0])}, attrs={"format": "kvsweep-prefix/1"})
    store.save_dataset(path, ds)


def make_folder(path):
    path.mkdir()


def make_file(path):
    path.write_text("chapter 1")


NO_STORE = "is no store"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (make_group, NO_STORE),
        (make_group_of_old_zarr, NO_STORE),
        (make_measurement, "is (no store|a store of another kind)"),
        (make_folder, NO_STORE),
        (make_file, "is (no store|a file, and a store is a folder)"),
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_only_stores_of_results_are_overwritten(sweep, make, told, overwrite):
    make(Path("b.zarr"))
    before = tree(Path("b.zarr"))
    with pytest.raises(InputError, match=rf"b\.zarr: {told}"):
        run(sweep, "b.zarr", overwrite=overwrite)
    assert tree(Path("b.zarr")) == before
    assert Path("b.zarr").exists()


@pytest.mark.parametrize(
    "name",
    long_but(
        ["notes.txt", "steps/notes.txt", "steps/c/notes", "mine/zarr.json", "mine/c/0", ".x"],
        "steps/c/notes",
    ),
)
def test_a_store_with_other_things_in_it_is_not_overwritten(sweep, name):
    run(sweep)
    file = Path("a.zarr", name)
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text("{}")
    with pytest.raises(InputError, match=re.escape(f"has '{name.split('/c')[0].split('/z')[0]}")):
        run(sweep, overwrite=True)
    assert file.read_text() == "{}"
    run(sweep)  # and goes on being a store
    assert file.read_text() == "{}"


def test_a_link_in_a_store_is_not_followed(sweep):
    run(sweep)
    Path("elsewhere").mkdir()
    Path("elsewhere/data").write_text("far away")
    Path("a.zarr/steps/c/9").symlink_to(Path("elsewhere").resolve())
    with pytest.raises(InputError, match="which kvsweep did not make"):
        run(sweep, overwrite=True)
    assert Path("elsewhere/data").exists()


@pytest.mark.parametrize(
    "out",
    long_but(
        ["a.zarr/b.zarr", "a.zarr/steps/b.zarr", "link/b.zarr"],
        "a.zarr/steps/b.zarr",
        "link/b.zarr",
    ),
)
def test_nothing_is_written_into_a_store(sweep, out):
    run(sweep)
    Path("link").symlink_to("a.zarr")
    before = tree(Path("a.zarr"))
    with pytest.raises(InputError, match="lies in the store"):
        run(sweep, out)
    with pytest.raises(InputError, match="lies in the store"), files.written("a.zarr/zarr.json"):
        pass
    assert tree(Path("a.zarr")) == before


def make_link(path):
    Path("precious").write_text("text")
    path.symlink_to("precious")


def make_text(path):
    path.write_text("precious text")


@pytest.mark.parametrize("make", [make_link, make_text, os.mkfifo])
def test_what_has_the_name_of_a_lock_and_is_none_is_kept(sweep, make):
    make(Path(".a.zarr.lock"))
    with pytest.raises(InputError, match=r"^a\.zarr: cannot be written: "):
        run(sweep)
    assert Path(".a.zarr.lock").is_fifo() or "text" in Path(".a.zarr.lock").read_text()
    assert not Path("a.zarr").exists()


def test_a_half_written_file_that_is_a_link_is_not_followed(tmp_path):
    make_link(Path("x.partial"))
    with pytest.raises(OSError, match="symbolic links"):
        files.replace_file("x", b"data")
    assert Path("precious").read_text() == "text"


def test_a_measurement_replaces_only_measurements(sweep):
    run(sweep)
    before = tree(Path("a.zarr"))
    with pytest.raises(InputError, match="is not overwritten"):
        make_measurement(Path("a.zarr"))
    assert tree(Path("a.zarr")) == before
    make_measurement(Path("m.zarr"))
    make_measurement(Path("m.zarr"))
    assert hidden() == []


@pytest.mark.long
def test_a_link_to_a_store_stays_one(sweep):
    run(sweep, "far.zarr")
    before = tree(Path("far.zarr"))
    Path("a.zarr").symlink_to("far.zarr")
    for overwrite in (False, True):
        run(sweep, overwrite=overwrite)
        assert Path("a.zarr").is_symlink()
        assert tree(Path("far.zarr")) == before
    shutil.rmtree("far.zarr")
    run(sweep)  # to where the link leads
    assert tree(Path("far.zarr")) == before


def test_a_link_to_something_else_keeps_it(sweep):
    make_folder(Path("thesis"))
    Path("thesis/chapter").write_text("1")
    Path("a.zarr").symlink_to("thesis")
    with pytest.raises(InputError, match="is not overwritten"):
        run(sweep, overwrite=True)
    assert Path("thesis/chapter").exists()
    assert Path("a.zarr").is_symlink()


def test_what_killed_runs_left_is_removed_if_it_is_surely_theirs(sweep):
    run(sweep)
    shutil.copytree("a.zarr", ".a.zarr.0123abcd.part")
    Path(".a.zarr.00000000.part").mkdir()
    kept = [".a.zarr.mine.part", ".a.zarr.89abcdef.part", ".b.zarr.0123abcd.part"]
    for name in kept:
        Path(name).mkdir()
        Path(name, "notes").write_text("precious")
    run(sweep)
    assert hidden() == sorted(kept)


KILLED_WHILE_DELETING = """
import os
from pathlib import Path
from kvsweep.store import folders

folders._unused = lambda path: path.with_name(f".{path.name}.0123abcd.part")
unlink, left = os.unlink, iter(range(40))
def dies(*args, **options):
    if next(left, None) is None:
        os.kill(os.getpid(), 9)
    unlink(*args, **options)
os.unlink = dies
folders.remove(Path("a.zarr").rename(".a.zarr.0123abcd.part"))
"""


@pytest.mark.long
def test_a_kill_while_the_old_store_is_deleted_is_cleared_up(sweep):
    run(sweep)
    before = tree(Path("a.zarr"))
    with start_python(KILLED_WHILE_DELETING) as process:
        process.wait()
    assert hidden() == [".a.zarr.0123abcd.part"]
    run(sweep)
    assert hidden() == []
    assert tree(Path("a.zarr")) == before


# Names that are none.


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("x" * 300, "File name too long"),
        ("deep/" + "x" * 300 + "/a.zarr", "File name too long"),
        ("a\0b.zarr", "null"),
        ("loop.zarr", "Too many levels of symbolic links"),
        ("file/a.zarr", "cannot be written"),
    ],
)
def test_names_that_cannot_be_are_told_in_one_line(sweep, out, message):
    Path("loop.zarr").symlink_to("loop.zarr")
    Path("file").write_text("")
    before = sorted(Path().iterdir())
    with pytest.raises(InputError, match=message) as told:
        run(sweep, out)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 400
    assert sorted(Path().iterdir()) == before


def test_a_name_as_long_as_can_be_is_one(sweep):
    name = "é" * 125 + ".zarr"
    assert len(name.encode()) == 255
    run(sweep, name)
    run(sweep, name, overwrite=True)
    assert hidden() == []


# One run at a time.

HOLDS = """
import sys, time
from pathlib import Path
from kvsweep.store import lock
{setting}
with lock.locked(Path("a.zarr")):
    print("held", flush=True)
    sys.stdin.readline() if {waits} else time.sleep(1000)
"""
WITHOUT_LOCKS = "lock.fcntl = None"


@pytest.mark.parametrize("setting", long_but(["", WITHOUT_LOCKS], ""))
def test_a_second_run_is_told_who_writes_the_store(sweep, monkeypatch, setting):
    if setting:
        monkeypatch.setattr(lock, "fcntl", None)
    with start_python(HOLDS.format(setting=setting, waits=False)) as process:
        try:
            assert process.stdout.readline() == "held\n"
            with pytest.raises(InputError, match=f"a.zarr: process {process.pid} on ") as told:
                run(sweep)
            assert "is writing it" in str(told.value)
            assert "\n" not in str(told.value)
            assert not Path("a.zarr").exists()
        finally:
            process.kill()
    run(sweep)  # what the killed process left does not stop anybody
    assert hidden() == []


def test_a_file_system_without_locks_is_noticed(sweep, monkeypatch):
    def has_none(descriptor, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock.fcntl, "flock", has_none)
    run(sweep)
    with lock.locked(Path("a.zarr")):
        assert hidden()
        with pytest.raises(InputError, match=f"process {os.getpid()} on "):
            run(sweep)


def test_a_lock_of_another_machine_is_not_taken_for_stale(sweep, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    Path(".a.zarr.pid").write_text("1 elsewhere")
    with pytest.raises(InputError, match=r"process 1 on elsewhere .*delete \.a\.zarr\.pid"):
        run(sweep)


def test_a_lock_of_another_container_of_this_host_is_not_taken_for_stale(sweep, monkeypatch):
    """Containers may have one host name, and number their processes each by itself."""
    monkeypatch.setattr(lock, "fcntl", None)
    there = lock.here().rpartition("-")[0]
    nobody = 2**22 + 1  # more than Linux numbers processes to
    Path(".a.zarr.pid").write_text(f"{nobody} {there}-1")
    with pytest.raises(InputError, match=rf"process {nobody} on [^/ ]+ \(or, if that has ended"):
        run(sweep)
    Path(".a.zarr.pid").write_text(f"{nobody} {lock.here()}")
    run(sweep)


def test_reading_needs_no_lock(sweep):
    run(sweep)
    with lock.locked(Path("a.zarr")):
        assert (kvsweep.open_results("a.zarr")["status"] == "ok").all()


def test_what_is_whole_where_nothing_may_be_written_is_read(sweep, monkeypatch):
    """Else who is given a store to read could not give its sweep to `run`, nor share 2 of it."""
    ds = run(sweep)
    run(sweep, "part.zarr", shard="1/2")
    larger = make_sweep(Path(), (BASE + GRID + CLIFF).replace("count = 6", "count = 7"))
    before = tree(Path("a.zarr")), tree(Path("part.zarr"))

    def read_only(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(lock, "_lock", read_only)
    assert run(sweep).identical(ds)
    assert run(sweep, shard="2/3").identical(ds)
    refused = [
        (sweep, "part.zarr", {}),
        (sweep, "part.zarr", {"shard": "2/2"}),
        (sweep, "none.zarr", {}),
        (sweep, "a.zarr", {"overwrite": True}),
        (larger, "a.zarr", {"extend": True}),
    ]
    for which, out, options in refused:
        with pytest.raises(InputError, match="cannot be written: Read-only file system"):
            run(which, out, **options)
    with pytest.raises(InputError, match="made from another sweep"):
        run(larger)
    assert (tree(Path("a.zarr")), tree(Path("part.zarr"))) == before
    (Path("a.zarr") / "steps/c/0/0/0").write_bytes(b"")
    with pytest.raises(InputError, match="cannot be written: Read-only file system"):
        run(sweep)


@pytest.mark.skipif(lock.fcntl is None, reason="without the system's locks")
def test_a_lock_whose_file_its_last_owner_has_just_removed_is_made_anew(tmp_path, monkeypatch):
    """A lock on a file without a name keeps nobody out."""
    real, calls = lock.fcntl.flock, []

    def late(descriptor, how):
        if not calls:
            (tmp_path / ".a.zarr.lock").unlink()
        calls.append(how)
        real(descriptor, how)

    monkeypatch.setattr(lock.fcntl, "flock", late)
    store = tmp_path / "a.zarr"
    with lock.locked(store), pytest.raises(lock.BusyError), lock.locked(store):
        pass


def test_a_link_with_the_name_of_what_a_killed_run_leaves_is_not_followed(sweep):
    run(sweep, out="other.zarr")
    before = tree(Path("other.zarr"))
    link = Path(".a.zarr.0123abcd.part")
    link.symlink_to("other.zarr")
    run(sweep)
    assert link.is_symlink()
    assert tree(Path("other.zarr")) == before


def test_the_record_of_another_sweep_vouches_for_nothing(sweep, tmp_path):
    run(sweep)
    whole = tree(Path("a.zarr"))
    other = make_sweep(tmp_path, (BASE + GRID + CLIFF).replace("requests = 20", "requests = 21"))
    run(other, out="other.zarr")
    (record,) = (file for file in Path("a.zarr/status/checksums").iterdir())
    shutil.copy(Path("other.zarr", *record.parts[1:]), record)
    assert kvsweep.verify("a.zarr").damaged == (record.relative_to("a.zarr").as_posix(),)
    with pytest.raises(InputError, match=r"a\.zarr: damaged: status/checksums/"):
        kvsweep.open_results("a.zarr")
    run(sweep)
    assert tree(Path("a.zarr")) == whole


def test_nothing_is_packed_into_another_store_of_the_same_name(sweep):
    """As when somebody restores an older copy of it meanwhile."""
    copies = []

    def restored(done, total):
        if done and not copies:
            Path("a.zarr").rename("moved.zarr")
            shutil.copytree("moved.zarr", "a.zarr")
            copies.append(tree(Path("a.zarr")))

    with pytest.raises(InputError, match=r"a\.zarr: was moved or deleted while it was being fill"):
        run(sweep, progress=restored)
    now = tree(Path("a.zarr"))  # workers, which cannot tell, may have put their parts there
    assert {name: now[name] for name in now if "/parts/" not in name} == {
        name: data for name, data in copies[0].items() if "/parts/" not in name
    }


def test_a_link_to_itself_is_no_damaged_store(tmp_path):
    (tmp_path / "self.zarr").symlink_to("self.zarr")
    with pytest.raises(InputError, match=r"self\.zarr: is no store: Too many levels of symbolic"):
        kvsweep.open_results(tmp_path / "self.zarr")


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(InputError, match=r"cannot be written: \S*taken is a file, not a folder"):
        kvsweep.run(make_sweep(tmp_path), out=tmp_path / "taken" / "b.zarr")
