"""Stores at addresses: what is taken for one, and equal to the byte in a bucket in memory."""

import logging
import time
from contextlib import suppress
from pathlib import Path
from threading import current_thread, main_thread

import fsspec
import pytest
import xarray as xr
from longer import long_but
from stores import write_store, written
from sweeping import BASE, CLIFF, GRID, make_sweep, stand_in, tree

import kvsweep
from kvsweep.addresses import Address, is_same, located, overlap
from kvsweep.errors import InputError
from kvsweep.store import bucket, leases, lock, objects, parts, storage
from kvsweep.store.bucket import Bucket
from kvsweep.store.lock import BusyError

TEXT = BASE + GRID + CLIFF
MORE = TEXT.replace("count = 6", "count = 9")


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    stand_in(monkeypatch, 4e-4)
    for name in ("RENEW_EVERY", "WATCH_EVERY"):
        monkeypatch.setattr(leases, name, 0.05)
    monkeypatch.setattr(leases, "DEAD_AFTER", 0.5)
    yield
    fsspec.filesystem("memory").rm("/", recursive=True)


@pytest.fixture
def sweep(tmp_path):
    return make_sweep(tmp_path, TEXT)


@pytest.fixture
def whole():
    write_store("whole.zarr", TEXT)
    return written(TEXT)


def run(sweep, out="memory://kept/a.zarr", **options):
    return kvsweep.run(sweep, out=out, workers=1, **options)


def there(url="memory://kept/a.zarr"):
    """Return every object of a store with its content."""
    fs, path = fsspec.core.url_to_fs(url)
    found = {}
    for name in fs.find(path):
        with suppress(FileNotFoundError):  # a run that goes on may delete it meanwhile
            found[name[len(path) + 1 :]] = fs.cat_file(name)
    return found


def hidden():
    found = fsspec.filesystem("memory").find("/")
    return [name for name in found if "/." in name]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("s3://bucket", "names no store"),
        ("s3://", "names no store"),
        ("s3://bucket/a//b.zarr", "expected names between single slashes"),
        ("s3://bucket/../b.zarr", "expected names between single slashes"),
        ("s3://bucket/*.zarr", "expected names between single slashes"),
        ("simplecache::s3://bucket/a.zarr", "a chain of addresses"),
        ("ftp://me:hush@host/a.zarr", r"ftp://me:\*\*\*@host/a.zarr: has a password"),
        ("az://box/a.zarr?sig=hush", r"az://box/a.zarr\?\*\*\*: has a password"),
    ],
)
def test_what_cannot_be_the_address_of_a_store_is_refused_in_one_line(sweep, given, message):
    for use in (lambda: run(sweep, given), lambda: kvsweep.open_results(given)):
        with pytest.raises(InputError, match=message) as told:
            use()
        assert "\n" not in str(told.value)
        assert "hush" not in str(told.value)
    assert sorted(p.name for p in Path().iterdir()) == ["small.toml"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("s4://bucket/a.zarr", "^s4://bucket/a.zarr: no protocol 's4'"),
        ("https://host/a.zarr", "^https://host/a.zarr: nothing is written or listed by https"),
    ],
)
def test_protocols_that_cannot_be_used_are_told(sweep, given, message):
    with pytest.raises(InputError, match=message):
        run(sweep, given)


def test_a_missing_package_is_told_with_the_command_that_installs_it(sweep, monkeypatch):
    def missing(*_, **__):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(InputError, match=r"^s3://nowhere/a\.zarr: needs .* 'kvsweep\[remote\]'`"):
        run(sweep, "s3://nowhere/a.zarr")
    with pytest.raises(InputError, match=r"^gs://nowhere/a\.zarr: needs .*`pip install gcsfs`"):
        run(sweep, "gs://nowhere/a.zarr")


def test_a_path_that_lost_a_slash_is_an_address_and_file_a_path():
    assert located(Path("s3://bucket/a.zarr")) == Address("s3", "bucket/a.zarr")
    assert located("file:///tmp/a.zarr") == Path("/tmp/a.zarr")
    assert located("./s3:/a.zarr") == Path("./s3:/a.zarr")


