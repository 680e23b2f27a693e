"""The recorder's loop around an engine that stands for vLLM."""

from types import SimpleNamespace

import pytest
from record_vllm import recording
from record_vllm.engine import Batch, Engine
from record_vllm.recording import record
from record_vllm.sampling import Sampler
from record_vllm.scenario import read_scenario
from record_vllm.steps import Decision

from kvsweep.errors import InputError

VLLM = SimpleNamespace(version="0.0.0")
TRACE = {
    "format": "kvsweep-trace/1",
    "about": {"group": "mine"},
    "scenario": {
        "engine": {"max_num_seqs": 1, "max_num_batched_tokens": 8},
        "cache": {"gpu_blocks": 4},
        "latency": {"alpha": [0, 0, 0], "beta": [100, 0, 0]},
    },
    "requests": [
        {"id": i, "arrival_us": at, "prompt": [[i, 2]], "output": [9, 1]}
        for i, at in enumerate((50, 60, 5000))
    ],
}


class Steps:
    """An engine whose requests take a step of 100 us each, one after the other."""

    never_schedules = never_ends = False

    def __init__(self, vllm, scenario, requests, detail):
        self.waiting, self.log, self.rows = [], [], []
        self.device = SimpleNamespace(has_stores_to_submit=False, next_end=lambda at: None)
        self.per_request = [{"queue_us": request.arrival_us} for request in requests]
        self.scheduler = SimpleNamespace(
            has_requests=lambda: bool(self.waiting),
            has_unfinished_requests=lambda: bool(self.waiting),
        )
        Steps.last = self

    def add(self, number):
        self.waiting.append(number)

    def dispatch(self, clock):
        entries = [] if self.never_schedules else self.waiting[:1]
        end = clock + (100 if entries else 0)
        execution = SimpleNamespace(start=clock, stall=0, end=end, completed=[])
        self.log.append(("dispatch", clock, tuple(entries)))
        return Batch(Decision(None, entries, 0, 0, 0, [], []), execution, None, not entries)

    def settle(self, batch):
        self.log.append(("settle", batch.execution.end, tuple(batch.decision.entries)))
        if not self.never_ends and batch.decision.entries[:1] == self.waiting[:1]:
            self.waiting.pop(0)


def run(monkeypatch, **changes):
    for name, value in changes.items():
        monkeypatch.setattr(Steps, name, value)
    monkeypatch.setattr(recording, "Engine", Steps)
    monkeypatch.setattr(recording._Run, "_result", lambda self: {"steps": {}})
    return record(VLLM, TRACE, "trace.json")


def test_steps_follow_each_other_and_the_clock_jumps_to_the_next_arrival(monkeypatch):
    recorded = run(monkeypatch)
    dispatched = [(clock, entries) for kind, clock, entries in Steps.last.log if kind == "dispatch"]
    assert dispatched == [(50, (0,)), (150, (1,)), (5000, (2,))]
    assert recorded["expected"] == {"steps": {}}
    assert recorded["about"]["group"] == "mine"
    assert recorded["about"]["source"].startswith("vLLM 0.0.0 scheduler")
    assert "expected" not in TRACE


def test_asynchronous_scheduling_gives_a_step_back_after_the_next_is_scheduled(monkeypatch):
    engine = TRACE["scenario"]["engine"] | {"async_scheduling": True}
    monkeypatch.setitem(TRACE["scenario"], "engine", engine)
    run(monkeypatch)
    kinds = [kind for kind, *_ in Steps.last.log]
    assert kinds[:3] == ["dispatch", "dispatch", "settle"]


@pytest.mark.parametrize(("asynchronous", "steps"), [(False, 3), (True, 4)])
def test_a_pipeline_of_three_stages_has_as_many_steps_on_their_way(
    monkeypatch, asynchronous, steps
):
    engine = TRACE["scenario"]["engine"] | {"pipeline_parallel_size": 3}
    engine["async_scheduling"] = asynchronous
    monkeypatch.setitem(TRACE["scenario"], "engine", engine)
    run(monkeypatch)
    kinds = [kind for kind, *_ in Steps.last.log]
    assert kinds[: steps + 2] == [*["dispatch"] * steps, "settle", "dispatch"]


def test_a_schedule_without_an_end_is_stopped(monkeypatch):
    monkeypatch.setattr(recording, "MOST_ROUNDS", 50)
    with pytest.raises(InputError, match=r"trace\.json: no end after 50 steps"):
        run(monkeypatch, never_ends=True)


def test_requests_that_nothing_can_wake_are_told(monkeypatch):
    with pytest.raises(InputError, match="nothing is left that could wake them"):
        run(monkeypatch, never_schedules=True)


def test_a_state_that_vllm_does_not_expect_is_told_in_one_line(monkeypatch):
    def stops(self, clock):
        raise AssertionError("no such state")

    with pytest.raises(InputError) as caught:
        run(monkeypatch, dispatch=stops)
    assert "trace.json: vLLM 0.0.0 stopped: AssertionError: no such state" in str(caught.value)
    assert "test_recorder_loop.py:" in str(caught.value)


def test_drafts_are_accepted_as_the_trace_says_in_turn():
    request = SimpleNamespace(
        accepted=(2, 5), output_ids=lambda first, n: list(range(first, first + n))
    )
    scheduler = SimpleNamespace(requests={"00000000": SimpleNamespace(num_output_tokens=7)})
    sampler = Sampler(scheduler, [request])

    def sample(admitted):
        entry = SimpleNamespace(id="00000000", number=0, samples=True, drafts=3, admitted=admitted)
        return sampler.sample(SimpleNamespace(entries=[entry]))

    assert sample(admitted=True) == ([[7]], [[0, 3, 0]])  # room for drafts, but no drafts yet
    assert sample(admitted=False) == ([[7, 8, 9]], [[0, 3, 2]])
    assert sample(admitted=False) == ([[7, 8, 9, 10]], [[0, 3, 3]])  # of 3 drafts 5 cannot be
    assert (sampler.drafted, sampler.accepted) == (9, 5)


@pytest.mark.parametrize(
    ("engine", "column"),
    [
        ({}, False),
        ({"async_scheduling": True}, True),
        ({"pipeline_parallel_size": 2}, True),
    ],
)
def test_preemptions_in_flight_are_told_where_there_can_be_any(engine, column):
    values = TRACE["scenario"] | {"engine": TRACE["scenario"]["engine"] | engine}
    one = object.__new__(Engine)
    one._scenario = read_scenario(values, "x")
    one.counts = SimpleNamespace(evictions=5, window_freed=0, preempted_in_flight=3)
    row = one._more(SimpleNamespace(stall=0), None, (4, 0, 1))
    assert row == ({"ev": 1, "pre_in_flight": 2} if column else {"ev": 1})
