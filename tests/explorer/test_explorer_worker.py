"""The worker: the last setting wins, answers ascend, and nothing goes on for nobody."""

import threading

import numpy as np
import pytest
import xarray as xr
from exploring import LONG, life, listening, save, show

from kvsweep.errors import InputError
from kvsweep.explorer import worker
from kvsweep.explorer.stages import Stage

FIRST = 3
"""Calls of a first answer: one run to see what it costs, then the rest of each point."""


class Part:
    """Three points whose measure is the setting; each call waits for a permit."""

    entries = ()

    def __init__(self, subject, settings):
        self.subject, self.value = subject, settings.get("x", 0)
        self.known = np.zeros(3, int)

    def stages(self, cost):
        yield Stage((0, 2), 2)
        yield Stage((0, 1, 2), 2)
        yield Stage((0, 1, 2), 4)

    def lacking(self, points, seeds):
        lack = [p for p in points if self.known[p] < seeds]
        return [([lack[0]], int(self.known[lack[0]]), seeds)] if lack else []

    def simulate(self, points, first, last):
        self.subject.calls.append(self.value)
        self.subject.begun.release()
        assert self.subject.permits.acquire(timeout=LONG)
        self.known[points] = last

    def dataset(self, points, seeds, names):
        noise = np.arange(seeds) * max(1, self.value)  # so wide that nothing is narrow
        values = self.value + np.arange(len(points))[:, None] + noise
        return xr.Dataset(
            {"m": (("n", "seed"), values), "status": (("n", "seed"), np.full(values.shape, "ok"))},
            coords={"n": list(points), "seed": range(seeds)},
        )

    def warnings(self, points, seeds):
        return []

    def life(self, value, seed):
        if value < 0:
            raise InputError("fake.toml: no such value")
        return {"told": f"x={self.value}"}


class Subject:
    kind, name, title, question = "sweep", "fake.toml", "fake", ""
    measures = [{"name": "m"}]  # noqa: RUF012

    def __init__(self, permits=10_000):
        self.lock = threading.Lock()
        self.permits, self.begun = threading.Semaphore(permits), threading.Semaphore(0)
        self.parts, self.calls = {}, []

    def part(self, settings, along):
        if settings.get("x", 0) < 0:
            raise InputError("fake.toml: x: must be at least 0")
        return self.parts.setdefault(settings.get("x", 0), Part(self, settings))

    def command(self, settings, along, seen):
        return f"x={settings['x']} seeds={len(seen.seeds)}"


def ask(generation, x):
    return show(generation, {"x": x}, along="n", measures=["m"], threshold=None)


def means(answer):
    return answer["measures"][0]["curves"][0]["mean"]


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch):
    monkeypatch.setattr(worker, "PATIENCE", 1e9)
    monkeypatch.setattr(worker, "TURN", 1e9)


def test_curves_come_coarse_first_and_are_refined():
    with listening(Subject()) as page:
        page.ask(ask(1, 5))
        found = page.until("curves", 1)
    assert [(len(a["axis"]["values"]), a["seeds"], a["done"]) for a in found] == [
        (2, 2, False),
        (3, 2, False),
        (3, 4, True),
    ]
    assert means(found[-1]) == pytest.approx([12.5, 13.5, 14.5])


def test_of_many_quick_requests_the_last_is_answered_and_none_out_of_order():
    with listening(Subject()) as page:
        for generation in range(1, 50):
            page.ask(ask(generation, generation))
        found = page.until("curves", 49)
    generations = [answer["generation"] for answer in found]
    assert generations == sorted(generations)
    assert means(found[-1])[0] == pytest.approx(49 + 1.5 * 49)


def test_a_request_stops_the_refining_of_the_one_before():
    subject = Subject(permits=FIRST)
    with listening(subject) as page:
        page.ask(ask(1, 1))
        page.until("curves", 1, done=False)
        for _ in range(FIRST + 1):
            assert subject.begun.acquire(timeout=LONG)  # the last call waits for its permit
        page.ask(ask(2, 2))
        subject.permits.release(1000)
        page.until("curves", 2)
    assert subject.calls.count(1) == FIRST + 1


def test_while_a_slider_moves_a_first_answer_has_its_time():
    subject = Subject(permits=0)
    with listening(subject) as page:
        page.ask(ask(1, 1))
        assert subject.begun.acquire(timeout=LONG)
        page.ask(ask(2, 2))
        subject.permits.release(1000)
        found = page.until("curves", 2)
    assert [a["generation"] for a in found[:2]] == [1, 2]


def test_a_first_answer_that_takes_too_long_gives_way(monkeypatch):
    monkeypatch.setattr(worker, "PATIENCE", -1.0)
    subject = Subject(permits=0)
    with listening(subject) as page:
        page.ask(ask(1, 1))
        assert subject.begun.acquire(timeout=LONG)
        page.ask(ask(2, 2))
        subject.permits.release(1000)
        found = page.until("curves", 2)
    assert {a["generation"] for a in found} == {2}
    assert subject.calls.count(1) == 1