def test_a_store_at_an_address_is_that_of_a_folder_to_the_byte(sweep, whole):
    ds = run(sweep)
    assert there() == whole
    assert hidden() == []
    assert ds.identical(kvsweep.open_results("memory://kept/a.zarr"))
    assert ds.load().identical(kvsweep.open_results("whole.zarr").load())
    assert int(xr.open_zarr("memory://kept/a.zarr").status.sum()) == ds.status.size
    assert kvsweep.verify("memory://kept/a.zarr", sample=1).ok
    assert not any("memory:" in text.decode(errors="replace") for text in there().values())


def test_a_run_that_is_cut_short_goes_on(sweep, whole):
    def stops(done, total):
        if done > total / 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(sweep, progress=stops)
    partly = kvsweep.open_results("memory://kept/a.zarr")
    assert 0 < int((partly.status == "ok").sum()) < partly.status.size
    run(sweep)
    assert there() == whole


@pytest.mark.parametrize("after", long_but(range(0, 120, 23), 46))
def test_a_kill_at_any_moment_is_repaired(sweep, whole, monkeypatch, after):
    calls = []
    real = Bucket._try

    def dies(self, action):
        if current_thread() is main_thread():  # whose end is that of all others
            if len(calls) == after:
                raise KeyboardInterrupt
            calls.append(0)
        return real(self, action)

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "_try", dies)
        with pytest.raises(KeyboardInterrupt):
            run(sweep)
    run(sweep)
    assert there() == whole
    assert hidden() == []


@pytest.mark.long
def test_shares_and_merging_and_more_seeds_give_the_same_store(sweep, whole, tmp_path):
    for k in (2, 1):
        run(sweep, "memory://kept/shared.zarr", shard=f"{k}/2")
        run(sweep, f"memory://kept/{k}.zarr", shard=f"{k}/2")
    assert there("memory://kept/shared.zarr") == whole
    kvsweep.merge(["memory://kept/1.zarr", "memory://kept/2.zarr"], out="memory://kept/m.zarr")
    assert there("memory://kept/m.zarr") == whole
    more = make_sweep(tmp_path, MORE)
    run(more, "memory://kept/m.zarr", extend=True)
    kvsweep.run(more, out="more.zarr", workers=1)
    assert there("memory://kept/m.zarr") == tree(Path("more.zarr"))
    assert hidden() == []


def test_a_larger_store_whose_move_was_cut_short_takes_its_place(sweep, tmp_path, monkeypatch):
    run(sweep)
    more = make_sweep(tmp_path, MORE)
    kvsweep.run(more, out="more.zarr", workers=1)
    copies = []
    real = Bucket.copy

    def dies(self, name, other):
        if len(copies) == 5:
            raise KeyboardInterrupt
        copies.append(name)
        real(self, name, other)

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "copy", dies)
        with pytest.raises(KeyboardInterrupt):
            run(more, extend=True)
    simulated = []
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", lambda *a, **k: simulated.append(a))
    run(more, extend=True)
    assert there() == tree(Path("more.zarr"))
    assert simulated == []
    assert hidden() == []


def test_overwriting_deletes_a_store_and_nothing_else(sweep, whole):
    run(sweep, keep_requests=True)
    fsspec.filesystem("memory").pipe_file("/kept/a.zarr/mine.txt", b"x")
    with pytest.raises(InputError, match=r"'mine\.txt' in it, which kvsweep did not make"):
        run(sweep, overwrite=True)
    fsspec.filesystem("memory").rm_file("/kept/a.zarr/mine.txt")
    run(sweep, overwrite=True)
    assert there() == whole


def test_nothing_is_written_where_something_else_is(sweep):
    fsspec.filesystem("memory").pipe_file("/kept/data/mine.txt", b"x")
    with pytest.raises(InputError, match="is no store of kvsweep"):
        run(sweep, "memory://kept/data")
    assert there("memory://kept/data") == {"mine.txt": b"x"}


