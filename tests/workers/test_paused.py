"""Workers that Dask pauses again and again: nobody has died of their tasks."""

from types import SimpleNamespace

import pytest

from kvsweep.workers import running
from kvsweep.workers.idleness import PAUSED
from kvsweep.workers.pool import Pool

FROZEN = "not heard of for 10 s"


class Future:
    """What was sent, and is never done unless told."""

    finished = False

    def __init__(self, key):
        self.key, self.status = key, "pending"

    def done(self):
        return self.finished

    def cancelled(self):
        return False

    def release(self):
        pass

    def add_done_callback(self, function):
        pass


class Client:
    """A scheduler that gives everything to the first worker that may have it."""

    loop = SimpleNamespace(add_callback=lambda *_: None)

    def __init__(self):
        self.on = {}

    def submit(self, function, *args, key, workers, **options):
        self.on[key] = workers[0]
        return Future(key)

    def processing(self, names=None):
        names = ("a", "b") if names is None else names
        return {name: [key for key, on in self.on.items() if on == name] for name in names}

    def has_what(self, names):
        return {}

    def who_has(self, futures):
        return {}


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(running, "packed", lambda job: b"")
    client = Client()
    pool = Pool(client, "here")
    pool.demand = SimpleNamespace(show=lambda *_: None)
    worker = SimpleNamespace(answer=None, refused=None, threads=1)
    pool.workers = {"a": worker, "b": worker}
    cells = SimpleNamespace(variant_block=lambda task: 0)
    made = running.ClusterRun(pool, SimpleNamespace(name="t", cells=cells, only=lambda task: 0))
    made.begin([SimpleNamespace(index=0)])
    return made


def there(run):
    """Return the worker that has the only task."""
    (future,) = run._tasks
    return run._pool.client.on[future.key]


@pytest.mark.parametrize(("why", "deaths"), [(PAUSED, 0), (FROZEN, 2)])
def test_a_task_goes_to_another_and_only_frozen_workers_may_have_died_of_it(run, why, deaths):
    for _ in range(2):
        before = there(run)
        run._pool.silent = {before: why}
        run._take_back()
        run._send()
        assert there(run) != before
    assert run._losses[0] == deaths


def test_what_a_paused_worker_has_done_is_fetched(run, monkeypatch):
    monkeypatch.setattr(Future, "finished", True)
    (before,) = run._tasks
    run._pool.silent = {there(run): PAUSED}
    run._take_back()
    assert list(run._tasks) == [before]


def test_a_task_that_only_paused_workers_may_do_is_no_loss(run):
    (future,) = run._tasks
    run._tasks[future] = run._tasks[future]._replace(on={"a"}, job_on={"a"})
    run._pool.silent = {"a": PAUSED}
    run._send_again()
    assert not run._losses
    assert len(run._todo) == 1
