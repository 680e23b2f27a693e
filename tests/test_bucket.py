"""What a bucket makes of the answers of its server: a memory that fails as it is told."""

from types import SimpleNamespace

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from kvsweep.addresses import Address
from kvsweep.store import bucket
from kvsweep.store.bucket import BATCH, LOOK_EVERY, PATIENCE, Bucket
from kvsweep.store.connection import GoneError, RemoteError
from kvsweep.store.metadata import ROOT

HERE = Address("s3", "bucket/a.zarr")


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only while somebody sleeps, and how long each time."""
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    now = [100.0]
    monkeypatch.setattr(bucket, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return SimpleNamespace(now=now, slept=slept)


@pytest.fixture
def server(monkeypatch, clock):
    class Server(MemoryFileSystem):
        """Raises what is in `errors`, by name of the action, one after the other."""

        cachable = False
        store, pseudo_dirs, errors = {}, [""], {}

        def _fail(self, action):
            if self.errors.get(action):
                raise self.errors[action].pop(0)

    def failing(action):
        def call(self, *args, **kwargs):
            self._fail(action)
            return getattr(MemoryFileSystem, action)(self, *args, **kwargs)

        return call

    for action in ("pipe_file", "cat_file", "find", "ls", "info", "rm", "rm_file", "cp_file"):
        setattr(Server, action, failing(action))
    fs = Server()
    monkeypatch.setattr(bucket, "filesystem", lambda address: (fs, f"/{address.path}"))
    return fs


def test_what_may_pass_is_tried_again_and_told_once(server, clock, caplog):
    server.errors["pipe_file"] = [OSError("slow down"), OSError("slow down"), OSError("busy")]
    Bucket(HERE).put("x", b"1")
    assert Bucket(HERE).read("x") == b"1"
    assert clock.slept == [0.5, 1.0, 2.0]
    assert caplog.messages == ["s3://bucket/a.zarr: slow down; tried again for 60 s"]


def test_what_stays_is_told_after_a_minute_and_at_once_by_workers(server, clock, caplog):
    server.errors["cat_file"] = [OSError("slow down\nid 7")] * 99
    with pytest.raises(RemoteError, match=r"^s3://bucket/a\.zarr: slow down$") as failed:
        Bucket(HERE).read("x")
    assert failed.value.strerror == "slow down"
    assert sum(clock.slept) == PATIENCE
    caplog.clear()
    clock.slept.clear()
    for once in (Bucket(HERE).for_workers(), Bucket(HERE, patience=0.0)):
        with pytest.raises(RemoteError):
            once.read("x")
    assert clock.slept == caplog.messages == []


@pytest.mark.parametrize("error", [PermissionError("x"), NotImplementedError("x"), TypeError("x")])
def test_what_asking_again_does_not_mend_is_told_at_once(server, clock, error):
    server.errors["ls"] = [error, error]
    with pytest.raises(RemoteError, match=r": x$"):
        Bucket(HERE).exists()
    assert clock.slept == []


def test_messages_name_the_store_that_something_belongs_to(monkeypatch, server):
    leases = Bucket(Address("s3", "bucket/.a.zarr.leases"), owner=HERE, patience=0.0)
    server.errors["cat_file"] = [OSError("slow down")]
    with pytest.raises(RemoteError, match=r"^s3://bucket/a\.zarr: slow down"):
        leases.read("x")

    def nothing(address):
        raise RemoteError(f"{address}: needs a package", "needs a package")

    monkeypatch.setattr(bucket, "filesystem", nothing)
    with pytest.raises(RemoteError, match=r"^s3://bucket/a\.zarr: needs a package") as failed:
        leases.read("x")
    assert failed.value.strerror == "needs a package"


def test_an_object_is_made_once(server):
    here = Bucket(HERE)
    assert here.create("x", b"1")
    assert here.create("x", b"1")  # as by a try of ours whose answer was lost
    assert not here.create("x", b"2")
    assert here.read("x") == b"1"


@pytest.mark.parametrize(
    ("action", "call"),
    [
        ("pipe_file", lambda here: here.put("x", b"1")),
        ("pipe_file", lambda here: here.create("x", b"1")),
        ("find", lambda here: here.all()),
        ("ls", lambda here: here.exists()),
    ],
)
@pytest.mark.parametrize("said", ["The specified bucket does not exist", "no such Container"])
def test_a_bucket_that_is_not_there_is_gone(server, action, call, said):
    server.errors[action] = [FileNotFoundError(said)]
    with pytest.raises(GoneError, match=rf"^s3://bucket/a\.zarr: {said}$"):
        call(Bucket(HERE))


@pytest.mark.parametrize("said", ["/bucket/a.zarr", "/BUCKET/A.zarr", "nothing"])
def test_a_store_that_is_not_there_is_none(server, said):
    server.errors["ls"] = [FileNotFoundError(said)]
    assert not Bucket(HERE).exists()
    assert Bucket(HERE).names("status/parts") == []
    assert Bucket(HERE).get("x") is None
    assert Bucket(HERE).sums("x") is None
    assert Bucket(HERE).size("x") is None
    assert Bucket(HERE).sizes(["x"]) == {"x": None}


def test_many_objects_are_read_in_order_and_those_that_fail_again(server, clock):
    here = Bucket(HERE)
    names = [f"{number}" for number in range(2 * BATCH + 3)]
    for name in names[1:]:
        here.put(name, name.encode())
    server.errors["cat_file"] = [OSError("slow down")]
    assert list(here.get_all(names)) == [("0", None), *((n, n.encode()) for n in names[1:])]
    assert clock.slept == [0.5]


def test_markers_of_folders_are_no_objects_of_theirs(server):
    """Consoles make an empty object for a folder, which is listed with what is in it."""
    here = Bucket(HERE)
    here.put("status/parts/1", b"1")
    real = server.ls, server.find
    at = "/bucket/a.zarr/status/parts"
    server.ls = lambda path, **k: [at, *real[0](path, **k)]
    server.find = lambda path, **k: real[1](path, **k) | {"/bucket/a.zarr": {"size": 0}}
    assert here.names("status/parts") == ["1"]
    assert here.all() == {"status/parts/1": 1}


def test_what_is_to_be_deleted_may_be_gone_already(server):
    here = Bucket(HERE)
    for name in "abc":
        here.put(name, b"1")
    here.delete("nothing")
    here.delete_all(["a", "nothing", "b"])
    here.delete_all(["c"])
    assert here.all() == {}
    assert here.delete_folder("status")


def test_a_store_that_is_filled_is_looked_for_now_and_then(server, clock):
    Bucket(HERE).put("x", b"1")  # nobody looks for it
    here = Bucket(HERE, watched=True)
    with pytest.raises(GoneError, match=r"there is no zarr\.json in it any more"):
        here.put("x", b"2")
    here = Bucket(HERE, watched=True)
    Bucket(HERE).put(ROOT, b"{}")
    here.put("x", b"2")
    Bucket(HERE).delete(ROOT)
    clock.now[0] += LOOK_EVERY - 0.1
    here.put("x", b"3")
    clock.now[0] += 0.1
    with pytest.raises(GoneError):
        here.put("x", b"4")
    assert here.read("x") == b"3"


def test_nothing_is_written_into_a_store_that_another_run_took_over(server, monkeypatch):
    Bucket(HERE).put(ROOT, b"{}")

    def taken(address):
        raise RemoteError(f"{address}: taken")

    monkeypatch.setattr("kvsweep.store.leases.check", taken)
    with pytest.raises(RemoteError, match="taken"):
        Bucket(HERE, watched=True).put("x", b"1")
    assert Bucket(HERE).get("x") is None


def test_an_object_is_copied_to_another_store(server):
    Bucket(HERE).put("x", b"1")
    other = Bucket(HERE.with_name("b.zarr"))
    Bucket(HERE).copy("x", other)
    assert other.read("x") == b"1"