def test_damage_is_never_read_and_is_mended(sweep, whole):
    run(sweep)
    name = next(name for name in whole if name.startswith("steps/c/"))
    data = bytearray(whole[name])
    data[5] ^= 1
    fsspec.filesystem("memory").pipe_file(f"/kept/a.zarr/{name}", bytes(data))
    with pytest.raises(InputError, match="changed since written"):
        kvsweep.open_results("memory://kept/a.zarr").steps.load()
    run(sweep)
    assert there() == whole
    fsspec.filesystem("memory").rm_file(f"/kept/a.zarr/{name}")
    with pytest.raises(InputError, match="changed since written"):
        kvsweep.open_results("memory://kept/a.zarr")


def test_a_store_that_goes_away_is_told_and_does_not_begin_again(sweep, monkeypatch):
    monkeypatch.setattr(bucket, "LOOK_EVERY", 0.0)

    def goes(done, total):
        while done and there():
            with suppress(FileNotFoundError):  # another thread is writing and deleting parts
                fsspec.filesystem("memory").rm("/kept/a.zarr", recursive=True)

    with pytest.raises(InputError, match=r"there is no zarr\.json in it any more") as told:
        run(sweep, progress=goes)
    assert "is kept" not in str(told.value)
    assert there() == {}


def test_a_second_run_is_refused_while_the_first_lives(sweep, whole):
    def another(done, total):
        if done == total:
            with pytest.raises(InputError, match=r"process \d+ on \S+ is writing it; wait"):
                run(sweep)

    run(sweep, progress=another)
    assert there() == whole


def test_the_lease_of_a_run_that_died_elsewhere_is_taken_over(sweep, whole):
    lease = storage(located("memory://kept/.a.zarr.leases"))
    lease.put("store", b"77 elsewhere/01234567 abc 1")
    run(sweep)
    assert there() == whole
    assert hidden() == []


def test_a_run_that_was_taken_for_dead_ends_when_it_finds_out(sweep, monkeypatch):
    monkeypatch.setattr(bucket, "LOOK_EVERY", 0.0)
    lease = storage(located("memory://kept/.a.zarr.leases"))
    address = located("memory://kept/a.zarr")

    def taken(done, total):
        if done and not leases._held[address].lost:
            lease.put("store", b"77 elsewhere/01234567 abc 1")
            while not leases._held[address].lost:
                time.sleep(0.01)

    with pytest.raises(InputError, match="process 77 on elsewhere writes it now"):
        run(sweep, progress=taken)


def test_a_bucket_without_conditional_writes_is_told(sweep, caplog, monkeypatch):
    memory = type(fsspec.filesystem("memory"))
    real = memory.pipe_file
    monkeypatch.setattr(memory, "pipe_file", lambda self, path, data, **_: real(self, path, data))
    with caplog.at_level(logging.WARNING, "kvsweep"):
        run(sweep)
    assert "has no conditional writes" in caplog.text


def test_what_may_pass_is_tried_again_and_what_may_not_is_told_at_once(monkeypatch):
    monkeypatch.setattr(bucket, "PAUSE", 0.01)
    place = Bucket(Address("memory", "kept/a.zarr"))
    memory = type(fsspec.filesystem("memory"))
    real, tries = memory.pipe_file, []

    def ill(self, path, data, **options):
        tries.append(path)
        if len(tries) < 4:
            raise ConnectionError("no route to host")
        real(self, path, data, **options)

    monkeypatch.setattr(memory, "pipe_file", ill)
    place.put("x", b"data")
    assert place.get("x") == b"data"

    def denied(*_, **__):
        tries.append("")
        raise PermissionError("wrong key")

    monkeypatch.setattr(memory, "pipe_file", denied)
    tries.clear()
    with pytest.raises(InputError, match=r"memory://kept/a\.zarr: access denied: wrong key"):
        place.put("x", b"data")
    assert len(tries) == 1


