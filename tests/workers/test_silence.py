"""Which workers count as silent, by a clock of the test's."""

import pytest

from kvsweep.workers import silence
from kvsweep.workers.pool import Pool


class Scheduler:
    """What a client says of it: when it heard of each worker."""

    def __init__(self, **heard):
        self.heard = heard
        self.paused = ()

    def scheduler_info(self, n_workers):
        status = dict.fromkeys(self.paused, "paused")
        return {
            "workers": {
                name: {"last_seen": at, "status": status.get(name, "running")}
                for name, at in self.heard.items()
            }
        }


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(silence.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def scheduler():
    return Scheduler(frozen=3.0, well=3.0)


@pytest.fixture
def told():
    return []


@pytest.fixture
def looks(clock, scheduler, told):
    """Return what looks every half second for so many, while one worker is heard of."""
    pool = Pool(scheduler, "here", notify=told.append)
    looking = silence.Silence(pool)

    def look(seconds):
        for _ in range(int(2 * seconds)):
            clock[0] += 0.5
            scheduler.heard["well"] = clock[0]
            looking.look()
        return set(pool.silent)

    return look


def test_a_worker_that_is_not_heard_of_is_told_once(looks, told):
    assert looks(14) == set()
    assert looks(4) == {"frozen"}
    looks(60)
    assert len(told) == 1
    assert told[0].startswith("worker frozen is not heard of for 10 s (frozen, or cut off?); ")


def test_one_that_is_back_is_used_again(looks, scheduler):
    looks(18)
    scheduler.heard["frozen"] = 4.0
    assert looks(2) == set()


@pytest.mark.parametrize("before", [2, 9, 13])
def test_time_in_which_this_process_stood_still_does_not_count(looks, clock, told, before):
    """As after Ctrl-Z and `fg`: nobody was heard of, as nobody listened."""
    looks(before)
    clock[0] += 3600
    assert looks(14) == set()
    assert told == []


def test_one_that_is_paused_is_told_once_and_gets_nothing_meanwhile(looks, scheduler, told):
    """Of one whose memory is near its limit it could be told without end."""
    scheduler.heard["frozen"] = None
    for _ in range(3):
        scheduler.paused = ["well"]
        assert "well" not in looks(8)
        assert "well" in looks(8)
        scheduler.paused = []
        assert "well" not in looks(2)
    (line,) = [line for line in told if "paused" in line]
    assert line.startswith("worker well is paused by Dask, as its memory is near its limit (")


class Future:
    """What was sent, and whether it is done."""

    def __init__(self, key, done=False):
        self.key = key
        self.done = lambda: done


class Workers:
    """What a client says of who has a job, and of what is under way where."""

    def __init__(self, who_has, processing):
        self.who_has = lambda jobs: {job.key: who_has for job in jobs}
        self.processing = lambda: processing


@pytest.mark.parametrize(
    ("silent", "who_has", "processing", "done", "waits"),
    [
        (["job"], [], {"frozen": ["job"], "well": []}, False, True),  # it is not there yet
        (["job"], ["frozen"], {"well": ["task"]}, False, True),  # on its way, without end
        (["job"], ["frozen", "third"], {"well": ["task"]}, False, True),  # perhaps so
        (["job"], ["frozen", "well"], {"well": ["task"]}, False, False),
        (["job"], ["frozen"], {"well": []}, True, False),
        (["job", "task"], ["frozen"], {"frozen": ["task"]}, False, False),  # is there itself
        ([], ["third"], {"well": ["task"]}, False, False),
    ],
)
def test_which_tasks_wait_for_a_job_that_a_silent_worker_has(
    silent, who_has, processing, done, waits
):
    task, job = Future("task", done), Future("job")
    found = silence.waiting_for(Workers(who_has, processing), set(silent), {task: job})
    assert found == [task] * waits


def test_one_that_is_paused_and_then_frozen_is_told_of_both(looks, clock, scheduler, told):
    scheduler.paused = ["frozen"]
    for at in range(16):  # it is heard of so long
        scheduler.heard["frozen"] = float(at)
        looks(1)
    assert ["paused" in line for line in told] == [True]
    looks(12)
    assert [line for line in told if "frozen is not heard of for 10 s" in line]
