"""How long a pool waits for workers that can be used, by a clock of the test's."""

import time
from pathlib import Path

import pytest

from kvsweep.errors import InputError
from kvsweep.workers.handshake import own_answer
from kvsweep.workers.pool import Pool
from kvsweep.workers.silence import Silence

NEEDS = (("main",), Path(), {})


class Answer:
    """A future that is pending until somebody answers."""

    status = "pending"

    def __init__(self, key):
        self.key = key

    def done(self):
        return self.status != "pending"

    def give(self, result):
        self.status, self._result = "finished", result

    def result(self):
        return self._result


class Scheduler:
    """What a client says of it: its workers, and when it heard of each."""

    def __init__(self):
        self.heard = {}
        self.asked = {}
        self.status = "running"
        self.counts, self.begun = {}, False
        self.scheduler, self.call_stack = self, None
        self.told = []

    def nthreads(self):
        return dict.fromkeys(self.heard, 1)

    def scheduler_info(self, n_workers):
        about = {"status": self.status, "nthreads": 1, "metrics": {"task_counts": self.counts}}
        return {"workers": {name: about | {"last_seen": at} for name, at in self.heard.items()}}

    def sync(self, function, *, keys, callback_timeout):
        return {"a worker": {key: () for key in keys if self.begun}}

    def submit(self, function, *args, key, workers, priority, pure):
        self.asked[workers[0]] = Answer(key)
        return self.asked[workers[0]]


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def scheduler():
    return Scheduler()


@pytest.fixture
def lasts(clock, scheduler):
    """Return what looks every half second for so many, while all but `frozen` are heard of."""
    pools = {}

    def last(seconds, wait=5.0, needs=None):
        of_test = {"needs": needs, "wait": wait, "notify": scheduler.told.append}
        pool = pools.setdefault(wait, Pool(scheduler, "here", **of_test))
        for _ in range(int(2 * seconds)):
            clock[0] += 0.5
            scheduler.heard |= {name: clock[0] for name in scheduler.heard if name != "frozen"}
            pool.look()

    return last


def test_who_is_refused_is_not_waited_for(lasts, scheduler):
    """A good worker is killed; the one with other sources stays, and can never be used."""
    scheduler.heard = {"good": 0.0, "other": 0.0}
    lasts(1)
    scheduler.asked["good"].give(own_answer())
    scheduler.asked["other"].give(own_answer() | {"kvsweep": "0"})
    lasts(60)
    del scheduler.heard["good"]
    lasts(5)
    with pytest.raises(InputError) as error:
        lasts(1)
    assert str(error.value).startswith(
        "here: no worker that can be used for 5 s: other: kvsweep 0, not "
    )


def test_another_worker_that_comes_in_time_is_used(lasts, scheduler):
    scheduler.heard = {"other": 0.0}
    lasts(1)
    scheduler.asked["other"].give({})
    lasts(3)
    scheduler.heard["good"] = 0.0
    lasts(1)
    scheduler.asked["good"].give(own_answer())
    lasts(600)


def test_who_is_frozen_before_it_answers_is_not_waited_for(lasts, scheduler):
    scheduler.heard = {"frozen": 3.0}
    lasts(10)
    with pytest.raises(
        InputError, match=r"for 5 s: frozen: not heard of for 10 s \(frozen, or cut off\?\)"
    ):
        lasts(1)


@pytest.mark.parametrize("loads", [False, True])
def test_who_is_heard_of_or_loads_the_kernel_is_waited_for(lasts, scheduler, loads):
    """To import kvsweep from a slow file system, or to compile, takes longer than `--wait`."""
    scheduler.heard = {"slow": 0.0}
    lasts(1, needs=NEEDS)
    if loads:
        scheduler.asked["slow"].give(own_answer())
    lasts(600)


def test_without_a_limit_all_are_waited_for(lasts, scheduler):
    scheduler.heard = {"frozen": 3.0}
    lasts(600, wait=None)


def test_nobody_is_waited_for_so_long(lasts):
    lasts(5)
    with pytest.raises(InputError, match="here: no worker for 5 s"):
        lasts(1)


@pytest.mark.parametrize("loads", [False, True])
def test_who_is_paused_is_not_waited_for_and_the_user_is_told(lasts, scheduler, loads):
    """It does not answer, nor loads the kernel, until it has more memory."""
    scheduler.heard = {"full": 0.0}
    lasts(1, needs=NEEDS)
    if loads:
        scheduler.asked["full"].give(own_answer())
    scheduler.status = "paused"
    lasts(4, needs=NEEDS)
    assert scheduler.told[-1].startswith("here: waiting for full: paused by Dask, as its memory is")
    with pytest.raises(InputError, match="for 5 s: full: paused by Dask, as its memory"):
        lasts(1)