def test_a_deletion_that_is_cut_short_leaves_what_is_known_for_a_store(sweep, monkeypatch):
    run(sweep)
    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "delete", lambda *_: None)
        objects.remove(located("memory://kept/a.zarr"))
    assert list(there()) == ["zarr.json"]
    run(sweep, overwrite=True)
    assert kvsweep.open_results("memory://kept/a.zarr").attrs["complete"]


def test_who_could_not_be_heard_of_while_the_bucket_was_away_is_not_taken_for_dead(monkeypatch):
    """Its next renewal is waited for, as if it had been seen first when the bucket came back."""
    monkeypatch.setattr(leases, "_is_dead", lambda there: False)
    address = located("memory://kept/a.zarr")
    other = storage(located("memory://kept/.a.zarr.leases"))
    other.put("store", b"1 elsewhere/ token 0")
    get, calls = Bucket.get, []

    def away(self, name):
        calls.append(time.monotonic())
        found = get(self, name)
        if len(calls) == 3:
            time.sleep(3 * leases.DEAD_AFTER)
        if len(calls) == 6:  # a while after the bucket came back
            other.put("store", b"1 elsewhere/ token 1")
        return found

    monkeypatch.setattr(Bucket, "get", away)
    with (
        pytest.raises(BusyError, match="process 1 on elsewhere is writing it"),
        leases.held(address),
    ):
        pass
    assert get(other, "store") == b"1 elsewhere/ token 1"


def test_a_process_of_another_container_of_this_host_is_not_taken_for_dead(monkeypatch):
    mine = lock.here()
    monkeypatch.setattr("os.readlink", lambda _: "pid:[1]")
    assert lock.here() != mine
    nobody = 2**22 + 1  # more than Linux numbers processes to
    assert not leases._is_dead(f"{nobody} {mine} token 0".encode())
    assert leases._is_dead(f"{nobody} {lock.here()} token 0".encode())


def test_what_a_bucket_keeps_that_was_to_be_deleted_is_told(sweep, monkeypatch):
    """Of many objects s3fs does not tell which S3 refused to delete; of one it does."""
    run(sweep)
    store = Bucket(located("memory://kept/a.zarr"))
    store.put(parts.name_of(0), b"late")
    store.put(parts.name_of(1), b"late")
    memory = type(fsspec.filesystem("memory"))

    def refused(*_):
        raise PermissionError("no DeleteObject")

    with monkeypatch.context() as patch:
        patch.setattr(memory, "rm", lambda *_: [])
        patch.setattr(memory, "rm_file", refused)
        for delete in (lambda: parts.clear(store), lambda: objects.remove(store.path)):
            with pytest.raises(InputError, match=r"a\.zarr: access denied: no DeleteObject"):
                delete()
    parts.clear(store)
    assert store.names(parts.FOLDER) == []


def test_what_may_be_a_bug_is_told_with_its_kind(monkeypatch):
    def wrong(*_, **__):
        raise TypeError("unexpected keyword 'mode'")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "pipe_file", wrong)
    with pytest.raises(InputError, match=r"a\.zarr: TypeError: unexpected keyword") as told:
        Bucket(located("memory://kept/a.zarr")).put("x", b"data")
    assert isinstance(told.value.__cause__, TypeError)


def test_what_is_whole_is_read_with_keys_that_may_not_write(sweep, monkeypatch):
    ds = run(sweep)

    def denied(*_, **__):
        raise PermissionError("no PutObject")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "pipe_file", denied)
    assert run(sweep).identical(ds)
    with pytest.raises(InputError, match=r"a\.zarr: access denied: no PutObject"):
        run(sweep, overwrite=True)


def test_without_comparison_no_number_of_another_run_is_read(sweep):
    run(sweep)
    ds = kvsweep.open_results("memory://kept/a.zarr", verify=False)
    ds["ttft_p99_ms"].load()
    run(make_sweep(Path(), MORE), overwrite=True)
    with pytest.raises(InputError, match="the store was replaced or extended since it was opened"):
        ds["ttft_p50_ms"].load()


