"""Parts: whoever writes them, wherever the store is seen, the store comes out the same."""

import json
import math
import pickle
import shutil
import threading

import numpy as np
import pytest
from longer import long_but
from stores import write_store, written
from sweeping import BASE, GRID, fake_batch, make_sweep, stand_in, tree

import kvsweep
from kvsweep import grid, store
from kvsweep.errors import InputError
from kvsweep.policies import Status
from kvsweep.simulate import source_hash
from kvsweep.store import packing, parts
from kvsweep.store.folder import Folder
from kvsweep.store.sharding import Sharding


@pytest.fixture(autouse=True)
def several_tasks(monkeypatch):
    stand_in(monkeypatch)


@pytest.fixture
def sweep(tmp_path):
    return make_sweep(tmp_path)


@pytest.fixture
def whole(tmp_path):
    write_store(tmp_path / "whole.zarr")
    return written()


def opened(path, sweep):
    cells = grid.plan(sweep)
    target = store.prepare(path, sweep, cells, source_hash())
    return target, target.pending()


def results_of(target, task, sweep):
    cells = target.plan
    chosen = cells.variant_indices(task)
    return fake_batch(
        [cells.variants[i] for i in chosen], cells.seeds_of(task), entropy=sweep.entropy,
        policies=[cells.policies[i] for i in chosen], base_dir=None,
    )  # fmt: skip


def close(target, path, sweep, whole):
    """Finish a store, and store with it what a run does."""
    target.finish()
    kvsweep.run(sweep, out=path, workers=1)
    assert tree(path) == whole


def test_workers_that_see_the_store_write_it_and_say_little(sweep, tmp_path, whole):
    path = tmp_path / "b.zarr"
    target, todo = opened(path, sweep)
    writer = pickle.loads(pickle.dumps(target.writer()))
    for task in reversed(todo):
        delivery = writer(task, results_of(target, task, sweep))
        assert len(pickle.dumps(delivery)) < 200
        target.accept(task, delivery)
    close(target, path, sweep, whole)


def look_elsewhere(path, monkeypatch):
    (path / "status" / "parts" / "token").write_text("of another run")


def see_nothing(path, monkeypatch):
    (path / "status" / "parts" / "token").unlink()


def cannot_write(path, monkeypatch):
    def put(self, name, data, *, shared=False):
        if shared:
            raise PermissionError(13, "Permission denied")
        return real(self, name, data)

    real = Folder.put
    monkeypatch.setattr(Folder, "put", put)


@pytest.mark.parametrize("how", [look_elsewhere, see_nothing, cannot_write])
def test_what_workers_cannot_write_is_written_by_the_run(sweep, tmp_path, whole, monkeypatch, how):
    path = tmp_path / "b.zarr"
    target, todo = opened(path, sweep)
    writer = target.writer()
    how(path, monkeypatch)
    for task in todo:
        delivery = writer(task, results_of(target, task, sweep))
        assert delivery.data is not None
        target.accept(task, delivery)
    close(target, path, sweep, whole)


def test_a_worker_of_a_run_that_is_over_changes_nothing(sweep, tmp_path, whole):
    path = tmp_path / "b.zarr"
    target, todo = opened(path, sweep)
    late = target.writer()
    for task in todo:
        target.write(task, results_of(target, task, sweep))
    target.finish()
    assert late(todo[0], results_of(target, todo[0], sweep)).data is not None
    close(target, path, sweep, whole)


def test_parts_of_other_folders_are_as_good(sweep, tmp_path, whole):
    """Those of two halves of a sweep, made apart, make the whole."""
    halves = [tmp_path / "1.zarr", tmp_path / "2.zarr"]
    for k, path in enumerate(halves):
        target, todo = opened(path, sweep)
        for task in todo[k::2]:
            target.accept(task, target.writer()(task, results_of(target, task, sweep)))
    for part in (halves[1] / "status" / "parts").glob("*[0-9]"):
        shutil.copy(part, halves[0] / "status" / "parts")
    target, todo = opened(halves[0], sweep)
    assert not todo
    close(target, halves[0], sweep, whole)