def test_closing_ends_the_work_and_nothing_is_delivered_any_more():
    subject = Subject(permits=0)
    with listening(subject) as page:
        page.ask(ask(1, 1))
        assert subject.begun.acquire(timeout=LONG)
        page.worker.close()
        subject.permits.release(1000)
        assert page.worker.join(LONG)
        assert page.answers.empty()
    assert subject.calls == [1]


def test_saving_a_file_does_not_end_the_refining():
    subject = Subject(permits=FIRST)
    with listening(subject) as page:
        page.ask(ask(1, 1))
        page.until("curves", 1, done=False)
        page.ask(save("command"))
        subject.permits.release(1000)
        found = page.until("curves", 1)
    assert [a["text"] for a in found if a["kind"] == "saved"] == ["x=1 seeds=2"]


def test_only_so_many_files_are_waited_for():
    subject = Subject(permits=0)
    with listening(subject) as page:
        page.ask(ask(1, 1))
        assert subject.begun.acquire(timeout=LONG)
        for _ in range(worker.MAX_SAVES):
            page.ask(save("command"))
        with pytest.raises(InputError, match="page: too many files at once"):
            page.ask(save("command"))
        page.worker.close()
        subject.permits.release(1000)


def test_a_life_comes_between_two_calls_of_the_refining_which_goes_on():
    subject = Subject(permits=FIRST)
    with listening(subject) as page:
        page.ask(ask(1, 1))
        page.until("curves", 1, done=False)
        for _ in range(FIRST + 1):
            assert subject.begun.acquire(timeout=LONG)
        page.ask(life(1, {"x": 1}, 3, along="n"))
        subject.permits.release(1)
        told = page.until("life", 1)[-1]
        subject.permits.release(1000)
        page.until("curves", 1)
    assert (told["told"], told["value"], told["seed"]) == ("x=1", 3, 0)
    assert subject.calls == [1] * len(subject.calls)


def test_a_life_waits_for_a_first_answer_and_of_several_the_last_is_told():
    subject = Subject(permits=0)
    with listening(subject) as page:
        page.ask(ask(1, 1))
        assert subject.begun.acquire(timeout=LONG)
        for generation in range(1, 9):
            page.ask(life(generation, {"x": generation}, 3, along="n"))
        subject.permits.release(1000)
        first, *others = page.until("life", 8)
    assert first["kind"] == "curves"
    assert [a["told"] for a in others if a["kind"] == "life"] == ["x=8"]


def test_a_life_that_is_refused_is_told_and_curves_are_not(capsys):
    subject = Subject()
    subject.parts[1] = None
    with listening(subject) as page:
        page.ask(life(1, {"x": -1}, 3, along="n"))
        assert page.until("life", 1)[-1]["refused"] == "fake.toml: x: must be at least 0"
        page.ask(life(2, {}, -3, along="n"))
        assert page.until("life", 2)[-1]["refused"] == "fake.toml: no such value"
        page.ask(life(3, {"x": 1}, 3, along="n"))
        assert page.until("life", 3)[-1]["refused"].startswith("internal error: AttributeError")
        page.ask(ask(4, 2))
        page.until("curves", 4)
    assert "Traceback" in capsys.readouterr().err


def test_what_is_simulated_already_is_shown_at_once():
    subject = Subject()
    with listening(subject) as page:
        page.ask(ask(1, 1))
        page.until("curves", 1)
        before = len(subject.calls)
        page.ask(ask(2, 1))
        (only,) = page.until("curves", 2)
    assert only["done"]
    assert len(subject.calls) == before


def test_a_refused_setting_is_told_and_the_next_is_answered():
    with listening(Subject()) as page:
        page.ask(ask(1, -1))
        refused = page.until("refused", 1)[-1]
        page.ask(ask(2, 3))
        page.until("curves", 2)
    assert refused["text"] == "fake.toml: x: must be at least 0"


def test_a_bug_is_told_on_the_page_and_the_worker_lives(capsys):
    subject = Subject()
    subject.parts[1] = None
    with listening(subject) as page:
        page.ask(ask(1, 1))
        refused = page.until("refused", 1)[-1]
        page.ask(ask(2, 2))
        page.until("curves", 2)
    assert refused["text"].startswith("internal error: AttributeError")
    assert "Traceback" in capsys.readouterr().err


def test_unknown_measures_are_refused():
    with listening(Subject()) as page:
        page.ask(show(1, {}, along="n", measures=["mm"], threshold=None))
        assert page.until("refused", 1)[-1]["text"] == "page: no measure 'mm'; did you mean 'm'?"