def test_a_worker_that_cannot_reach_the_bucket_sends_what_it_has_at_once(sweep, whole, monkeypatch):
    """It tried again for a minute, with each task."""
    memory = type(fsspec.filesystem("memory"))
    real = memory.cat_file

    def cut_off(self, path, **options):
        if current_thread() is not main_thread() and "/parts/" in path:
            raise ConnectionError("no route to host")
        return real(self, path, **options)

    monkeypatch.setattr(memory, "cat_file", cut_off)
    monkeypatch.setattr(bucket, "PAUSE", None)  # no number to wait for
    run(sweep)
    assert there() == whole


def test_no_store_is_made_in_another(sweep):
    """The outer one could not be replaced or extended any more."""
    run(sweep)
    before = there()
    for inner in ("memory://kept/a.zarr/b.zarr", "memory://kept/a.zarr/mine/b.zarr"):
        with pytest.raises(InputError, match=r"lies in the store memory://kept/a\.zarr, whose"):
            run(sweep, inner)
    assert there() == before


@pytest.mark.parametrize("text", ["file://results/a.zarr", "local://localhost/tmp/a.zarr"])
def test_a_file_address_of_two_slashes_is_no_folder_of_the_root(text):
    """It was `/results/a.zarr`, where to URLs it is a host and to fsspec the current folder's."""
    with pytest.raises(InputError, match=r":///PATH with three slashes, or the path$"):
        located(text)


def test_a_store_is_written_by_runs_that_share_it_or_by_one_alone():
    address = located("memory://kept/a.zarr")
    with leases.held(address), pytest.raises(BusyError), leases.held(address, shared=True):
        pass
    with leases.held(address, shared=True):
        with pytest.raises(BusyError), leases.held(address):
            pass
        with leases.held(address, shared=True):
            pass


def test_the_loss_of_a_lease_is_noticed_once_another_of_the_same_store_is_given_back():
    address = located("memory://kept/a.zarr")
    share = storage(located("memory://kept/.a.zarr.leases"))
    with leases.held(address, "1-of-2.lock"):
        with leases.held(address, shared=True):
            pass
        share.put("1-of-2", b"77 elsewhere/01234567 abc 1")
        last = time.monotonic() + 20.0
        while not leases._held[address].lost and time.monotonic() < last:
            time.sleep(0.01)
        with pytest.raises(InputError, match="process 77 on elsewhere writes it now"):
            leases.check(address)


def test_who_waits_for_a_sign_of_life_is_told_of_it_once(caplog, monkeypatch):
    monkeypatch.setattr(leases, "TELL_AFTER", 0.1)
    storage(located("memory://kept/.a.zarr.leases")).put("store", b"77 elsewhere/01234567 abc 1")
    with leases.held(located("memory://kept/a.zarr")):
        pass
    told = "memory://kept/a.zarr: process 77 on elsewhere was writing it; waiting up to"
    assert caplog.text.count(told) == 1


def test_what_a_move_leaves_behind_is_removed_by_the_next_run(sweep, tmp_path, monkeypatch):
    """Objects without a root are no store, beside which none could be extended any more."""
    run(sweep)
    real = objects._delete

    def dies(bucket, names):
        if str(bucket.path).endswith(".larger"):
            raise KeyboardInterrupt
        real(bucket, names)

    with monkeypatch.context() as patch:
        patch.setattr(objects, "_delete", dies)
        with pytest.raises(KeyboardInterrupt):
            run(make_sweep(tmp_path, MORE), extend=True)
    assert len(hidden()) > 1
    more = make_sweep(tmp_path, TEXT.replace("count = 6", "count = 12"))
    run(more, extend=True)
    kvsweep.run(more, out="more.zarr", workers=1)
    assert there() == tree(Path("more.zarr"))
    assert hidden() == []