@pytest.mark.parametrize(
    "damage", long_but(["flip", "cut", "swap", "other sweep"], "flip", "other sweep")
)
def test_a_part_that_is_not_what_was_written_is_made_again(sweep, tmp_path, whole, damage):
    path = tmp_path / "b.zarr"
    target, todo = opened(path, sweep)
    for task in todo[:2]:
        target.write(task, results_of(target, task, sweep))
    file = path / parts.name_of(todo[0].index)
    data = file.read_bytes()
    if damage == "flip":
        file.write_bytes(data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])
    elif damage == "cut":
        file.write_bytes(data[:-1])
    elif damage == "swap":
        shutil.copy(path / parts.name_of(todo[1].index), file)
    else:
        file.write_bytes(parts.part("0" * 16, target.plan, todo[0], target.arrays,
                                    results_of(target, todo[0], sweep)))  # fmt: skip
    ds = kvsweep.open_results(path)
    assert (ds["status"] == "ok").sum() == target.plan.size(todo[1])
    assert store.check_store(path)[1].damaged == [parts.name_of(todo[0].index)]
    target, again = opened(path, sweep)
    assert len(again) == len(todo) - 1
    kvsweep.run(sweep, out=path, workers=1)
    assert tree(path) == whole


def test_a_part_that_never_comes_is_told(sweep, tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "VISIBLE_AFTER", 0.0)
    target, todo = opened(tmp_path / "b.zarr", sweep)
    for task in todo[1:]:
        target.accept(task, store.Delivery())
    with pytest.raises(InputError, match=r"b\.zarr: cannot be written: status/parts/0 is damaged"):
        target.accept(todo[0], store.Delivery())


def test_files_grow_with_tasks_while_a_store_is_filled(sweep, tmp_path):
    target, todo = opened(tmp_path / "b.zarr", sweep)
    before = len(tree(tmp_path / "b.zarr"))
    for task in todo[:-1]:
        target.write(task, results_of(target, task, sweep))
    assert len(tree(tmp_path / "b.zarr")) == before + len(todo) - 1 + 1  # and the token


H8 = (BASE + GRID).replace("count = 6", "count = 74627").replace("requests = 20", "requests = 200")


@pytest.mark.parametrize(
    ("text", "files"),
    [(H8, 2000), (H8.replace("requests = 200", "requests = 20000"), 2000)],
)
def test_a_million_cells_are_at_most_2000_files(tmp_path, monkeypatch, text, files):
    """Whether they are cheap or dear: while the store is filled, and after."""
    monkeypatch.setattr(grid, "CHUNK_SECONDS", (0.1, 1.0))
    cells = grid.plan(make_sweep(tmp_path, text))
    assert 1_000_000 < cells.cells < 1_100_000
    sharding = Sharding.of_plan(cells)
    assert sum(len(list(sharding.tasks_of(shard))) for shard in sharding.shards) == len(cells.tasks)
    arrays = 2 + len(cells.variables)
    most = max(len(list(sharding.tasks_of(shard))) for shard in sharding.shards)
    assert (1 + arrays) * len(sharding.shards) + most + 2 * arrays < files
    assert 0.05 < cells.seconds / len(cells.tasks) < 60


@pytest.mark.parametrize("tasks", [(1,), (7,), (3, 5), (4, 1, 6), (2, 3, 4), ()])
@pytest.mark.parametrize("most", [1, 3, 8, 1000])
def test_shards_hold_each_task_once_and_in_order(tasks, most):
    from kvsweep.store.sharding import _block

    sharding = Sharding(tasks, _block(tasks, most))
    found = [list(sharding.tasks_of(shard)) for shard in sharding.shards]
    flat = [task for shard in found for task in shard]
    assert flat == list(range(int(np.prod(tasks, dtype=int))))
    assert max(map(len, found)) <= most
    for shard, held in zip(sharding.shards, found, strict=True):
        assert {sharding.shard_of(task) for task in held} == {shard}
        assert len({sharding.inside(task) for task in held}) == len(held)