def test_who_is_no_longer_paused_is_used(lasts, scheduler):
    scheduler.heard, scheduler.status = {"full": 0.0}, "paused"
    lasts(4)
    scheduler.status = "running"
    lasts(2)
    scheduler.asked["full"].give(own_answer())
    lasts(600)


@pytest.mark.parametrize("back", [False, True])
def test_who_is_paused_during_the_run_is_waited_for_as_long(clock, scheduler, back):
    """All workers were so, and the command never ended."""
    pool = Pool(scheduler, "here", wait=5.0, notify=scheduler.told.append)
    silence = Silence(pool)

    def last(seconds):
        for _ in range(int(2 * seconds)):
            clock[0] += 0.5
            scheduler.heard["full"] = clock[0]
            pool.look()
            silence.look()

    last(1)
    scheduler.asked["full"].give(own_answer())
    last(60)
    scheduler.status = "paused"
    last(14)
    if back:
        scheduler.status = "running"
        last(60)
    else:
        with pytest.raises(
            InputError, match="here: no worker that can be used for 5 s: full: paused by Dask"
        ):
            last(3)
    assert len(scheduler.told) == 1


def test_each_pause_for_which_all_stands_still_is_told(clock, scheduler):
    pool = Pool(scheduler, "here", notify=scheduler.told.append)
    silence = Silence(pool)
    scheduler.heard = {"full": 0.0}
    for status in ("running", "paused", "running", "paused"):
        scheduler.status = status
        for _ in range(40):
            clock[0] += 0.5
            scheduler.heard["full"] = clock[0]
            pool.look()
            silence.look()
        if not scheduler.asked["full"].done():
            scheduler.asked["full"].give(own_answer())
    lines = [line for line in scheduler.told if line.startswith("worker full is paused by Dask")]
    assert len(lines) == 2


def test_who_has_another_trace_is_not_used(lasts, scheduler):
    scheduler.heard = {"worker": 0.0}
    lasts(1, needs=NEEDS)
    scheduler.asked["worker"].give(own_answer())
    lasts(1, needs=NEEDS)
    scheduler.asked["worker"].give("trace.csv: has another content there")
    lasts(1, needs=NEEDS)
    assert "worker worker is not used: trace.csv: has another content there" in scheduler.told


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("loads", [False, True])
def test_whose_threads_others_have_is_not_waited_for_and_the_user_is_told(
    lasts, scheduler, loads, begun
):
    """As in a task that itself runs a sweep by its only worker: the question waits behind it."""
    scheduler.heard = {"busy": 0.0}
    lasts(1, needs=NEEDS)
    if loads:
        scheduler.asked["busy"].give(own_answer())
    scheduler.counts, scheduler.begun = {"executing": 1, "ready": 1}, begun
    if begun:
        lasts(600, needs=NEEDS)
        return
    lasts(4, needs=NEEDS)
    assert scheduler.told[-1] == "here: waiting for busy: busy with other tasks"
    with pytest.raises(InputError, match="for 5 s: busy: busy with other tasks"):
        lasts(1)


def test_who_is_no_longer_paused_when_the_time_is_up_is_waited_for(lasts, scheduler):
    """What it did a second ago does not decide."""
    scheduler.heard, scheduler.status = {"full": 0.0}, "paused"
    lasts(4.5, wait=4.5)
    scheduler.status = "running"
    lasts(60, wait=4.5)


def test_who_loads_the_kernel_is_waited_for_though_it_is_not_heard_of(lasts, scheduler):
    scheduler.heard = {"frozen": 3.0}
    lasts(1, needs=NEEDS)
    scheduler.asked["frozen"].give(own_answer())
    lasts(600)


def test_one_that_is_back_is_used_again_while_others_finish_tasks(clock, scheduler):
    pool = Pool(scheduler, "here", notify=scheduler.told.append)
    silence = Silence(pool)
    scheduler.heard = {"frozen": 3.0, "well": 3.0}

    def last(seconds, finish=False):
        for _ in range(int(2 * seconds)):
            clock[0] += 0.5
            scheduler.heard["well"] = clock[0]
            silence.look()
            if finish:
                silence.heard()
        return set(pool.silent)

    assert last(20) == {"frozen"}
    assert last(20, finish=True) == {"frozen"}
    scheduler.heard["frozen"] = 4.0
    assert last(2, finish=True) == set()