def test_what_the_smaller_store_alone_had_is_not_in_the_larger(sweep, tmp_path):
    run(sweep)
    late = "/kept/a.zarr/status/parts/0"
    fsspec.filesystem("memory").pipe_file(late, b"of a worker that was late")
    more = make_sweep(tmp_path, MORE)
    run(more, extend=True)
    kvsweep.run(more, out="more.zarr", workers=1)
    assert there() == tree(Path("more.zarr"))


def test_a_larger_store_takes_no_place_but_that_of_its_smaller_one(sweep, tmp_path, monkeypatch):
    """Nor takes one that is half done the place of one of the same sweep that is whole."""
    run(sweep)
    before = there()
    more = make_sweep(tmp_path, MORE)

    def dies(*_):
        raise KeyboardInterrupt

    for at in ("kvsweep.store.objects.move", "kvsweep.store.filling.Store.accept"):
        with monkeypatch.context() as patch:
            patch.setattr(at, dies)
            with pytest.raises(KeyboardInterrupt):
                run(more, extend=True)
        run(sweep)  # whether the larger one is whole
        assert there() == before
        run(more, overwrite=True)
        whole = there()
        with monkeypatch.context() as patch:
            patch.setattr("kvsweep.simulate.simulate_batch", dies)
            run(more)
        assert there() == whole
        objects.remove(located("memory://kept/.a.zarr.larger"))
        run(sweep, overwrite=True)
        assert there() == before


def test_a_store_whose_only_seed_is_0_has_no_object_of_it(tmp_path, monkeypatch):
    """Zarr writes no chunk in which all is the fill value."""
    put = Bucket.put

    def put_bytes(self, name, data, **options):
        put(self, name, memoryview(data).tobytes(), **options)  # else a TypeError

    monkeypatch.setattr(Bucket, "put", put_bytes)
    sweep = make_sweep(tmp_path, TEXT.replace("count = 6", "count = 1"))
    run(sweep)
    kvsweep.run(sweep, out="one.zarr", workers=1)
    assert there() == tree(Path("one.zarr"))
    assert "seed/c/0" not in there()


def test_a_store_is_made_beside_arrays_of_others(sweep, whole):
    fsspec.filesystem("memory").pipe_file("/kept/zarr.json", b'{"zarr_format": 3}')
    run(sweep)
    assert there() == whole


@pytest.mark.parametrize("names", [("s3", "s3a"), ("gs", "gcs"), ("az", "abfs"), ("abfs", "abfss")])
def test_a_store_by_another_name_of_its_protocol_is_the_same(names):
    """A merge with --overwrite would delete what it was to read."""
    first, other = (located(f"{name}://bucket/a.zarr") for name in names)
    assert is_same(first, other)
    assert overlap(first.with_name("a.zarr/b.zarr"), other)
    assert not overlap(first, other.with_name("b.zarr"))
    assert not is_same(first, Path("a.zarr"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("zip://data/a.zip", "^zip://data/a.zip: zip is no place .*; unpack it, and name a folder"),
        ("dir://box/a.zarr", "^dir://box/a.zarr: dir is no place that a store can be in; name a"),
        ("filecache://box/a.zarr", "^filecache://box/a.zarr: filecache is no place"),
        ("s_3://box/a.zarr", "^s_3://box/a.zarr: no protocol 's_3'"),
    ],
)
def test_what_no_store_can_be_in_is_told_and_makes_no_folder(sweep, given, message):
    before = sorted(Path().iterdir())
    for use in (lambda: run(sweep, given), lambda: kvsweep.open_results(given)):
        with pytest.raises(InputError, match=message):
            use()
    assert sorted(Path().iterdir()) == before


def test_what_does_not_change_is_read_once_as_a_store_is_filled(sweep, monkeypatch):
    """Neither to mend it nor to see what is left to do again: in a bucket, each is a request."""
    read = []
    get_all = Bucket.get_all

    def counting(self, names):
        names = list(names)
        read.extend(names)
        return get_all(self, names)

    monkeypatch.setattr(Bucket, "get_all", counting)
    run(sweep)
    assert read.count("steps/zarr.json") == 3  # and twice as results are read, to warn of them