def test_failed_cells_of_a_packed_shard_are_run_again_and_no_others(sweep, tmp_path, whole):
    path = tmp_path / "b.zarr"
    target, todo = opened(path, sweep)
    for task in todo:
        if task.index in (1, 3):
            target.write_failure(task, "KilledWorker: lost")
        else:
            target.write(task, results_of(target, task, sweep))
    target.finish()
    assert json.loads((path / "zarr.json").read_text())["attributes"]["complete"] == 1
    table = kvsweep.open_results(path)["status_detail"].values
    assert (table == "KilledWorker: lost").sum() == 2 * target.plan.size(todo[1])
    target, again = opened(path, sweep)
    assert [task.index for task in again] == [1, 3]
    first, second = (target.writer()(task, results_of(target, task, sweep)) for task in again)
    target.accept(again[0], first)  # both parts were there when the shard was taken apart
    target.accept(again[1], second)
    close(target, path, sweep, whole)


def test_a_part_counts_its_cells(sweep, tmp_path):
    target, todo = opened(tmp_path / "b.zarr", sweep)
    data = target.writer().part(todo[0], results_of(target, todo[0], sweep))
    head, body = parts.read(data, target.attributes["identity"], todo[0].index)
    assert head.status[Status.OK] == target.plan.size(todo[0])
    assert head.lines() + body == data
    assert parts.read(data, target.attributes["identity"], todo[1].index) is None


def test_a_store_that_is_opened_while_it_is_filled_reads_what_was_packed_since(
    sweep, tmp_path, whole
):
    """Opened with parts only, and read when they are gone."""
    target, todo = opened(tmp_path / "a.zarr", sweep)
    for task in todo[:-1]:
        target.write(task, results_of(target, task, sweep))
    ds = kvsweep.open_results(tmp_path / "a.zarr")
    target.write(todo[-1], results_of(target, todo[-1], sweep))
    target.finish()
    assert (ds["status"] == "ok").all()
    assert ds["steps"].equals(kvsweep.open_results(tmp_path / "whole.zarr")["steps"])


def test_a_part_that_is_seen_late_is_waited_for(sweep, tmp_path, whole):
    """As a network file system shows what a worker wrote."""
    path = tmp_path / "b.zarr"
    target, (*todo, last) = opened(path, sweep)
    for task in todo:
        target.write(task, results_of(target, task, sweep))
    data = target.writer().part(last, results_of(target, last, sweep))
    late = threading.Timer(0.5, target.folder.put, (parts.name_of(last.index), data))
    late.start()
    target.accept(last, store.Delivery())
    late.join()
    close(target, path, sweep, whole)


def test_what_is_whole_beside_damage_is_kept_if_the_repair_is_cut_short(sweep, tmp_path, whole):
    path = tmp_path / "whole.zarr"
    target, _ = opened(path, sweep)
    (file,) = (file for file in (path / "steps" / "c").rglob("*") if file.is_file())
    data = bytearray(file.read_bytes())
    index = 16 * math.prod(target.sharding.each) + 4  # the chunks come before
    data[5] ^= 1
    data[-index - 1] ^= 1
    file.write_bytes(data)
    target, (first, last) = opened(path, sweep)
    target.write(first, results_of(target, first, sweep))
    target, again = opened(path, sweep)
    assert again == [last]
    target.write(last, results_of(target, last, sweep))
    close(target, path, sweep, whole)


def test_a_damaged_record_is_named_though_the_store_is_not_complete(sweep, tmp_path, whole):
    path = tmp_path / "b.zarr"
    target, todo = opened(path, sweep)
    for task in todo:
        target.write(task, results_of(target, task, sweep))
    (record,) = (path / "status" / "checksums").iterdir()
    record.write_bytes(record.read_bytes()[:-1])
    assert store.check_store(path)[1].damaged == [record.relative_to(path).as_posix()]
    assert opened(path, sweep)[1] == todo
    kvsweep.run(sweep, out=path, workers=1)
    assert tree(path) == whole
